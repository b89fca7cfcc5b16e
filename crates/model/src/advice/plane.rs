//! What can be recommended: a control plane with what is added to it. No reasons here.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What decides on a fleet which work runs where.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Plane {
    /// People, ssh and conventions; only a site can be told so.
    None,
    /// The batch workload manager of HPC.
    Slurm,
    /// Kubernetes, of any distribution but k3s.
    Kubernetes,
    /// Kubernetes in one binary.
    K3s,
    /// The Python-native distributed runtime, on whichever host the addon names.
    Ray,
}

impl Plane {
    /// Every plane, in the order in which they are listed.
    pub const ALL: [Plane; 5] =
        [Plane::None, Plane::Slurm, Plane::Kubernetes, Plane::K3s, Plane::Ray];

    /// The word in files, on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Plane::None => "none",
            Plane::Slurm => "slurm",
            Plane::Kubernetes => "kubernetes",
            Plane::K3s => "k3s",
            Plane::Ray => "ray",
        }
    }
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The three words that an answer comes down to. Their text is an interface: programs compare it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Label {
    /// The control plane.
    pub primary: Plane,
    /// What must stand on or beside it, joined by ` + `; empty when nothing must.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub addon: String,
    /// How the fleet is split, when one plane is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid: Option<String>,
}

/// Which version of the rules decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruleset {
    /// The guide's labels, corrected where the guide breaks its own invariant.
    #[default]
    Corrected,
    /// The guide's labels exactly.
    Guide,
}
