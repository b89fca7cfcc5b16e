//! Devices of one node that pods of ours have: whole ones, and shares of those that a holder keeps from
//! others. A holder without shares still has its device, until it is gone.

use std::collections::{BTreeMap, BTreeSet};

use muster_kubernetes::object::ObjectKey;
use muster_model::{DeviceSet, GpuMilli, NodeName};

use crate::observation::PodId;

/// Node and devices of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: NodeName,
    pub(crate) devices: DeviceSet,
    /// Thousandths of each device.
    pub(crate) share: GpuMilli,
}

/// Thousandths of a whole device.
pub(crate) const WHOLE: GpuMilli = GpuMilli(1000);

impl Place {
    /// Returns the device of which the pod has a part; `None` for whole devices, and for none.
    pub(crate) fn shared(&self) -> Option<usize> {
        let is_shared = self.share > GpuMilli(0) && self.share < WHOLE;
        self.devices.iter().next().filter(|_| is_shared)
    }
}

/// Pod that holds a device for pods with shares of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pod: PodId,
    /// False once it has ended, or is being deleted: its device may be given to others then.
    pub(crate) is_live: bool,
}

/// Devices of a node that are not free.
#[derive(Debug, Default)]
pub(crate) struct Held {
    whole: DeviceSet,
    /// Thousandths of each shared device that pods have.
    shares: BTreeMap<usize, u32>,
    /// Holders by the number of their GPU among those of the node.
    holders: BTreeMap<usize, Holder>,
    /// Pods that are bound with a share, or being bound, with the number of the GPU. The engine may not know
    /// them yet.
    sharers: BTreeSet<(usize, ObjectKey)>,
    /// Holders whose deletion was requested.
    freed: Vec<PodId>,
}

impl Held {
    pub(crate) fn take(&mut self, place: &Place) {
        match place.shared() {
            Some(device) => *self.shares.entry(device).or_default() += place.share.0,
            None => self.whole = self.whole.or(place.devices),
        }
    }

    pub(crate) fn give_back(&mut self, place: &Place) {
        let Some(device) = place.shared() else {
            self.whole = self.whole.minus(place.devices);
            return;
        };
        if let Some(sum) = self.shares.get_mut(&device) {
            *sum = sum.saturating_sub(place.share.0);
            if *sum == 0 {
                self.shares.remove(&device);
            }
        }
    }

    /// Returns the devices that pods have, or shares of.
    pub(crate) fn in_use(&self) -> DeviceSet {
        self.whole.or(self.shares.keys().copied().collect())
    }

    /// Returns the devices of holders without shares, among the GPUs of the node. Nobody gets them, since
    /// the kubelet has not got them back.
    pub(crate) fn idle(&self, gpus: DeviceSet) -> DeviceSet {
        self.without_sharers(gpus).minus(self.in_use())
    }

    /// Returns the number of holders without shares whose device a pod of ours got whole, before the holder
    /// was known. The kubelet has given both a GPU, so these holders count beside the pod.
    pub(crate) fn displaced(&self, gpus: DeviceSet) -> u32 {
        self.without_sharers(gpus).and(self.whole).len()
    }

    fn without_sharers(&self, gpus: DeviceSet) -> DeviceSet {
        let held = gpus
            .iter()
            .enumerate()
            .filter(|(number, _)| self.holders.contains_key(number) && !self.has_sharer(*number));
        held.map(|(_, device)| device).collect()
    }

    /// Returns true if this share of a device is free, beside shares that others have.
    pub(crate) fn has_room(&self, device: usize, share: GpuMilli) -> bool {
        let used = self.shares.get(&device).copied().unwrap_or_default();
        !self.whole.contains(device) && used + share.0 <= WHOLE.0
    }

    pub(crate) fn add_sharer(&mut self, number: usize, pod: &ObjectKey) {
        self.sharers.insert((number, pod.clone()));
    }

    pub(crate) fn remove_sharer(&mut self, number: usize, pod: &ObjectKey) {
        self.sharers.remove(&(number, pod.clone()));
    }

    /// Returns the devices of which some of these pods have shares, among the GPUs of the node.
    pub(crate) fn shared_by(
        &self,
        gpus: DeviceSet,
        is_one: impl Fn(&ObjectKey) -> bool,
    ) -> DeviceSet {
        let theirs: BTreeSet<usize> =
            self.sharers.iter().filter(|(_, pod)| is_one(pod)).map(|(number, _)| *number).collect();
        let numbered = gpus.iter().enumerate();
        numbered.filter(|(number, _)| theirs.contains(number)).map(|(_, device)| device).collect()
    }

    /// Returns the pods that are bound with a share, or being bound.
    pub(crate) fn sharers(&self) -> impl Iterator<Item = &ObjectKey> {
        self.sharers.iter().map(|(_, pod)| pod)
    }

    fn has_sharer(&self, number: usize) -> bool {
        self.sharers.iter().any(|(one, _)| *one == number)
    }

    pub(crate) fn set_holder(&mut self, number: usize, holder: Holder) {
        self.holders.insert(number, holder);
    }

    pub(crate) fn remove_holder(&mut self, pod: &PodId) {
        self.holders.retain(|_, holder| holder.pod != *pod);
        self.freed.retain(|one| one != pod);
    }

    /// Returns true if a holder has the GPU of this number.
    pub(crate) fn has_live_holder(&self, number: usize) -> bool {
        self.holders.get(&number).is_some_and(|holder| holder.is_live)
    }

    pub(crate) fn has_holders(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Returns the holders without shares, each once.
    pub(crate) fn take_to_free(&mut self, gpus: DeviceSet) -> Vec<PodId> {
        let needless = self.without_sharers(gpus).minus(self.shares.keys().copied().collect());
        let is_idle = |number: usize| match gpus.iter().nth(number) {
            Some(device) => needless.contains(device),
            None => !self.has_sharer(number),
        };
        let new: Vec<PodId> = self
            .holders
            .iter()
            .filter(|(number, holder)| !self.freed.contains(&holder.pod) && is_idle(**number))
            .map(|(_, holder)| holder.pod.clone())
            .collect();
        self.freed.extend(new.iter().cloned());
        new
    }
}
