//! GPUs of this machine: detected through NVIDIA's management library or AMD's sysfs, or declared
//! as virtual.
//!
//! No GPUs is a normal result. Nothing here opens a device for computation.

pub mod amd;
pub mod foreign;
pub mod nvml;

use muster_model::unit::Bytes;
use muster_model::{Device, DeviceSet, GpuModel};

/// The devices of this machine, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedGpus {
    /// Devices, at most [`DeviceSet::MAX_DEVICES`].
    pub devices: Vec<Device>,
    /// Interconnect of NVIDIA's GPUs (`nvlink`, `pcie`), when there are several.
    pub interconnect: Option<&'static str>,
}

impl DetectedGpus {
    /// Returns virtual devices of these models.
    #[must_use]
    pub fn declared(models: impl Iterator<Item = GpuModel>) -> Self {
        let device = |model| Device::declared(model, Bytes(0));
        Self {
            devices: models.take(DeviceSet::MAX_DEVICES).map(device).collect(),
            interconnect: None,
        }
    }
}

/// Detects the GPUs of this machine, NVIDIA's first.
#[must_use]
pub fn discover() -> DetectedGpus {
    let described = nvml::describe();
    let mut devices = nvml::devices_of(&described);
    devices.extend(amd::devices(std::path::Path::new("/sys/class/drm")));
    devices.truncate(DeviceSet::MAX_DEVICES);
    DetectedGpus { devices, interconnect: nvml::interconnect(&described) }
}
