//! Placement policies of the FGD experiments (Weng et al., "Beware of Fragmentation", USENIX ATC
//! 2023), as their simulator has them:
//! <https://github.com/hkust-adsl/kubernetes-scheduler-simulator>, `pkg/simulator/plugin`, at
//! commit 8f3d641. One pod after the other is placed on the node with the highest score, and among
//! equals on the first by name, where names are drawn anew for each run (their kube-scheduler is
//! changed so; the real one takes any of the equals). Shares go to the device with the least room
//! that is enough, whole devices are taken from the lowest. It knows a node as what is free on it,
//! and keeps no account.

mod dot_product;
mod gpu_clustering;
mod gpu_packing;
mod random;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_model::node::Device;
use muster_model::{DeviceSet, GpuModel, NodeSpec};

use crate::dice::Dice;

/// Thousandths of a whole device.
pub const WHOLE: u16 = 1000;
/// The best score of a node, as in kube-scheduler (`framework.MaxNodeScore`).
const MAX_SCORE: i64 = 100;

/// What a pod asks of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// Thousandths of CPUs.
    pub cpus_milli: u64,
    /// Thousandths of one device, 0 when it wants whole devices or none.
    pub share_milli: u16,
    /// Whole devices.
    pub devices: u32,
    /// Models that it accepts, empty for any.
    pub models: Vec<GpuModel>,
    /// Memory.
    pub memory_bytes: u64,
}

/// What is free on a node, and what kinds of pods are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Model of all its devices; `None` where there is none.
    pub model: Option<GpuModel>,
    /// Free thousandths by device.
    pub rooms: Vec<u16>,
    /// Free thousandths of CPUs.
    pub cpus_milli: u64,
    /// Free memory.
    pub memory_bytes: u64,
    /// How many pods of a kind are there.
    pub kinds: BTreeMap<Kind, u32>,
}

/// Kinds of pods with GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A share of one device.
    Share,
    /// So many whole devices.
    Whole(u32),
}

/// The most that any node of the cluster has: the scale on which scores add up different resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// Thousandths of CPUs.
    pub cpus_milli: u64,
    /// Thousandths of devices.
    pub gpu_milli: u64,
}

/// Which score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any node with room, any device with room.
    Random,
    /// The node whose free CPUs and GPUs have the smallest product with what is asked for.
    DotProduct,
    /// Devices in use first, then free devices of nodes in use.
    GpuPacking,
    /// Nodes that have pods of the same kind.
    GpuClustering,
}

impl Pod {
    /// Thousandths of devices in all.
    #[must_use]
    pub fn gpu_milli(&self) -> u64 {
        u64::from(self.devices) * u64::from(WHOLE) + u64::from(self.share_milli)
    }

    /// Its kind; `None` without a GPU.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match (self.share_milli, self.devices) {
            (0, 0) => None,
            (0, devices) => Some(Kind::Whole(devices)),
            _ => Some(Kind::Share),
        }
    }

    /// Devices that it needs, and what must be free on each.
    #[must_use]
    pub fn per_device(&self) -> (u32, u16) {
        if self.share_milli > 0 { (1, self.share_milli) } else { (self.devices, WHOLE) }
    }

    /// Would it run on devices of this model?
    #[must_use]
    pub fn accepts(&self, model: Option<&GpuModel>) -> bool {
        self.models.is_empty() || model.is_some_and(|model| self.models.contains(model))
    }
}

impl Host {
    /// A node on which nothing runs; `None` when its devices are of several models, which these
    /// policies do not know.
    #[must_use]
    pub fn idle(node: &NodeSpec) -> Option<Self> {
        let model = node.devices.first().map(|device| device.model.clone());
        let is_alike = |device: &Device| Some(&device.model) == model.as_ref();
        node.devices.iter().all(is_alike).then(|| Self {
            rooms: vec![WHOLE; node.devices.len()],
            cpus_milli: u64::from(node.cpus.0),
            memory_bytes: node.memory.0,
            kinds: BTreeMap::new(),
            model,
        })
    }

    /// Free thousandths of all devices.
    #[must_use]
    pub fn gpu_milli(&self) -> u64 {
        self.rooms.iter().map(|room| u64::from(*room)).sum()
    }

    /// Is there room for a pod?
    #[must_use]
    pub fn fits(&self, pod: &Pod) -> bool {
        let (devices, least) = pod.per_device();
        self.cpus_milli >= pod.cpus_milli
            && self.memory_bytes >= pod.memory_bytes
            && (devices == 0
                || self.rooms.iter().filter(|room| **room >= least).count() >= devices as usize
                    && pod.accepts(self.model.as_ref()))
    }

    /// The devices that a pod gets where nothing is left to chance: a share the one with the least
    /// room that is enough, whole devices the lowest.
    #[must_use]
    pub fn tightest(&self, pod: &Pod) -> DeviceSet {
        let (devices, least) = pod.per_device();
        let enough = (0..self.rooms.len()).filter(|device| self.rooms[*device] >= least);
        match pod.share_milli {
            0 => enough.take(devices as usize).collect(),
            _ => enough.min_by_key(|device| (self.rooms[*device], *device)).into_iter().collect(),
        }
    }
}

impl Largest {
    /// Of these nodes; 1 where that is nothing.
    #[must_use]
    pub fn of(hosts: &[Host]) -> Self {
        let most = |of: fn(&Host) -> u64| hosts.iter().map(of).max().unwrap_or(0).max(1);
        Self { cpus_milli: most(|host| host.cpus_milli), gpu_milli: most(Host::gpu_milli) }
    }
}

impl Policy {
    /// All of them, by the names that users write.
    pub const ALL: [(&'static str, Policy); 4] = [
        ("random", Policy::Random),
        ("dot-product", Policy::DotProduct),
        ("gpu-packing", Policy::GpuPacking),
        ("gpu-clustering", Policy::GpuClustering),
    ];
}

/// One of the policies at work on one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Placer {
    policy: Policy,
    largest: Largest,
    /// Nodes by the names that their simulator gives them, which begin with a number that is drawn.
    names: Vec<usize>,
    dice: Dice,
}

impl Placer {
    /// On nodes on which nothing runs.
    pub(crate) fn new(policy: Policy, hosts: &[Host], seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut names: Vec<usize> = (0..hosts.len()).collect();
        for at in (1..names.len()).rev() {
            names.swap(at, dice.roll(at as u64 + 1) as usize);
        }
        Self { policy, largest: Largest::of(hosts), names, dice }
    }

    /// The node and the devices that a pod gets; `None` when it fits nowhere.
    pub(crate) fn place(&mut self, hosts: &[Host], pod: &Pod) -> Option<(usize, DeviceSet)> {
        let feasible = self.names.iter().copied().filter(|at| hosts[*at].fits(pod));
        if self.policy == Policy::Random {
            let feasible: Vec<usize> = feasible.collect();
            let at = *feasible.get(self.dice.roll(feasible.len().max(1) as u64) as usize)?;
            return Some((at, random::devices(&hosts[at], pod, &mut self.dice)));
        }
        // Of equals the first is taken.
        let at = feasible.min_by_key(|at| Reverse(self.score(&hosts[*at], pod)))?;
        Some((at, hosts[at].tightest(pod)))
    }

    /// What a node with room is worth to a pod: more is better.
    fn score(&self, host: &Host, pod: &Pod) -> i64 {
        match self.policy {
            Policy::Random => 0,
            Policy::DotProduct => dot_product::score(host, self.largest, pod),
            Policy::GpuPacking => gpu_packing::score(host, pod),
            Policy::GpuClustering => gpu_clustering::score(host, self.largest, pod),
        }
    }
}

#[cfg(test)]
mod tests;
