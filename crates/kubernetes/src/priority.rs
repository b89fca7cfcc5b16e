//! Priority classes. The API server sets the priority of pods from them; for pods that do not exist
//! yet they are looked up here.

use std::sync::Arc;

use serde::Deserialize;

use crate::object::Metadata;

/// Preemption policy of pods that evict no others.
pub(crate) const NEVER: &str = "Never";

/// Preemption policies that are known.
pub(crate) const POLICIES: [&str; 2] = ["PreemptLowerPriority", NEVER];

/// Priority class as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClassText {
    /// Metadata of the object.
    pub metadata: Metadata,
    value: i32,
    global_default: bool,
    preemption_policy: Option<String>,
}

/// Priority class, as far as scheduling reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityClass {
    /// Name by which pods ask for it.
    pub name: Arc<str>,
    /// Priority of its pods.
    pub value: i32,
    /// True for the class of pods that ask for none.
    pub is_default: bool,
    /// False if its pods must not preempt others.
    pub preempts: bool,
}

impl PriorityClassText {
    /// Returns what scheduling needs of the class.
    #[must_use]
    pub fn facts(self) -> PriorityClass {
        PriorityClass {
            name: self.metadata.name,
            value: self.value,
            is_default: self.global_default,
            preempts: self.preemption_policy.as_deref() != Some(NEVER),
        }
    }
}
