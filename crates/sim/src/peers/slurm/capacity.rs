//! Room for tasks on nodes: now, and once running jobs have ended by their time limits. Whole GPUs,
//! CPUs and memory, as select/cons_tres counts them.

use std::collections::BTreeMap;

use muster_model::job::Resources;
use muster_model::{DeviceSet, GpuModel, NodeId, Span, Time};

use crate::fleet::{ClusterState, FleetSite, JobNo, Pool, PoolNode};

/// Free resources of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FreeResources {
    devices: DeviceSet,
    cpus: u32,
    memory_bytes: u64,
}

impl FreeResources {
    pub(super) fn of(node: &PoolNode) -> Self {
        if node.is_up {
            Self { devices: node.whole, cpus: node.cpus, memory_bytes: node.memory_bytes }
        } else {
            Self::default()
        }
    }
}

/// Resources that a task holds until the time limit of its job.
#[derive(Clone, Copy, Debug)]
struct HeldResources {
    node: NodeId,
    free: FreeResources,
}

/// Additional tasks that fit on a node from a certain time on; 0 if what ends then is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CapacityStep {
    pub(super) at: Time,
    pub(super) node: NodeId,
    pub(super) tasks: u32,
}

/// GPU models by node, and the ends of running jobs.
#[derive(Clone, Debug)]
pub(super) struct CapacityTable {
    models: Vec<Vec<(GpuModel, DeviceSet)>>,
    ends: BTreeMap<(Time, JobNo), Vec<HeldResources>>,
    /// `bf_resolution`: overdue jobs are planned to end this much later.
    resolution: Span,
}

impl CapacityTable {
    pub(super) fn new(site: &FleetSite, resolution: Span) -> Self {
        let models = site.nodes.iter().map(|node| {
            let mut models: Vec<(GpuModel, DeviceSet)> = Vec::new();
            for (at, device) in node.devices.iter().enumerate() {
                match models.iter_mut().find(|(model, _)| *model == device.model) {
                    Some((_, set)) => set.insert(at),
                    None => models.push((device.model.clone(), DeviceSet::one(at))),
                }
            }
            models
        });
        Self { models: models.collect(), ends: BTreeMap::new(), resolution }
    }

    /// Adds a running job until its limit.
    pub(super) fn begin(&mut self, cluster: &ClusterState, job: JobNo, end: Time) {
        let task = &cluster.job(job).task;
        let places = (0..cluster.job(job).tasks).filter_map(|rank| cluster.place_of(job, rank));
        let held = places.map(|(node, devices)| HeldResources {
            node,
            free: FreeResources { devices, cpus: task.cpus.0, memory_bytes: task.memory.0 },
        });
        self.ends.insert((end, job), held.collect());
    }

    /// Moves the end of a running job.
    pub(super) fn move_end(&mut self, job: JobNo, from: Time, to: Time) {
        if let Some(held) = self.ends.remove(&(from, job)) {
            self.ends.insert((to, job), held);
        }
    }

    /// Removes a job that has ended.
    pub(super) fn end(&mut self, job: JobNo, end: Time) {
        self.ends.remove(&(end, job));
    }

    /// Returns how many such tasks fit in these free resources.
    pub(super) fn capacity(&self, node: NodeId, free: FreeResources, task: &Resources) -> u32 {
        let by = |there: u64, each: u64| there.checked_div(each).unwrap_or(u64::MAX);
        let others = by(u64::from(free.cpus), u64::from(task.cpus.0))
            .min(by(free.memory_bytes, task.memory.0));
        let gpus = match (task.gpu.devices, task.gpu.share.0) {
            (0, 0) => u64::MAX,
            (devices, _) => {
                // A job that requests a share gets a whole GPU.
                let each = devices.max(1);
                let wanted = |model: &GpuModel| {
                    task.gpu.models.is_empty() || task.gpu.models.contains(model)
                };
                let models = self.models[node.0 as usize].iter().filter(|(model, _)| wanted(model));
                models.map(|(_, set)| u64::from(set.and(free.devices).len() / each)).sum()
            }
        };
        gpus.min(others).min(u64::from(u32::MAX)) as u32
    }

    /// Returns how many such tasks fit now, by node; nodes with none are left out.
    pub(super) fn now(&self, pool: &Pool, task: &Resources) -> Vec<(NodeId, u32)> {
        let capacities =
            pool.nodes().map(|(id, node)| (id, self.capacity(id, FreeResources::of(node), task)));
        capacities.filter(|(_, capacity)| *capacity > 0).collect()
    }

    /// Returns the room over time: what is free now, and each end on each node. Overdue jobs are
    /// about to end.
    pub(super) fn steps(&self, pool: &Pool, now: Time, task: &Resources) -> Vec<CapacityStep> {
        let mut free: Vec<FreeResources> =
            pool.nodes().map(|(_, node)| FreeResources::of(node)).collect();
        let mut capacities: Vec<u32> = vec![0; free.len()];
        let mut steps = Vec::new();
        let mut look = |free: &[FreeResources], node: NodeId, at: Time| {
            let capacity = self.capacity(node, free[node.0 as usize], task);
            let more = capacity.saturating_sub(capacities[node.0 as usize]);
            capacities[node.0 as usize] += more;
            if more > 0 || at > now {
                steps.push(CapacityStep { at, node, tasks: more });
            }
        };
        for (node, _) in pool.nodes() {
            look(&free, node, now);
        }
        for ((end, _), held) in &self.ends {
            let at = if *end > now { *end } else { now + self.resolution };
            for held in held.iter().filter(|held| pool.node(held.node).is_up) {
                let there = &mut free[held.node.0 as usize];
                there.devices = there.devices.or(held.free.devices);
                there.cpus += held.free.cpus;
                there.memory_bytes += held.free.memory_bytes;
                look(&free, held.node, at);
            }
        }
        // Only overdue ends can be out of order.
        steps.sort_by_key(|step| step.at);
        steps
    }
}
