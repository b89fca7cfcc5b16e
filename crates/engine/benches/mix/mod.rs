//! Seeded workloads for the benches: jobs of at least 500 distinct shapes, and clusters to run
//! them. They choose nothing that the engine should choose; what runs was started by it.
//!
//! The generator is a xorshift with a fixed seed, so every run and every machine measures the same
//! jobs.

mod cluster;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use cluster::{Bench, node};
use muster_model::job::{GpuRequest, Resources};
use muster_model::{
    Bytes, CpuMilli, GpuMilli, JobSpec, Kind, NodeConstraint, PayloadId, Restart, Span, TaskGroup,
    Tier, Topology, TopologyRule,
};

/// How many distinct mixes there are; each has a shape that no other has.
pub const MIXES: usize = 512;
/// Users that they are spread over.
const USERS: u64 = 40;

/// How large the world of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// With 8 GPUs each.
    pub nodes: usize,
    /// Jobs that hold half of the GPUs, about.
    pub running: usize,
    /// Jobs that wait.
    pub pending: usize,
    /// Leaf queues.
    pub queues: usize,
}

/// Seeded numbers.
pub struct Numbers(u64);

impl Numbers {
    /// The seed of all benches.
    pub fn new() -> Self {
        Self(0x5DEE_CE66_D1CE_4E5B)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// A plain job of one task with one GPU.
pub fn single(name: &str) -> JobSpec {
    JobSpec {
        name: name.into(),
        user: "user0".into(),
        uid: None,
        queue: cluster::queue_name(0),
        priority: 0,
        groups: vec![TaskGroup {
            name: "worker".into(),
            min_tasks: 1,
            max_tasks: 1,
            tasks_per_node: None,
            task: Resources { gpu: GpuRequest::whole(1), ..Resources::default() },
        }],
        time_limit: Some(Span::from_secs(3600)),
        grace: Span::from_secs(30),
        constraint: NodeConstraint::default(),
        array: None,
        after: Vec::new(),
        restart: Restart::NEVER,
        checkpoint: None,
        held: false,
        begin: None,
        protect: muster_model::Protection::None,
        payload: PayloadId(0),
        kind: Kind::Task,
        tier: Tier::Usual,
        grow_after: Some(JobSpec::GROW_AFTER),
    }
}

/// A gang of so many tasks with so many GPUs each; eight take a node of their own.
pub fn gang(tasks: u32, gpus: u32, rule: Option<TopologyRule>) -> Arc<JobSpec> {
    let mut spec = single("gang");
    let group = &mut spec.groups[0];
    (group.min_tasks, group.max_tasks) = (tasks, tasks);
    group.tasks_per_node = (gpus == 8).then_some(1);
    group.task.gpu = GpuRequest::whole(gpus);
    spec.constraint.topology = rule.map(|rule| Topology { rule, segment: None });
    Arc::new(spec)
}

/// Queue, user and limit of the `at`-th mix.
fn terms(spec: &mut JobSpec, numbers: &mut Numbers, at: usize, queues: usize) {
    spec.queue = cluster::queue_name(numbers.below(queues as u64) as usize);
    spec.user = format!("user{}", numbers.below(USERS)).into();
    spec.time_limit = Some(Span::from_secs(60 * (1 + numbers.below(48 * 60)) + at as u64));
}

/// So many mixes of jobs with a single GPU: CPUs, memory, limit, queue and user differ.
pub fn singles(count: usize, queues: usize) -> Vec<Arc<JobSpec>> {
    let mut numbers = Numbers::new();
    let mix = |at: usize| {
        let mut spec = single("single");
        terms(&mut spec, &mut numbers, at, queues);
        let task = &mut spec.groups[0].task;
        task.cpus = CpuMilli(1000 * numbers.below(9) as u32);
        task.memory = Bytes((1 + at as u64 % MIXES as u64) << 24);
        Arc::new(spec)
    };
    distinct((0..count).map(mix).collect())
}

/// So many mixes of all shapes: singles, shares, whole nodes, gangs of a few to 64 nodes. Shapes
/// come again after [`MIXES`]; limit, queue and user are always drawn anew.
pub fn mixes(count: usize, queues: usize) -> Vec<Arc<JobSpec>> {
    let mut numbers = Numbers::new();
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
        terms(&mut spec, &mut numbers, at, queues);
        Arc::new(spec)
    };
    distinct((0..count).map(mix).collect())
}

/// So many jobs that together hold as many GPUs as there are: single nodes and gangs of all sizes;
/// the last ones take what is left over, wherever it is.
pub fn filling(scale: Scale, jobs: usize) -> Vec<Arc<JobSpec>> {
    let mut numbers = Numbers::new();
    let gpus = scale.nodes as u64 * 8;
    let mut left = gpus;
    let job = |at: usize| {
        let mut spec = single("held");
        terms(&mut spec, &mut numbers, at, scale.queues);
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

/// The promise of this module, kept where there are enough jobs to keep it.
fn distinct(specs: Vec<Arc<JobSpec>>) -> Vec<Arc<JobSpec>> {
    let shapes: BTreeSet<String> = specs.iter().map(|spec| format!("{:?}", spec.groups)).collect();
    assert!(shapes.len() >= specs.len().min(500), "only {} shapes", shapes.len());
    specs
}
