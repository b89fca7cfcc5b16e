//! Packing experiment of FGD (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
//! Workloads with Fragmentation Gradient Descent", USENIX ATC 2023): pods arrive one by one and
//! none ever leaves; one that fits nowhere is rejected. Allocation and fragmentation are recorded
//! after each.
//!
//! * `engine.rs`: the production engine as placer; `../peers/packing/`: models of other policies
//! * `account.rs`, `fragmentation.rs`, `curve.rs`: accounting and results
//!
//! It keeps its own account of every node, and rejects a placement that is not free.

mod account;
mod curve;
mod engine;
mod fragmentation;

pub use curve::{Curve, Point};

use muster_model::job::Resources;
use muster_model::queue::PlacementPolicy;
use muster_model::simulation::PackingFigures;
use muster_model::{NodeName, NodeSpec};

use account::PackingAccount;

use crate::peers::packing::{self, PackingNode, PackingPod, PackingPolicy, WHOLE};
use crate::world::WorldError;

/// The placer of pods in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackingScheduler {
    /// The production engine of Muster.
    Muster(PlacementPolicy),
    /// A model of another policy.
    Peer(PackingPolicy),
}

impl PackingScheduler {
    /// Returns the placer with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let muster = PlacementPolicy::ALL.iter().find(|(known, _)| *known == name);
        let peer = PackingPolicy::ALL.iter().find(|(known, _)| *known == name);
        muster
            .map(|(_, policy)| Self::Muster(*policy))
            .or(peer.map(|(_, policy)| Self::Peer(*policy)))
    }

    /// Returns the name that users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::names().find(|name| Self::named(name) == Some(self)).unwrap_or_default()
    }

    /// Returns the names of all placers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let muster = PlacementPolicy::ALL.iter().map(|(name, _)| *name);
        muster.chain(PackingPolicy::ALL.iter().map(|(name, _)| *name))
    }
}

/// A cluster, a list of pods, and the order in which they and copies of them arrive.
#[derive(Clone, Debug)]
pub struct Experiment {
    nodes: Vec<NodeSpec>,
    hosts: Vec<PackingNode>,
    pods: Vec<PackingPod>,
    order: Vec<usize>,
    typical: fragmentation::TypicalPods,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackingOutcome {
    /// Curve by percent of requested GPUs.
    pub curve: Curve,
    /// Number of placed pods.
    pub placed: u64,
    /// Number of pods that fitted nowhere.
    pub turned_away: u64,
}

impl PackingOutcome {
    /// Converts the result for reports.
    #[must_use]
    pub fn figures(&self, scheduler: PackingScheduler, is_partial: bool) -> PackingFigures {
        let percent = |of: fn(&Point) -> u32| {
            self.curve.points().iter().map(|at| f64::from(of(at)) / 10_000.0).collect()
        };
        PackingFigures {
            scheduler: scheduler.name().to_owned(),
            is_engine: matches!(scheduler, PackingScheduler::Muster(_)),
            is_partial,
            placed: self.placed,
            turned_away: self.turned_away,
            gpu_allocation_percent: percent(|at| at.allocated_ppm),
            fragmentation_ratio: percent(|at| at.fragmented_ppm),
        }
    }
}

/// Invalid experiment, or failed run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackingError {
    /// The cluster has no GPU.
    #[error("the cluster has no GPU")]
    NoGpus,
    /// A node has several models, which the other policies do not support.
    #[error("node {0} has GPUs of several models")]
    MixedNode(NodeName),
    /// Two nodes have the same name.
    #[error("two nodes are called {0}")]
    SameName(NodeName),
    /// The order names a pod that is not in the list.
    #[error("arrival {at} names pod {index}, but there are {pods} pods")]
    NoSuchPod {
        /// Number of the arrival, from 1.
        at: usize,
        /// Index of the pod.
        index: usize,
        /// Number of pods in the list.
        pods: usize,
    },
    /// The engine failed on a pod.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A pod was placed where it does not fit: a defect of the placer.
    #[error("arrival {at} was placed where it does not fit: node {node}")]
    NoRoom {
        /// Number of the arrival, from 1.
        at: usize,
        /// Name of the node.
        node: NodeName,
    },
}

impl Experiment {
    /// Creates an experiment from nodes, the requests of pods, and arrivals as indices of pods.
    ///
    /// # Errors
    /// The cluster or the order is invalid.
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
            PackingNode::idle(node).ok_or_else(|| PackingError::MixedNode(node.name.clone()))
        };
        let hosts = nodes.iter().map(host).collect::<Result<Vec<_>, _>>()?;
        if hosts.iter().all(|host| host.capacities.is_empty()) {
            return Err(PackingError::NoGpus);
        }
        let count = pods.len();
        if let Some((at, index)) = (1..).zip(&order).find(|(_, index)| **index >= count) {
            return Err(PackingError::NoSuchPod { at, index: *index, pods: count });
        }
        let pods: Vec<PackingPod> = pods.iter().map(pod).collect();
        let typical = fragmentation::TypicalPods::of(&pods);
        Ok(Self { nodes, hosts, pods, order, typical })
    }

    /// Returns the number of arrivals.
    #[must_use]
    pub fn arrivals(&self) -> usize {
        self.order.len()
    }

    /// Begins a run. Random choices come from `seed`; the production engine makes none.
    ///
    /// # Errors
    /// The engine rejects a node.
    pub fn begin(
        &self,
        scheduler: PackingScheduler,
        seed: u64,
    ) -> Result<PackingRun<'_>, PackingError> {
        let placer = match scheduler {
            PackingScheduler::Muster(policy) => Placer::Engine(Box::new(
                engine::EnginePlacer::new(policy, &self.nodes, &self.pods)?,
            )),
            PackingScheduler::Peer(policy) => {
                Placer::Peer(packing::PeerPlacer::new(policy, &self.hosts, seed))
            }
        };
        let account = PackingAccount::new(self.hosts.clone(), &self.typical);
        Ok(PackingRun { experiment: self, placer, account, next: 0 })
    }

    /// Plays all arrivals.
    ///
    /// # Errors
    /// As [`Experiment::begin`] and [`PackingRun::step`].
    pub fn run(
        &self,
        scheduler: PackingScheduler,
        seed: u64,
    ) -> Result<PackingOutcome, PackingError> {
        let mut run = self.begin(scheduler, seed)?;
        while run.step()? {}
        Ok(run.finish())
    }
}

/// A run in progress.
#[derive(Debug)]
pub struct PackingRun<'a> {
    experiment: &'a Experiment,
    placer: Placer,
    account: PackingAccount<'a>,
    next: usize,
}

#[derive(Debug)]
enum Placer {
    Engine(Box<engine::EnginePlacer>),
    Peer(packing::PeerPlacer),
}

impl PackingRun<'_> {
    /// Plays the next arrival; false if there is none.
    ///
    /// # Errors
    /// A defect of the placer.
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

    /// Returns the result so far.
    #[must_use]
    pub fn finish(self) -> PackingOutcome {
        self.account.finish()
    }
}

fn pod(task: &Resources) -> PackingPod {
    PackingPod {
        cpus_milli: u64::from(task.cpus.0),
        share_milli: u16::try_from(task.gpu.share.0).unwrap_or(WHOLE),
        devices: task.gpu.devices,
        models: task.gpu.models.clone(),
        memory_bytes: task.memory.0,
    }
}
