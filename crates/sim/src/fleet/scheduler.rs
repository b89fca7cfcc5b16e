//! The `Scheduler` trait, and all schedulers by name; `schedulers.rs` creates them.

use muster_model::{NodeId, Time};

use super::cluster::ClusterState;
use super::error::SchedulerError;
use super::load::JobNo;

/// A scheduler: the production engine, or a model of another. It receives events in their order,
/// and decides once at the end of each instant.
pub trait Scheduler: std::fmt::Debug + Send {
    /// Begins a new instant.
    fn turn(&mut self, _now: Time) {}

    /// Handles the arrival of a job.
    ///
    /// # Errors
    /// The job is not accepted.
    fn arrived(&mut self, cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError>;

    /// Returns whether the scheduler has rejected a job for good.
    fn refuses(&self, _job: JobNo) -> bool {
        false
    }

    /// Handles the end of a job; its resources are free.
    fn ended(&mut self, cluster: &ClusterState, job: JobNo);

    /// Handles the failure of a node, or of one device of it, and the loss of these tasks.
    fn lost(
        &mut self,
        cluster: &ClusterState,
        node: NodeId,
        device: Option<usize>,
        tasks: &[(JobNo, u32)],
    );

    /// Handles the repair of a node or device.
    fn repaired(&mut self, cluster: &ClusterState, node: NodeId, device: Option<usize>);

    /// Returns the next time at which it must decide even without an event.
    fn next_wake(&mut self, now: Time) -> Option<Time>;

    /// Makes decisions and acts on the cluster.
    ///
    /// # Errors
    /// A defect of the scheduler.
    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError>;

    /// Explains why a job is pending, in the scheduler's terms.
    fn why(&mut self, cluster: &ClusterState, job: JobNo) -> String;
}

/// Schedulers of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// The production engine of Muster.
    Muster,
    /// Stock Kubernetes, pod by pod.
    KubeDefault,
    /// The same, with bin packing.
    KubePacked,
    /// Slurm with multifactor priority and backfill.
    Slurm,
    /// The same, with preemption by QOS.
    SlurmPreempt,
    /// No scheduler: people with ssh.
    None,
    /// One Ray application with a placement group for each job.
    Ray,
    /// Volcano with its default configuration.
    Volcano,
    /// KAI with its default configuration.
    Kai,
    /// Kubernetes with its own pod groups.
    KubeGang,
    /// Kueue in front of stock Kubernetes.
    Kueue,
    /// Kueue that waits for pods to be ready (waitForPodsReady).
    KueueReady,
    /// Kueue with topology-aware scheduling.
    KueueTas,
    /// Policy of a user, outside of Muster: not in [`Self::ALL`], since it needs a command.
    External,
}

impl SchedulerKind {
    /// All schedulers by the names that users write.
    pub const ALL: [(&'static str, SchedulerKind); 13] = [
        ("muster", SchedulerKind::Muster),
        ("kube-default", SchedulerKind::KubeDefault),
        ("kube-packed", SchedulerKind::KubePacked),
        ("none", SchedulerKind::None),
        ("ray", SchedulerKind::Ray),
        ("slurm", SchedulerKind::Slurm),
        ("slurm-preempt", SchedulerKind::SlurmPreempt),
        ("volcano", SchedulerKind::Volcano),
        ("kai", SchedulerKind::Kai),
        ("kube-gang", SchedulerKind::KubeGang),
        ("kueue", SchedulerKind::Kueue),
        ("kueue-ready", SchedulerKind::KueueReady),
        ("kueue-tas", SchedulerKind::KueueTas),
    ];

    /// Returns the scheduler with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, scheduler)| *scheduler)
    }

    /// Returns the name that users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        let own = Self::ALL.iter().find(|(_, scheduler)| *scheduler == self);
        own.map_or("exec", |(name, _)| name)
    }

    /// Returns the name and version of what is modelled, as docs/models.md has its sources; `None` for
    /// the engine and for programs of users.
    #[must_use]
    pub fn model_of(self) -> Option<&'static str> {
        match self {
            SchedulerKind::Muster | SchedulerKind::External => None,
            SchedulerKind::KubeDefault => Some("Kubernetes 1.37"),
            SchedulerKind::KubePacked => Some("Kubernetes 1.37, bin packing"),
            SchedulerKind::KubeGang => Some("Kubernetes 1.37, pod groups"),
            SchedulerKind::Slurm => Some("Slurm 26.11.0-rc1"),
            SchedulerKind::SlurmPreempt => Some("Slurm 26.11.0-rc1, preempt/qos"),
            SchedulerKind::None => Some("users without a scheduler"),
            SchedulerKind::Ray => Some("Ray at 8e3f2f1"),
            SchedulerKind::Volcano => Some("Volcano 1.15.1"),
            SchedulerKind::Kai => Some("KAI 0.17.0"),
            SchedulerKind::Kueue => Some("Kueue 0.19.2"),
            SchedulerKind::KueueReady => Some("Kueue 0.19.2, blockAdmission"),
            SchedulerKind::KueueTas => Some("Kueue 0.19.2, topology-aware"),
        }
    }

    /// Returns whether it gives shares of a GPU; otherwise a job that requests a share gets a whole
    /// one.
    #[must_use]
    pub fn gives_shares(self) -> bool {
        matches!(self, SchedulerKind::Muster | SchedulerKind::Ray | SchedulerKind::Kai)
    }

    /// Returns whether it uses random numbers, so that runs differ by their seed.
    #[must_use]
    pub fn is_random(self) -> bool {
        match self {
            SchedulerKind::KubeDefault
            | SchedulerKind::KubePacked
            | SchedulerKind::Volcano
            | SchedulerKind::KubeGang
            | SchedulerKind::Kueue
            | SchedulerKind::KueueReady
            | SchedulerKind::KueueTas => true,
            SchedulerKind::Muster
            | SchedulerKind::Slurm
            | SchedulerKind::SlurmPreempt
            | SchedulerKind::None
            | SchedulerKind::Ray
            | SchedulerKind::Kai
            | SchedulerKind::External => false,
        }
    }
}
