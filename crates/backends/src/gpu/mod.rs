//! GPUs of this machine: detected through NVIDIA's management library or AMD's sysfs, or declared
//! as virtual.
//!
//! No GPUs is a normal result. Nothing here opens a device for computation.

pub mod amd;
pub mod foreign;
pub mod load;
pub mod nvml;

use std::path::{Path, PathBuf};

use muster_model::unit::Bytes;
use muster_model::{Device, DeviceSet, GpuModel};

/// A device of this machine with the files that programs open to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedGpu {
    /// Its model, memory and UUID.
    pub device: Device,
    /// Its device files, for a slice those of the GPU; a virtual device has none.
    pub files: Vec<PathBuf>,
}

/// The devices of this machine, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedGpus {
    /// Devices, at most [`DeviceSet::MAX_DEVICES`].
    pub gpus: Vec<DetectedGpu>,
    /// Interconnect of NVIDIA's GPUs (`nvlink`, `pcie`), when there are several.
    pub interconnect: Option<&'static str>,
}

impl DetectedGpus {
    /// Returns virtual devices of these models.
    #[must_use]
    pub fn declared(models: impl Iterator<Item = GpuModel>) -> Self {
        let gpu =
            |model| DetectedGpu { device: Device::declared(model, Bytes(0)), files: Vec::new() };
        Self { gpus: models.take(DeviceSet::MAX_DEVICES).map(gpu).collect(), interconnect: None }
    }

    /// Returns the devices, by index.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        self.gpus.iter().map(|gpu| gpu.device.clone()).collect()
    }
}

/// Detects the GPUs of this machine, NVIDIA's first.
#[must_use]
pub fn discover() -> DetectedGpus {
    let described = nvml::describe();
    let mut gpus = nvml::gpus_of(&described);
    gpus.extend(amd::gpus(Path::new(amd::DRM)));
    gpus.truncate(DeviceSet::MAX_DEVICES);
    DetectedGpus { gpus, interconnect: nvml::interconnect(&described) }
}
