//! Queues as configured: a tree with quotas, weights and limits. The live numbers (usage, running
//! elements) are in `policy`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{QueueName, UserName};
use crate::job::Protection;
use crate::node::GpuModel;
use crate::unit::{Span, Time};

/// Queue tree. Without a queue file it is [`QueueTree::single`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTree {
    /// Time after which past usage counts half for fair share.
    pub half_life: Span,
    /// Number of blocked jobs that backfill must not delay.
    pub backfill: Backfill,
    /// Rules by which a blocked job may preempt others.
    #[serde(default)]
    pub preemption: Preemption,
    /// Run times by which planning goes.
    #[serde(default, skip_serializing_if = "PlannedRuntimes::is_requested")]
    pub estimates: PlannedRuntimes,
    /// Policy that chooses among the nodes and devices on which a task fits.
    #[serde(default)]
    pub placement: PlacementPolicy,
    /// Budget for moving running jobs so that a gang gets whole nodes or a domain. `None` turns
    /// moves off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defragment: Option<Defragment>,
    /// Wait of a queue head, blocked by capacity and without a planned start, after which capacity
    /// that becomes free is reserved for it. `None` turns head reservations off.
    #[serde(default = "QueueTree::default_patience")]
    pub patience: Option<Span>,
    /// Time for which a job waits for lent quota before it may preempt a borrower that has more
    /// unsaved work than this for each GPU that the job takes.
    #[serde(default = "QueueTree::default_reclaim_after")]
    pub reclaim_after: Span,
    /// Time after which a waiting job of a leaf comes before newer ones, by the share of its user. Newer ones follow
    /// in order of submission. `None` means that they all do.
    #[serde(default = "QueueTree::default_fair_share_after")]
    pub fair_share_after: Option<Span>,
    /// Time limit of a job that sets none, where its queues set none either; `None` means no time
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// Leaf queue of a job that names none.
    pub default_queue: QueueName,
    /// Queues at the top level of the tree.
    pub queues: Vec<QueueSpec>,
}

impl QueueTree {
    /// Returns a tree with one queue named `default` without limits; half-life 7 days.
    #[must_use]
    pub fn single() -> Self {
        Self {
            half_life: Span::from_secs(7 * 86_400),
            backfill: Backfill::Easy,
            preemption: Preemption::default(),
            estimates: PlannedRuntimes::Requested,
            placement: PlacementPolicy::Pack,
            defragment: None,
            patience: Self::default_patience(),
            reclaim_after: Self::RECLAIM_AFTER,
            fair_share_after: Self::default_fair_share_after(),
            default_time: None,
            default_queue: "default".into(),
            queues: vec![QueueSpec::named("default")],
        }
    }

    /// Default patience: longer than most short jobs run, so that a gang whose capacity becomes
    /// free by itself keeps no device idle, and short compared to the hours for which wide gangs
    /// run.
    pub const PATIENCE: Span = Span::from_secs(15 * 60);

    fn default_patience() -> Option<Span> {
        Some(Self::PATIENCE)
    }

    /// Default of `reclaim_after`: in a simulated lab jobs of a node, mostly within their quota, wait eleven minutes
    /// longer in the mean, borrowing gangs seven hours less, and a quarter less work is lost (docs/adr/0050).
    pub const RECLAIM_AFTER: Span = Span::from_secs(3600);

    fn default_reclaim_after() -> Span {
        Self::RECLAIM_AFTER
    }

    /// Default of `fair_share_after`: as long as `reclaim_after`. A user who has used nothing waits up to this longer on a
    /// full cluster, and the longest waits of gangs in a simulated lab are a sixth shorter (docs/adr/0067).
    pub const FAIR_SHARE_AFTER: Span = Span::from_secs(3600);

    fn default_fair_share_after() -> Option<Span> {
        Some(Self::FAIR_SHARE_AFTER)
    }
}

/// Preemption rules for blocked jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// True when a queue within its nominal quota reclaims what others borrow.
    pub reclaim: bool,
    /// True when a higher priority preempts a lower one within a leaf queue.
    pub priority: bool,
}

impl Preemption {
    /// Rules without any preemption.
    pub const OFF: Preemption = Preemption { reclaim: false, priority: false };
}

impl Default for Preemption {
    fn default() -> Self {
        Self { reclaim: true, priority: true }
    }
}

/// Number of blocked jobs that hold a reservation which backfill must respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backfill {
    /// No backfill: no job passes a job of its queue that is blocked by capacity.
    None,
    /// Reservation for the first blocked job of each leaf queue.
    Easy,
    /// Reservations for the first `depth` blocked jobs of each leaf queue.
    Conservative {
        /// Number of jobs per leaf queue; at least 1.
        depth: u32,
    },
}

/// Run times by which planning goes. Time limits end jobs in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedRuntimes {
    /// Time limits that users request.
    #[default]
    Requested,
    /// Predictions from the last jobs of each user, where there are any.
    Predicted,
}

impl PlannedRuntimes {
    /// All values with the names that users write.
    pub const ALL: [(&'static str, PlannedRuntimes); 2] =
        [("requested", PlannedRuntimes::Requested), ("predicted", PlannedRuntimes::Predicted)];

    fn is_requested(&self) -> bool {
        *self == PlannedRuntimes::Requested
    }
}

/// Placement policy: the choice among the nodes and devices on which a task fits. The topology
/// request of a job takes precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementPolicy {
    /// The node with the fewest free devices, and the device with the least free capacity: whole
    /// nodes stay free.
    #[default]
    Pack,
    /// The node with the smallest allocated fraction, and the device with the most free capacity.
    Spread,
    /// The node on which the least GPUs and CPUs together are left over.
    BestFit,
    /// The placement after which the least free capacity is unusable for the usual jobs of this
    /// cluster (FGD, fragmentation gradient descent).
    Fragmentation,
}

impl PlacementPolicy {
    /// All policies with the names that users write.
    pub const ALL: [(&'static str, PlacementPolicy); 4] = [
        ("pack", PlacementPolicy::Pack),
        ("spread", PlacementPolicy::Spread),
        ("best-fit", PlacementPolicy::BestFit),
        ("fragmentation", PlacementPolicy::Fragmentation),
    ];
}

/// Budget for moving running jobs (defragmentation), per period. A move costs the GPU time since
/// the job's last checkpoint plus the time until it has stopped, checkpoint lead and grace
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragment {
    /// GPU-hours per period; at least 1.
    pub gpu_hours: u64,
    /// Length of a period; not 0. Periods follow each other from 1970-01-01 on.
    pub every: Span,
}

/// Queue: a leaf that jobs are submitted to, or a parent of other queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Name of the queue without its parents' names.
    pub name: Arc<str>,
    /// Weight for fair share among its siblings; at least 1.
    pub weight: u32,
    /// Nominal quota in whole GPUs per model. For a model that is not listed, the parent's quota
    /// applies.
    pub quota: BTreeMap<GpuModel, u64>,
    /// Most GPUs per model that the queue may borrow beyond `quota` from its siblings' unused
    /// quota. `None`: as much as they lend.
    pub borrow: Option<u64>,
    /// Most GPUs per model of `quota` that are lent to other queues while unused. `None`: all.
    pub lend: Option<u64>,
    /// Lowest and highest priority of jobs in this queue; `None` means no bounds. On a shared
    /// daemon it permits users a priority above 0.
    pub priority: Option<(i32, i32)>,
    /// Limits on the number and length of jobs.
    pub limits: QueueLimits,
    /// GPU-hours per period; `None` means no budget.
    #[serde(default)]
    pub budget: Option<QueueBudget>,
    /// Time for which its jobs are protected from preemption once they hold resources. `None`: as
    /// in the parent queue.
    #[serde(default)]
    pub protect: Option<Protection>,
    /// Longest protection that users of a shared daemon may request for single jobs. `None`: as in
    /// the parent queue, else as long as `protect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_protect: Option<Protection>,
    /// Time limit of a job that sets none. `None`: as in the parent queue, else as in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// Policy for jobs that leave their GPUs idle. `None`: as in the parent queue, else [`IdlePolicy::DEFAULT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdlePolicy>,
    /// Users of a shared daemon that may submit here, in addition to the members of `groups`. Both
    /// empty: as in the parent queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserName>,
    /// Unix groups whose members may submit here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Arc<str>>,
    /// Child queues; empty for a leaf.
    pub queues: Vec<QueueSpec>,
}

impl QueueSpec {
    /// Makes a leaf queue with weight 1 and without limits.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            weight: 1,
            quota: BTreeMap::new(),
            borrow: None,
            lend: None,
            priority: None,
            limits: QueueLimits::default(),
            budget: None,
            protect: None,
            max_protect: None,
            default_time: None,
            idle: None,
            users: Vec::new(),
            groups: Vec::new(),
            queues: Vec::new(),
        }
    }
}

/// Policy of a queue for jobs that leave all their GPUs idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdlePolicy {
    /// Time without computation on any GPU of a job after which it counts as idle.
    pub after: Span,
    /// Action on a job that counts as idle. Services are never stopped: their GPUs wait for requests.
    pub action: IdleAction,
}

impl IdlePolicy {
    /// Policy of a queue that sets none: nothing is stopped.
    pub const DEFAULT: IdlePolicy =
        IdlePolicy { after: Span::from_secs(1800), action: IdleAction::Notify };
}

/// Action on a job that leaves all its GPUs idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IdleAction {
    /// Marks the job, and sends its notices.
    Notify,
    /// Stops the job, after a checkpoint if it saves some. It starts again at the earliest after as long as it was idle.
    Requeue,
    /// Ends the job for good, with its grace.
    Cancel,
}

impl IdleAction {
    /// All actions, in the order of documents and messages.
    pub const ALL: [Self; 3] = [Self::Notify, Self::Requeue, Self::Cancel];

    /// Returns the word in queue files and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Notify => "notify",
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
        }
    }
}

/// Limits of a queue; each counts the queue's whole subtree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLimits {
    /// Most elements that run at once; `None` means no limit.
    pub running_jobs: Option<u32>,
    /// Most GPUs that one user may hold at once; `None` means no limit.
    pub gpus_per_user: Option<u64>,
    /// Most jobs of one user with pending elements; an array counts as one. A further job is
    /// rejected. `None` means no limit.
    #[serde(default)]
    pub pending_jobs: Option<u32>,
    /// Longest time limit that a job may request; a job without a time limit exceeds it. `None`
    /// means no limit.
    pub time: Option<Span>,
    /// Longest time limit plus grace of an element that starts on borrowed quota, so that the quota
    /// returns in time. No element without a time limit starts there. `None` means no limit.
    #[serde(default)]
    pub borrowed_time: Option<Span>,
}

/// Budget: GPU-hours that the jobs of a queue's whole subtree may be charged per period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueBudget {
    /// GPU-hours of all jobs together per period; `None` means no limit.
    pub gpu_hours: Option<u64>,
    /// GPU-hours of each user's jobs per period; `None` means no limit.
    pub gpu_hours_per_user: Option<u64>,
    /// Length of a period; not 0.
    pub every: Span,
    /// Start of one period; the others follow and precede it without a gap.
    pub start: Time,
}
