//! Reasons why an element is not running: typed, with the numbers that decided. `report` makes the
//! text.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AdvanceReservationName, ElementId, JobId, NodeName, QueueName, UserName};
use crate::job::DependencyKind;
use crate::node::GpuModel;
use crate::unit::{Bytes, CpuMilli, GpuMilli, Span, Time};

/// Result of a check that keeps an element from starting, now or forever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// The job is on hold until a user releases it.
    Held,
    /// The job is on hold until an administrator releases it.
    HeldByAdmin {
        /// Administrator that holds the job.
        by: UserName,
    },
    /// The begin time, or the back-off before a restart, is in the future.
    NotBefore {
        /// Instant of the earliest start.
        until: Time,
        /// Starts so far when the wait is the back-off of a restart; 0 for a begin time.
        restarts: u32,
    },
    /// Another job has not reached the state that this job depends on.
    Dependency {
        /// Job that this one depends on.
        on: JobId,
        /// State that the other job must reach.
        kind: DependencyKind,
    },
    /// As many elements of the array run as its own limit allows.
    ArrayCap {
        /// Elements that hold resources.
        running: u32,
        /// Highest number of elements that may hold resources at once.
        cap: u32,
    },
    /// The queue's quota and everything that it can borrow are in use.
    Quota {
        /// Queue on the path to the root whose quota is exhausted.
        queue: QueueName,
        /// GPU model of the quota.
        model: GpuModel,
        /// GPUs that the element requests.
        asked: GpuMilli,
        /// GPUs in use by the queue's subtree.
        used: GpuMilli,
        /// Nominal quota of the queue for the model.
        nominal: GpuMilli,
        /// GPUs that the queue could borrow in total now, including those that it has borrowed.
        borrowable: GpuMilli,
        /// Part of `nominal` that is used by or kept for other queues now; 0 whenever something can
        /// be borrowed. The check fails because `used + asked > nominal + borrowable - lent`.
        lent: GpuMilli,
    },
    /// The element would start on borrowed quota and use it for longer than the queue may borrow.
    BorrowedTime {
        /// Queue on the path to the root whose limit applies.
        queue: QueueName,
        /// GPU model of the quota.
        model: GpuModel,
        /// GPUs that the element requests.
        asked: GpuMilli,
        /// GPUs in use by the queue's subtree.
        used: GpuMilli,
        /// Nominal quota; GPUs in use beyond it are borrowed.
        nominal: GpuMilli,
        /// Time limit plus grace of the element; `None` means no time limit.
        length: Option<Span>,
        /// Longest time for which the queue may borrow.
        limit: Span,
    },
    /// The element is protected from preemption, so it must not borrow, and the nominal quota of
    /// its queue is not sufficient.
    MayNotBorrow {
        /// Queue on the path to the root that would exceed its nominal quota.
        queue: QueueName,
        /// GPU model of the quota.
        model: GpuModel,
        /// GPUs that the element requests.
        asked: GpuMilli,
        /// GPUs in use by the queue's subtree.
        used: GpuMilli,
        /// Nominal quota of the queue for the model.
        nominal: GpuMilli,
    },
    /// The queue runs as many elements as its limit allows.
    RunningJobs {
        /// Queue with the limit.
        queue: QueueName,
        /// Elements that run now.
        running: u32,
        /// Highest number of elements that may run at once.
        limit: u32,
    },
    /// The user holds as many GPUs as the queue allows one user.
    GpusPerUser {
        /// Queue with the limit.
        queue: QueueName,
        /// User that the limit applies to.
        user: UserName,
        /// GPUs that the element requests.
        asked: GpuMilli,
        /// GPUs that the user holds.
        used: GpuMilli,
        /// Most GPUs that one user may hold.
        limit: GpuMilli,
    },
    /// The element's time limit would commit more GPU-time than a budget has left. An element
    /// without a time limit commits the rest of the budget period and all later ones.
    Budget {
        /// Queue with the budget.
        queue: QueueName,
        /// User that the budget applies to; `None` for the budget of the whole queue.
        user: Option<UserName>,
        /// GPU-seconds that the element would commit.
        asked_gpu_secs: u64,
        /// GPU-seconds of this period that ended jobs used.
        used_gpu_secs: u64,
        /// GPU-seconds of this period that running jobs have committed.
        promised_gpu_secs: u64,
        /// GPU-seconds of one budget period.
        budget_gpu_secs: u64,
        /// Start of the next budget period.
        refills_at: Time,
    },
    /// The user has as many jobs pending as the queue accepts: another one is rejected at
    /// submission.
    PendingJobs {
        /// Queue with the limit.
        queue: QueueName,
        /// User that the limit applies to.
        user: UserName,
        /// Jobs of the user with at least one pending element.
        pending: u32,
        /// Highest number of such jobs.
        limit: u32,
    },
    /// Not enough resources are free now; the element would fit on an idle cluster.
    Capacity(Box<CapacityGap>),
    /// Enough resources are free, but not in one topology domain.
    Topology(TopologyGap),
    /// The element fits now, but would delay the reservation of a job ahead of it.
    Reserved {
        /// Element that holds the reservation.
        element: ElementId,
        /// Start of that reservation.
        start: Time,
        /// True where planning goes by predicted run times: the start is expected, and no latest
        /// one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        predicted: bool,
        /// Longest time limit plus grace with which this element could end before the reservation;
        /// `None` when no length would.
        fits_if_shorter_than: Option<Span>,
    },
    /// The element fits, but the resources are kept for an element that has been first in its queue
    /// for longer than the queues' patience.
    #[serde(rename = "kept")]
    HeadReserved {
        /// Element that the resources are kept for.
        element: ElementId,
        /// Instant since which that element has been first in its queue.
        since: Time,
        /// Free resources that are kept for it; at most sixteen nodes.
        places: Vec<HeadReservedPlace>,
    },
    /// The element fits, but would still run when a drain begins.
    #[serde(rename = "drain_ahead")]
    UpcomingDrain {
        /// Node that is drained.
        node: NodeName,
        /// Start of the drain.
        from: Time,
        /// Longest time limit plus grace with which this element could end before the drain; `None`
        /// when no length would.
        fits_if_shorter_than: Option<Span>,
    },
    /// Other jobs are being preempted for the element; it starts when they have ended.
    #[serde(rename = "making_room")]
    Preempting {
        /// Attempts that have not ended yet.
        evicting: u32,
        /// Latest instant at which they end.
        by: Time,
    },
    /// The element fits, but would still run when an advance reservation for other jobs begins.
    #[serde(rename = "window_ahead")]
    UpcomingAdvanceReservation {
        /// Advance reservation that begins.
        #[serde(rename = "window")]
        advance_reservation: AdvanceReservationName,
        /// Start of the advance reservation.
        from: Time,
        /// Longest time limit plus grace with which this element could end before it begins; `None`
        /// when no length would.
        fits_if_shorter_than: Option<Span>,
    },
    /// The advance reservation that the job names has not begun.
    #[serde(rename = "window_not_open")]
    AdvanceReservationNotActive {
        /// Advance reservation that the job names.
        #[serde(rename = "window")]
        advance_reservation: AdvanceReservationName,
        /// Start of the advance reservation.
        begins: Time,
    },
    /// The element fits, but the advance reservation that the job names would end before it does.
    #[serde(rename = "window_ends")]
    AdvanceReservationEnds {
        /// Advance reservation that the job names.
        #[serde(rename = "window")]
        advance_reservation: AdvanceReservationName,
        /// End of the advance reservation.
        ends: Time,
        /// Next start of the advance reservation; `None` when it does not repeat.
        again: Option<Time>,
        /// Longest time limit plus grace with which this element could end before it; `None` when
        /// no length would.
        fits_if_shorter_than: Option<Span>,
    },
    /// The advance reservation that the job names has ended, was deleted, or no longer admits the
    /// job.
    #[serde(rename = "window_over")]
    AdvanceReservationOver {
        /// Advance reservation that the job names.
        #[serde(rename = "window")]
        advance_reservation: AdvanceReservationName,
    },
    /// The advance reservation that the job names is never active for as long as the job needs.
    #[serde(rename = "window_too_short")]
    AdvanceReservationTooShort {
        /// Advance reservation that the job names.
        #[serde(rename = "window")]
        advance_reservation: AdvanceReservationName,
        /// Time limit plus grace of the job; `None` means no time limit.
        asked: Option<Span>,
        /// Length of the reservation; what is left of it when it does not repeat.
        length: Span,
    },
    /// Backfill is off, and a job ahead in the same queue is blocked by capacity.
    Behind {
        /// Element ahead that is blocked.
        element: ElementId,
    },
    /// No set of nodes can host the element, even when idle.
    NeverFits(Box<CapacityGap>),
    /// No topology domain can host the element, even when idle.
    NeverInTopology(TopologyGap),
    /// The queue does not accept a time limit this long (or a job without one).
    TimeLimit {
        /// Queue with the limit.
        queue: QueueName,
        /// Time limit that the job requests; `None` means no time limit.
        asked: Option<Span>,
        /// Longest time limit that the queue accepts.
        limit: Span,
    },
    /// The queue does not accept this priority.
    Priority {
        /// Queue with the limit.
        queue: QueueName,
        /// Priority that the job requests.
        asked: i32,
        /// Lowest and highest priority that the queue accepts.
        range: (i32, i32),
    },
    /// The external scheduler that the job was submitted to gives this reason.
    Native {
        /// Reason code of the external scheduler, such as `QOSMaxGRESPerUser`.
        code: String,
        /// The same reason as a sentence.
        #[serde(rename = "says")]
        message: String,
        /// Facts behind the reason, as far as the external scheduler reports them; one fragment
        /// each.
        #[serde(default)]
        evidence: Vec<String>,
    },
}

impl Reason {
    /// Returns true when waiting cannot help: such a job is rejected at submission.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Reason::NeverFits(_)
            | Reason::NeverInTopology(_)
            | Reason::TimeLimit { .. }
            | Reason::Priority { .. }
            | Reason::AdvanceReservationTooShort { .. }
            | Reason::PendingJobs { .. } => true,
            Reason::Budget { asked_gpu_secs, budget_gpu_secs, .. } => {
                asked_gpu_secs > budget_gpu_secs
            }
            Reason::BorrowedTime { asked, nominal, .. } => asked > nominal,
            _ => false,
        }
    }
}

/// Free GPUs of one node that are kept for an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeadReservedPlace {
    /// Node with the GPUs.
    pub node: NodeName,
    /// Indices of the GPUs; empty when only CPUs or memory are kept.
    pub devices: Vec<u16>,
}

/// Missing capacity, for the hardest to place of the task groups that do not fit. Where each group
/// fits alone, for the group that does not fit beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityGap {
    /// Name of the task group.
    pub group: String,
    /// Tasks that the group needs.
    pub tasks_needed: u32,
    /// Tasks of the group that could be placed.
    pub tasks_placeable: u32,
    /// Tasks that must share each node; `None` when the job does not fix that number.
    #[serde(default)]
    pub tasks_per_node: Option<u32>,
    /// Groups that are placed first; empty when the group does not even fit alone.
    #[serde(default)]
    pub beside: Vec<String>,
    /// GPUs that each task needs, in thousandths.
    pub gpus_per_task: GpuMilli,
    /// GPU models that the group accepts; empty means any.
    pub models: Vec<GpuModel>,
    /// Free GPUs of accepted models on eligible nodes, in thousandths.
    pub gpus_free: GpuMilli,
    /// GPUs of accepted models on eligible nodes in total, in thousandths.
    pub gpus_total: GpuMilli,
    /// Nodes that the group may use: up, not drained, labels match.
    pub nodes_eligible: u32,
    /// Nodes that could host at least one of its tasks now.
    pub nodes_fitting: u32,
    /// Resource that runs out first on the best node.
    pub limiting: Limiting,
}

/// Missing capacity in the topology domain that comes closest to hosting the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyGap {
    /// Topology level at which the tasks must be together.
    pub level: String,
    /// Tasks per segment when segments, not the whole job, must be in one domain; `None` otherwise.
    pub segment_tasks: Option<u32>,
    /// Domain that comes closest; `None` when the level has no domains.
    pub domain: Option<String>,
    /// Tasks that the job needs, over all groups.
    pub tasks_needed: u32,
    /// Tasks that this domain could host; with segments, tasks that all domains could host in whole
    /// segments.
    pub tasks_placeable: u32,
    /// GPUs that the job needs, in thousandths.
    pub gpus_needed: GpuMilli,
    /// Free GPUs of accepted models in this domain, in thousandths.
    pub gpus_free: GpuMilli,
    /// GPUs of accepted models in this domain in total, in thousandths.
    pub gpus_total: GpuMilli,
}

/// Resource that runs out first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limiting {
    /// GPUs of the accepted models.
    Gpus,
    /// Whole nodes (the job wants its tasks on different nodes).
    Nodes,
    /// CPUs of one node.
    Cpus {
        /// CPUs that each task requests.
        asked: CpuMilli,
        /// Most free CPUs on one node that has GPUs for more tasks than CPUs, beside the tasks that
        /// fit.
        free: CpuMilli,
    },
    /// Memory of one node.
    Memory {
        /// Memory that each task requests, in bytes.
        asked: Bytes,
        /// Most free memory, in bytes, on one node that has GPUs for more tasks than memory, beside
        /// the tasks that fit.
        free: Bytes,
    },
    /// Extra resource of one node (licences, NICs), counted in whole units.
    Extra {
        /// Name of the resource.
        name: Arc<str>,
        /// Units that each task requests.
        asked: u64,
        /// Most free units on one node that has GPUs for more tasks than units, beside the tasks that
        /// fit.
        free: u64,
    },
    /// No node satisfies the labels, models or exclusions.
    Constraint,
}
