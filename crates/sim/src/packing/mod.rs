//! How full does a cluster get? The experiment of FGD (Weng et al., "Beware of Fragmentation:
//! Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023): pods
//! arrive one by one and none ever leaves; one that fits nowhere is turned away. What is allocated,
//! and what of the rest is of no use, is noted after each.
//!
//! * `engine.rs`: the production engine places; `../peers/packing/`: models of others do
//! * `account.rs`, `fragmentation.rs`, `curve.rs`: what it comes to
//!
//! It keeps its own account of every node, and refuses a place that is not free, whoever chose it.

mod account;
mod curve;
mod engine;
mod fragmentation;

pub use curve::{Curve, Point};

use muster_model::job::Resources;
use muster_model::queue::PlacementPolicy;
use muster_model::simulation::PackingFigures;
use muster_model::{NodeName, NodeSpec};

use account::Account;

use crate::peers::packing::{self, Host, Pod, Policy, WHOLE};
use crate::world::WorldError;

/// Who places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The production engine.
    Muster(PlacementPolicy),
    /// A model of another.
    Peer(Policy),
}

impl Scheduler {
    /// The one that users name so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let muster = PlacementPolicy::ALL.iter().find(|(known, _)| *known == name);
        let peer = Policy::ALL.iter().find(|(known, _)| *known == name);
        muster
            .map(|(_, policy)| Self::Muster(*policy))
            .or(peer.map(|(_, policy)| Self::Peer(*policy)))
    }

    /// The name that users give.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::names().find(|name| Self::named(name) == Some(self)).unwrap_or_default()
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let muster = PlacementPolicy::ALL.iter().map(|(name, _)| *name);
        muster.chain(Policy::ALL.iter().map(|(name, _)| *name))
    }
}

/// A cluster, a list of pods, and the order in which they and copies of them arrive.
#[derive(Clone, Debug)]
pub struct Experiment {
    nodes: Vec<NodeSpec>,
    hosts: Vec<Host>,
    pods: Vec<Pod>,
    order: Vec<usize>,
    usual: fragmentation::Usual,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// By percent arrived.
    pub curve: Curve,
    /// Pods that were placed.
    pub placed: u64,
    /// Pods that fitted nowhere.
    pub turned_away: u64,
}

impl Outcome {
    /// As it is shown.
    #[must_use]
    pub fn figures(&self, scheduler: Scheduler, is_partial: bool) -> PackingFigures {
        let percent = |of: fn(&Point) -> u32| {
            self.curve.points().iter().map(|at| f64::from(of(at)) / 10_000.0).collect()
        };
        PackingFigures {
            scheduler: scheduler.name().to_owned(),
            is_engine: matches!(scheduler, Scheduler::Muster(_)),
            is_partial,
            placed: self.placed,
            turned_away: self.turned_away,
            gpu_allocation_percent: percent(|at| at.allocated_ppm),
            fragmentation_ratio: percent(|at| at.fragmented_ppm),
        }
    }
}

/// There is no experiment, or its run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackingError {
    /// Shares of nothing.
    #[error("the cluster has no GPU")]
    NoGpus,
    /// The models of others know one model per node.
    #[error("node {0} has GPUs of several models")]
    MixedNode(NodeName),
    /// Who is meant?
    #[error("two nodes are called {0}")]
    SameName(NodeName),
    /// The order names a pod that is not in the list.
    #[error("arrival {at} is pod {index}, of {pods}")]
    NoSuchPod {
        /// From 1.
        at: usize,
        /// What it names.
        index: usize,
        /// How many there are.
        pods: usize,
    },
    /// The engine does not go on.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A defect of the one that places.
    #[error("arrival {at} was placed where there is no room for it: node {node}")]
    NoRoom {
        /// From 1.
        at: usize,
        /// Where.
        node: NodeName,
    },
}

impl Experiment {
    /// The cluster, what the pods ask for, and the arrivals as indices of pods.
    ///
    /// # Errors
    /// What makes it no experiment.
    pub fn new(
        mut nodes: Vec<NodeSpec>,
        pods: &[Resources],
        order: Vec<usize>,
    ) -> Result<Self, PackingError> {
        // The engine numbers nodes as they join, and breaks ties by name.
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(PackingError::SameName(pair[0].name.clone()));
        }
        let host = |node: &NodeSpec| {
            Host::idle(node).ok_or_else(|| PackingError::MixedNode(node.name.clone()))
        };
        let hosts = nodes.iter().map(host).collect::<Result<Vec<_>, _>>()?;
        if hosts.iter().all(|host| host.rooms.is_empty()) {
            return Err(PackingError::NoGpus);
        }
        let count = pods.len();
        if let Some((at, index)) = (1..).zip(&order).find(|(_, index)| **index >= count) {
            return Err(PackingError::NoSuchPod { at, index: *index, pods: count });
        }
        let pods: Vec<Pod> = pods.iter().map(pod).collect();
        let usual = fragmentation::Usual::of(&pods);
        Ok(Self { nodes, hosts, pods, order, usual })
    }

    /// How many pods arrive.
    #[must_use]
    pub fn arrivals(&self) -> usize {
        self.order.len()
    }

    /// Begins a run. What is left to chance comes from `seed`; the production engine leaves nothing
    /// to it.
    ///
    /// # Errors
    /// The engine does not accept a node.
    pub fn begin(&self, scheduler: Scheduler, seed: u64) -> Result<Run<'_>, PackingError> {
        let placer = match scheduler {
            Scheduler::Muster(policy) => {
                Placer::Engine(Box::new(engine::Placer::new(policy, &self.nodes, &self.pods)?))
            }
            Scheduler::Peer(policy) => {
                Placer::Peer(packing::Placer::new(policy, &self.hosts, seed))
            }
        };
        let account = Account::new(self.hosts.clone(), &self.usual);
        Ok(Run { experiment: self, placer, account, next: 0 })
    }

    /// Plays all arrivals.
    ///
    /// # Errors
    /// As [`Experiment::begin`] and [`Run::step`].
    pub fn run(&self, scheduler: Scheduler, seed: u64) -> Result<Outcome, PackingError> {
        let mut run = self.begin(scheduler, seed)?;
        while run.step()? {}
        Ok(run.finish())
    }
}

/// Arrivals that are being played.
#[derive(Debug)]
pub struct Run<'a> {
    experiment: &'a Experiment,
    placer: Placer,
    account: Account<'a>,
    next: usize,
}

#[derive(Debug)]
enum Placer {
    Engine(Box<engine::Placer>),
    Peer(packing::Placer),
}

impl Run<'_> {
    /// The next arrival; false when there is none.
    ///
    /// # Errors
    /// A defect of the one that places.
    pub fn step(&mut self) -> Result<bool, PackingError> {
        let Some(index) = self.experiment.order.get(self.next) else { return Ok(false) };
        self.next += 1;
        let pod = &self.experiment.pods[*index];
        let place = match &mut self.placer {
            Placer::Engine(engine) => engine.place(pod)?,
            Placer::Peer(peer) => peer.place(self.account.hosts(), pod),
        };
        if let Some((node, devices)) = place
            && !self.account.take(node, devices, pod)
        {
            let node = self.experiment.nodes[node].name.clone();
            return Err(PackingError::NoRoom { at: self.next, node });
        }
        self.account.arrived(pod, place.is_some());
        Ok(true)
    }

    /// What it came to so far.
    #[must_use]
    pub fn finish(self) -> Outcome {
        self.account.finish()
    }
}

fn pod(task: &Resources) -> Pod {
    Pod {
        cpus_milli: u64::from(task.cpus.0),
        share_milli: u16::try_from(task.gpu.share.0).unwrap_or(WHOLE),
        devices: task.gpu.devices,
        models: task.gpu.models.clone(),
        memory_bytes: task.memory.0,
    }
}
