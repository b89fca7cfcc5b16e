//! Volumes of pods, claims and persistent volumes, as far as they decide where a pod can run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::object::Metadata;
use crate::rule::SelectorTerm;

/// Kinds of volumes that any node can mount, as far as the scheduler is concerned. The others are
/// limited per node or tied to zones by code in kube-scheduler.
const ANYWHERE: [&str; 10] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "hostPath",
    "image",
    "name",
    "nfs",
    "projected",
    "secret",
];

/// Volume of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<IgnoredAny>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

impl Volume {
    /// Returns the name of the persistent volume claim; the claim of an ephemeral volume is named
    /// after pod and volume.
    pub(crate) fn claim(&self, pod: &str) -> Option<Arc<str>> {
        match (&self.persistent_volume_claim, &self.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.as_str().into()),
            (None, Some(_)) => Some(format!("{pod}-{}", self.name).into()),
            (None, None) => None,
        }
    }

    /// Returns the kind of the volume where it is not supported.
    pub(crate) fn not_understood(&self) -> Option<String> {
        let kind = self.others.keys().find(|kind| !ANYWHERE.contains(&kind.as_str()))?;
        Some(format!("a volume of the kind `{kind}`"))
    }
}

/// Persistent volume claim as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimText {
    /// Metadata of the claim.
    pub metadata: Metadata,
    spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
}

impl ClaimText {
    /// Returns the volume that the claim is bound to.
    #[must_use]
    pub fn volume(&self) -> Option<&str> {
        self.spec.volume_name.as_deref().filter(|_| self.status.phase == "Bound")
    }
}

/// Persistent volume as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeText {
    /// Metadata of the volume.
    pub metadata: Metadata,
    spec: VolumeSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    node_affinity: Option<VolumeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeAffinity {
    required: Option<VolumeTerms>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeTerms {
    node_selector_terms: Vec<SelectorTerm>,
}

impl VolumeText {
    /// Returns the terms of which a node must satisfy one to reach the volume; `None` if every node
    /// reaches it.
    #[must_use]
    pub fn terms(self) -> Option<Vec<SelectorTerm>> {
        Some(self.spec.node_affinity?.required?.node_selector_terms)
    }
}
