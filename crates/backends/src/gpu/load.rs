//! Load of GPUs now: how busy they are, their memory and power. Read without opening a device for computation.

use std::path::{Path, PathBuf};

use muster_model::view::GpuLoad;
use muster_model::{Bytes, Device};

use super::amd;
use super::nvml::Library;

/// Reader of loads. The library of the driver stays loaded, as loading it takes longer than reading.
#[derive(Debug)]
pub struct LoadReader {
    library: Option<Library>,
    drm: PathBuf,
}

impl LoadReader {
    /// Loads NVIDIA's library, if there is a driver.
    #[must_use]
    pub fn new() -> Self {
        Self { library: Library::load(), drm: amd::DRM.into() }
    }

    /// Returns the load of each device; `None` for virtual ones, and those that no driver knows any more.
    #[must_use]
    pub fn read(&self, devices: &[Device]) -> Vec<Option<GpuLoad>> {
        devices.iter().map(|device| self.load(device)).collect()
    }

    fn load(&self, device: &Device) -> Option<GpuLoad> {
        if device.is_virtual {
            return None;
        }
        let nvidia = self.library.as_ref().and_then(|library| library.load_of(&device.uuid));
        nvidia.or_else(|| amd_load(&amd::card(&self.drm, &device.uuid)?))
    }
}

impl Default for LoadReader {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the load of an AMD card, from the files of the kernel's driver:
/// <https://docs.kernel.org/gpu/amdgpu/thermal.html>.
fn amd_load(card: &Path) -> Option<GpuLoad> {
    let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let monitor = std::fs::read_dir(card.join("hwmon")).ok().and_then(|mut dirs| dirs.next()?.ok());
    let monitor = monitor.map(|dir| dir.path());
    // Newer GPUs have the present power only, older ones an average.
    let power = |names: &[&str]| {
        let monitor = monitor.as_ref()?;
        let microwatts = names.iter().find_map(|name| number(monitor.join(name)))?;
        u32::try_from(microwatts / 1_000_000).ok()
    };
    let busy = number(card.join("gpu_busy_percent")).and_then(|busy| u8::try_from(busy).ok());
    let load = GpuLoad {
        busy_percent: busy,
        memory_used: number(card.join("mem_info_vram_used")).map(Bytes),
        power_watts: power(&["power1_average", "power1_input"]),
        power_limit_watts: power(&["power1_cap"]),
    };
    (load != GpuLoad::default()).then_some(load)
}

#[cfg(test)]
mod tests {
    use muster_model::GpuModel;

    use super::*;

    #[test]
    fn a_card_of_amd_is_read_and_a_virtual_one_has_no_load() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("unique_id", "aabb\n"),
            ("gpu_busy_percent", "63\n"),
            ("mem_info_vram_used", "1048576\n"),
            ("hwmon/hwmon4/power1_average", "412000000\n"),
            ("hwmon/hwmon4/power1_cap", "750000000\n"),
        ] {
            let path = dir.path().join("card1/device").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let reader = LoadReader { library: None, drm: dir.path().to_owned() };
        let real = |uuid: &str| Device {
            model: GpuModel::from("mi300x"),
            memory: Bytes(0),
            uuid: uuid.into(),
            is_virtual: false,
            slice_of: None,
        };
        let devices = [
            real("GPU-000000000000aabb"),
            real("GPU-0"),
            Device::declared(GpuModel::from("virtual"), Bytes(0)),
        ];
        let load = GpuLoad {
            busy_percent: Some(63),
            memory_used: Some(Bytes(1 << 20)),
            power_watts: Some(412),
            power_limit_watts: Some(750),
        };
        assert_eq!(reader.read(&devices), [Some(load), None, None]);
    }
}
