//! Queues as configured: a tree with quotas, weights and limits. The live numbers (usage, what is
//! running) are in `policy`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{QueueName, UserName};
use crate::job::Protection;
use crate::node::GpuModel;
use crate::unit::{Span, Time};

/// The whole tree. Without a queue file it is [`QueueTree::single`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTree {
    /// Usage halves in this time.
    pub half_life: Span,
    /// How blocked jobs are protected from later ones.
    pub backfill: Backfill,
    /// Who may make others go.
    #[serde(default)]
    pub preemption: Preemption,
    /// Which of the places that would do is taken.
    #[serde(default)]
    pub placement: PlacementPolicy,
    /// Jobs that run are moved together for a gang that needs whole nodes or a domain. `None`:
    /// never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defragment: Option<Defragment>,
    /// An element that has been the first of its leaf for so long, blocked by capacity and without
    /// a planned start, keeps what becomes free. `None`: never.
    #[serde(default = "QueueTree::usual_patience")]
    pub patience: Option<Span>,
    /// Time limit of a job whose file says nothing of one, where its queues name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// Leaf taken when a job names none.
    pub default_queue: QueueName,
    /// Top-level queues.
    pub queues: Vec<QueueSpec>,
}

impl QueueTree {
    /// One queue named `default` without limits; half-life 7 days.
    #[must_use]
    pub fn single() -> Self {
        Self {
            half_life: Span::from_secs(7 * 86_400),
            backfill: Backfill::Easy,
            preemption: Preemption::default(),
            placement: PlacementPolicy::Pack,
            defragment: None,
            patience: Self::usual_patience(),
            default_time: None,
            default_queue: "default".into(),
            queues: vec![QueueSpec::named("default")],
        }
    }

    /// The patience of a tree that names none: longer than most short jobs run, so that a gang
    /// which becomes whole by itself keeps no device idle, and short against the hours for which
    /// wide gangs run.
    pub const PATIENCE: Span = Span::from_secs(15 * 60);

    fn usual_patience() -> Option<Span> {
        Some(Self::PATIENCE)
    }
}

/// Who may make others go when a job is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// A queue within its nominal quota takes back what others borrow.
    pub reclaim: bool,
    /// Within a leaf queue, higher priority takes from lower.
    pub priority: bool,
}

impl Preemption {
    /// Nobody makes anybody go.
    pub const OFF: Preemption = Preemption { reclaim: false, priority: false };
}

impl Default for Preemption {
    fn default() -> Self {
        Self { reclaim: true, priority: true }
    }
}

/// How many blocked jobs hold a reservation that backfill must respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backfill {
    /// Strict order: nothing passes a job of its queue that is blocked by capacity.
    None,
    /// The first blocked job of each leaf queue.
    Easy,
    /// The first `depth` blocked jobs of each leaf queue.
    Conservative {
        /// How many.
        depth: u32,
    },
}

/// Which node and device a task gets, of those that have room for it. Where a job asks for
/// topology, that comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementPolicy {
    /// The node with the fewest free devices, the device with the least room: whole nodes stay
    /// free.
    #[default]
    Pack,
    /// The node of which the smallest part is held, the device with the most room.
    Spread,
    /// The node with the least left over of GPUs and CPUs together.
    BestFit,
    /// Where the least becomes useless to the jobs that this cluster usually gets (FGD).
    Fragmentation,
}

impl PlacementPolicy {
    /// All of them, by the names that users write.
    pub const ALL: [(&'static str, PlacementPolicy); 4] = [
        ("pack", PlacementPolicy::Pack),
        ("spread", PlacementPolicy::Spread),
        ("best-fit", PlacementPolicy::BestFit),
        ("fragmentation", PlacementPolicy::Fragmentation),
    ];
}

/// What it may cost to move running jobs together, in a window of time. A move costs the GPU time
/// since the job's last checkpoint and until it has gone, lead and grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragment {
    /// GPU-hours in each window; at least 1.
    pub gpu_hours: u64,
    /// How long a window is; not 0. Windows follow each other from 1970-01-01 on.
    pub every: Span,
}

/// One queue: a leaf that jobs wait in, or a parent of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Its own name, without its parents'.
    pub name: Arc<str>,
    /// Share of its parent relative to its siblings; at least 1.
    pub weight: u32,
    /// Nominal quota in whole GPUs per model. A model not listed has none set: the parent's
    /// applies.
    pub quota: BTreeMap<GpuModel, u64>,
    /// May exceed `quota` by at most this many GPUs per model, taken from what siblings leave
    /// unused. `None`: as much as is lent.
    pub borrow: Option<u64>,
    /// Of `quota`, at most this many GPUs per model are lent to others while unused. `None`: all.
    pub lend: Option<u64>,
    /// Lowest and highest priority a job may have here. On a shared daemon this grants users a
    /// priority above 0.
    pub priority: Option<(i32, i32)>,
    /// Ceilings.
    pub limits: Limits,
    /// GPU-hours that may be promised in a window of time. `None`: any.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// How long its jobs are safe from preemption once they hold their resources. `None`: as the
    /// queue above says.
    #[serde(default)]
    pub protect: Option<Protection>,
    /// How long users of a shared daemon may protect single jobs of theirs. `None`: as the queue
    /// above says, else as long as the queue protects all its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_protect: Option<Protection>,
    /// Time limit of a job whose file says nothing of one. `None`: as the queue above says, else as
    /// the tree does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// Users of a shared daemon who may submit here, beside the members of `groups`. Both empty: as
    /// the queue above says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserName>,
    /// Unix groups whose members may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Arc<str>>,
    /// Children; a leaf has none.
    pub queues: Vec<QueueSpec>,
}

impl QueueSpec {
    /// A leaf with weight 1 and no limits.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            weight: 1,
            quota: BTreeMap::new(),
            borrow: None,
            lend: None,
            priority: None,
            limits: Limits::default(),
            budget: None,
            protect: None,
            max_protect: None,
            default_time: None,
            users: Vec::new(),
            groups: Vec::new(),
            queues: Vec::new(),
        }
    }
}

/// Ceilings of a queue; each counts the queue's whole subtree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Elements running at once.
    pub running_jobs: Option<u32>,
    /// GPUs that one user may hold at once.
    pub gpus_per_user: Option<u64>,
    /// Jobs of one user of which something waits; an array is one. What would be more is refused.
    #[serde(default)]
    pub pending_jobs: Option<u32>,
    /// Longest time limit a job may ask for; a job without a limit exceeds it.
    pub time: Option<Span>,
    /// What is used beyond the queue's own quota must come back after so long: limit and grace of
    /// an element that starts on it. Nothing endless starts there. `None`: whatever its time.
    #[serde(default)]
    pub borrowed_time: Option<Span>,
}

/// GPU-hours that the jobs of a queue's whole subtree may promise in a window of time; each window
/// has its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Of all jobs together. `None`: any.
    pub gpu_hours: Option<u64>,
    /// Of each user's jobs. `None`: any.
    pub gpu_hours_per_user: Option<u64>,
    /// How long a window is; not 0.
    pub every: Span,
    /// A window begins at this instant; the others follow it, and go before it, without a gap.
    pub start: Time,
}
