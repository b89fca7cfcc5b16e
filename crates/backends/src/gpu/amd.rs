//! AMD GPUs as the kernel's `amdgpu` driver lists them in sysfs; no library is needed.

use std::path::{Path, PathBuf};

use muster_model::unit::Bytes;
use muster_model::{Device, gpu_model};

use super::DetectedGpu;

/// Directory of graphics cards.
pub const DRM: &str = "/sys/class/drm";

/// AMD's PCI vendor id.
const VENDOR: u32 = 0x1002;

/// Returns the devices below a `/sys/class/drm` directory, in order of card number. Devices without
/// a unique id (integrated graphics) are left out: ROCm can select a device only by that id.
#[must_use]
pub fn gpus(drm: &Path) -> Vec<DetectedGpu> {
    let gpu = |card: &Path| Some(DetectedGpu { device: device(card)?, files: device_files(card) });
    cards(drm).iter().filter_map(|card| gpu(card)).collect()
}

/// Returns the directory of the card that has this UUID.
pub(super) fn card(drm: &Path, wanted: &str) -> Option<PathBuf> {
    cards(drm).into_iter().find(|card| uuid(card).is_some_and(|uuid| uuid == wanted))
}

/// Returns the directories of all cards, in order of card number.
fn cards(drm: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(drm).into_iter().flatten().flatten();
    let mut cards: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("card")?.parse().ok()?;
            Some((number, entry.path().join("device")))
        })
        .collect();
    cards.sort_unstable();
    cards.into_iter().map(|(_, card)| card).collect()
}

/// Returns the UUID of a card, as ROCr names it in `ROCR_VISIBLE_DEVICES`.
fn uuid(card: &Path) -> Option<String> {
    let text = std::fs::read_to_string(card.join("unique_id")).ok()?;
    let id = text.trim().trim_start_matches("0x").to_lowercase();
    let is_hex = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| format!("GPU-{id:0>16}"))
}

/// Returns the device files through which programs can compute on a card: `/dev/dri/renderD128`, and
/// `/dev/dri/card0`, which gives its owner the same.
fn device_files(card: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(card.join("drm")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_device = |name: &String| {
        let number = ["renderD", "card"].iter().find_map(|prefix| name.strip_prefix(prefix));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut files: Vec<PathBuf> =
        names.filter(is_device).map(|name| Path::new("/dev/dri").join(name)).collect();
    files.sort();
    files
}

fn device(card: &Path) -> Option<Device> {
    let read = |file: &str| std::fs::read_to_string(card.join(file)).ok();
    let hex = |text: String| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
    if read("vendor").and_then(hex)? != VENDOR {
        return None;
    }
    Some(Device {
        model: gpu_model::amd(read("device").and_then(hex).unwrap_or(0)),
        memory: Bytes(read("mem_info_vram_total")?.trim().parse().ok()?),
        uuid: uuid(card)?.into(),
        is_virtual: false,
        slice_of: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amd_cards_are_read_in_order_and_others_are_left_out() {
        let temp = tempfile::tempdir().unwrap();
        let card = |name: &str, files: &[(&str, &str)]| {
            let dir = temp.path().join(name).join("device");
            std::fs::create_dir_all(&dir).unwrap();
            for (file, text) in files {
                std::fs::write(dir.join(file), text).unwrap();
            }
        };
        let amd = |id: &'static str| {
            [
                ("vendor", "0x1002\n"),
                ("device", "0x74a1\n"),
                ("mem_info_vram_total", "206141652992\n"),
                ("unique_id", id),
            ]
        };
        card("card10", &amd("aabb\n"));
        card("card2", &amd("0123456789abcdef\n"));
        card("card3", &[("vendor", "0x10de\n")]);
        card("card4", &amd("0123456789abcdef\n")[..3]);
        card("card2-DP-1", &[]);
        for name in ["renderD138", "card10", "controlD74", "card10-DP-1"] {
            std::fs::create_dir_all(temp.path().join("card10/device/drm").join(name)).unwrap();
        }
        let found = gpus(temp.path());
        let names: Vec<&str> = found.iter().map(|gpu| gpu.device.uuid.as_ref()).collect();
        assert_eq!(names, ["GPU-0123456789abcdef", "GPU-000000000000aabb"]);
        assert_eq!(found[0].device.model.as_str(), "mi300x");
        assert_eq!(found[0].device.memory, Bytes(206_141_652_992));
        let files = ["/dev/dri/card10", "/dev/dri/renderD138"].map(PathBuf::from);
        assert_eq!(found[0].files, <[PathBuf; 0]>::default());
        assert_eq!(found[1].files, files);
        assert!(gpus(Path::new("/nowhere")).is_empty());
    }
}
