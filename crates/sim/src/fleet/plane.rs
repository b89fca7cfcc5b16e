//! What whoever decides is told and asked, and who there is to decide.

use muster_engine::{Refusal, Violation};
use muster_model::{NodeId, Time};

use super::desk::Desk;
use super::engine::EnginePlane;
use super::load::JobNo;
use super::site::Site;
use crate::peers;
use crate::peers::kueue::{Binding, Kueue};
use crate::peers::slurm::{Settings, Slurm};

/// A control plane: the production engine, or a model of another. It is told what happens in the
/// order in which it does, and asked to decide once at the end of each instant.
pub trait Plane: std::fmt::Debug + Send {
    /// A new instant begins.
    fn turn(&mut self, _now: Time) {}

    /// A job has arrived.
    ///
    /// # Errors
    /// It is not taken.
    fn arrived(&mut self, desk: &Desk, job: JobNo) -> Result<(), PlaneError>;

    /// It did not take a job, and never will.
    fn refuses(&self, _job: JobNo) -> bool {
        false
    }

    /// A job's work is done; what it held is free.
    fn ended(&mut self, desk: &Desk, job: JobNo);

    /// A node, or one device of it, broke, and with it went these tasks.
    fn lost(&mut self, desk: &Desk, node: NodeId, device: Option<usize>, tasks: &[(JobNo, u32)]);

    /// It is there again.
    fn mended(&mut self, desk: &Desk, node: NodeId, device: Option<usize>);

    /// When it wants to be asked even if nothing happens.
    fn next_wake(&mut self, now: Time) -> Option<Time>;

    /// Orders.
    ///
    /// # Errors
    /// A defect of whoever decides.
    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError>;

    /// Why a job waits, in the words of whoever decides.
    fn why(&mut self, desk: &Desk, job: JobNo) -> String;
}

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaneError {
    /// The engine does not accept what the run begins with, or what arrived.
    #[error("{what}: {refusal}")]
    Refused {
        /// What that is.
        what: String,
        /// Why not.
        refusal: Refusal,
    },
    /// The engine's own judge does not accept the engine's plan: a defect of the engine.
    #[error("the engine made a plan that its judge refuses: {0:?}")]
    BadPlan(Vec<Violation>),
    /// A task was given what is not free: a defect of whoever decided.
    #[error("task {rank} of job {job} was given what is not free on node {node}")]
    NotFree {
        /// Whose.
        job: String,
        /// Which.
        rank: u32,
        /// Where.
        node: String,
    },
    /// A task was placed that is placed, or is no more: a defect of whoever decided.
    #[error("task {rank} of job {job} was placed twice")]
    PlacedTwice {
        /// Whose.
        job: String,
        /// Which.
        rank: u32,
    },
}

/// Who decides over a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The production engine.
    Muster,
    /// Pod by pod, as Kubernetes does by itself.
    KubeDefault,
    /// Slurm with multifactor priority and backfill.
    Slurm,
    /// Nobody: people with ssh.
    None,
    /// One Ray application, a placement group for each job.
    Ray,
    /// Volcano with its default configuration.
    Volcano,
    /// KAI with its default configuration.
    Kai,
    /// Kubernetes with its own pod groups.
    KubeGang,
    /// Kueue before stock Kubernetes.
    Kueue,
    /// The same, waiting for pods to be ready.
    KueueReady,
    /// Kueue with topology-aware scheduling.
    KueueTas,
}

impl Scheduler {
    /// Every one, by the name that users give.
    pub const ALL: [(&'static str, Scheduler); 11] = [
        ("muster", Scheduler::Muster),
        ("kube-default", Scheduler::KubeDefault),
        ("none", Scheduler::None),
        ("ray", Scheduler::Ray),
        ("slurm", Scheduler::Slurm),
        ("volcano", Scheduler::Volcano),
        ("kai", Scheduler::Kai),
        ("kube-gang", Scheduler::KubeGang),
        ("kueue", Scheduler::Kueue),
        ("kueue-ready", Scheduler::KueueReady),
        ("kueue-tas", Scheduler::KueueTas),
    ];

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, scheduler)| *scheduler)
    }

    /// The name that users give.
    #[must_use]
    pub fn name(self) -> &'static str {
        let own = Self::ALL.iter().find(|(_, scheduler)| *scheduler == self);
        own.map_or("", |(name, _)| name)
    }

    /// It gives shares of a GPU; else who asks for a share gets a whole one.
    #[must_use]
    pub fn gives_shares(self) -> bool {
        matches!(self, Scheduler::Muster | Scheduler::Ray | Scheduler::Kai)
    }

    /// Two runs with different seeds may differ, even where nothing else does.
    #[must_use]
    pub fn leaves_to_chance(self) -> bool {
        match self {
            Scheduler::KubeDefault
            | Scheduler::Volcano
            | Scheduler::KubeGang
            | Scheduler::Kueue
            | Scheduler::KueueReady
            | Scheduler::KueueTas => true,
            Scheduler::Muster
            | Scheduler::Slurm
            | Scheduler::None
            | Scheduler::Ray
            | Scheduler::Kai => false,
        }
    }

    /// Whoever it is, before anything has arrived. What it leaves to chance comes from the seed.
    ///
    /// # Errors
    /// The engine does not accept the site.
    pub fn begin(self, site: &Site, seed: u64) -> Result<Box<dyn Plane>, PlaneError> {
        self.begin_as(site, seed, Settings::default())
    }

    /// The same, where the site has set Slurm up in a way of its own.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_as(
        self,
        site: &Site,
        seed: u64,
        slurm: Settings,
    ) -> Result<Box<dyn Plane>, PlaneError> {
        Ok(match self {
            Scheduler::Muster => Box::new(EnginePlane::new(site)?),
            Scheduler::KubeDefault => Box::new(peers::kube::KubeDefault::new(site, seed)),
            Scheduler::Slurm => Box::new(Slurm::new(site, slurm)),
            Scheduler::None => Box::new(peers::none::People::default()),
            Scheduler::Ray => Box::new(peers::ray::Ray::new(site)),
            Scheduler::Kai => Box::new(peers::kai::Kai::new(site)),
            Scheduler::Volcano => Box::new(peers::volcano::Volcano::new(site, seed)),
            Scheduler::KubeGang => Box::new(peers::kube::KubeGang::new(site, seed)),
            Scheduler::Kueue => Box::new(Kueue::new(site, seed, Binding::Stock)),
            Scheduler::KueueReady => Box::new(Kueue::new(site, seed, Binding::WaitsForPodsReady)),
            Scheduler::KueueTas => Box::new(Kueue::new(site, seed, Binding::Topology)),
        })
    }
}
