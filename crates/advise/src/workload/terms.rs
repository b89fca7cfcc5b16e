//! Conditions on one workload that rules, warnings, disputes and layers share, so that they mean
//! the same everywhere. Data only.

use muster_model::advice::{Fact, Plane, Threshold};

use crate::condition::Condition::{self, All, Any, Below, Chosen, Is, Not, Reaches};

/// Tasks that wait for each other, on more than one node.
pub(crate) const COUPLED: Condition =
    All(&[Is(Fact::TightlyCoupled), Reaches(Threshold::MultiNode)]);

/// Tasks that wait for each other, within one node.
pub(crate) const COUPLED_INSIDE: Condition =
    All(&[Is(Fact::TightlyCoupled), Below(Threshold::MultiNode)]);

/// Whatever was chosen, a scheduler of the Kubernetes family places its tasks.
pub(crate) const ON_KUBERNETES_OR_K3S: Condition =
    Chosen(&[Plane::Kubernetes, Plane::K3s, Plane::Ray]);

/// Full Kubernetes places its tasks.
pub(crate) const ON_KUBERNETES: Condition =
    Any(&[Chosen(&[Plane::Kubernetes]), All(&[Chosen(&[Plane::Ray]), Not(Fact::EdgeOrDev)])]);

/// k3s places its tasks.
pub(crate) const ON_K3S: Condition =
    Any(&[Chosen(&[Plane::K3s]), All(&[Chosen(&[Plane::Ray]), Is(Fact::EdgeOrDev)])]);

/// Slurm places its tasks.
pub(crate) const ON_SLURM: Condition = Chosen(&[Plane::Slurm]);

/// There is work that starts and ends, rather than services alone.
pub(crate) const BATCH: Condition =
    Any(&[Not(Fact::LongLivedServices), Is(Fact::TightlyCoupled), Is(Fact::PythonNativePipeline)]);
