//! Kueue's objects as the API server prints them, as far as they are read. The names of fields are those
//! of `v1beta2`; where `v1beta1` has another one, that is read too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::object::Metadata;
use crate::resources::Text;
use crate::rule::LabelSelector;

/// Defines an object with metadata and a specification.
macro_rules! object {
    ($name:ident, $spec:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Metadata of the object.
            pub metadata: Metadata,
            /// Settings, as far as they are read.
            pub spec: $spec,
        }
    };
}

object!(ClusterQueueText, ClusterQueueSpec, "ClusterQueue as the API server prints it.");
object!(CohortText, CohortSpec, "Cohort as the API server prints it.");
object!(LocalQueueText, LocalQueueSpec, "LocalQueue as the API server prints it.");
object!(FlavorText, FlavorSpec, "ResourceFlavor as the API server prints it.");

/// Namespace as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceText {
    /// Metadata of the namespace.
    pub metadata: Metadata,
}

/// Settings of a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQueueSpec {
    #[serde(alias = "cohort", deserialize_with = "non_empty")]
    pub(super) cohort_name: Option<Arc<str>>,
    pub(super) resource_groups: Vec<ResourceGroup>,
    pub(super) namespace_selector: Option<LabelSelector>,
    pub(super) queueing_strategy: String,
    pub(super) stop_policy: StopPolicy,
    pub(super) preemption: Preemption,
    pub(super) fair_sharing: FairSharing,
    /// Names of checks; `v1beta2` has them in the strategy alone.
    pub(super) admission_checks: Vec<String>,
    pub(super) admission_checks_strategy: AdmissionChecks,
    /// True once its deletion was requested; no field of the object's specification.
    #[serde(skip)]
    pub is_deleted: bool,
}

/// Settings of a Cohort.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CohortSpec {
    #[serde(deserialize_with = "non_empty")]
    pub(super) parent_name: Option<Arc<str>>,
    pub(super) resource_groups: Vec<ResourceGroup>,
    pub(super) fair_sharing: FairSharing,
}

/// Settings of a LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalQueueSpec {
    pub(super) cluster_queue: Arc<str>,
    pub(super) stop_policy: StopPolicy,
}

/// Settings of a ResourceFlavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlavorSpec {
    pub(super) node_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "is_listed")]
    pub(super) tolerations: bool,
    #[serde(deserialize_with = "is_listed")]
    pub(super) node_taints: bool,
}

/// Reads a name; an empty one is none.
fn non_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<str>>, D::Error> {
    Ok(Option::<Arc<str>>::deserialize(deserializer)?.filter(|name| !name.is_empty()))
}

/// Reads a list as whether it has members.
fn is_listed<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(!Vec::<IgnoredAny>::deserialize(deserializer)?.is_empty())
}

/// Resources with the flavors that provide them, the preferred one first.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceGroup {
    pub(super) covered_resources: Vec<Arc<str>>,
    pub(super) flavors: Vec<FlavorQuotas>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct FlavorQuotas {
    pub(super) name: Arc<str>,
    pub(super) resources: Vec<ResourceQuota>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceQuota {
    pub(super) name: Arc<str>,
    pub(super) nominal_quota: Text,
    pub(super) borrowing_limit: Option<Text>,
    pub(super) lending_limit: Option<Text>,
}

/// Setting that keeps a queue from starting pods, or also stops those that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum StopPolicy {
    Hold,
    HoldAndDrain,
    #[default]
    #[serde(other)]
    None,
}

impl StopPolicy {
    /// Returns the word for it; `None` for a queue that starts pods.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            StopPolicy::Hold => Some("Hold"),
            StopPolicy::HoldAndDrain => Some("HoldAndDrain"),
            StopPolicy::None => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preemption {
    pub(super) reclaim_within_cohort: String,
    pub(super) within_cluster_queue: String,
    pub(super) borrow_within_cohort: BorrowWithinCohort,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct BorrowWithinCohort {
    pub(super) policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct FairSharing {
    pub(super) weight: Option<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AdmissionChecks {
    pub(super) admission_checks: Vec<AdmissionCheck>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct AdmissionCheck {
    pub(super) name: String,
}

impl ClusterQueueSpec {
    /// Returns the names of its admission checks.
    pub(super) fn checks(&self) -> impl Iterator<Item = &str> {
        let rules = self.admission_checks_strategy.admission_checks.iter().map(|rule| &rule.name);
        self.admission_checks.iter().chain(rules).map(String::as_str)
    }
}
