//! Stranded GPUs: how much of the idle GPUs the pending jobs could use. It counts GPUs and ignores
//! nodes, so what keeps a job from enough idle GPUs is fragmentation or the scheduler.
//!
//! A pending job counts if the idle GPUs of the models that it accepts are enough for all that it
//! lacks, and if its queue and every queue above may hold that much more: quota plus borrowing
//! limit, where the queue file sets both. All such jobs together use what they lack, at most what
//! is idle and what their queues may hold, per model. Two jobs that fit one at a time and not
//! together count as one and a part: the sum is an upper bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::node::GpuModel;
use muster_model::{DeviceSet, NodeId, QueueName, QueueSpec};

use super::load::FleetJob;
use super::pool::{Pool, PoolNode};
use super::site::FleetSite;

/// Most GPU models, one bit each; further ones count as the last.
const MOST_MODELS: usize = 64;

/// Pending jobs with equal demand. Jobs that accept the fewest models come first, among them the
/// smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DemandClass {
    count: u32,
    /// One bit for each accepted model.
    models: u64,
    lacks_milli: u64,
    /// Index in [`QueueCeilings`]; 0 where no queue has a ceiling.
    queue: usize,
}

/// Ceiling and use of a queue by model.
#[derive(Clone, Debug)]
struct QueueCeiling {
    parent: Option<usize>,
    ceiling_milli: Vec<Option<u64>>,
    held_milli: Vec<u64>,
}

/// Queues of a tree in which some queue has a ceiling; otherwise empty.
#[derive(Clone, Debug, Default)]
struct QueueCeilings {
    all: Vec<QueueCeiling>,
    /// Shared, since the queues are copied for each count.
    leaves: Arc<BTreeMap<QueueName, usize>>,
}

/// Idle GPUs, pending jobs, and what these could use.
#[derive(Clone, Debug)]
pub(super) struct WaitingJobs {
    has_gpus: bool,
    models: Vec<GpuModel>,
    /// Idle thousandths by node and model, and their sums by model.
    idle_of: Vec<Vec<u64>>,
    idle: Vec<u64>,
    /// Nodes that changed since `idle` was counted.
    changed: Vec<NodeId>,
    queues: QueueCeilings,
    /// Number of pending jobs by demand, without jobs that lack nothing.
    classes: BTreeMap<DemandClass, u64>,
    jobs: u64,
}

impl WaitingJobs {
    pub(super) fn new(site: &FleetSite) -> Self {
        let devices = site.nodes.iter().flat_map(|node| &node.devices);
        let mut models: Vec<GpuModel> = devices.map(|device| device.model.clone()).collect();
        models.sort();
        models.dedup();
        models.truncate(MOST_MODELS);
        let kinds = models.len().max(1);
        Self {
            has_gpus: site.has_gpus(),
            idle_of: vec![vec![0; kinds]; site.nodes.len()],
            idle: vec![0; kinds],
            changed: (0..site.nodes.len() as u32).map(NodeId).collect(),
            queues: QueueCeilings::new(&site.tree.queues, &models),
            models,
            classes: BTreeMap::new(),
            jobs: 0,
        }
    }

    /// Returns the number of pending jobs.
    pub(super) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Marks a node whose free resources have changed.
    pub(super) fn node_changed(&mut self, node: NodeId) {
        if self.changed.last() != Some(&node) {
            self.changed.push(node);
        }
    }

    /// Counts devices that a task of a job takes or frees.
    pub(super) fn holds(
        &mut self,
        job: &FleetJob,
        node: &PoolNode,
        devices: DeviceSet,
        each: u64,
        does: bool,
    ) {
        if self.queues.all.is_empty() || devices.is_empty() {
            return;
        }
        let leaf = self.queues.leaf(&job.queue);
        for device in devices.iter() {
            let model = model_of(&self.models, &node.spec.devices[device].model);
            self.queues.hold(leaf, model, each, does);
        }
    }

    /// Changes what a job lacks from `before` to `now`; `None` while it is not pending.
    pub(super) fn change(&mut self, job: &FleetJob, before: Option<u64>, now: Option<u64>) {
        if let Some(lacks) = before {
            self.jobs -= 1;
            if let Some(class) = self.class(job, lacks)
                && let Some(jobs) = self.classes.get_mut(&class)
            {
                *jobs -= 1;
                if *jobs == 0 {
                    self.classes.remove(&class);
                }
            }
        }
        if let Some(lacks) = now {
            self.jobs += 1;
            if let Some(class) = self.class(job, lacks) {
                *self.classes.entry(class).or_default() += 1;
            }
        }
    }

    /// Returns the demand of a job; `None` if it lacks nothing that could be idle.
    fn class(&self, job: &FleetJob, lacks_milli: u64) -> Option<DemandClass> {
        let wanted = &job.task.gpu.models;
        let models = if self.has_gpus && !wanted.is_empty() {
            wanted
                .iter()
                .filter(|model| self.models.contains(model))
                .fold(0, |set, model| set | 1 << model_of(&self.models, model))
        } else {
            u64::MAX >> (64 - self.idle.len())
        };
        let class = DemandClass {
            count: models.count_ones(),
            models,
            lacks_milli,
            queue: self.queues.leaf(&job.queue),
        };
        (lacks_milli > 0 && models != 0).then_some(class)
    }

    /// Returns the idle thousandths that pending jobs could use.
    pub(super) fn stranded_milli(&mut self, pool: &Pool) -> u64 {
        for node in std::mem::take(&mut self.changed) {
            let now = idle_by_model(pool.node(node), &self.models, self.has_gpus);
            let before = std::mem::replace(&mut self.idle_of[node.0 as usize], now);
            for (model, sum) in self.idle.iter_mut().enumerate() {
                *sum = *sum - before[model] + self.idle_of[node.0 as usize][model];
            }
        }
        if self.classes.is_empty() || self.idle.iter().all(|idle| *idle == 0) {
            return 0;
        }
        let mut left = self.idle.clone();
        let mut queues = self.queues.clone();
        let kinds = self.idle.len();
        let mut used = 0;
        for (class, jobs) in &self.classes {
            let accepted = (0..kinds).filter(|model| class.models >> model & 1 == 1);
            let alone: u64 = accepted
                .clone()
                .map(|model| self.idle[model].min(self.queues.capacity(class.queue, model)))
                .sum();
            if alone < class.lacks_milli {
                continue;
            }
            let mut wanted = class.lacks_milli.saturating_mul(*jobs);
            for model in accepted {
                let takes = wanted.min(left[model]).min(queues.capacity(class.queue, model));
                queues.hold(class.queue, model, takes, true);
                (left[model], wanted, used) = (left[model] - takes, wanted - takes, used + takes);
            }
            if left.iter().all(|idle| *idle == 0) {
                break;
            }
        }
        used
    }
}

fn model_of(models: &[GpuModel], model: &GpuModel) -> usize {
    models.iter().position(|known| known == model).unwrap_or(models.len().saturating_sub(1))
}

/// Returns what is free of a node and not withheld, in thousandths by model, or of CPUs where no
/// node has a GPU.
fn idle_by_model(node: &PoolNode, models: &[GpuModel], has_gpus: bool) -> Vec<u64> {
    let mut idle = vec![0; models.len().max(1)];
    match (node.is_withheld, has_gpus && models.len() > 1) {
        (true, _) => {}
        (false, false) => idle[0] = node.idle_milli(has_gpus),
        (false, true) if node.is_up => {
            for at in (0..node.free.len()).filter(|at| !node.broken.contains(*at)) {
                idle[model_of(models, &node.spec.devices[at].model)] += u64::from(node.free[at]);
            }
        }
        (false, true) => {}
    }
    idle
}

impl QueueCeilings {
    fn new(queues: &[QueueSpec], models: &[GpuModel]) -> Self {
        let mut made = Self::default();
        queues.iter().for_each(|queue| made.add(queue, None, "", models));
        let has_ceiling =
            made.all.iter().any(|queue| queue.ceiling_milli.iter().any(Option::is_some));
        if has_ceiling { made } else { Self::default() }
    }

    fn add(&mut self, queue: &QueueSpec, parent: Option<usize>, above: &str, models: &[GpuModel]) {
        let path = if above.is_empty() {
            queue.name.to_string()
        } else {
            format!("{above}/{}", queue.name)
        };
        let ceiling = |model: &GpuModel| Some((queue.quota.get(model)? + queue.borrow?) * 1000);
        let at = self.all.len();
        self.all.push(QueueCeiling {
            parent,
            ceiling_milli: models.iter().map(ceiling).collect(),
            held_milli: vec![0; models.len()],
        });
        if queue.queues.is_empty() {
            Arc::make_mut(&mut self.leaves).insert(path.as_str().into(), at);
        }
        queue.queues.iter().for_each(|child| self.add(child, Some(at), &path, models));
    }

    fn leaf(&self, queue: &QueueName) -> usize {
        self.leaves.get(queue).copied().unwrap_or(0)
    }

    /// Returns what a queue and every queue above it may hold in addition.
    fn capacity(&self, leaf: usize, model: usize) -> u64 {
        let capacities = self.ancestors(leaf).filter_map(|at| {
            let queue = &self.all[at];
            (*queue.ceiling_milli.get(model)?)
                .map(|most| most.saturating_sub(queue.held_milli[model]))
        });
        capacities.min().unwrap_or(u64::MAX)
    }

    fn hold(&mut self, leaf: usize, model: usize, milli: u64, does: bool) {
        for at in self.ancestors(leaf).collect::<Vec<_>>() {
            if let Some(held) = self.all[at].held_milli.get_mut(model) {
                *held = if does { *held + milli } else { *held - milli };
            }
        }
    }

    fn ancestors(&self, leaf: usize) -> impl Iterator<Item = usize> {
        let first = (leaf < self.all.len()).then_some(leaf);
        std::iter::successors(first, |at| self.all[*at].parent)
    }
}
