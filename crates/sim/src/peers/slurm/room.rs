//! How many tasks of a kind find room on a node: now, and once jobs that run have ended by their
//! time limits. Whole GPUs, CPUs and memory, as select/cons_tres counts them. Chooses nothing.

use std::collections::BTreeMap;

use muster_model::job::Resources;
use muster_model::{DeviceSet, GpuModel, NodeId, Span, Time};

use crate::fleet::{Desk, JobNo, Pool, PoolNode, Site};

/// What of a node is free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Free {
    devices: DeviceSet,
    cpus: u32,
    memory_bytes: u64,
}

impl Free {
    pub(super) fn of(node: &PoolNode) -> Self {
        match node.is_up {
            true => Self { devices: node.whole, cpus: node.cpus, memory_bytes: node.memory_bytes },
            false => Self::default(),
        }
    }
}

/// What a task holds until the time limit of its job.
#[derive(Clone, Copy, Debug)]
struct Held {
    node: NodeId,
    free: Free,
}

/// More tasks of a kind find room on a node from a certain time on; or no more, where what ends
/// then leaves too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) node: NodeId,
    pub(super) tasks: u32,
}

/// GPU models by node, and what ends when.
#[derive(Clone, Debug)]
pub(super) struct Rooms {
    models: Vec<Vec<(GpuModel, DeviceSet)>>,
    ends: BTreeMap<(Time, JobNo), Vec<Held>>,
    /// `bf_resolution`: what should have ended by now is planned to end so much later.
    resolution: Span,
}

impl Rooms {
    pub(super) fn new(site: &Site, resolution: Span) -> Self {
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

    /// A job holds what it has been given until its limit.
    pub(super) fn begin(&mut self, desk: &Desk, job: JobNo, end: Time) {
        let task = &desk.job(job).task;
        let places = (0..desk.job(job).tasks).filter_map(|rank| desk.place_of(job, rank));
        let held = places.map(|(node, devices)| Held {
            node,
            free: Free { devices, cpus: task.cpus.0, memory_bytes: task.memory.0 },
        });
        self.ends.insert((end, job), held.collect());
    }

    /// It holds nothing any more.
    pub(super) fn end(&mut self, job: JobNo, end: Time) {
        self.ends.remove(&(end, job));
    }

    /// So many such tasks find room where this is free.
    pub(super) fn room(&self, node: NodeId, free: Free, task: &Resources) -> u32 {
        let by = |there: u64, each: u64| there.checked_div(each).unwrap_or(u64::MAX);
        let others = by(u64::from(free.cpus), u64::from(task.cpus.0))
            .min(by(free.memory_bytes, task.memory.0));
        let gpus = match (task.gpu.devices, task.gpu.share.0) {
            (0, 0) => u64::MAX,
            (devices, _) => {
                // Who asks for a share is given a whole one.
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

    /// So many such tasks find room now, by node; nodes with none are left out.
    pub(super) fn now(&self, pool: &Pool, task: &Resources) -> Vec<(NodeId, u32)> {
        let rooms = pool.nodes().map(|(id, node)| (id, self.room(id, Free::of(node), task)));
        rooms.filter(|(_, room)| *room > 0).collect()
    }

    /// From when on how many more find room where, in order of time: what is free now, and each end
    /// on each node. What should have ended by now is about to.
    pub(super) fn steps(&self, pool: &Pool, now: Time, task: &Resources) -> Vec<Step> {
        let mut free: Vec<Free> = pool.nodes().map(|(_, node)| Free::of(node)).collect();
        let mut rooms: Vec<u32> = vec![0; free.len()];
        let mut steps = Vec::new();
        let mut look = |free: &[Free], node: NodeId, at: Time| {
            let room = self.room(node, free[node.0 as usize], task);
            let more = room.saturating_sub(rooms[node.0 as usize]);
            rooms[node.0 as usize] += more;
            if more > 0 || at > now {
                steps.push(Step { at, node, tasks: more });
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
        // Only those that should have ended by now can be out of order.
        steps.sort_by_key(|step| step.at);
        steps
    }
}
