//! A site at an instant, as it may leave the house: what the engine knows, without names, and what
//! has run. It is what `muster whatif` asks its questions of.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{ElementId, QueueName, UserName};
use crate::unit::{Span, Time};
use crate::view::RoleView;

/// A site at an instant. People, hosts, devices, labels and reservations have numbers in place of
/// names; what jobs are called, what they run and what people wrote is not in it. Queues and GPU
/// models keep their names.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SiteSnapshot {
    /// Version of `state`: a snapshot of a higher one than the reader knows cannot be read.
    pub version: u32,
    /// When it was taken.
    pub taken: Time,
    /// What was submitted before is not in `past`; nor is what the daemon no longer keeps.
    pub since: Time,
    /// Nodes, queues and all that waits or runs, as the engine writes it down. Kept as text: a tree
    /// of values takes many times as much memory, and only the engine reads it.
    #[schemars(with = "serde_json::Value")]
    pub state: Box<RawValue>,
    /// What has run since, in the order in which it was submitted.
    pub past: Vec<PastRun>,
    /// What each number stands for. Only where it was asked for, and never in a file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

/// An element that ran, or runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastRun {
    /// Which.
    pub element: ElementId,
    /// Whose.
    pub user: UserName,
    /// Where it waited.
    pub queue: QueueName,
    /// Its priority.
    pub priority: i32,
    /// When it was submitted.
    pub submitted: Time,
    /// When it first got its resources.
    pub began: Time,
    /// How long its last attempt ran; until now if it still does.
    pub ran: Span,
    /// It has ended for good.
    pub is_over: bool,
    /// The time limit that it promised.
    pub limit: Option<Span>,
    /// It is a replica of a service or a notebook: it ran until somebody ended it.
    pub is_open_ended: bool,
    /// Tasks that its last attempt had.
    pub tasks: u32,
    /// What each role asked for.
    pub roles: Vec<RoleView>,
}
