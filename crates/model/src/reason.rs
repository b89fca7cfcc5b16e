//! Why something is not running: typed, with the numbers that decided it. Text is made in `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ElementId, JobId, NodeName, QueueName, UserName, WindowName};
use crate::job::DependencyKind;
use crate::node::GpuModel;
use crate::unit::{Bytes, CpuMilli, GpuMilli, Span, Time};

/// The verdict of one check that says "not now" or "never".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// On hold until released.
    Held,
    /// On hold until an administrator releases it.
    HeldByAdmin {
        /// Which administrator holds it.
        by: UserName,
    },
    /// Its begin time, or the wait before a restart, lies ahead.
    NotBefore {
        /// When it may start.
        until: Time,
        /// Starts so far, when this is a restart's back-off; 0 for a begin time.
        restarts: u32,
    },
    /// Another job has not reached the state that this one waits for.
    Dependency {
        /// The job waited for.
        on: JobId,
        /// What it must reach.
        kind: DependencyKind,
    },
    /// The array's own cap.
    ArrayCap {
        /// Elements holding resources.
        running: u32,
        /// At most this many.
        cap: u32,
    },
    /// The queue and all it could borrow are used.
    Quota {
        /// The queue of the path that refuses.
        queue: QueueName,
        /// For which GPU model.
        model: GpuModel,
        /// GPUs asked for.
        asked: GpuMilli,
        /// GPUs in use by its subtree.
        used: GpuMilli,
        /// Nominal quota.
        nominal: GpuMilli,
        /// What it could have borrowed in all right now, with what it has.
        borrowable: GpuMilli,
        /// Of `nominal`, used by or kept for other queues right now; 0 whenever something could be
        /// borrowed. Refused because `used + asked > nominal + borrowable - lent`.
        lent: GpuMilli,
    },
    /// It would start on borrowed quota, and keep it for longer than the queue borrows for.
    BorrowedTime {
        /// The queue of the path that refuses.
        queue: QueueName,
        /// For which GPU model.
        model: GpuModel,
        /// GPUs asked for.
        asked: GpuMilli,
        /// GPUs in use by its subtree.
        used: GpuMilli,
        /// Nominal quota; beyond it is borrowed.
        nominal: GpuMilli,
        /// Time limit and grace; `None` is endless.
        length: Option<Span>,
        /// At most this long.
        limit: Span,
    },
    /// It may not be made to go once it runs, so it must not borrow, and its queue's own quota is
    /// not enough.
    MayNotBorrow {
        /// The queue of the path that would use more than its own.
        queue: QueueName,
        /// For which GPU model.
        model: GpuModel,
        /// GPUs asked for.
        asked: GpuMilli,
        /// GPUs in use by its subtree.
        used: GpuMilli,
        /// Nominal quota.
        nominal: GpuMilli,
    },
    /// The queue runs as many elements as it may.
    RunningJobs {
        /// Which queue.
        queue: QueueName,
        /// Running now.
        running: u32,
        /// At most this many.
        limit: u32,
    },
    /// The user holds as many GPUs as the queue allows one user.
    GpusPerUser {
        /// Which queue.
        queue: QueueName,
        /// Whose.
        user: UserName,
        /// GPUs asked for.
        asked: GpuMilli,
        /// GPUs held.
        used: GpuMilli,
        /// At most this many.
        limit: GpuMilli,
    },
    /// With its time limit it would promise more GPU-time than a budget has left. An endless job
    /// promises all of the window, and of every window that follows.
    Budget {
        /// Which queue.
        queue: QueueName,
        /// Whose, when it is the budget of one user.
        user: Option<UserName>,
        /// GPU-seconds that it would promise.
        asked_gpu_secs: u64,
        /// GPU-seconds that ended jobs used of this window.
        used_gpu_secs: u64,
        /// GPU-seconds that running jobs have promised of it.
        promised_gpu_secs: u64,
        /// GPU-seconds of a window.
        budget_gpu_secs: u64,
        /// When the next window begins.
        refills_at: Time,
    },
    /// The user has as many jobs waiting as the queue admits: one more is refused at submission.
    PendingJobs {
        /// Which queue.
        queue: QueueName,
        /// Whose.
        user: UserName,
        /// Jobs of which something waits.
        pending: u32,
        /// At most this many.
        limit: u32,
    },
    /// Not enough is free now; it would fit an idle cluster.
    Capacity(Box<CapacityGap>),
    /// Enough is free, but not together in one domain of the network.
    Topology(TopologyGap),
    /// It fits, but would delay a reservation of a job before it.
    Reserved {
        /// Whose reservation.
        element: ElementId,
        /// When that starts.
        start: Time,
        /// How long this job would have to be at most to fit in before.
        fits_if_shorter_than: Option<Span>,
    },
    /// It fits, but what it would take is kept for an element that has been the first of its queue
    /// for longer than the queues' patience.
    Kept {
        /// For which element.
        element: ElementId,
        /// Since when that is first.
        since: Time,
        /// What is free and kept for it; at most sixteen nodes.
        places: Vec<KeptOn>,
    },
    /// It fits, but would still be there when a drain begins.
    DrainAhead {
        /// Where.
        node: NodeName,
        /// When that begins.
        from: Time,
        /// How long this job would have to be at most to end before.
        fits_if_shorter_than: Option<Span>,
    },
    /// Others were told to go for it; it starts when they have.
    MakingRoom {
        /// Attempts that are not over yet.
        evicting: u32,
        /// When they are over at the latest.
        by: Time,
    },
    /// It fits, but would still be there when an advance reservation of others begins.
    WindowAhead {
        /// Which.
        window: WindowName,
        /// When that begins.
        from: Time,
        /// How long this job would have to be at most to end before.
        fits_if_shorter_than: Option<Span>,
    },
    /// The advance reservation that it names has not begun.
    WindowNotOpen {
        /// Which.
        window: WindowName,
        /// When that begins.
        begins: Time,
    },
    /// It fits, but the advance reservation that it names would end before.
    WindowEnds {
        /// Which.
        window: WindowName,
        /// When that ends.
        ends: Time,
        /// When it begins again, if it does.
        again: Option<Time>,
        /// How long this job would have to be at most to end before.
        fits_if_shorter_than: Option<Span>,
    },
    /// The advance reservation that it names is over, was taken back, or is not for it any more.
    WindowOver {
        /// Which.
        window: WindowName,
    },
    /// The advance reservation that it names is never open for so long.
    WindowTooShort {
        /// Which.
        window: WindowName,
        /// Time limit and grace asked for; `None` is endless.
        asked: Option<Span>,
        /// How long it is open, or still is when it does not begin again.
        length: Span,
    },
    /// Strict order: a job before it in its queue is blocked by capacity, and backfill is off.
    Behind {
        /// Which.
        element: ElementId,
    },
    /// No node, or not enough of them, could host it even when idle.
    NeverFits(Box<CapacityGap>),
    /// No domain of the network could host it even when idle.
    NeverInTopology(TopologyGap),
    /// The queue admits no time limit that long (or no job without one).
    TimeLimit {
        /// Which queue.
        queue: QueueName,
        /// Asked for; `None` is endless.
        asked: Option<Span>,
        /// At most this long.
        limit: Span,
    },
    /// The queue does not admit this priority.
    Priority {
        /// Which queue.
        queue: QueueName,
        /// Asked for.
        asked: i32,
        /// Lowest and highest admitted.
        range: (i32, i32),
    },
    /// The queue says so that it was handed on to.
    Native {
        /// Its own word, such as `QOSMaxGRESPerUser`.
        code: String,
        /// The same in a sentence.
        says: String,
        /// What decided it, as far as the queue tells, a fragment each.
        #[serde(default)]
        evidence: Vec<String>,
    },
}

impl Reason {
    /// True when a job that waits would not be helped by it: it is refused at submission.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Reason::NeverFits(_)
            | Reason::NeverInTopology(_)
            | Reason::TimeLimit { .. }
            | Reason::Priority { .. }
            | Reason::WindowTooShort { .. }
            | Reason::PendingJobs { .. } => true,
            Reason::Budget { asked_gpu_secs, budget_gpu_secs, .. } => {
                asked_gpu_secs > budget_gpu_secs
            }
            Reason::BorrowedTime { asked, nominal, .. } => asked > nominal,
            _ => false,
        }
    }
}

/// GPUs of a node that are free and kept for an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptOn {
    /// The node.
    pub node: NodeName,
    /// Its GPUs, by index; none where it keeps CPUs or memory only.
    pub devices: Vec<u16>,
}

/// What is missing, for the hardest to place of the task groups that do not fit; where each fits
/// alone, for the one that does not fit beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityGap {
    /// The group.
    pub group: String,
    /// Tasks it needs.
    pub tasks_needed: u32,
    /// Tasks that could be placed.
    pub tasks_placeable: u32,
    /// Set when it wants exactly so many tasks on each node.
    #[serde(default)]
    pub tasks_per_node: Option<u32>,
    /// Groups that are placed first, when it is beside them that this one does not fit.
    #[serde(default)]
    pub beside: Vec<String>,
    /// GPUs each task needs.
    pub gpus_per_task: GpuMilli,
    /// Models it accepts; empty is any.
    pub models: Vec<GpuModel>,
    /// GPUs free on nodes that it may use, of models it accepts.
    pub gpus_free: GpuMilli,
    /// GPUs in all on nodes that it may use, of models it accepts.
    pub gpus_total: GpuMilli,
    /// Nodes that it may use (up, not drained, labels match).
    pub nodes_eligible: u32,
    /// Nodes that host at least one of its tasks now.
    pub nodes_fitting: u32,
    /// What stops the node that came closest.
    pub limiting: Limiting,
}

/// What is missing in the domain that came closest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyGap {
    /// The level at which it must be together.
    pub level: String,
    /// Set when it is slices of so many tasks that must be together at this level, not all tasks.
    pub segment_tasks: Option<u32>,
    /// The domain that came closest; `None` when there is none of that level.
    pub domain: Option<String>,
    /// Tasks that it needs, over all groups.
    pub tasks_needed: u32,
    /// Tasks that this domain could take; with segments, that all domains could take in whole
    /// slices.
    pub tasks_placeable: u32,
    /// GPUs that it needs.
    pub gpus_needed: GpuMilli,
    /// GPUs free in this domain, of models it accepts.
    pub gpus_free: GpuMilli,
    /// GPUs in all in this domain, of models it accepts.
    pub gpus_total: GpuMilli,
}

/// The resource that runs out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limiting {
    /// GPUs.
    Gpus,
    /// Whole nodes (the job wants its tasks on different nodes).
    Nodes,
    /// CPUs: asked per task, most free for one more on one node.
    Cpus {
        /// Per task.
        asked: CpuMilli,
        /// Most free on one node that has GPUs for more tasks than CPUs, beside the tasks that fit.
        free: CpuMilli,
    },
    /// Memory: asked per task, most free for one more on one node.
    Memory {
        /// Per task.
        asked: Bytes,
        /// Most free on one node that has GPUs for more tasks than memory, beside the tasks that
        /// fit.
        free: Bytes,
    },
    /// A named extra.
    Extras,
    /// No node satisfies the labels, models or exclusions.
    Constraint,
}
