//! The plan: every decision of one pass as a value, with reservations as its report. Carrying it
//! out makes no choices. Decisions are journalled: add variants, do not edit them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, ElementId, NodeId};
use crate::node::DeviceSet;
use crate::unit::{GpuMilli, Time};

/// All decisions of one planning pass, in the order in which they take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What changes now.
    pub decisions: Vec<Decision>,
    /// Elements that became the first of their queue, are blocked by capacity, and have no planned
    /// start: their patience begins now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<ElementId>,
    /// Places that no other element gets, for heads whose patience is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Keep>,
    /// Planned future starts that backfill respected. Derived, not journalled.
    #[serde(skip)]
    pub reservations: Vec<Reservation>,
}

impl Plan {
    /// True when nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty() && self.heads.is_empty()
    }

    /// What it starts: which attempt, where each task goes by rank, and whether it passes a
    /// reservation.
    pub fn starts(&self) -> impl Iterator<Item = (AttemptId, &Arc<[TaskPlacement]>, bool)> {
        self.decisions.iter().filter_map(|decision| match decision {
            Decision::Start { id, placement, backfilled } => Some((*id, placement, *backfilled)),
            Decision::Claim { .. } | Decision::Unclaim { .. } => None,
        })
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Start an element on these places.
    Start {
        /// Which attempt this makes.
        id: AttemptId,
        /// Where each task goes, by rank; at least the gang's minimum of every group.
        placement: Arc<[TaskPlacement]>,
        /// It passes an entry ahead of it that stays blocked by capacity and holds a reservation.
        backfilled: bool,
    },
    /// Others go, so that an element can start: it is promised these places, and starts there once
    /// they are free. Nobody else gets them meanwhile.
    Claim {
        /// Who is to start.
        element: ElementId,
        /// Where each task will go, by rank.
        placement: Arc<[TaskPlacement]>,
        /// Who goes for it; everything that stands in its way. Empty where a gang goes on with what
        /// another's claim leaves of its places.
        evict: Vec<Eviction>,
    },
    /// A claim that can no longer be kept, since the world has changed, is given up. Who goes for
    /// it still goes.
    Unclaim {
        /// Whose.
        element: ElementId,
    },
}

/// An attempt that is made to go: asked for a checkpoint where its job takes one, then stopped, and
/// queued again where it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// Which attempt.
    pub id: AttemptId,
    /// By what right.
    pub cause: EvictionCause,
}

/// By what right an attempt is made to go.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EvictionCause {
    /// It goes on with fewer tasks, which the same plan promises it: beyond its minimum it runs in
    /// what was idle.
    Shrunk,
    /// It runs in what was idle, and somebody waits in his turn.
    Yielded,
    /// It runs on quota that another queue lent, and takes back.
    Reclaimed,
    /// A job of its own queue has a higher priority.
    Outranked,
    /// It makes room for itself: it goes on with more tasks, in what is idle.
    Grown,
    /// It goes on elsewhere, on places that the same plan promises it, so that a gang finds whole
    /// nodes or a domain.
    Moved,
}

/// Where one task runs and what it holds there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlacement {
    /// Index of its group in the job's `groups`.
    pub group: u16,
    /// Node.
    pub node: NodeId,
    /// Devices; empty when it holds no GPU.
    pub devices: DeviceSet,
    /// Held per device: 1000, or the share of the one device; 0 when it holds no GPU.
    pub share: GpuMilli,
}

/// Places kept for an element that has waited as the first of its queue for longer than the queues'
/// patience. Running jobs may still hold some of them; as they end, no other job gets what they
/// leave, until the element starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// For which element.
    pub element: ElementId,
    /// The whole gang, by rank: where it would start if everything there were free.
    pub placement: Arc<[TaskPlacement]>,
}

/// A planned future start of a job that is blocked by capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Who.
    pub element: ElementId,
    /// When it starts at the latest.
    pub start: Time,
    /// When its time limit and grace end; [`Time::NEVER`] when it has none.
    pub end: Time,
    /// Where.
    pub placement: Arc<[TaskPlacement]>,
}
