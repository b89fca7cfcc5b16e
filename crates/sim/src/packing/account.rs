//! Resource accounting of the experiment: it checks every placement itself.

use muster_model::DeviceSet;

use super::PackingOutcome;
use super::curve::{Adding, Fraction};
use super::fragmentation::TypicalPods;
use crate::peers::packing::{PackingNode, PackingPod};

/// Accounting of a run.
#[derive(Debug)]
pub(super) struct PackingAccount<'a> {
    typical: &'a TypicalPods,
    hosts: Vec<PackingNode>,
    /// Fragmented thousandths by node, as [`TypicalPods::lost_on`].
    lost_on: Vec<u64>,
    lost: u64,
    all_milli: u64,
    arrived_milli: u64,
    held_milli: u64,
    placed: u64,
    turned_away: u64,
    adding: Adding,
}

impl<'a> PackingAccount<'a> {
    /// Starts with idle nodes.
    pub(super) fn new(hosts: Vec<PackingNode>, typical: &'a TypicalPods) -> Self {
        let lost_on: Vec<u64> = hosts.iter().map(|host| typical.lost_on(host)).collect();
        Self {
            lost: lost_on.iter().sum(),
            all_milli: hosts.iter().map(PackingNode::gpu_milli).sum(),
            arrived_milli: 0,
            held_milli: 0,
            placed: 0,
            turned_away: 0,
            adding: Adding::default(),
            typical,
            hosts,
            lost_on,
        }
    }

    /// Returns the current nodes.
    pub(super) fn hosts(&self) -> &[PackingNode] {
        &self.hosts
    }

    /// Places a pod on devices of a node; false, without a change, if it does not fit.
    pub(super) fn take(&mut self, node: usize, devices: DeviceSet, pod: &PackingPod) -> bool {
        let (count, each) = pod.per_device();
        let Some(host) = self.hosts.get_mut(node) else { return false };
        let has_capacity =
            |device: usize| host.capacities.get(device).is_some_and(|capacity| *capacity >= each);
        if devices.len() != count || !devices.iter().all(has_capacity) || !host.fits(pod) {
            return false;
        }
        host.cpus_milli -= pod.cpus_milli;
        host.memory_bytes -= pod.memory_bytes;
        for device in devices.iter() {
            host.capacities[device] -= each;
        }
        if let Some(kind) = pod.kind() {
            *host.kinds.entry(kind).or_default() += 1;
        }
        let lost = self.typical.lost_on(host);
        self.lost = self.lost - self.lost_on[node] + lost;
        self.lost_on[node] = lost;
        self.held_milli += pod.gpu_milli();
        true
    }

    /// Counts an arrival that was placed or rejected.
    pub(super) fn arrived(&mut self, pod: &PackingPod, is_placed: bool) {
        self.arrived_milli += pod.gpu_milli();
        *(if is_placed { &mut self.placed } else { &mut self.turned_away }) += 1;
        let of_all = |milli: u64| Fraction { some: milli.into(), all: self.all_milli.into() };
        let idle_milli = self.all_milli - self.held_milli;
        let fragmented = Fraction {
            some: self.lost.into(),
            all: u128::from(idle_milli) * u128::from(self.typical.total()),
        };
        self.adding.arrived(of_all(self.arrived_milli), of_all(self.held_milli), fragmented);
    }

    pub(super) fn finish(self) -> PackingOutcome {
        PackingOutcome {
            curve: self.adding.finish(),
            placed: self.placed,
            turned_away: self.turned_away,
        }
    }
}
