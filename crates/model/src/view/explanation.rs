//! Explanation of an element's state: reasons for being pending, jobs that hold what it needs,
//! preemption, placement. As with all views, fields may be added, never renamed or removed on the
//! wire (ADR 0003).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CheckpointView, JobState};
use crate::id::{AdvanceReservationName, ElementId, NodeName, QueueName};
use crate::node::{Drain, ForeignProcess, GpuModel};
use crate::plan::EvictionCause;
use crate::reason::{HeadReservedPlace, Reason};
use crate::unit::{GpuMilli, Span, Time};

/// Explanation of an element: why it is pending, when it starts, and which changes would start it
/// now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Id of the element.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// State of the element.
    pub state: JobState,
    /// Reasons that keep it from starting, in the order of the engine's checks; empty when it is
    /// not pending.
    pub reasons: Vec<Reason>,
    /// Position among the pending elements of its leaf queue, from 1, and their number; `None` when
    /// it is not pending.
    pub position: Option<(u32, u32)>,
    /// Leaf queue that it is in.
    pub queue: QueueName,
    /// Elements that hold the resources that it needs, soonest to end first; at most ten.
    pub holders: Vec<Holder>,
    /// Drained nodes and devices that it could use, when it waits for capacity; at most ten.
    #[serde(default)]
    pub out_of_service: Vec<OutOfService>,
    /// Devices that it could use but that processes outside Muster use, when it waits for capacity;
    /// at most ten nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_outside: Vec<UsedOutside>,
    /// Placement and its quality, while it holds resources; `None` otherwise.
    #[serde(default)]
    pub placement: Option<PlacementView>,
    /// Elements that are being evicted for it and have not ended; at most ten.
    #[serde(default, rename = "leaving")]
    pub evictions: Vec<EvictionView>,
    /// Elements that hold resources it could use but are not preempted for it, with the reason; at
    /// most ten.
    #[serde(default, rename = "stays")]
    pub not_preempted: Vec<NotPreemptedView>,
    /// Preemption of its present or last attempt; `None` when that was not preempted.
    #[serde(default)]
    pub preempted: Option<PreemptedView>,
    /// Running jobs that could be moved so that it fits, and why they are not; `None` when no moves
    /// would help.
    #[serde(default)]
    pub moves: Option<MovesView>,
    /// Capacity that it could use but advance reservations set aside for other jobs now, when it
    /// waits for capacity; at most ten.
    #[serde(default)]
    pub set_aside: Vec<ReservedCapacity>,
    /// Wait as the head of its queue; `None` unless it is the head and no start can be planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<PatienceView>,
    /// Planned start; `None` when unknown.
    pub eta: Option<Eta>,
    /// Changes of the job that would each start it now, as tried by the engine.
    pub sooner: Vec<JobChange>,
}

impl Explanation {
    /// Makes an explanation with only the id, name, state and queue; all else is empty.
    #[must_use]
    pub fn blank(element: ElementId, name: String, state: JobState, queue: QueueName) -> Self {
        Self {
            element,
            name,
            state,
            reasons: Vec::new(),
            position: None,
            queue,
            holders: Vec::new(),
            out_of_service: Vec::new(),
            used_outside: Vec::new(),
            placement: None,
            evictions: Vec::new(),
            not_preempted: Vec::new(),
            preempted: None,
            moves: None,
            set_aside: Vec::new(),
            patience: None,
            eta: None,
            sooner: Vec::new(),
        }
    }
}

/// Wait of a queue head, and the head reservation for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatienceView {
    /// Instant since which it has been the head of its queue.
    pub since: Time,
    /// Instant from which free capacity is reserved for it.
    pub keeps_from: Time,
    /// Free resources that are reserved for it now; at most sixteen nodes.
    pub kept: Vec<HeadReservedPlace>,
    /// True when its head reservation is placed: it starts when the jobs that run there have ended.
    pub is_kept: bool,
}

/// Placement of an element and its quality, as of now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementView {
    /// Number of tasks that hold resources.
    pub tasks: u32,
    /// Number of nodes that it uses.
    pub nodes: u32,
    /// Resources that it holds, by name of the node; at most sixteen nodes.
    pub places: Vec<PlacedOn>,
    /// Topology levels that it spans, the widest first, its nodes last.
    pub levels: Vec<LevelUse>,
    /// Instant since which it holds its resources.
    pub since: Time,
    /// True when it was backfilled: it started before jobs ahead of it, without delaying them.
    pub backfilled: bool,
    /// True when it was planned by a predicted run time: if it runs longer, jobs ahead of it may
    /// start later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
    /// First planned start on its nodes; `None` when none is planned.
    pub next: Option<NextStart>,
}

/// Resources that an element holds on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedOn {
    /// Name of the node.
    pub node: NodeName,
    /// Number of its tasks on the node.
    pub tasks: u32,
    /// Device indices on the node.
    pub devices: Vec<u16>,
    /// Thousandths held of each device.
    pub share: GpuMilli,
}

/// Domains of one topology level that an element spans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LevelUse {
    /// Name of the level; `node` is the narrowest.
    pub level: String,
    /// Number of domains that it uses; a node outside of all domains counts as one.
    pub domains: u32,
    /// Names of the domains; at most sixteen.
    pub names: Vec<String>,
    /// Fewest domains that could host it on an idle cluster; `None` when several groups or segments
    /// would require a search.
    pub least: Option<u32>,
    /// Request of the job for this level; `None` when it has none.
    pub asked: Option<LevelRequest>,
}

/// Topology request of a job for one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LevelRequest {
    /// All tasks in one domain.
    Required,
    /// As few domains as possible.
    Preferred,
    /// As many domains as possible.
    Spread,
    /// Each segment in one domain.
    Segments,
}

/// Planned start of an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextStart {
    /// Id of the element that starts.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Latest start of the element, or, if `predicted`, its expected start.
    pub start: Time,
    /// True where planning goes by predicted run times: a job that runs longer delays the start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
}

/// Preemption of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreemptedView {
    /// Element that it was preempted for.
    pub by: ElementId,
    /// Name of that element's job; `None` when it is no longer in memory.
    pub name: Option<String>,
    /// Queue of that element; `None` when it is no longer in memory.
    pub queue: Option<QueueName>,
    /// Rule that permitted the preemption.
    pub cause: EvictionCause,
    /// Instant of the preemption.
    pub at: Time,
    /// Latest end of the checkpoint that it takes before it stops; `None` when it takes none.
    #[serde(default)]
    pub saves_until: Option<Time>,
    /// Last checkpoint that the job acknowledged, from which it resumes; `None` when there is none.
    pub checkpoint: Option<CheckpointView>,
}

/// Element that holds GPUs which another one waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Id of the holder.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// GPUs that it holds, in thousandths.
    pub gpus: GpuMilli,
    /// Latest end of the holder; `None` means no time limit.
    pub ends_by: Option<Time>,
    /// Meaning of that instant.
    #[serde(default)]
    pub end: HolderEnd,
    /// End by which planning goes, from its predicted run time; `None` when planning goes by
    /// `ends_by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Time>,
}

/// Meaning of the latest end of a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HolderEnd {
    /// End of its time limit; it has no grace.
    #[default]
    TimeLimit,
    /// End of the grace that follows its time limit.
    Grace,
    /// Expected end of its stop, which has begun.
    Stopping,
}

/// Node, or devices of a node, with a present or future drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutOfService {
    /// Name of the node.
    pub node: NodeName,
    /// Indices of the drained devices; empty means the node as a whole.
    pub devices: Vec<u16>,
    /// Drain: its start, user and reason.
    pub drain: Drain,
}

/// Devices of a node that processes outside Muster use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedOutside {
    /// Name of the node.
    pub node: NodeName,
    /// Indices of the devices.
    pub devices: Vec<u16>,
    /// Processes on them, where they are known.
    pub processes: Vec<ForeignProcess>,
}

/// Node, or devices of a node, that an advance reservation sets aside for other jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReservedCapacity {
    /// Name of the node.
    pub node: NodeName,
    /// Indices of the reserved devices; empty means the node as a whole.
    pub devices: Vec<u16>,
    /// Name of the advance reservation.
    #[serde(rename = "window")]
    pub advance_reservation: AdvanceReservationName,
    /// End of the present occurrence.
    pub ends: Time,
}

/// Expected start of a pending element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Eta {
    /// Latest start, if every running job uses its whole time limit; or, if `predicted`, the start
    /// if every job runs as long as expected.
    pub start: Time,
    /// True when a reservation protects the start from backfill: no later job can delay it.
    pub reserved: bool,
    /// True where planning goes by predicted run times: a job that runs longer delays the start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
}

/// Element that is being evicted for the pending element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionView {
    /// Id of the evicted element.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Leaf queue of the evicted element.
    pub queue: QueueName,
    /// Rule that permits the eviction.
    pub cause: EvictionCause,
    /// Latest end of the checkpoint that it takes before it stops; `None` when it is already being
    /// stopped.
    pub saves_until: Option<Time>,
    /// Latest end of the eviction.
    pub by: Time,
    /// True when no process in one of its tasks handles the checkpoint signal, so that this task
    /// saves nothing.
    #[serde(default)]
    pub undelivered: bool,
}

/// Element that is not preempted for the pending element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotPreemptedView {
    /// Id of the element.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Reason why it is not preempted.
    pub why: NotPreemptedReason,
    /// Instant until which the reason holds; `None` when unknown.
    pub until: Option<Time>,
}

/// Reason why an element is not preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotPreemptedReason {
    /// Same queue, and its priority is not lower.
    #[serde(rename = "no_lower")]
    NotLowerPriority,
    /// Protected from preemption by its job or its queue.
    Protected,
    /// Other queue, which is within its nominal quota.
    WithinQuota,
    /// Other queue, and the pending element would exceed the nominal quota of its own queue.
    #[serde(rename = "not_its_own")]
    WouldExceedQuota,
    /// Other queue, beyond its quota, but would lose much work: its quota is reclaimed once the pending element has
    /// waited for the time that the queue file sets.
    WouldLoseWork,
    /// The pending element is opportunistic: it runs only on idle resources.
    #[serde(rename = "behind_all")]
    OpportunisticCandidate,
    /// The pending element never preempts others.
    NeverPreempts,
    /// The queue file turns this kind of preemption off.
    #[serde(rename = "off")]
    Disabled,
    /// Could be preempted, but that would not free enough capacity.
    #[serde(rename = "in_vain")]
    NotSufficient,
}

/// Running jobs that could move elsewhere so that the pending element fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovesView {
    /// Jobs to move; at most ten.
    pub jobs: Vec<MovedJob>,
    /// Number of jobs to move.
    pub count: u32,
    /// Most GPU-seconds of work that the moves would lose.
    pub cost_gpu_secs: u64,
    /// Reason why they are not moved.
    pub why: NotMovedReason,
}

/// Running element that could be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedJob {
    /// Id of the element.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
}

/// Reason why running jobs are not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum NotMovedReason {
    /// The queue file does not turn moves on.
    #[serde(rename = "off")]
    Disabled,
    /// The remaining budget for moves is smaller than their cost.
    #[serde(rename = "spent")]
    BudgetSpent {
        /// Remaining budget, in GPU-seconds.
        left_gpu_secs: u64,
        /// Next refill of the budget; `None` when even a whole budget is too small.
        refills_at: Option<Time>,
    },
    /// The pending element would lose less GPU time by waiting than the moves cost.
    #[serde(rename = "dear")]
    TooCostly {
        /// GPU-seconds that the pending element loses by waiting for its planned start.
        worth_gpu_secs: u64,
    },
}

/// Change of a job that would start it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum JobChange {
    /// Fewer tasks in its (only) group.
    Tasks {
        /// Largest number of tasks that starts now.
        tasks: u32,
    },
    /// Fewer GPUs per task.
    GpusPerTask {
        /// Largest number of GPUs per task that starts now.
        gpus: u32,
        /// GPUs per node, for a job that sets `gpus` per node; `None` otherwise.
        #[serde(default)]
        per_node: Option<u32>,
    },
    /// Fewer nodes, with the same number of tasks on each.
    Nodes {
        /// Largest number of nodes that starts now.
        nodes: u32,
    },
    /// Smaller share of a GPU per task.
    Share {
        /// Largest share that starts now, in thousandths.
        share: GpuMilli,
        /// True when the job sets the share with `gpus`.
        #[serde(default)]
        per_node: bool,
    },
    /// Any node, regardless of its labels.
    AnyNode,
    /// Shorter time limit, so that the job ends before a reservation.
    TimeLimit {
        /// Longest time limit that starts now.
        limit: Span,
    },
    /// Another accepted GPU model.
    Model {
        /// GPU model with which it starts now.
        model: GpuModel,
    },
    /// Another queue of the tree.
    Queue {
        /// Queue in which it starts now.
        queue: QueueName,
    },
    /// Topology request `preferred` in place of `required`.
    PreferTopology {
        /// Topology level of the request.
        level: String,
    },
}
