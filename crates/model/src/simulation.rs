//! What `muster simulate` shows: what schedulers made of one trace on one machine. Wire shapes of `--json`: fields may be added,
//! never renamed or removed (ADR 0003).
//!
//! Values only. They are made in `sim`, and become text in `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// It was interrupted: what follows is about the jobs that had begun by then.
    pub is_partial: bool,
    /// Jobs that it began.
    pub begun: u64,
    /// Seconds that jobs were there and did not run.
    pub wait_secs: Spread,
    /// Seconds from submission to end.
    pub turnaround_secs: Spread,
    /// Turnaround ÷ runtime, at least 1, runtimes below 10 seconds taken for 10 (Feitelson and Rudolph 1998).
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
