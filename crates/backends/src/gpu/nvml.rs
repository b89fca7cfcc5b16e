//! NVIDIA GPUs through NVIDIA's management library (NVML), loaded at run time. Without a driver
//! there are no devices, which is not an error.
//!
//! The library is behind [`GpuProbe`], so that tests can use recorded results.

use std::path::PathBuf;

use muster_model::unit::Bytes;
use muster_model::view::GpuLoad;
use muster_model::{Device, gpu_model};
use nvml_wrapper::Nvml;

use super::DetectedGpu;

/// Maximum number of NVLinks of a GPU (`NVML_NVLINK_MAX_LINKS`).
const MAX_NVLINKS: u32 = 18;

/// A GPU, or a slice of one, as NVML describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmlGpu {
    /// Product name of the GPU.
    pub name: String,
    /// UUID: `GPU-…` or `MIG-…`.
    pub uuid: String,
    /// Memory in bytes; 0 when unknown.
    pub memory_bytes: u64,
    /// Number of its device file, `/dev/nvidia0` and so on; `None` for slices, which have none.
    pub minor: Option<u32>,
    /// True when at least one of its NVLinks is up.
    pub is_linked: bool,
    /// True in multi-instance (MIG) mode: work runs on slices only.
    pub is_split: bool,
    /// MIG slices of a split GPU.
    pub slices: Vec<NvmlGpu>,
    /// Pids of processes that use it; for a split GPU, those whose slice is unknown.
    pub pids: Vec<u32>,
}

/// Source of GPU descriptions.
pub trait GpuProbe: Send {
    /// Returns all GPUs, in the library's order.
    fn describe(&self) -> Vec<NvmlGpu>;
}

/// The loaded NVML library.
#[derive(Debug)]
pub struct Library {
    nvml: Nvml,
}

impl Library {
    /// Loads the library; `None` where there is no driver.
    #[must_use]
    pub fn load() -> Option<Self> {
        Nvml::init().ok().map(|nvml| Self { nvml })
    }

    /// Returns the utilisation of a GPU over about the last second, in percent; `None` for slices,
    /// for which the library has none, and for GPUs that are gone.
    #[must_use]
    pub fn utilisation(&self, uuid: &str) -> Option<u32> {
        Some(self.nvml.device_by_uuid(uuid).ok()?.utilization_rates().ok()?.gpu)
    }

    /// Returns the load of a GPU, or of a slice, of which the library knows the memory only; `None` for what is gone.
    #[must_use]
    pub fn load_of(&self, uuid: &str) -> Option<GpuLoad> {
        let device = self.nvml.device_by_uuid(uuid).ok()?;
        let watts = |milliwatts: u32| milliwatts / 1000;
        let load = GpuLoad {
            busy_percent: device
                .utilization_rates()
                .ok()
                .and_then(|rates| rates.gpu.try_into().ok()),
            memory_used: device.memory_info().ok().map(|memory| Bytes(memory.used)),
            power_watts: device.power_usage().ok().map(watts),
            power_limit_watts: device.enforced_power_limit().ok().map(watts),
        };
        (load != GpuLoad::default()).then_some(load)
    }

    fn describe_one(device: &nvml_wrapper::Device<'_>) -> Option<NvmlGpu> {
        let is_split = device.mig_mode().is_ok_and(|mode| mode.current != 0);
        let slices = if is_split {
            (0..device.mig_device_count().unwrap_or(0))
                .filter_map(|index| Self::describe_one(&device.mig_device_by_index(index).ok()?))
                .collect()
        } else {
            Vec::new()
        };
        let running = [device.running_compute_processes(), device.running_graphics_processes()];
        let mut pids: Vec<u32> =
            running.into_iter().flatten().flatten().map(|process| process.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        Some(NvmlGpu {
            name: device.name().ok()?,
            uuid: device.uuid().ok()?,
            memory_bytes: device.memory_info().map_or(0, |memory| memory.total),
            minor: device.minor_number().ok(),
            is_linked: (0..MAX_NVLINKS)
                .any(|link| device.link_wrapper_for(link).is_active().unwrap_or(false)),
            is_split,
            slices,
            pids,
        })
    }
}

impl GpuProbe for Library {
    fn describe(&self) -> Vec<NvmlGpu> {
        let count = self.nvml.device_count().unwrap_or(0);
        (0..count)
            .filter_map(|index| Self::describe_one(&self.nvml.device_by_index(index).ok()?))
            .collect()
    }
}

/// Returns all GPUs; none without a driver.
#[must_use]
pub fn describe() -> Vec<NvmlGpu> {
    Library::load().map(|library| library.describe()).unwrap_or_default()
}

/// Returns the interconnect of several GPUs: `nvlink` when each has a link up, else `pcie`; `None`
/// for fewer than two.
#[must_use]
pub fn interconnect(described: &[NvmlGpu]) -> Option<&'static str> {
    let all_linked = described.iter().all(|gpu| gpu.is_linked);
    (described.len() > 1).then_some(if all_linked { "nvlink" } else { "pcie" })
}

/// Returns the devices that can be allocated: whole GPUs, and the slices of split ones.
#[must_use]
pub fn gpus_of(described: &[NvmlGpu]) -> Vec<DetectedGpu> {
    let mut gpus = Vec::new();
    for gpu in described {
        let file = gpu.minor.map(|minor| PathBuf::from(format!("/dev/nvidia{minor}")));
        let detected = |device| DetectedGpu { device, files: Vec::from_iter(file.clone()) };
        if gpu.is_split {
            let slices = gpu.slices.iter().map(|slice| device(slice, Some(&gpu.uuid)));
            gpus.extend(slices.map(detected));
        } else {
            gpus.push(detected(device(gpu, None)));
        }
    }
    gpus
}

/// Returns pairs of device UUID and pid of a process that uses the device. A process on a split GPU
/// whose slice is unknown counts for each slice.
#[must_use]
pub fn users_of(described: &[NvmlGpu]) -> Vec<(&str, u32)> {
    let mut users = Vec::new();
    for gpu in described {
        let parts = if gpu.is_split { gpu.slices.as_slice() } else { std::slice::from_ref(gpu) };
        for part in parts {
            let outer = gpu.is_split.then_some(&gpu.pids).into_iter().flatten();
            // A driver that lists processes on a slice lists them on the whole GPU too.
            let has_known_slice =
                |pid: &&u32| gpu.slices.iter().any(|slice| slice.pids.contains(pid));
            let pids = part.pids.iter().chain(outer.filter(|pid| !has_known_slice(pid)));
            users.extend(pids.map(|pid| (part.uuid.as_str(), *pid)));
        }
    }
    users
}

fn device(described: &NvmlGpu, slice_of: Option<&str>) -> Device {
    Device {
        model: gpu_model::normalise(&described.name),
        memory: Bytes(described.memory_bytes),
        uuid: described.uuid.as_str().into(),
        is_virtual: false,
        slice_of: slice_of.map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(name: &str, uuid: &str, pids: &[u32]) -> NvmlGpu {
        NvmlGpu {
            name: name.into(),
            uuid: uuid.into(),
            memory_bytes: 80 << 30,
            pids: pids.to_vec(),
            ..NvmlGpu::default()
        }
    }

    #[test]
    fn slices_stand_in_for_the_gpu_they_were_cut_from() {
        let split = NvmlGpu {
            is_split: true,
            slices: vec![
                gpu("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "MIG-a", &[7]),
                gpu("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "MIG-b", &[]),
            ],
            minor: Some(1),
            ..gpu("NVIDIA H100 80GB HBM3", "GPU-1", &[7, 9])
        };
        let empty = NvmlGpu { is_split: true, ..gpu("NVIDIA H100 80GB HBM3", "GPU-2", &[]) };
        let described = [gpu("NVIDIA H100 80GB HBM3", "GPU-0", &[5]), split, empty];
        let gpus = gpus_of(&described);
        let names: Vec<_> = gpus
            .iter()
            .map(|DetectedGpu { device, .. }| {
                (device.uuid.as_ref(), device.model.as_str(), device.slice_of.as_deref())
            })
            .collect();
        assert_eq!(
            names,
            [
                ("GPU-0", "h100", None),
                ("MIG-a", "h100-3g.40gb", Some("GPU-1")),
                ("MIG-b", "h100-3g.40gb", Some("GPU-1"))
            ]
        );
        let files: Vec<_> = gpus.iter().map(|gpu| gpu.files.as_slice()).collect();
        let split = [PathBuf::from("/dev/nvidia1")];
        assert_eq!(files, [&[][..], &split, &split]);
        assert_eq!(users_of(&described), [("GPU-0", 5), ("MIG-a", 7), ("MIG-a", 9), ("MIG-b", 9)]);
    }

    #[test]
    fn one_gpu_without_links_makes_it_pcie() {
        let linked = NvmlGpu { is_linked: true, ..gpu("NVIDIA H100", "GPU-0", &[]) };
        let plain = gpu("NVIDIA H100", "GPU-1", &[]);
        assert_eq!(interconnect(&[]), None);
        assert_eq!(interconnect(std::slice::from_ref(&linked)), None);
        assert_eq!(interconnect(&[linked.clone(), linked.clone()]), Some("nvlink"));
        assert_eq!(interconnect(&[linked, plain]), Some("pcie"));
    }

    #[test]
    fn a_missing_driver_is_not_an_error() {
        assert_eq!(Library::load().is_none(), describe().is_empty());
    }
}
