//! What `muster simulate` shows: what schedulers made of one trace on one machine. Wire shapes of
//! `--json`: fields may be added, never renamed or removed (ADR 0003).
//!
//! Values only. They are made in `sim`, and become text in `report`.

mod fleet;
mod gantt;
mod told;
mod whatif;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fleet::{
    Curve, Figure, FleetComparison, FleetFigures, FleetUnit, Hours, Interval, LevelSpread,
    MEASURED, OwnerFigures, SizeFigures, TimeLimits,
};
pub use gantt::{Gantt, GanttBar, GanttJob, GanttNode};
pub use told::{FleetEvent, FleetHappening, FleetInstant, FleetWaiting};
pub use whatif::{Past, Starts, Waiting, WhatIf};

/// Schedulers compared on one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlatComparison {
    /// The trace, as it was named.
    pub trace: String,
    /// Processors, or GPUs, of the machine.
    pub procs: u32,
    /// Jobs that arrive.
    pub jobs: u64,
    /// Jobs of the trace that are left out, since they never ran where they come from.
    pub never_ran: u64,
    /// Jobs of the trace that are left out, since they are wider than the machine.
    pub too_wide: u64,
    /// Rows that could not be read.
    pub bad_rows: u64,
    /// One per scheduler, in the order in which they were asked for.
    pub runs: Vec<ScheduleFigures>,
}

/// What one scheduler made of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleFigures {
    /// Its name.
    pub scheduler: String,
    /// The production engine decided; else a model.
    pub is_engine: bool,
    /// It was interrupted: what follows is about the jobs that had begun by then, not those that
    /// waited.
    pub is_partial: bool,
    /// Jobs that it began.
    pub begun: u64,
    /// Seconds between submission and end in which jobs did not run.
    pub wait_secs: Spread,
    /// Seconds from submission to end.
    pub turnaround_secs: Spread,
    /// Turnaround ÷ runtime, at least 1, runtimes below 10 seconds taken for 10 (Feitelson and
    /// Rudolph 1998).
    pub bounded_slowdown: Spread,
    /// Processor time used ÷ (processors × makespan).
    pub utilisation: f64,
    /// Seconds from the first submission to the last end.
    pub makespan_secs: f64,
}

/// How a figure is spread over jobs. Quantiles are by nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Half of the jobs have at most this.
    pub p50: f64,
    /// 95 % of the jobs have at most this.
    pub p95: f64,
    /// 99 % of the jobs have at most this.
    pub p99: f64,
    /// The most.
    pub max: f64,
}

/// Placement policies compared on one cluster, filled by the same pods in the same order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackingComparison {
    /// The node list, as it was named.
    pub cluster: String,
    /// The pod list, as it was named.
    pub trace: String,
    /// Nodes.
    pub nodes: u64,
    /// GPUs.
    pub gpus: u64,
    /// Pods that arrive, copies of pods among them.
    pub arrivals: u64,
    /// Rows of both lists that could not be read.
    pub bad_rows: u64,
    /// What chance came from.
    pub seed: u64,
    /// One per policy, in the order in which they were asked for.
    pub runs: Vec<PackingFigures>,
}

/// What one placement policy made of it. Both curves are by percent arrived: the value at index 90
/// is the mean over the arrivals after which pods had asked for 90 % of the cluster's GPUs,
/// rounded; where none is nearest to a percent, that of the percent before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackingFigures {
    /// Its name.
    pub scheduler: String,
    /// The production engine decided; else a model.
    pub is_engine: bool,
    /// It was interrupted: what follows is about the pods that had arrived by then.
    pub is_partial: bool,
    /// Pods that were placed.
    pub placed: u64,
    /// Pods that fitted nowhere when they came.
    pub turned_away: u64,
    /// GPUs that are held, in percent of all.
    pub gpu_allocation_percent: Vec<f64>,
    /// What the usual pods of the list cannot use, in percent of the idle GPUs.
    pub fragmentation_ratio: Vec<f64>,
}
