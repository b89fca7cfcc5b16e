//! Seeded workloads for the benches: jobs of at least 500 distinct shapes, and clusters to run
//! them. Running jobs are always started by the engine.
//!
//! The generator is a xorshift with a fixed seed, so every run and every machine measures the same
//! jobs.

mod cluster;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use cluster::{EngineBench, node};
use muster_model::job::{GpuRequest, Resources};
use muster_model::{Bytes, CpuMilli, GpuMilli, JobSpec, Span, TaskGroup, Topology, TopologyRule};

/// Number of distinct mixes; no two have the same shape.
pub const MIXES: usize = 512;
/// Number of users that submit jobs.
const USERS: u64 = 40;

/// Size of the cluster of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of nodes, with 8 GPUs each.
    pub nodes: usize,
    /// Number of running jobs, which hold about half of the GPUs.
    pub running: usize,
    /// Number of pending jobs.
    pub pending: usize,
    /// Number of leaf queues.
    pub queues: usize,
}

/// Generator of seeded random numbers.
pub struct SeededNumbers(u64);

impl SeededNumbers {
    /// Returns the generator with the seed of all benches.
    pub fn new() -> Self {
        Self(0x5DEE_CE66_D1CE_4E5B)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// Returns a plain job of one task with one GPU.
pub fn single(name: &str) -> JobSpec {
    JobSpec {
        queue: cluster::queue_name(0),
        time_limit: Some(Span::from_secs(3600)),
        grace: Span::from_secs(30),
        ..JobSpec::plain(
            name,
            "user0",
            vec![TaskGroup::of(
                "worker",
                1,
                Resources { gpu: GpuRequest::whole(1), ..Resources::default() },
            )],
        )
    }
}

/// Returns a gang of tasks with the same number of GPUs each; tasks with eight GPUs take a node
/// each.
pub fn gang(tasks: u32, gpus: u32, rule: Option<TopologyRule>) -> Arc<JobSpec> {
    let mut spec = single("gang");
    let group = &mut spec.groups[0];
    (group.min_tasks, group.max_tasks) = (tasks, tasks);
    group.tasks_per_node = (gpus == 8).then_some(1);
    group.task.gpu = GpuRequest::whole(gpus);
    spec.constraint.topology = rule.map(|rule| Topology { rule, segment: None });
    Arc::new(spec)
}

/// Sets queue, user and time limit of the `at`-th mix.
fn set_queue_and_user(spec: &mut JobSpec, numbers: &mut SeededNumbers, at: usize, queues: usize) {
    spec.queue = cluster::queue_name(numbers.below(queues as u64) as usize);
    spec.user = format!("user{}", numbers.below(USERS)).into();
    spec.time_limit = Some(Span::from_secs(60 * (1 + numbers.below(48 * 60)) + at as u64));
}

/// Returns jobs with a single GPU: CPUs, memory, time limit, queue and user differ.
pub fn singles(count: usize, queues: usize) -> Vec<Arc<JobSpec>> {
    let mut numbers = SeededNumbers::new();
    let mix = |at: usize| {
        let mut spec = single("single");
        set_queue_and_user(&mut spec, &mut numbers, at, queues);
        let task = &mut spec.groups[0].task;
        task.cpus = CpuMilli(1000 * numbers.below(9) as u32);
        task.memory = Bytes((1 + at as u64 % MIXES as u64) << 24);
        Arc::new(spec)
    };
    distinct((0..count).map(mix).collect())
}

/// Returns jobs of all shapes: singles, shares, whole nodes, gangs of a few to 64 nodes. Shapes
/// repeat after [`MIXES`]; time limit, queue and user are always drawn anew.
pub fn mixes(count: usize, queues: usize) -> Vec<Arc<JobSpec>> {
    let mut numbers = SeededNumbers::new();
    let shape = |at: usize| {
        let mut spec = single("mixed");
        let group = &mut spec.groups[0];
        let (tasks, devices, block) = match numbers.below(10) {
            0..=3 => (1, 1 + numbers.below(8) as u32, None),
            4..=5 => (1 + numbers.below(16) as u32, 1 + numbers.below(4) as u32, None),
            6..=8 => (1 + numbers.below(64) as u32, 8, Some(1)),
            _ => (1 + numbers.below(4) as u32, 0, None),
        };
        (group.min_tasks, group.max_tasks, group.tasks_per_node) = (tasks, tasks, block);
        group.task.gpu = match devices {
            0 => GpuRequest {
                share: GpuMilli(100 * (1 + numbers.below(9) as u32)),
                ..GpuRequest::default()
            },
            devices => GpuRequest::whole(devices),
        };
        group.task.cpus = CpuMilli(1000 * devices * numbers.below(12) as u32);
        group.task.memory = Bytes((1 + at as u64) << 24);
        spec
    };
    let shapes: Vec<JobSpec> = (0..MIXES.min(count)).map(shape).collect();
    let mix = |at: usize| {
        let mut spec = shapes[at % MIXES].clone();
        set_queue_and_user(&mut spec, &mut numbers, at, queues);
        Arc::new(spec)
    };
    distinct((0..count).map(mix).collect())
}

/// Returns jobs that together hold all GPUs: single nodes and gangs of all sizes; the last ones
/// take what is left over.
pub fn filling(scale: Scale, jobs: usize) -> Vec<Arc<JobSpec>> {
    let mut numbers = SeededNumbers::new();
    let gpus = scale.nodes as u64 * 8;
    let mut left = gpus;
    let job = |at: usize| {
        let mut spec = single("held");
        set_queue_and_user(&mut spec, &mut numbers, at, scale.queues);
        let others = (jobs - at - 1) as u64;
        let mean = left / (others + 1);
        let wanted = 1 + numbers.below(2 * mean.max(1) - 1);
        let size = if others == 0 { left } else { wanted.min(left - others) };
        let is_scattered = numbers.below(2) == 0 || left < gpus / 4;
        let (tasks, devices) = match size {
            _ if is_scattered => (size, 1),
            ..=8 => (1, size),
            _ => (size / 8, 8),
        };
        left -= tasks * devices;
        let group = &mut spec.groups[0];
        (group.min_tasks, group.max_tasks) = (tasks as u32, tasks as u32);
        group.task.gpu = GpuRequest::whole(devices as u32);
        group.task.memory = Bytes((1 + at as u64 % MIXES as u64) << 20);
        Arc::new(spec)
    };
    distinct((0..jobs).map(job).collect())
}

/// Asserts the number of distinct shapes, if there are enough jobs.
fn distinct(specs: Vec<Arc<JobSpec>>) -> Vec<Arc<JobSpec>> {
    let shapes: BTreeSet<String> = specs.iter().map(|spec| format!("{:?}", spec.groups)).collect();
    assert!(shapes.len() >= specs.len().min(500), "only {} shapes", shapes.len());
    specs
}
