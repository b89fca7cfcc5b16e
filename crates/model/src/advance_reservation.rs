//! Advance reservations: nodes or GPUs that are set aside for some users at given times, once or
//! repeatedly.
//!
//! They are distinct from [`crate::Reservation`], the planned start of a blocked job. Their effect
//! on placement is in `engine`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AdvanceReservationName, NodeName, QueueName, UserName};
use crate::node::{DeviceSet, GpuModel};
use crate::unit::{Span, Time};

/// Advance reservation as requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvanceReservation {
    /// Name, unique among the existing advance reservations.
    pub name: AdvanceReservationName,
    /// Users whose jobs may use it, in addition to the jobs of `queues`.
    pub users: Vec<UserName>,
    /// Queues whose jobs, and those of all queues below them, may use it, in addition to the jobs
    /// of `users`.
    pub queues: Vec<QueueName>,
    /// Nodes or GPUs that are set aside.
    #[serde(rename = "what")]
    pub resources: ReservedResources,
    /// Times at which it is active.
    pub times: AdvanceReservationTimes,
    /// True when other jobs that still run at its start are stopped and queued again.
    pub stop: bool,
    /// User that created it; `None` when unknown.
    pub by: Option<UserName>,
    /// Purpose, for users; may be empty.
    pub reason: Arc<str>,
}

/// Resources that an advance reservation sets aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservedResources {
    /// Whole nodes, by name.
    Nodes(Vec<NodeName>),
    /// A number of whole GPUs, which the engine chooses. CPUs and memory beside them are not set
    /// aside.
    Gpus {
        /// Number of GPUs to set aside.
        count: u32,
        /// GPU model; `None` means any, also several.
        model: Option<GpuModel>,
        /// Labels, with their values, of the nodes that are chosen. They count when a GPU is chosen: one
        /// that is set aside stays so if its node loses a label. Empty means any node.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<Arc<str>, Arc<str>>,
    },
}

/// Times at which an advance reservation is active: from `start` on for `length`, and again after
/// each `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceReservationTimes {
    /// Start of the first occurrence.
    pub start: Time,
    /// Length of each occurrence; not 0.
    pub length: Span,
    /// Time from one start to the next, at least `length`; `None` means that it does not repeat.
    pub every: Option<Span>,
    /// Number of occurrences in total, with `every`; `None` means without end.
    pub count: Option<u32>,
}

impl AdvanceReservationTimes {
    /// Returns how many occurrences start before an instant, of those that start every so often; at least 1.
    #[must_use]
    pub fn count_until(start: Time, every: Span, until: Time) -> u32 {
        let more = until.since(start).0.saturating_sub(1) / every.0.max(1);
        u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns the end of the last occurrence; [`Time::NEVER`] if there is none.
    #[must_use]
    pub fn end(&self) -> Time {
        let last = match (self.every, self.count) {
            (None, _) => 0,
            (Some(_), None) => return Time::NEVER,
            (Some(every), Some(count)) => {
                every.0.saturating_mul(u64::from(count.saturating_sub(1)))
            }
        };
        Time(self.start.0.saturating_add(last).saturating_add(self.length.0))
    }
}

/// Place of an advance reservation: a node, or some of its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedPlace {
    /// Node that is set aside.
    pub node: NodeName,
    /// Devices that are set aside; `None` means the node as a whole.
    pub devices: Option<DeviceSet>,
}
