//! Recommendations: a control plane with its additions. Reasons are in [`super::Advice`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// System that decides which work runs where on a fleet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ControlPlane {
    /// No scheduler: ssh and conventions between users; only advised to a site.
    None,
    /// Slurm, the batch workload manager of HPC.
    Slurm,
    /// Kubernetes, any distribution but k3s.
    Kubernetes,
    /// k3s, Kubernetes in one binary.
    K3s,
    /// Ray, the Python-native distributed runtime, on the host that the addon names.
    Ray,
}

impl ControlPlane {
    /// Every control plane, in the order in which they are listed.
    pub const ALL: [ControlPlane; 5] = [
        ControlPlane::None,
        ControlPlane::Slurm,
        ControlPlane::Kubernetes,
        ControlPlane::K3s,
        ControlPlane::Ray,
    ];

    /// Returns the word in files, on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ControlPlane::None => "none",
            ControlPlane::Slurm => "slurm",
            ControlPlane::Kubernetes => "kubernetes",
            ControlPlane::K3s => "k3s",
            ControlPlane::Ray => "ray",
        }
    }
}

impl fmt::Display for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Recommendation in three words. Programs compare their text, so it must not change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Label {
    /// Control plane that is recommended.
    pub primary: ControlPlane,
    /// Components that must run on or beside it, joined by ` + `; empty when there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub addon: String,
    /// Split of the fleet, when one control plane is not sufficient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid: Option<String>,
}

/// Version of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruleset {
    /// Labels of the guide, corrected where the guide contradicts its own invariant.
    #[default]
    Corrected,
    /// Labels of the guide, unchanged.
    Guide,
}
