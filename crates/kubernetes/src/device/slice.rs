//! Resource slices: the devices of a node that a driver advertises.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::NodeName;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Attribute, DeviceFacts, DeviceId};
use crate::object::Metadata;
use crate::resources::Text;

/// Part of a pool of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceFacts {
    /// Name of the object.
    pub name: Arc<str>,
    /// Driver of the pool.
    pub driver: Arc<str>,
    /// Name of the pool, unique per driver.
    pub pool: Arc<str>,
    /// Number that grows with each change of the pool; only slices of the newest count.
    pub generation: i64,
    /// Number of slices of this generation: with fewer the pool is being changed, and is not used.
    pub slices: i64,
    /// Node that has the devices; `None` for devices of several nodes, which are not used.
    pub node: Option<NodeName>,
    /// Devices that can be given to one claim as a whole. Those with taints, those that share counters
    /// with others, and those with conditions for their binding are left out.
    pub devices: Vec<DeviceFacts>,
}

/// Resource slice as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SliceText {
    /// Metadata of the slice.
    pub metadata: Metadata,
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    driver: Arc<str>,
    pool: Pool,
    node_name: Option<String>,
    devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Pool {
    name: Arc<str>,
    generation: i64,
    resource_slice_count: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Device {
    name: Arc<str>,
    attributes: BTreeMap<String, AttributeText>,
    capacity: BTreeMap<String, Capacity>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AttributeText {
    r#bool: Option<bool>,
    int: Option<i64>,
    string: Option<String>,
    version: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Capacity {
    value: Text,
}

impl SliceText {
    /// Returns what scheduling needs of the slice.
    #[must_use]
    pub fn facts(self) -> SliceFacts {
        let Spec { driver, pool, node_name, devices } = self.spec;
        // A field beside name, attributes and capacity says that the device is not simply free or not.
        let whole = devices.into_iter().filter(|device| device.others.is_empty());
        let facts = |device: Device| {
            let of_attribute = |(name, value): (String, AttributeText)| {
                Some((qualified(&name, &driver), value.value()?))
            };
            let of_capacity = |(name, capacity): (String, Capacity)| {
                (qualified(&name, &driver), capacity.value.0)
            };
            let id = DeviceId {
                driver: Arc::clone(&driver),
                pool: Arc::clone(&pool.name),
                name: device.name,
            };
            DeviceFacts {
                id,
                attributes: device.attributes.into_iter().filter_map(of_attribute).collect(),
                capacity: device.capacity.into_iter().map(of_capacity).collect(),
            }
        };
        SliceFacts {
            name: self.metadata.name,
            node: node_name.as_deref().map(NodeName::from),
            generation: pool.generation,
            slices: pool.resource_slice_count,
            devices: whole.map(facts).collect(),
            pool: pool.name,
            driver,
        }
    }
}

impl AttributeText {
    /// Returns the value; `None` for a kind that this version does not know, such as lists.
    fn value(self) -> Option<Attribute> {
        self.r#bool
            .map(Attribute::Bool)
            .or_else(|| self.int.map(Attribute::Int))
            .or_else(|| self.string.map(Attribute::Text))
            .or_else(|| self.version.map(Attribute::Version))
    }
}

/// Returns domain and name of an attribute; one without a domain is in that of its driver (API
/// documentation of QualifiedName).
fn qualified(name: &str, driver: &Arc<str>) -> (Arc<str>, Arc<str>) {
    match name.split_once('/') {
        Some((domain, name)) => (domain.into(), name.into()),
        None => (Arc::clone(driver), name.into()),
    }
}

#[cfg(test)]
mod tests {
    use crate::device::tests::devices;
    use serde_json::json;

    #[test]
    fn devices_that_are_not_simply_free_or_not_are_left_out() {
        let names: Vec<String> = devices(&json!([
            {"name": "whole"},
            {"name": "tainted", "taints": [{"key": "k", "effect": "NoSchedule"}]},
            {"name": "shared", "allowMultipleAllocations": true},
            {"name": "partition", "consumesCounters": [{"counterSet": "gpu-0", "counters": {}}]},
            {"name": "remote", "bindsToNode": true},
        ]))
        .iter()
        .map(|device| device.id.name.to_string())
        .collect();
        assert_eq!(names, ["whole"]);
    }
}
