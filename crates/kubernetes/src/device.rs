//! Devices that pods claim instead of counting them (dynamic resource allocation, API group
//! `resource.k8s.io/v1`): the slices by which drivers advertise them, classes, claims, and the
//! selectors of both.

pub mod claim;
pub mod class;
pub mod selector;
pub mod slice;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{GpuModel, gpu_model};

/// API group of all objects here.
pub const GROUP: &str = "resource.k8s.io";
/// Version of the group that is read: the first one that is stable (Kubernetes 1.34).
pub const VERSION: &str = "v1";
/// Name of device classes in addresses.
pub const CLASSES: &str = "deviceclasses";
/// Name of slices of pools in addresses.
pub const SLICES: &str = "resourceslices";
/// Name of claims that pods use in addresses.
pub const CLAIMS: &str = "resourceclaims";
/// Name of templates of claims in addresses.
pub const TEMPLATES: &str = "resourceclaimtemplates";

/// Prefix of the resources and node labels that stand for claimed devices; no name in Kubernetes starts
/// like this, since it is not a domain.
pub const PREFIX: &str = "device/";

/// Drivers whose devices are GPUs or slices of them (documentation of the DRA drivers of NVIDIA, AMD and
/// Intel, November 2026).
const GPU_DRIVERS: [&str; 3] = ["gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"];

/// Returns true for a resource made by [`DeviceFacts::resource`] whose units are GPUs.
pub(crate) fn is_gpu(resource: &str) -> bool {
    let kind = resource.strip_prefix(PREFIX);
    let driver = kind.and_then(|kind| kind.split_once('/')).map(|(driver, _)| driver);
    driver.is_some_and(|driver| GPU_DRIVERS.contains(&driver))
}

/// Identifies a device in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// Driver that manages the device.
    pub driver: Arc<str>,
    /// Pool of the driver, often named like the node.
    pub pool: Arc<str>,
    /// Name of the device in its pool.
    pub name: Arc<str>,
}

/// Value of an attribute of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Property that a device has or lacks.
    Bool(bool),
    /// Number without a unit, such as an index.
    Int(i64),
    /// Name or other words, such as the product.
    Text(String),
    /// Version with three numbers.
    Version(String),
}

/// Device of a node, as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Names of driver, pool and device.
    pub id: DeviceId,
    /// Attributes by name with domain; the driver's own have its name as domain.
    pub attributes: BTreeMap<(Arc<str>, Arc<str>), Attribute>,
    /// Capacities, such as memory, as quantities, named as attributes are.
    pub capacity: BTreeMap<(Arc<str>, Arc<str>), String>,
}

impl DeviceFacts {
    /// Returns an own attribute of the driver that is a text.
    fn text(&self, name: &str) -> Option<&str> {
        let key = (Arc::clone(&self.id.driver), Arc::from(name));
        match self.attributes.get(&key) {
            Some(Attribute::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the size of a slice of a GPU: a MIG profile, or a partition of an AMD GPU.
    fn profile(&self) -> Option<&str> {
        self.text("profile").or_else(|| self.text("partitionProfile"))
    }

    /// Returns the resource that stands for devices of this kind: of one driver, type and profile. The
    /// devices of a node that have the same resource are counted together.
    #[must_use]
    pub fn resource(&self) -> Arc<str> {
        let driver = &self.id.driver;
        let kind = self.text("type").unwrap_or("device");
        match self.profile() {
            Some(profile) => format!("{PREFIX}{driver}/{kind}-{profile}").into(),
            None => format!("{PREFIX}{driver}/{kind}").into(),
        }
    }

    /// Returns the model of a GPU or slice, with `-claimed` behind it; `None` for other devices. A pod
    /// that counts GPUs cannot use those that are claimed, nor the other way round, so they are
    /// different models to the engine.
    #[must_use]
    pub fn model(&self) -> Option<GpuModel> {
        if !GPU_DRIVERS.contains(&&*self.id.driver) {
            return None;
        }
        let product = self.text("productName").or_else(|| self.text("model"));
        let whole = product.map(|text| gpu_model::normalise_label(&text.replace(' ', "-")));
        let whole = whole.unwrap_or_else(|| GpuModel::from("gpu"));
        Some(match self.profile() {
            Some(profile) => GpuModel(format!("{whole}-{}-claimed", profile.to_lowercase()).into()),
            None => GpuModel(format!("{whole}-claimed").into()),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::slice::SliceText;
    use super::*;
    use serde_json::{Value, json};

    /// Returns the devices of a slice of NVIDIA's driver with these attributes.
    pub(crate) fn devices(devices: &Value) -> Vec<DeviceFacts> {
        let slice = json!({
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.nvidia.com", "nodeName": "a",
                "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        });
        serde_json::from_value::<SliceText>(slice).unwrap().facts().devices
    }

    #[test]
    fn devices_are_counted_by_driver_type_and_profile() {
        let all = devices(&json!([
            {"name": "gpu-0", "attributes": {
                "type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"},
            }},
            {"name": "mig-0", "attributes": {
                "type": {"string": "mig"}, "profile": {"string": "1g.10gb"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
            }},
            {"name": "plain"},
        ]));
        let told: Vec<(Arc<str>, String)> =
            all.iter().map(|one| (one.resource(), one.model().unwrap().to_string())).collect();
        assert_eq!(
            told,
            [
                ("device/gpu.nvidia.com/gpu".into(), "h100-claimed".to_owned()),
                ("device/gpu.nvidia.com/mig-1g.10gb".into(), "h100-1g.10gb-claimed".to_owned()),
                ("device/gpu.nvidia.com/device".into(), "gpu-claimed".to_owned()),
            ]
        );
        assert!(is_gpu("device/gpu.nvidia.com/gpu"));
        assert!(!is_gpu("device/nic.example.com/device"));
        assert!(!is_gpu("gpu.nvidia.com/gpu"));
    }
}
