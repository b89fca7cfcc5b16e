//! Who holds what, kept by the experiment itself: it believes nobody that there is room.

use muster_model::DeviceSet;

use super::Outcome;
use super::curve::{Adding, Part};
use super::fragmentation::Usual;
use crate::peers::packing::{Host, Pod};

/// The account of a run.
#[derive(Debug)]
pub(super) struct Account<'a> {
    usual: &'a Usual,
    hosts: Vec<Host>,
    /// By node, as [`Usual::lost_on`].
    lost_on: Vec<u64>,
    lost: u64,
    all_milli: u64,
    arrived_milli: u64,
    held_milli: u64,
    placed: u64,
    turned_away: u64,
    adding: Adding,
}

impl<'a> Account<'a> {
    /// Nodes on which nothing runs.
    pub(super) fn new(hosts: Vec<Host>, usual: &'a Usual) -> Self {
        let lost_on: Vec<u64> = hosts.iter().map(|host| usual.lost_on(host)).collect();
        Self {
            lost: lost_on.iter().sum(),
            all_milli: hosts.iter().map(Host::gpu_milli).sum(),
            arrived_milli: 0,
            held_milli: 0,
            placed: 0,
            turned_away: 0,
            adding: Adding::default(),
            usual,
            hosts,
            lost_on,
        }
    }

    /// The nodes as they are.
    pub(super) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A pod goes to these devices of a node; false where there is no room, and nothing changes.
    pub(super) fn take(&mut self, node: usize, devices: DeviceSet, pod: &Pod) -> bool {
        let (count, each) = pod.per_device();
        let Some(host) = self.hosts.get_mut(node) else { return false };
        let has_room = |device: usize| host.rooms.get(device).is_some_and(|room| *room >= each);
        if devices.len() != count || !devices.iter().all(has_room) || !host.fits(pod) {
            return false;
        }
        host.cpus_milli -= pod.cpus_milli;
        host.memory_bytes -= pod.memory_bytes;
        for device in devices.iter() {
            host.rooms[device] -= each;
        }
        if let Some(kind) = pod.kind() {
            *host.kinds.entry(kind).or_default() += 1;
        }
        let lost = self.usual.lost_on(host);
        self.lost = self.lost - self.lost_on[node] + lost;
        self.lost_on[node] = lost;
        self.held_milli += pod.gpu_milli();
        true
    }

    /// A pod arrived, and was placed or turned away.
    pub(super) fn arrived(&mut self, pod: &Pod, is_placed: bool) {
        self.arrived_milli += pod.gpu_milli();
        *(if is_placed { &mut self.placed } else { &mut self.turned_away }) += 1;
        let of_all = |milli: u64| Part { some: milli.into(), all: self.all_milli.into() };
        let idle_milli = self.all_milli - self.held_milli;
        let fragmented = Part {
            some: self.lost.into(),
            all: u128::from(idle_milli) * u128::from(self.usual.total()),
        };
        self.adding.arrived(of_all(self.arrived_milli), of_all(self.held_milli), fragmented);
    }

    pub(super) fn finish(self) -> Outcome {
        Outcome { curve: self.adding.finish(), placed: self.placed, turned_away: self.turned_away }
    }
}
