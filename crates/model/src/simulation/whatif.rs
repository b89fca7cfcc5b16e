//! Effect of a hypothetical change on a site.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FleetFigures, FleetUnit, Spread};
use crate::id::{JobId, QueueName, UserName};
use crate::reason::Reason;
use crate::unit::{GpuMilli, Time};

/// Answer to a what-if question: the site as it is, and with the changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// Instant at which the snapshot of the site was taken; 0 in an answer from a trace.
    pub taken: Time,
    /// Changes in question, as fragments.
    pub changes: Vec<String>,
    /// Jobs that are pending now, with their starts if no further jobs are submitted. Empty in an answer from a
    /// trace, which does not say what is pending.
    pub waiting: Vec<PendingJob>,
    /// Past runs, replayed from an idle site. `None` when there were none in that time.
    pub past: Option<PastReplay>,
    /// True when the simulation was interrupted: results cover only what had been reached by then.
    pub is_partial: bool,
}

/// Pending job of the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingJob {
    /// Number of the job.
    pub job: JobId,
    /// Name of the job; empty when the snapshot has none.
    pub name: String,
    /// User that submitted it.
    pub user: UserName,
    /// Queue that it is in.
    pub queue: QueueName,
    /// GPUs of one element, in thousandths.
    pub gpus: GpuMilli,
    /// Instant of the submission.
    pub submitted: Time,
    /// Number of its pending elements.
    pub elements: u32,
    /// Starts without the change.
    pub as_it_is: StartTimes,
    /// Starts with the change.
    pub changed: StartTimes,
    /// Reason why it does not start at once with the change; `None` when it does.
    pub still: Option<Reason>,
}

/// Starts of the pending elements of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartTimes {
    /// Number of elements that start; the others wait for events that the simulation cannot
    /// predict.
    pub begun: u32,
    /// Start of the first element; `None` when none starts.
    pub first: Option<Time>,
    /// Start of the last element; `None` when none starts.
    pub last: Option<Time>,
}

/// Replay of past runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PastReplay {
    /// Path of the trace that is replayed; `None`: the jobs that the daemon has recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Submission of the first run.
    pub since: Time,
    /// Number of elements that ran, or at least held resources.
    pub runs: u64,
    /// Number of elements that are replayed, the same ones without and with the change.
    pub replayed: u64,
    /// Elements that are left out because they never ran.
    pub never_ran: u64,
    /// Elements that are left out because not even the idle site can host them.
    pub too_large: u64,
    /// Elements that are left out because the changed site cannot host them, though the present one
    /// can.
    pub no_longer_fit: u64,
    /// Elements whose queue the site does not have; they use its default queue.
    #[serde(default)]
    pub strangers: u64,
    /// Unit of sizes and hours.
    pub unit: FleetUnit,
    /// Measured seconds from submission to first start of the replayed elements, for comparison
    /// with `first_start_secs` of the replays.
    pub first_start_secs: Spread,
    /// Number of replayed elements whose first start was measured; 0 if a trace records none.
    #[serde(default)]
    pub first_starts: u64,
    /// Figures without the change.
    pub as_it_is: FleetFigures,
    /// Figures with the change.
    pub changed: FleetFigures,
}
