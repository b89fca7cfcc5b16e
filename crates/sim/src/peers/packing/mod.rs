//! Placement policies of the FGD experiments (Weng et al., "Beware of Fragmentation", USENIX ATC
//! 2023), as in their simulator: <https://github.com/hkust-adsl/kubernetes-scheduler-simulator>,
//! `pkg/simulator/plugin`, at commit 8f3d641. One pod after the other is placed on the node with
//! the highest score, and among equals on the first by name, where names are drawn anew for each
//! run (their kube-scheduler is changed so; the real one takes any of the equals). Shares go to the
//! device with the least sufficient room, whole devices are taken from the lowest. It gets the free
//! resources of nodes, and keeps no account.

mod dot_product;
mod gpu_clustering;
mod gpu_packing;
mod random;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_model::node::Device;
use muster_model::{DeviceSet, GpuModel, NodeSpec};

use crate::rng::Rng;

/// Thousandths of a whole device.
pub const WHOLE: u16 = 1000;
/// Best score of a node, as in kube-scheduler (`framework.MaxNodeScore`).
const MAX_SCORE: i64 = 100;

/// Resources that a pod requests on one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackingPod {
    /// Requested thousandths of CPUs.
    pub cpus_milli: u64,
    /// Thousandths of one device, 0 if it wants whole devices or none.
    pub share_milli: u16,
    /// Number of whole devices.
    pub devices: u32,
    /// Accepted GPU models, empty for any.
    pub models: Vec<GpuModel>,
    /// Requested memory in bytes.
    pub memory_bytes: u64,
}

/// Free resources of a node, and the kinds of pods on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackingNode {
    /// Model of all its devices; `None` without devices.
    pub model: Option<GpuModel>,
    /// Free thousandths by device.
    pub capacities: Vec<u16>,
    /// Free thousandths of CPUs.
    pub cpus_milli: u64,
    /// Free memory in bytes.
    pub memory_bytes: u64,
    /// Number of pods of each kind.
    pub kinds: BTreeMap<PodKind, u32>,
}

/// Kinds of pods with GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodKind {
    /// A share of one device.
    Share,
    /// This many whole devices.
    Whole(u32),
}

/// The most that any node of the cluster has: the scale on which scores add up different resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMaxima {
    /// Thousandths of CPUs of the largest node.
    pub cpus_milli: u64,
    /// Thousandths of devices of the largest node.
    pub gpu_milli: u64,
}

/// Score that selects the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackingPolicy {
    /// Any node with room, any device with room.
    Random,
    /// The node whose free CPUs and GPUs have the smallest product with what is asked for.
    DotProduct,
    /// Devices in use first, then free devices of nodes in use.
    GpuPacking,
    /// Nodes that have pods of the same kind.
    GpuClustering,
}

impl PackingPod {
    /// Returns the requested thousandths of devices.
    #[must_use]
    pub fn gpu_milli(&self) -> u64 {
        u64::from(self.devices) * u64::from(WHOLE) + u64::from(self.share_milli)
    }

    /// Returns its kind; `None` without a GPU.
    #[must_use]
    pub fn kind(&self) -> Option<PodKind> {
        match (self.share_milli, self.devices) {
            (0, 0) => None,
            (0, devices) => Some(PodKind::Whole(devices)),
            _ => Some(PodKind::Share),
        }
    }

    /// Returns the number of devices, and the thousandths of each.
    #[must_use]
    pub fn per_device(&self) -> (u32, u16) {
        if self.share_milli > 0 { (1, self.share_milli) } else { (self.devices, WHOLE) }
    }

    /// Returns whether it accepts devices of this model.
    #[must_use]
    pub fn accepts(&self, model: Option<&GpuModel>) -> bool {
        self.models.is_empty() || model.is_some_and(|model| self.models.contains(model))
    }
}

impl PackingNode {
    /// Returns an idle node; `None` if its devices are of several models, which these policies do
    /// not support.
    #[must_use]
    pub fn idle(node: &NodeSpec) -> Option<Self> {
        let model = node.devices.first().map(|device| device.model.clone());
        let is_alike = |device: &Device| Some(&device.model) == model.as_ref();
        node.devices.iter().all(is_alike).then(|| Self {
            capacities: vec![WHOLE; node.devices.len()],
            cpus_milli: u64::from(node.cpus.0),
            memory_bytes: node.memory.0,
            kinds: BTreeMap::new(),
            model,
        })
    }

    /// Returns the free thousandths of all devices.
    #[must_use]
    pub fn gpu_milli(&self) -> u64 {
        self.capacities.iter().map(|capacity| u64::from(*capacity)).sum()
    }

    /// Returns whether a pod fits.
    #[must_use]
    pub fn fits(&self, pod: &PackingPod) -> bool {
        let (devices, least) = pod.per_device();
        self.cpus_milli >= pod.cpus_milli
            && self.memory_bytes >= pod.memory_bytes
            && (devices == 0
                || self.capacities.iter().filter(|capacity| **capacity >= least).count()
                    >= devices as usize
                    && pod.accepts(self.model.as_ref()))
    }

    /// Returns the devices of a pod without random choice: a share the one with the least
    /// sufficient room, whole devices the lowest.
    #[must_use]
    pub fn tightest(&self, pod: &PackingPod) -> DeviceSet {
        let (devices, least) = pod.per_device();
        let enough = (0..self.capacities.len()).filter(|device| self.capacities[*device] >= least);
        match pod.share_milli {
            0 => enough.take(devices as usize).collect(),
            _ => enough
                .min_by_key(|device| (self.capacities[*device], *device))
                .into_iter()
                .collect(),
        }
    }
}

impl NodeMaxima {
    /// Returns the maxima of these nodes; at least 1.
    #[must_use]
    pub fn of(hosts: &[PackingNode]) -> Self {
        let most = |of: fn(&PackingNode) -> u64| hosts.iter().map(of).max().unwrap_or(0).max(1);
        Self { cpus_milli: most(|host| host.cpus_milli), gpu_milli: most(PackingNode::gpu_milli) }
    }
}

impl PackingPolicy {
    /// All policies by the names that users write.
    pub const ALL: [(&'static str, PackingPolicy); 4] = [
        ("random", PackingPolicy::Random),
        ("dot-product", PackingPolicy::DotProduct),
        ("gpu-packing", PackingPolicy::GpuPacking),
        ("gpu-clustering", PackingPolicy::GpuClustering),
    ];
}

/// One of the policies, with its state for a cluster.
#[derive(Clone, Debug)]
pub(crate) struct PeerPlacer {
    policy: PackingPolicy,
    largest: NodeMaxima,
    /// Nodes by the names that their simulator gives them, which begin with a random number.
    names: Vec<usize>,
    rng: Rng,
}

impl PeerPlacer {
    /// Creates a placer for idle nodes.
    pub(crate) fn new(policy: PackingPolicy, hosts: &[PackingNode], seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut names: Vec<usize> = (0..hosts.len()).collect();
        for at in (1..names.len()).rev() {
            names.swap(at, rng.roll(at as u64 + 1) as usize);
        }
        Self { policy, largest: NodeMaxima::of(hosts), names, rng }
    }

    /// Returns node and devices of a pod; `None` if it fits nowhere.
    pub(crate) fn place(
        &mut self,
        hosts: &[PackingNode],
        pod: &PackingPod,
    ) -> Option<(usize, DeviceSet)> {
        let feasible = self.names.iter().copied().filter(|at| hosts[*at].fits(pod));
        if self.policy == PackingPolicy::Random {
            let feasible: Vec<usize> = feasible.collect();
            let at = *feasible.get(self.rng.roll(feasible.len().max(1) as u64) as usize)?;
            return Some((at, random::devices(&hosts[at], pod, &mut self.rng)));
        }
        // Among equals, the first.
        let at = feasible.min_by_key(|at| Reverse(self.score(&hosts[*at], pod)))?;
        Some((at, hosts[at].tightest(pod)))
    }

    /// Returns the score of a node with room for a pod: higher is better.
    fn score(&self, host: &PackingNode, pod: &PackingPod) -> i64 {
        match self.policy {
            PackingPolicy::Random => 0,
            PackingPolicy::DotProduct => dot_product::score(host, self.largest, pod),
            PackingPolicy::GpuPacking => gpu_packing::score(host, pod),
            PackingPolicy::GpuClustering => gpu_clustering::score(host, self.largest, pod),
        }
    }
}

#[cfg(test)]
mod tests;
