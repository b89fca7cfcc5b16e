//! Output of `muster simulate`: results of several schedulers on one trace and one machine. Wire
//! format of `--json`: fields may be added, never renamed or removed (ADR 0003).
//!
//! This module holds only values, which `sim` computes and `report` prints.

mod calibration;
mod fleet;
mod fleet_event;
mod gantt;
mod policy;
mod variant;
mod whatif;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use calibration::{CalibratedSize, Calibration, CalibrationVerdict};
pub use fleet::{
    ConfidenceInterval, Figure, FleetComparison, FleetCurve, FleetFigures, FleetHours, FleetUnit,
    LevelSpread, MEASURED, OwnerFigures, Resampled, SizeFigures, TimeLimits,
};
pub use fleet_event::{FleetEvent, FleetEventKind, FleetInstant, FleetWaiting};
pub use gantt::{Gantt, GanttBar, GanttJob, GanttNode};
pub use policy::{
    PolicyAnswer, PolicyEvents, PolicyJob, PolicyNode, PolicyPlace, PolicyRun, PolicyStart,
    PolicyState,
};
pub use variant::{AddedNodes, FigureChange, JobsChange, SiteVariant, VariantDifference};
pub use whatif::{PastReplay, PendingJob, StartTimes, WhatIf};

/// Schedulers compared on one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlatComparison {
    /// Path of the trace as the user gave it.
    pub trace: String,
    /// Number of processors, or GPUs, of the machine.
    pub procs: u32,
    /// Number of jobs that are submitted.
    pub jobs: u64,
    /// Jobs of the trace that are left out because their runtime is unknown: they never ran, or were
    /// still running when the trace was written.
    pub never_ran: u64,
    /// Jobs of the trace that are left out because they are larger than the machine.
    pub too_wide: u64,
    /// Rows of the trace that could not be parsed.
    pub bad_rows: u64,
    /// Jobs with the id of an earlier one, which are replayed like all others; in traces of Slurm, with the same
    /// submission, too.
    #[serde(default)]
    pub duplicate_ids: u64,
    /// Results per scheduler, in the requested order.
    pub runs: Vec<ScheduleFigures>,
}

/// Results of one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleFigures {
    /// Name of the scheduler.
    pub scheduler: String,
    /// True when the production engine decided; false for a model.
    pub is_engine: bool,
    /// True when the run was interrupted: the figures cover only the jobs that had started by then,
    /// not those that were pending.
    pub is_partial: bool,
    /// Number of jobs that started.
    pub begun: u64,
    /// Seconds between submission and end in which a job did not run.
    pub wait_secs: Spread,
    /// Seconds from submission to end.
    pub turnaround_secs: Spread,
    /// Turnaround ÷ run time, at least 1; run times below 10 seconds count as 10 (Feitelson and
    /// Rudolph 1998).
    pub bounded_slowdown: Spread,
    /// Processor time used ÷ (processors × makespan), from 0 to 1.
    pub utilisation: f64,
    /// Seconds from the first submission to the last end.
    pub makespan_secs: f64,
}

/// Distribution of a figure over jobs. Quantiles are by nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Mean over the jobs.
    pub mean: f64,
    /// Median: half of the jobs have at most this value.
    pub p50: f64,
    /// 95 % quantile: 95 % of the jobs have at most this value.
    pub p95: f64,
    /// 99 % quantile: 99 % of the jobs have at most this value.
    pub p99: f64,
    /// Largest value over the jobs.
    pub max: f64,
}

/// Placement policies compared on one cluster, filled with the same pods in the same order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackingComparison {
    /// Path of the node list as the user gave it.
    pub cluster: String,
    /// Path of the pod list as the user gave it.
    pub trace: String,
    /// Number of nodes in the cluster.
    pub nodes: u64,
    /// Number of GPUs in the cluster.
    pub gpus: u64,
    /// Number of pods that arrive, copies included.
    pub arrivals: u64,
    /// Rows of both lists that could not be parsed.
    pub bad_rows: u64,
    /// Pods of the list with the name of an earlier one.
    #[serde(default)]
    pub duplicate_ids: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Results per policy, in the requested order.
    pub runs: Vec<PackingFigures>,
}

/// Results of one placement policy. Both curves are indexed by percent arrived: the value at index
/// 90 is the mean over the arrivals after which pods had requested 90 % (rounded) of the cluster's
/// GPUs; where there are none, the value of the previous index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackingFigures {
    /// Name of the policy.
    pub scheduler: String,
    /// True when the production engine decided; false for a model.
    pub is_engine: bool,
    /// True when the run was interrupted: the figures cover only the pods that had arrived by then.
    pub is_partial: bool,
    /// Number of pods that were placed.
    pub placed: u64,
    /// Number of pods that did not fit on any node when they arrived.
    pub turned_away: u64,
    /// Allocated GPUs in percent of all, by percent arrived.
    pub gpu_allocation_percent: Vec<f64>,
    /// Idle GPUs that typical pods of the list cannot use, in percent of all idle GPUs, by percent
    /// arrived.
    pub fragmentation_ratio: Vec<f64>,
}
