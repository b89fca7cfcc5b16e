//! Device classes: named selections of devices, with the configuration that drivers get.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::selector::SelectorText;
use crate::object::Metadata;

/// Device class, as far as scheduling reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassFacts {
    /// Name of the class.
    pub name: Arc<str>,
    /// Expressions that a device must satisfy, all of them.
    pub selectors: Vec<Arc<str>>,
    /// Configuration for the drivers, passed on with each allocation.
    pub config: Vec<Value>,
}

/// Device class as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClassText {
    /// Metadata of the class.
    pub metadata: Metadata,
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    selectors: Vec<SelectorText>,
    config: Vec<Value>,
}

impl ClassText {
    /// Returns what scheduling needs of the class.
    #[must_use]
    pub fn facts(self) -> ClassFacts {
        ClassFacts {
            name: self.metadata.name,
            selectors: self.spec.selectors.iter().map(SelectorText::expression).collect(),
            config: self.spec.config,
        }
    }
}
