//! GPUs of this machine: found through NVIDIA's management library or AMD's sysfs, or declared as
//! virtual.
//!
//! Finding none is a normal answer. Nothing here opens a device for work.

pub mod amd;
pub mod foreign;
pub mod model;
pub mod nvml;

use muster_model::unit::Bytes;
use muster_model::{Device, DeviceSet, GpuModel};

/// The devices of this machine, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Devices, at most [`DeviceSet::MAX_DEVICES`].
    pub devices: Vec<Device>,
    /// By what NVIDIA's GPUs reach each other (`nvlink`, `pcie`), when there are several.
    pub interconnect: Option<&'static str>,
}

impl Found {
    /// Devices of these models, without hardware behind them.
    #[must_use]
    pub fn declared(models: impl Iterator<Item = GpuModel>) -> Self {
        let device = |model| Device {
            model,
            memory: Bytes(0),
            uuid: "".into(),
            is_virtual: true,
            slice_of: None,
        };
        Self {
            devices: models.take(DeviceSet::MAX_DEVICES).map(device).collect(),
            interconnect: None,
        }
    }
}

/// Finds the GPUs of this machine, NVIDIA's first.
#[must_use]
pub fn discover() -> Found {
    let described = nvml::describe();
    let mut devices = nvml::devices_of(&described);
    devices.extend(amd::devices(std::path::Path::new("/sys/class/drm")));
    devices.truncate(DeviceSet::MAX_DEVICES);
    Found { devices, interconnect: nvml::interconnect(&described) }
}
