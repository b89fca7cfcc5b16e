//! Short GPU model names for users (`h100`), from vendor names and labels. Pure and table-driven.

use crate::GpuModel;

/// Words for the vendor, product line, form factor or memory, which are dropped from a model name:
/// models that differ only in these are one model to users; memory is shown separately.
const DROPPED: [&str; 25] = [
    "nvidia",
    "amd",
    "tesla",
    "geforce",
    "quadro",
    "instinct",
    "radeon",
    "pcie",
    "nvl",
    "oam",
    "generation",
    "blackwell",
    "server",
    "workstation",
    "edition",
    "max",
    "q",
    "gpu",
    "graphics",
    "accelerator",
    "desktop",
    "laptop",
    "hbm",
    "graphic",
    "corporation",
];

/// Model names of AMD devices by PCI device id; the kernel has no name. Ids from the `amdgpu`
/// driver and the PCI id database.
const AMD_IDS: [(u32, &str); 12] = [
    (0x738c, "mi100"),
    (0x7408, "mi250x"),
    (0x740c, "mi250x"),
    (0x740f, "mi210"),
    (0x74a0, "mi300a"),
    (0x74a1, "mi300x"),
    (0x74a2, "mi308x"),
    (0x74a5, "mi325x"),
    (0x75a0, "mi350x"),
    (0x75a3, "mi355x"),
    (0x744c, "rx7900xtx"),
    (0x73bf, "rx6900xt"),
];

/// Returns the model for a vendor name: `NVIDIA H100 80GB HBM3` → `h100`,
/// `NVIDIA A100-SXM4-40GB MIG 1g.5gb` → `a100-1g.5gb`.
#[must_use]
pub fn normalise(vendor_name: &str) -> GpuModel {
    let lower = vendor_name.to_lowercase();
    let (device, slice) = match lower.split_once(" mig ") {
        Some((device, slice)) => (device, Some(slice)),
        None => (lower.as_str(), None),
    };
    let mut name: String = device
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .filter(|word| !word.is_empty() && !DROPPED.contains(word) && !is_memory_or_socket(word))
        .collect();
    if name.is_empty() {
        name.push_str("gpu");
    }
    if let Some(slice) = slice {
        name.push('-');
        name.extend(slice.split_whitespace().next());
    }
    GpuModel::from(name.as_str())
}

/// Returns the model for a Kubernetes label or a Slurm type, in which `-` or `_` replace blanks:
/// `NVIDIA-H100-80GB-HBM3` → `h100`, `a100_1g.5gb` and `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb` →
/// `a100-1g.5gb`. The suffix `-SHARED`, which NVIDIA's feature discovery adds to time-sliced
/// devices, is not part of the model.
#[must_use]
pub fn normalise_label(text: &str) -> GpuModel {
    const BLANKS: [char; 3] = ['-', '_', ' '];
    let lower = text.trim().to_lowercase();
    let name = lower.strip_suffix("-shared").unwrap_or(&lower);
    match name.rsplit_once(BLANKS) {
        Some((device, profile)) if is_profile(profile) => {
            let device = device.trim_end_matches(BLANKS);
            let device = device.strip_suffix("mig").unwrap_or(device);
            normalise(&format!("{device} mig {}", profile.replace('+', ".")))
        }
        _ => normalise(name),
    }
}

/// Returns true for the model of a MIG slice.
#[must_use]
pub fn is_slice(model: &str) -> bool {
    is_profile(model.rsplit('-').next().unwrap_or_default())
}

/// Returns true for a model of AMD, by the prefix of its name.
#[must_use]
pub fn is_amd(model: &str) -> bool {
    let numbered = |prefix: &str| {
        model
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    model.starts_with("amd-") || numbered("mi") || numbered("rx")
}

/// Returns true for a MIG profile: `1g.5gb`, `1g.10gb+me`.
fn is_profile(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let sizes =
        word.split_once("g.").and_then(|(slices, rest)| Some((slices, rest.split_once("gb")?.0)));
    sizes.is_some_and(|(slices, memory)| digits(slices) && digits(memory))
}

/// Returns the model of an AMD device by its PCI device id; `amd-<id>` where the table has no
/// entry.
#[must_use]
pub fn amd(device_id: u32) -> GpuModel {
    match AMD_IDS.iter().find(|(id, _)| *id == device_id) {
        Some((_, name)) => GpuModel::from(*name),
        None => GpuModel::from(format!("amd-{device_id:04x}").as_str()),
    }
}

/// Returns true for words such as `80gb`, `hbm3`, `hbm2e`, `sxm4`.
fn is_memory_or_socket(word: &str) -> bool {
    let number = |rest: &str| rest.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    word.strip_suffix("gb").is_some_and(|size| size.bytes().all(|byte| byte.is_ascii_digit()))
        || ["hbm", "sxm", "gddr"].iter().any(|prefix| word.strip_prefix(prefix).is_some_and(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_names_become_short_models() {
        for (vendor, expected) in [
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H100 PCIe", "h100"),
            ("NVIDIA H100 NVL", "h100"),
            ("NVIDIA H200", "h200"),
            ("NVIDIA B200", "b200"),
            ("NVIDIA GH200 480GB", "gh200"),
            ("NVIDIA A100-SXM4-40GB", "a100"),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-1g.5gb"),
            ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "h100-3g.40gb"),
            ("NVIDIA RTX PRO 6000 Blackwell", "rtxpro6000"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtxpro6000"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("NVIDIA GeForce RTX 3090 Ti", "rtx3090ti"),
            ("NVIDIA L40S", "l40s"),
            ("NVIDIA A10G", "a10g"),
            ("Tesla V100-SXM2-16GB", "v100"),
            ("Tesla T4", "t4"),
            ("Quadro RTX 8000", "rtx8000"),
            ("NVIDIA TITAN RTX", "titanrtx"),
            ("AMD Instinct MI300X OAM", "mi300x"),
            ("NVIDIA", "gpu"),
            ("", "gpu"),
        ] {
            assert_eq!(normalise(vendor).as_str(), expected, "{vendor}");
        }
        for (label, expected) in [
            ("NVIDIA-H100-80GB-HBM3", "h100"),
            ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtxpro6000"),
            ("Tesla-T4-SHARED", "t4"),
            ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "a100-1g.5gb"),
            ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", "h100-1g.10gb.me"),
            ("nvidia_h100_80gb_hbm3", "h100"),
            ("a100_1g.5gb", "a100-1g.5gb"),
            ("1g.5gb", "1g.5gb"),
            ("h100", "h100"),
            ("AMD_Instinct_MI300X_OAM", "mi300x"),
            ("", "gpu"),
        ] {
            assert_eq!(normalise_label(label).as_str(), expected, "{label}");
        }
        assert_eq!(amd(0x74a1).as_str(), "mi300x");
        assert_eq!(amd(0x1234).as_str(), "amd-1234");
    }
}
