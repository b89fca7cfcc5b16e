//! Volumes of a pod: which of them decide where it can run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

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
