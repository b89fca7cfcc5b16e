//! How much of what is idle the waiting jobs could use: the part of the idle GPUs that is stranded.
//! It counts GPUs and ignores nodes, so what keeps a job from idle GPUs that would be enough for it
//! is where they lie, or the scheduler.
//!
//! A waiting job counts if the idle GPUs of the models that it accepts are enough for all that it
//! still lacks, and if its queue and every queue above may hold that much more: quota plus borrow
//! limit, where the queue file sets both. All such jobs together could use what they lack, at most
//! what is idle and what their queues may hold, per model. Two jobs that fit one at a time and not
//! both count as one and a part: the sum is an upper bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::node::GpuModel;
use muster_model::{DeviceSet, NodeId, QueueName, QueueSpec};

use super::load::FleetJob;
use super::pool::{Pool, PoolNode};
use super::site::Site;

/// GPU models are counted in a word; further ones count as the last.
const MOST_MODELS: usize = 64;

/// Waiting jobs that could use the same. Jobs that accept the fewest models come first, of those
/// the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    count: u32,
    /// A bit for each model that is accepted.
    models: u64,
    lacks_milli: u64,
    /// Index of the queue among [`Queues`]; 0 where no queue has a ceiling.
    queue: usize,
}

/// What a queue may hold, and holds, by model.
#[derive(Clone, Debug)]
struct Queue {
    parent: Option<usize>,
    ceiling_milli: Vec<Option<u64>>,
    held_milli: Vec<u64>,
}

/// Queues of a tree in which some queue has a ceiling; none else.
#[derive(Clone, Debug, Default)]
struct Queues {
    all: Vec<Queue>,
    /// Shared, since the queues are copied for each count.
    leaves: Arc<BTreeMap<QueueName, usize>>,
}

/// Idle GPUs, waiting jobs, and what these could use of them.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    has_gpus: bool,
    models: Vec<GpuModel>,
    /// By node, and their sum: idle thousandths by model.
    idle_of: Vec<Vec<u64>>,
    idle: Vec<u64>,
    /// Nodes that changed since `idle` was counted.
    changed: Vec<NodeId>,
    queues: Queues,
    /// How many jobs wait, by what they could use. Jobs that lack nothing that could be idle are
    /// not among them.
    classes: BTreeMap<Class, u64>,
    jobs: u64,
}

impl Waiting {
    pub(super) fn new(site: &Site) -> Self {
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
            queues: Queues::new(&site.tree.queues, &models),
            models,
            classes: BTreeMap::new(),
            jobs: 0,
        }
    }

    /// Jobs that wait.
    pub(super) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// What is free of a node has changed.
    pub(super) fn node_changed(&mut self, node: NodeId) {
        if self.changed.last() != Some(&node) {
            self.changed.push(node);
        }
    }

    /// A task of a job begins or ceases to hold devices of a node.
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

    /// A job that waits lacks so much now; `None` where it does not wait. It was counted as
    /// `before`.
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

    /// `None` where the job asks for nothing that could be idle.
    fn class(&self, job: &FleetJob, lacks_milli: u64) -> Option<Class> {
        let wanted = &job.task.gpu.models;
        let models = match self.has_gpus && !wanted.is_empty() {
            true => wanted
                .iter()
                .filter(|model| self.models.contains(model))
                .fold(0, |set, model| set | 1 << model_of(&self.models, model)),
            false => u64::MAX >> (64 - self.idle.len()),
        };
        let class = Class {
            count: models.count_ones(),
            models,
            lacks_milli,
            queue: self.queues.leaf(&job.queue),
        };
        (lacks_milli > 0 && models != 0).then_some(class)
    }

    /// Idle thousandths that the waiting jobs could use.
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
                .map(|model| self.idle[model].min(self.queues.room(class.queue, model)))
                .sum();
            if alone < class.lacks_milli {
                continue;
            }
            let mut wanted = class.lacks_milli.saturating_mul(*jobs);
            for model in accepted {
                let takes = wanted.min(left[model]).min(queues.room(class.queue, model));
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

/// What of a node no task holds and no owner keeps, in thousandths by model, or of CPUs where no
/// node has a GPU.
fn idle_by_model(node: &PoolNode, models: &[GpuModel], has_gpus: bool) -> Vec<u64> {
    let mut idle = vec![0; models.len().max(1)];
    match (node.is_kept, has_gpus && models.len() > 1) {
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

impl Queues {
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
        self.all.push(Queue {
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

    /// What a queue, and every queue above it, may hold beyond what it holds.
    fn room(&self, leaf: usize, model: usize) -> u64 {
        let rooms = self.upwards(leaf).filter_map(|at| {
            let queue = &self.all[at];
            (*queue.ceiling_milli.get(model)?)
                .map(|most| most.saturating_sub(queue.held_milli[model]))
        });
        rooms.min().unwrap_or(u64::MAX)
    }

    fn hold(&mut self, leaf: usize, model: usize, milli: u64, does: bool) {
        for at in self.upwards(leaf).collect::<Vec<_>>() {
            if let Some(held) = self.all[at].held_milli.get_mut(model) {
                *held = if does { *held + milli } else { *held - milli };
            }
        }
    }

    fn upwards(&self, leaf: usize) -> impl Iterator<Item = usize> {
        let first = (leaf < self.all.len()).then_some(leaf);
        std::iter::successors(first, |at| self.all[*at].parent)
    }
}
