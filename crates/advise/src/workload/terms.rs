//! Named conditions on one workload, shared by rules, warnings, disputes and layers. Data only.

use muster_model::advice::{ControlPlane, Fact, Threshold};

use crate::condition::Condition::{self, All, Any, Below, Chosen, Is, Not, Reaches};

/// Tasks that wait for each other, on more than one node.
pub(crate) const COUPLED: Condition =
    All(&[Is(Fact::TightlyCoupled), Reaches(Threshold::MultiNode)]);

/// Tasks that wait for each other, within one node.
pub(crate) const COUPLED_INSIDE: Condition =
    All(&[Is(Fact::TightlyCoupled), Below(Threshold::MultiNode)]);

/// A scheduler of the Kubernetes family places its tasks.
pub(crate) const ON_KUBERNETES_OR_K3S: Condition =
    Chosen(&[ControlPlane::Kubernetes, ControlPlane::K3s, ControlPlane::Ray]);

/// Full Kubernetes places its tasks.
pub(crate) const ON_KUBERNETES: Condition = Any(&[
    Chosen(&[ControlPlane::Kubernetes]),
    All(&[Chosen(&[ControlPlane::Ray]), Not(Fact::EdgeOrDev)]),
]);

/// k3s places its tasks.
pub(crate) const ON_K3S: Condition =
    Any(&[Chosen(&[ControlPlane::K3s]), All(&[Chosen(&[ControlPlane::Ray]), Is(Fact::EdgeOrDev)])]);

/// Slurm places its tasks.
pub(crate) const ON_SLURM: Condition = Chosen(&[ControlPlane::Slurm]);

/// The workload has work that starts and ends, rather than services alone.
pub(crate) const BATCH: Condition =
    Any(&[Not(Fact::LongLivedServices), Is(Fact::TightlyCoupled), Is(Fact::PythonNativePipeline)]);
