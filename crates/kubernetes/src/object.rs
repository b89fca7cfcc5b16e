//! Metadata that every Kubernetes object has, and references between objects.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

/// Metadata of an object, as far as scheduling reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name, unique among the objects of a kind in a namespace.
    pub name: Arc<str>,
    /// Namespace; empty for objects of the cluster.
    pub namespace: Arc<str>,
    /// Id that is never reused, unlike the name.
    pub uid: Arc<str>,
    /// Version of the object, opaque.
    pub resource_version: String,
    /// Number of the specification, which grows with each change of it.
    pub generation: u64,
    /// Labels, which selectors match.
    pub labels: BTreeMap<String, String>,
    /// Annotations, which nothing selects by.
    pub annotations: BTreeMap<String, String>,
    /// Owners; at most one of them is the controller.
    pub owner_references: Vec<OwnerReference>,
    /// Creation in RFC 3339 and whole seconds, so that text order is time order.
    pub creation_timestamp: Option<String>,
    /// Instant at which deletion was requested.
    pub deletion_timestamp: Option<String>,
}

impl Metadata {
    /// Returns the owner that manages the object.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Returns the label or, without one, the annotation of this key; empty values count as none.
    #[must_use]
    pub fn label_or_annotation(&self, key: &str) -> Option<&str> {
        let value = self.labels.get(key).or_else(|| self.annotations.get(key))?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns the namespace and name of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }
}

/// Owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API group and version, such as `batch/v1`.
    pub api_version: String,
    /// Kind, such as `Job`.
    pub kind: String,
    /// Name in the same namespace.
    pub name: Arc<str>,
    /// True for the owner that manages the object.
    pub controller: bool,
}

/// Namespace and name: identifies an object of a known kind. Ordered by name first: many objects share a namespace,
/// so the name alone mostly decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// Namespace; empty for objects of the cluster.
    pub namespace: Arc<str>,
    /// Name within the namespace.
    pub name: Arc<str>,
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name).then_with(|| self.namespace.cmp(&other.namespace))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ObjectKey {
    /// Makes the key of an object; the namespace is empty for objects of the cluster.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.pad(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
