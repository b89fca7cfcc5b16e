//! GPU models ([`GPUS`]): which can be partitioned by hardware, and what the pages say about it. A
//! closed table by Muster's short names of models; a model that is not in it is reported as
//! unknown, never guessed.
//!
//! Sources of the numbers, read in November 2026:
//! - MIG instances: NVIDIA Multi-Instance GPU User Guide, "Supported GPUs" (release 610) and
//!   "Deployment Considerations" (release 620, which adds B300 and GB300). B300 has profile
//!   `1g.34gb` seven times (GPU Operator 25.3); GB300 is counted as the same die.
//! - MPS with an address space per client: NVIDIA Multi-Process Service, release 615, 9 September
//!   2026: from Volta on.
//! - AMD partitions: AMD SMI 26, "GPU partitioning": MI300 and MI350 series; `CPX` makes one per
//!   compute die (XCD).
//! - NVLink and Infinity Fabric: the vendors' product pages.

use muster_model::GpuModel;
use muster_model::advice::{Citation, CitedPage};

/// Interconnect between the GPUs of one machine, besides PCIe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// PCIe and nothing faster.
    None,
    /// NVLink between pairs, through a bridge on top of the cards.
    NvlinkBridge,
    /// NVLink between all of a machine. PCIe cards of the same name have bridges at most.
    Nvlink,
    /// NVLink between all machines of a rack, which need IMEX to map each other's memory. Source:
    /// NVIDIA IMEX guide and GPU Operator documentation, ComputeDomains, 2025.
    NvlinkRack,
    /// AMD's Infinity Fabric between all of a machine.
    InfinityFabric,
}

/// Properties of a GPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Short names, the one that Muster detects first.
    pub names: &'static [&'static str],
    /// Maximum number of MIG instances; 0 without MIG. MIG is the only isolation of memory and
    /// faults by hardware here.
    pub mig_instances: u32,
    /// Maximum number of AMD compute partitions; 0 without partitioning. Memory can be partitioned
    /// with them, but a reset may reach the neighbours, so they are not counted as isolation.
    pub amd_partitions: u32,
    /// True if MPS gives every client an address space of its own; faults are shared in any case.
    pub mps_address_spaces: bool,
    /// Interconnect with the other GPUs of its machine.
    pub link: Link,
    /// True if the Kentino page says that it has MIG; `None` if the page does not mention it.
    pub kentino_mig: Option<bool>,
}

impl Gpu {
    /// Returns true for AMD models, whose tools, operator and ways of sharing differ from NVIDIA's.
    #[must_use]
    pub fn is_amd(&self) -> bool {
        self.link == Link::InfinityFabric
    }

    /// Returns true if the Kentino page's statement on MIG is outdated or was wrong.
    #[must_use]
    pub fn page_is_wrong(&self) -> bool {
        self.kentino_mig.is_some_and(|page| page != (self.mig_instances > 0))
    }
}

/// Source of the MIG numbers of the table.
pub const MIG_SOURCE: Citation = Citation::new(
    CitedPage::Upstream,
    "NVIDIA MIG User Guide, releases 610 to 620, 2026: supported GPUs",
);
/// Source of the statements about MPS.
pub const MPS_SOURCE: Citation = Citation::new(
    CitedPage::Upstream,
    "NVIDIA Multi-Process Service, release 615, 9 September 2026",
);
/// Source of the AMD numbers of the table.
pub const AMD_SOURCE: Citation =
    Citation::new(CitedPage::Upstream, "AMD SMI documentation 2026: GPU partitioning");

/// Returns an NVIDIA model with MIG.
const fn mig(
    names: &'static [&'static str],
    instances: u32,
    link: Link,
    kentino: Option<bool>,
) -> Gpu {
    Gpu {
        names,
        mig_instances: instances,
        amd_partitions: 0,
        mps_address_spaces: true,
        link,
        kentino_mig: kentino,
    }
}

/// Returns an NVIDIA model without MIG, Volta or newer.
const fn whole(names: &'static [&'static str], link: Link, kentino: Option<bool>) -> Gpu {
    mig(names, 0, link, kentino)
}

/// Returns an AMD model, connected by Infinity Fabric.
const fn amd(names: &'static [&'static str], partitions: u32) -> Gpu {
    Gpu {
        names,
        mig_instances: 0,
        amd_partitions: partitions,
        mps_address_spaces: false,
        link: Link::InfinityFabric,
        kentino_mig: None,
    }
}

/// Every model that Muster knows.
pub const GPUS: &[Gpu] = &[
    mig(&["a100"], 7, Link::Nvlink, Some(true)),
    mig(&["a30"], 4, Link::NvlinkBridge, None),
    mig(&["h100"], 7, Link::Nvlink, Some(true)),
    mig(&["h200"], 7, Link::Nvlink, Some(true)),
    mig(&["h20"], 7, Link::Nvlink, None),
    mig(&["gh200"], 7, Link::Nvlink, None),
    mig(&["b200"], 7, Link::Nvlink, Some(true)),
    mig(&["gb200"], 7, Link::NvlinkRack, None),
    mig(&["b300"], 7, Link::Nvlink, None),
    mig(&["gb300"], 7, Link::NvlinkRack, None),
    mig(&["rtxpro6000"], 4, Link::None, Some(false)),
    mig(&["rtxpro5000"], 2, Link::None, None),
    mig(&["rtxpro4500"], 2, Link::None, None),
    whole(&["rtx5090"], Link::None, Some(false)),
    whole(&["rtx4090"], Link::None, Some(false)),
    whole(&["rtx3090", "rtx3090ti"], Link::NvlinkBridge, None),
    whole(&["rtx6000ada"], Link::None, None),
    whole(&["l40"], Link::None, Some(false)),
    whole(&["l40s"], Link::None, None),
    whole(&["l4"], Link::None, Some(false)),
    whole(&["t4"], Link::None, None),
    whole(&["v100"], Link::Nvlink, None),
    whole(&["a10", "a10g"], Link::None, None),
    whole(&["a40"], Link::NvlinkBridge, None),
    whole(&["rtxa6000", "a6000"], Link::NvlinkBridge, None),
    amd(&["mi300a"], 6),
    amd(&["mi300x"], 8),
    amd(&["mi325x"], 8),
    amd(&["mi350x"], 8),
    amd(&["mi355x"], 8),
    amd(&["mi250x"], 0),
    amd(&["mi210"], 0),
    amd(&["mi100"], 0),
];

/// Returns the properties of a model; `None` for unknown models. A slice (`a100-1g.5gb`) is looked
/// up by its parent's model.
#[must_use]
pub fn find(model: &GpuModel) -> Option<&'static Gpu> {
    let name = model.as_str().to_ascii_lowercase();
    let whole = name.split_once('-').map_or(name.as_str(), |(whole, _)| whole);
    GPUS.iter().find(|gpu| gpu.names.contains(&whole))
}

/// Returns true if every model is known and AMD's; false for an empty list.
pub(crate) fn are_amd(models: &[GpuModel]) -> bool {
    !models.is_empty() && models.iter().all(|model| find(model).is_some_and(Gpu::is_amd))
}

/// Returns true if a model has NVLink between the machines of a rack.
pub(crate) fn span_racks(models: &[GpuModel]) -> bool {
    models.iter().any(|model| find(model).is_some_and(|gpu| gpu.link == Link::NvlinkRack))
}

/// Returns true if every model is AMD's and has compute partitions; false for an empty list.
pub(crate) fn are_partitioned_amd(models: &[GpuModel]) -> bool {
    are_amd(models)
        && models.iter().all(|model| find(model).is_some_and(|gpu| gpu.amd_partitions > 0))
}

/// Returns true if a model can be partitioned into slices with memory and faults of their own
/// (MIG); `None` for an unknown model.
#[must_use]
pub fn is_mig_capable(model: &GpuModel) -> Option<bool> {
    find(model).map(|gpu| gpu.mig_instances > 0)
}
