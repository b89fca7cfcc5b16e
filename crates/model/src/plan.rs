//! Plan: all decisions of one planning pass as a value; reservations are part of its report.
//! Applying a plan makes no choices. Decisions are journalled: add variants, do not edit them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, ElementId, NodeId};
use crate::node::DeviceSet;
use crate::unit::{GpuMilli, Time};

/// All decisions of one planning pass, in the order in which they take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Changes that take effect now.
    pub decisions: Vec<Decision>,
    /// Elements that became the head of their queue in this pass: blocked by capacity, without a
    /// planned start. Their patience begins now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<ElementId>,
    /// Capacity that no other element gets, reserved for heads whose patience has expired.
    #[serde(default, rename = "keeps", skip_serializing_if = "Vec::is_empty")]
    pub head_reservations: Vec<HeadReservation>,
    /// Planned future starts that backfill respected. Derived, not journalled.
    #[serde(skip)]
    pub reservations: Vec<Reservation>,
}

impl Plan {
    /// Returns true when nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty() && self.heads.is_empty()
    }

    /// Returns the starts in the plan: the attempt, the placement of each task by rank, and whether
    /// it is backfilled.
    pub fn starts(&self) -> impl Iterator<Item = (AttemptId, &Arc<[TaskPlacement]>, bool)> {
        self.decisions.iter().filter_map(|decision| match decision {
            Decision::Start { id, placement, backfilled } => Some((*id, placement, *backfilled)),
            Decision::Nominate { .. } | Decision::Revoke { .. } => None,
        })
    }
}

/// One change in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Start an element on these nodes and devices.
    Start {
        /// Id of the attempt that starts.
        id: AttemptId,
        /// Placement of each task, by rank; at least the gang's minimum of every group.
        placement: Arc<[TaskPlacement]>,
        /// True when the start passes an entry ahead of it that stays blocked by capacity and holds
        /// a reservation.
        backfilled: bool,
    },
    /// Evict other attempts so that an element can start: these nodes and devices become its
    /// pending allocation, and it starts there once they are free. No other job gets them
    /// meanwhile.
    #[serde(rename = "Claim")]
    Nominate {
        /// Element that is to start.
        element: ElementId,
        /// Future placement of each task, by rank.
        placement: Arc<[TaskPlacement]>,
        /// Attempts to evict: everything that holds part of the placement. Empty when a gang
        /// continues with what the pending allocation of another element leaves of its resources.
        evict: Vec<Eviction>,
    },
    /// Revoke a pending allocation that is no longer possible because the cluster changed.
    /// Evictions for it are not undone.
    #[serde(rename = "Unclaim")]
    Revoke {
        /// Element that loses its pending allocation.
        element: ElementId,
    },
}

/// Eviction of an attempt: it gets a checkpoint request if its job takes checkpoints, is then
/// stopped, and is queued again at its old position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// Id of the attempt to evict.
    pub id: AttemptId,
    /// Rule that permits the eviction.
    pub cause: EvictionCause,
}

/// Rule that permits an eviction.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EvictionCause {
    /// The elastic gang restarts with fewer tasks, on resources that the same plan nominates for
    /// it: its tasks beyond the minimum run on idle capacity.
    Shrunk,
    /// The element is opportunistic, and one that is not needs its resources.
    #[serde(rename = "yielded")]
    Opportunistic,
    /// The element runs on quota that another queue lent and now reclaims.
    Reclaimed,
    /// An element of the same queue has a higher priority.
    Outranked,
    /// The elastic gang restarts with more tasks, on idle capacity.
    Grown,
    /// The element restarts elsewhere, on resources that the same plan nominates for it, so that a
    /// gang gets whole nodes or a domain.
    Moved,
}

/// Placement of one task, and the resources that it holds there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlacement {
    /// Index of its task group in the job's `groups`.
    pub group: u16,
    /// Node that the task runs on.
    pub node: NodeId,
    /// Devices of the node; empty when the task holds no GPU.
    pub devices: DeviceSet,
    /// Thousandths held of each device: 1000, or the share of the one device; 0 when the task holds
    /// no GPU.
    pub share: GpuMilli,
}

/// Head reservation: capacity kept free, without a start time, for a queue head that has waited
/// longer than the queues' patience. Running jobs may still hold part of it; as they end, no other
/// job gets what becomes free, until the head starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadReservation {
    /// Queue head that the capacity is reserved for.
    pub element: ElementId,
    /// Placement of the whole gang, by rank, on which it starts once everything there is free.
    pub placement: Arc<[TaskPlacement]>,
}

/// Planned future start of an element that is blocked by capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Element that holds the reservation.
    pub element: ElementId,
    /// Latest start of the element.
    pub start: Time,
    /// End of its time limit and grace; [`Time::NEVER`] when it has no time limit.
    pub end: Time,
    /// Placement of each task, by rank.
    pub placement: Arc<[TaskPlacement]>,
}
