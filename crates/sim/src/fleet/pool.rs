//! Free resources of each node, and what a task may take of them. Resources are never held twice:
//! taking what is not free is a defect of the caller, which is reported.

use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{DeviceSet, GpuMilli, NodeId, NodeSpec};

/// Nodes by their numbers.
#[derive(Clone, Debug)]
pub struct Pool {
    nodes: Vec<PoolNode>,
}

/// A node and its free resources.
#[derive(Clone, Debug)]
pub struct PoolNode {
    /// The node when nothing runs on it; shared, since schedulers plan on copies of the pool.
    pub spec: Arc<NodeSpec>,
    /// True while the node is up.
    pub is_up: bool,
    /// True while its free part is withheld from other jobs.
    pub is_withheld: bool,
    /// Wholly free devices, without broken ones.
    pub whole: DeviceSet,
    /// Devices that are out of service.
    pub broken: DeviceSet,
    /// Free thousandths by device; broken devices keep their number.
    pub free: Vec<u16>,
    /// Free thousandths of CPUs.
    pub cpus: u32,
    /// Free memory in bytes.
    pub memory_bytes: u64,
    /// Number of tasks that hold something.
    pub tasks: u32,
    /// True if all devices have one model. Cached: model names are long, and every placement
    /// attempt compares them.
    is_of_one_model: bool,
}

/// Thousandths of a whole device.
const WHOLE: u16 = 1000;

impl PoolNode {
    fn new(spec: NodeSpec) -> Self {
        let count = spec.devices.len();
        Self {
            is_up: true,
            is_withheld: false,
            whole: DeviceSet::first(count),
            broken: DeviceSet::EMPTY,
            free: vec![WHOLE; count],
            cpus: spec.cpus.0,
            memory_bytes: spec.memory.0,
            tasks: 0,
            is_of_one_model: spec.devices.windows(2).all(|two| two[0].model == two[1].model),
            spec: Arc::new(spec),
        }
    }

    /// Returns the devices that a task takes by default: the lowest whole ones of one model, or for
    /// a share the device with the least sufficient room. `None` if it does not fit.
    #[must_use]
    pub fn choose(&self, task: &Resources) -> Option<DeviceSet> {
        if !self.is_up
            || self.is_withheld
            || self.cpus < task.cpus.0
            || self.memory_bytes < task.memory.0
        {
            return None;
        }
        let gpu = &task.gpu;
        if gpu.is_none() {
            return Some(DeviceSet::EMPTY);
        }
        if gpu.devices == 0 {
            let share = gpu.share.0 as u16;
            let fits = |at: &usize| {
                self.free[*at] >= share && !self.broken.contains(*at) && self.accepts(task, *at)
            };
            return (0..self.free.len())
                .filter(fits)
                .min_by_key(|at| self.free[*at])
                .map(DeviceSet::one);
        }
        if gpu.models.is_empty() && self.is_of_one_model {
            return (self.whole.len() >= gpu.devices).then(|| self.whole.lowest(gpu.devices));
        }
        self.spec.devices.iter().enumerate().find_map(|(first, device)| {
            let is_first =
                !self.spec.devices[..first].iter().any(|other| other.model == device.model);
            let wanted = gpu.models.is_empty() || gpu.models.contains(&device.model);
            let of_model =
                || self.whole.iter().filter(|at| self.spec.devices[*at].model == device.model);
            let set: DeviceSet = (is_first && wanted).then(of_model)?.collect();
            (set.len() >= gpu.devices).then(|| set.lowest(gpu.devices))
        })
    }

    /// Returns how many such tasks fit, at most `most`. It is called for every node of every gang,
    /// so it counts without trying.
    #[must_use]
    pub fn capacity(&self, task: &Resources, most: u32) -> u32 {
        if self.is_withheld { 0 } else { self.holder_capacity(task, most) }
    }

    /// Returns how many such tasks of the job that withholds the node fit, at most `most`.
    #[must_use]
    pub fn holder_capacity(&self, task: &Resources, most: u32) -> u32 {
        if !self.is_up {
            return 0;
        }
        let by_cpus = self.cpus.checked_div(task.cpus.0).unwrap_or(most);
        let by_memory = self
            .memory_bytes
            .checked_div(task.memory.0)
            .map_or(most, |capacity| u32::try_from(capacity).unwrap_or(most));
        let most = most.min(by_cpus).min(by_memory);
        if most == 0 || task.gpu.is_none() {
            return most;
        }
        most.min(if task.gpu.devices == 0 { self.shares(task) } else { self.sets(task) })
    }

    /// Returns how many shares of this size fit.
    fn shares(&self, task: &Resources) -> u32 {
        let fits = |at: &usize| !self.broken.contains(*at) && self.accepts(task, *at);
        let share = task.gpu.share.0;
        (0..self.free.len()).filter(fits).map(|at| u32::from(self.free[at]) / share).sum()
    }

    /// Returns how many sets of whole devices of one model fit.
    fn sets(&self, task: &Resources) -> u32 {
        let gpu = &task.gpu;
        if gpu.models.is_empty() && self.is_of_one_model {
            return self.whole.len() / gpu.devices;
        }
        let mut sets = 0;
        for (first, device) in self.spec.devices.iter().enumerate() {
            let is_first =
                !self.spec.devices[..first].iter().any(|other| other.model == device.model);
            if is_first && self.accepts(task, first) {
                let whole =
                    self.whole.iter().filter(|at| self.spec.devices[*at].model == device.model);
                sets += whole.count() as u32 / gpu.devices;
            }
        }
        sets
    }

    /// Returns what is free of the node, in thousandths of GPUs or of CPUs, without broken devices.
    #[must_use]
    pub fn idle_milli(&self, has_gpus: bool) -> u64 {
        let free = || self.free.iter().enumerate().filter(|(at, _)| !self.broken.contains(*at));
        match (self.is_up, has_gpus) {
            (false, _) => 0,
            (true, true) => free().map(|(_, free)| u64::from(*free)).sum(),
            (true, false) => u64::from(self.cpus),
        }
    }

    fn accepts(&self, task: &Resources, device: usize) -> bool {
        let models = &task.gpu.models;
        models.is_empty() || models.contains(&self.spec.devices[device].model)
    }

    /// Takes resources; false, without a change, if they are not free.
    fn take(&mut self, task: &Resources, devices: DeviceSet) -> bool {
        let share = held_per_device(task);
        let is_free = self.is_up
            && !self.is_withheld
            && self.cpus >= task.cpus.0
            && self.memory_bytes >= task.memory.0
            && devices.iter().all(|at| at < self.free.len() && self.free[at] >= share)
            && devices.and(self.broken).is_empty()
            && devices.len() * u32::from(share) == task.gpu.milli().0;
        if is_free {
            self.cpus -= task.cpus.0;
            self.memory_bytes -= task.memory.0;
            self.tasks += 1;
            for at in devices.iter() {
                self.free[at] -= share;
            }
            self.whole = self.whole.minus(devices);
        }
        is_free
    }

    fn give(&mut self, task: &Resources, devices: DeviceSet) {
        let share = held_per_device(task);
        self.cpus += task.cpus.0;
        self.memory_bytes += task.memory.0;
        self.tasks -= 1;
        for at in devices.iter() {
            self.free[at] += share;
            if self.free[at] == WHOLE && !self.broken.contains(at) {
                self.whole.insert(at);
            }
        }
    }
}

/// Returns the thousandths that a task holds of each of its devices.
fn held_per_device(task: &Resources) -> u16 {
    match (task.gpu.devices, task.gpu.share) {
        (0, GpuMilli(share)) => share as u16,
        _ => WHOLE,
    }
}

impl Pool {
    /// Creates an idle pool.
    #[must_use]
    pub fn new(nodes: &[NodeSpec]) -> Self {
        Self { nodes: nodes.iter().cloned().map(PoolNode::new).collect() }
    }

    /// Returns the node with this number.
    #[must_use]
    pub fn node(&self, node: NodeId) -> &PoolNode {
        &self.nodes[node.0 as usize]
    }

    /// Returns all nodes with their numbers.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &PoolNode)> {
        self.nodes.iter().enumerate().map(|(at, node)| (NodeId(at as u32), node))
    }

    /// Returns whether these tasks fit, placed one after the other.
    #[must_use]
    pub fn has_capacity(&self, task: &Resources, tasks: u32) -> bool {
        let mut left = tasks;
        for node in &self.nodes {
            left -= node.capacity(task, left);
            if left == 0 {
                return true;
            }
        }
        left == 0
    }

    /// Takes devices of a node, with CPUs and memory; false, without a change, if they are not
    /// free.
    #[must_use]
    pub fn take(&mut self, node: NodeId, task: &Resources, devices: DeviceSet) -> bool {
        self.nodes[node.0 as usize].take(task, devices)
    }

    /// Frees what was taken.
    pub fn give(&mut self, node: NodeId, task: &Resources, devices: DeviceSet) {
        self.nodes[node.0 as usize].give(task, devices);
    }

    /// Returns what is out of service: nodes that are down, and broken devices of the others.
    pub(super) fn down_milli(&self, has_gpus: bool) -> u64 {
        let of = |node: &PoolNode| match (node.is_up, has_gpus) {
            (true, true) => u64::from(node.broken.len()) * 1000,
            (false, true) => node.spec.devices.len() as u64 * 1000,
            (true, false) => 0,
            (false, false) => u64::from(node.spec.cpus.0),
        };
        self.nodes.iter().map(of).sum()
    }

    /// Sets whether a node is up.
    pub(super) fn set_up(&mut self, node: NodeId, is_up: bool) {
        self.nodes[node.0 as usize].is_up = is_up;
    }

    /// Sets whether the free part of a node is withheld.
    pub(super) fn set_withheld(&mut self, node: NodeId, is_withheld: bool) {
        self.nodes[node.0 as usize].is_withheld = is_withheld;
    }

    /// Breaks or repairs a device.
    pub(super) fn set_broken(&mut self, node: NodeId, device: usize, is_broken: bool) {
        let node = &mut self.nodes[node.0 as usize];
        let one = DeviceSet::one(device);
        if is_broken {
            node.broken.insert(device);
            node.whole = node.whole.minus(one);
        } else {
            node.broken = node.broken.minus(one);
            if node.free[device] == WHOLE {
                node.whole.insert(device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::job::GpuRequest;
    use muster_model::{Bytes, CpuMilli, Device};

    use super::*;

    fn node(models: &[&str]) -> PoolNode {
        let device = |model: &&str| Device::declared(*model, Bytes(0));
        PoolNode::new(NodeSpec {
            devices: models.iter().map(device).collect(),
            ..NodeSpec::plain("n", CpuMilli(8_000), Bytes(64 << 30))
        })
    }

    fn task(devices: u32, share: u32, models: &[&str], cpus: u32) -> Resources {
        let models = models.iter().map(|model| (*model).into()).collect();
        let gpu = GpuRequest { devices, share: GpuMilli(share), models };
        Resources { gpu, cpus: CpuMilli(cpus), memory: Bytes(1 << 30), ..Resources::default() }
    }

    #[test]
    fn the_free_capacity_count_matches_an_exhaustive_placement() {
        let mixed = ["a", "a", "b", "a", "b", "b", "b", "a"];
        for models in [&["a"; 8], &mixed] {
            for held in [task(1, 0, &[], 0), task(0, 400, &[], 500), task(2, 0, &["a"], 3_000)] {
                let mut node = node(models);
                let devices = node.choose(&held).unwrap();
                assert!(node.take(&held, devices));
                for requested in [
                    task(1, 0, &[], 0),
                    task(3, 0, &[], 0),
                    task(2, 0, &["a"], 0),
                    task(1, 0, &["b"], 2_500),
                    task(0, 300, &["a"], 0),
                    task(0, 600, &[], 0),
                    task(0, 0, &[], 1_000),
                    task(1, 0, &["c"], 0),
                ] {
                    let mut tried = node.clone();
                    let found = (0..20)
                        .take_while(|_| {
                            tried
                                .choose(&requested)
                                .is_some_and(|devices| tried.take(&requested, devices))
                        })
                        .count() as u32;
                    assert_eq!(node.capacity(&requested, 20), found, "{requested:?}");
                }
            }
        }
    }
}
