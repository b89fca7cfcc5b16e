//! What is said of an element when somebody asks why: what it waits for, who could make room, where
//! it is. As with all views, fields may be added, never renamed or removed (ADR 0003).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CheckpointView, State};
use crate::id::{ElementId, NodeName, QueueName, WindowName};
use crate::node::{Drain, GpuModel};
use crate::plan::EvictionCause;
use crate::reason::{KeptOn, Reason};
use crate::unit::{GpuMilli, Span, Time};

/// Why an element waits, when it starts, and what would start it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Which.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Everything that keeps it from starting, in the order of the engine's checks; empty when it
    /// does not wait.
    pub reasons: Vec<Reason>,
    /// Its place among the elements waiting in its leaf queue, from 1, and how many wait.
    pub position: Option<(u32, u32)>,
    /// Leaf queue.
    pub queue: QueueName,
    /// Who holds what it waits for, soonest to end first; at most ten.
    pub holders: Vec<Holder>,
    /// What it could use and an administrator drained, when it is capacity that it waits for; at
    /// most ten.
    #[serde(default)]
    pub out_of_service: Vec<OutOfService>,
    /// Where it is and how good a place that is, while it holds something.
    #[serde(default)]
    pub placement: Option<PlacementView>,
    /// Who was told to go for it and is not gone; at most ten.
    #[serde(default)]
    pub leaving: Vec<LeavingView>,
    /// Of those who hold what it could use, why each does not have to go for it; at most ten.
    #[serde(default)]
    pub stays: Vec<StaysView>,
    /// Who made it go, when its last attempt, or the present one, was made to.
    #[serde(default)]
    pub preempted: Option<PreemptedView>,
    /// Whom it would help to move together, and why that is not done.
    #[serde(default)]
    pub moves: Option<MovesView>,
    /// What it could use and is set aside for others now, when it is capacity that it waits for; at
    /// most ten.
    #[serde(default)]
    pub set_aside: Vec<SetAside>,
    /// Set while it is first in its queue and no start can be planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<PatienceView>,
    /// When it starts at the latest.
    pub eta: Option<Eta>,
    /// Changes of which each alone would start it now; the engine tried them.
    pub sooner: Vec<Change>,
}

impl Explanation {
    /// Of an element of which nothing is to be said but what it is.
    #[must_use]
    pub fn blank(element: ElementId, name: String, state: State, queue: QueueName) -> Self {
        Self {
            element,
            name,
            state,
            reasons: Vec::new(),
            position: None,
            queue,
            holders: Vec::new(),
            out_of_service: Vec::new(),
            placement: None,
            leaving: Vec::new(),
            stays: Vec::new(),
            preempted: None,
            moves: None,
            set_aside: Vec::new(),
            patience: None,
            eta: None,
            sooner: Vec::new(),
        }
    }
}

/// How long an element has been first in its queue, and what is kept for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatienceView {
    /// Since when it is first.
    pub since: Time,
    /// From when on it keeps what becomes free.
    pub keeps_from: Time,
    /// What is free and kept for it now; at most sixteen nodes.
    pub kept: Vec<KeptOn>,
    /// Its places were chosen: it becomes whole when the jobs that run there end.
    pub is_kept: bool,
}

/// Where an element is, as its placement and the cluster tell now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementView {
    /// Tasks.
    pub tasks: u32,
    /// Nodes that it is on.
    pub nodes: u32,
    /// What it holds on each, by name of the node; at most sixteen.
    pub places: Vec<PlacedOn>,
    /// What it spans of the network, the widest level first, its nodes last.
    pub levels: Vec<LevelUse>,
    /// Since when it holds its places.
    pub since: Time,
    /// It started before jobs that were ahead of it, without delaying them.
    pub backfilled: bool,
    /// The first planned start on its nodes, which waits for it or for others there.
    pub next: Option<Waiter>,
}

/// What an element holds on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedOn {
    /// The node.
    pub node: NodeName,
    /// Tasks on it.
    pub tasks: u32,
    /// Devices by index.
    pub devices: Vec<u16>,
    /// Held per device.
    pub share: GpuMilli,
}

/// What an element spans of one level of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LevelUse {
    /// The level; `node` is the narrowest.
    pub level: String,
    /// Domains that it is in; a node outside of all domains is one.
    pub domains: u32,
    /// Their names; at most sixteen.
    pub names: Vec<String>,
    /// The fewest that would host it if nothing ran; `None` where several groups or slices make
    /// that a search.
    pub least: Option<u32>,
    /// What the job says of this level.
    pub asked: Option<LevelWish>,
}

/// What a job says of a level of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LevelWish {
    /// All in one domain.
    Required,
    /// As few domains as can be.
    Preferred,
    /// As many domains as can be.
    Spread,
    /// Each of its slices in one domain.
    Segments,
}

/// A planned start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiter {
    /// Who.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// At the latest.
    pub start: Time,
}

/// That an attempt was made to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreemptedView {
    /// For whom.
    pub by: ElementId,
    /// Name of its job, while that is in memory.
    pub name: Option<String>,
    /// Its queue, while it is in memory.
    pub queue: Option<QueueName>,
    /// By what right.
    pub cause: EvictionCause,
    /// When it was told to.
    pub at: Time,
    /// It saves its progress until then at the latest.
    #[serde(default)]
    pub saves_until: Option<Time>,
    /// The last checkpoint that the job acknowledged: what it keeps.
    pub checkpoint: Option<CheckpointView>,
}

/// An element that holds GPUs which another waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Who.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// GPUs it holds.
    pub gpus: GpuMilli,
    /// When it ends at the latest; `None` is endless.
    pub ends_by: Option<Time>,
    /// What that instant is.
    #[serde(default)]
    pub end: HolderEnd,
}

/// Why a holder has ended by an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HolderEnd {
    /// Its time limit is reached then; it has no grace.
    #[default]
    TimeLimit,
    /// Its time limit is reached before, and its grace is over then.
    Grace,
    /// It is being stopped.
    Stopping,
}

/// A node, or devices of one, that are drained or will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutOfService {
    /// The node.
    pub node: NodeName,
    /// Only these devices, by index; empty is the node as a whole.
    pub devices: Vec<u16>,
    /// Since or from when, by whom and why.
    pub drain: Drain,
}

/// A node, or devices of one, that an advance reservation of others keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetAside {
    /// The node.
    pub node: NodeName,
    /// Only these devices, by index; empty is the node as a whole.
    pub devices: Vec<u16>,
    /// The reservation.
    pub window: WindowName,
    /// When it ends.
    pub ends: Time,
}

/// An expected start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Eta {
    /// At the latest, if every running job uses its whole time limit.
    pub start: Time,
    /// Held against backfill: no later job can delay it.
    pub reserved: bool,
}

/// Somebody who goes for what waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeavingView {
    /// Who.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Its leaf queue.
    pub queue: QueueName,
    /// By what right it has to go.
    pub cause: EvictionCause,
    /// It saves its progress until then at the latest; `None` when it is being stopped.
    pub saves_until: Option<Time>,
    /// When it is gone at the latest.
    pub by: Time,
    /// No process in one of its tasks handles its checkpoint signal, so that it does not know of
    /// the request there.
    #[serde(default)]
    pub undelivered: bool,
}

/// Somebody who does not have to go for what waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StaysView {
    /// Who.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Why.
    pub why: Stays,
    /// Until when, where that is known.
    pub until: Option<Time>,
}

/// Why somebody does not have to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stays {
    /// It is of the same queue, and its priority is no lower.
    NoLower,
    /// Its job or its queue is protected.
    Protected,
    /// It is of another queue, which uses no more than its own quota.
    WithinQuota,
    /// It is of another queue, and what waits would not stay within its own queue's quota.
    NotItsOwn,
    /// What waits runs in what is idle, behind everything else.
    BehindAll,
    /// The queue file rules it out.
    Off,
    /// It would have to, if that were enough.
    InVain,
}

/// Jobs that could go on elsewhere, so that what is free comes together for what waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovesView {
    /// Who would be moved; at most ten.
    pub jobs: Vec<Moved>,
    /// How many.
    pub count: u32,
    /// GPU-seconds that are lost with it at most.
    pub cost_gpu_secs: u64,
    /// Why it is not done.
    pub why: Unmoved,
}

/// Somebody who could be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Who.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
}

/// Why jobs are not moved together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Unmoved {
    /// The queue file does not ask for it.
    Off,
    /// The budget for moves has less left.
    Spent {
        /// Left of it, in GPU-seconds.
        left_gpu_secs: u64,
        /// When it is refilled; `None` where a whole budget is too little.
        refills_at: Option<Time>,
    },
    /// What waits would lose less.
    Dear {
        /// What its GPUs would have done until it starts otherwise, in GPU-seconds.
        worth_gpu_secs: u64,
    },
}

/// A change of a job that would start it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Change {
    /// Fewer tasks in its (only) group.
    Tasks {
        /// The largest number that starts now.
        tasks: u32,
    },
    /// Fewer GPUs per task.
    GpusPerTask {
        /// The largest number that starts now.
        gpus: u32,
        /// So many on each node, where a job says that with `gpus`.
        #[serde(default)]
        per_node: Option<u32>,
    },
    /// Fewer nodes, with as many tasks on each.
    Nodes {
        /// The largest number that starts now.
        nodes: u32,
    },
    /// A smaller part of a GPU per task.
    Share {
        /// The largest that starts now.
        share: GpuMilli,
        /// The job says it with `gpus`.
        #[serde(default)]
        per_node: bool,
    },
    /// Any node, whatever its labels.
    AnyNode,
    /// A shorter time limit, to end before a reservation.
    TimeLimit {
        /// The longest that starts now.
        limit: Span,
    },
    /// Another GPU model.
    Model {
        /// Which.
        model: GpuModel,
    },
    /// Another queue.
    Queue {
        /// Which.
        queue: QueueName,
    },
    /// Few domains of the network where it requires one.
    PreferTopology {
        /// At which level.
        level: String,
    },
}
