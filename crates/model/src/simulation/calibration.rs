//! Waits of a replay beside those that the trace recorded. Values only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Spread;

/// Error of the simulated waits under one scheduler. A wait is the time from submission to the
/// first start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Name of the scheduler.
    pub scheduler: String,
    /// True when the run was interrupted: jobs that had not arrived are missing.
    pub is_partial: bool,
    /// Number of jobs that are compared: the trace records their start, and the scheduler did not
    /// refuse them.
    pub jobs: u64,
    /// Jobs among them that never start in the replay. Their simulated wait counts up to its end,
    /// and is never near.
    pub never_started: u64,
    /// Replayed jobs whose start the trace does not record.
    pub without_start: u64,
    /// Replayed jobs whose recorded start is before their submission; they are not compared.
    pub start_before_submit: u64,
    /// Jobs that started in the trace and that the scheduler refused.
    pub refused: u64,
    /// Jobs that started in the trace and are not replayed: they do not fit, or how long they ran
    /// is unknown, as of those that were still running when the trace was written.
    pub not_replayed: u64,
    /// Waits that the trace recorded, in seconds.
    pub recorded_secs: Spread,
    /// Waits of the replay, in seconds.
    pub simulated_secs: Spread,
    /// Median of the absolute differences of simulated and recorded wait, in seconds.
    pub median_error_secs: f64,
    /// Share, from 0 to 1, of jobs whose simulated wait is near the recorded one: within a factor
    /// of 2, or within 10 minutes.
    pub near: f64,
    /// Jobs that waited more than 10 minutes, in the trace or in the replay, or never start in it.
    pub long_waits: u64,
    /// Share of these, from 0 to 1, whose simulated wait is near the recorded one.
    pub near_of_long: f64,
    /// Mean of the recorded waits of the jobs of `long_waits`, in seconds.
    pub long_recorded_secs: f64,
    /// Mean of the simulated waits of the jobs of `long_waits`, in seconds.
    pub long_simulated_secs: f64,
    /// Judgement of the replay by `long_waits`, `near_of_long`, `long_recorded_secs` and
    /// `long_simulated_secs`.
    pub verdict: CalibrationVerdict,
    /// The same by size of job, ascending.
    pub sizes: Vec<CalibratedSize>,
}

/// Waits of jobs of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedSize {
    /// Size class, such as `2 to 8`.
    pub size: String,
    /// Number of jobs that are compared.
    pub jobs: u64,
    /// Waits that the trace recorded, in seconds.
    pub recorded_secs: Spread,
    /// Waits of the replay, in seconds.
    pub simulated_secs: Spread,
    /// Median of the absolute differences, in seconds.
    pub median_error_secs: f64,
    /// Share of jobs whose simulated wait is near the recorded one.
    pub near: f64,
}

/// Judgement of a replay. It holds for this load on this cluster only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CalibrationVerdict {
    /// Fewer than 30 jobs waited long: nothing follows for a load under which jobs wait.
    TooFew,
    /// Of the long waits, at least 80 % are near, and their means differ by at most a factor of 1.25.
    Close,
    /// At least 50 % are near, and their means differ by at most a factor of 2.
    Rough,
    /// Fewer are near, or the means differ more.
    Poor,
    /// The run was interrupted, and is not judged.
    Interrupted,
}
