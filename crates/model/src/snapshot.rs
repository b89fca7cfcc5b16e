//! Anonymised snapshot of a site at an instant: the engine's state without names, and past runs.
//! `muster whatif` reads it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{ElementId, QueueName, UserName};
use crate::unit::{Span, Time};
use crate::view::RoleView;

/// Snapshot of a site at an instant. Users, nodes, devices, labels and advance reservations have
/// numbers in place of names; job names, commands and free text are left out. Queues and GPU models
/// keep their names.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SiteSnapshot {
    /// Format version of `state`: a reader rejects a higher version than its own.
    pub version: u32,
    /// Instant at which the snapshot was taken.
    pub taken: Time,
    /// Earliest submission of the runs in `past`, which also lacks runs that the daemon no longer
    /// keeps.
    pub since: Time,
    /// State of the engine: nodes, queues, pending and running jobs. Kept as text: a tree of values
    /// takes many times as much memory, and only the engine reads it.
    #[schemars(with = "serde_json::Value")]
    pub state: Box<RawValue>,
    /// Elements that have run since then, in the order of submission.
    pub past: Vec<PastRun>,
    /// Original name behind each number. Present only on request, and never in a file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

/// Element that ran, or still runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastRun {
    /// Id of the element.
    pub element: ElementId,
    /// User that submitted it, by number.
    pub user: UserName,
    /// Leaf queue that it was submitted to.
    pub queue: QueueName,
    /// Priority within its queue.
    pub priority: i32,
    /// Instant of the submission.
    pub submitted: Time,
    /// Instant at which it first held its resources.
    pub began: Time,
    /// Run time of its last attempt; until now when it still runs.
    pub ran: Span,
    /// True when it has ended for good.
    pub is_over: bool,
    /// Time limit; `None` means no time limit.
    pub limit: Option<Span>,
    /// True for a replica of a service and for a notebook, which run until a user ends them.
    pub is_open_ended: bool,
    /// Number of tasks of its last attempt.
    pub tasks: u32,
    /// Resource request of each task group.
    pub roles: Vec<RoleView>,
}
