//! A seeded workload for the benches: 512 distinct mixes of shape, limit, queue and user, and a cluster to run them.
//!
//! The generator is a xorshift with a fixed seed, so every run and every machine measures the same jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_engine::Engine;
use muster_model::job::{GpuRequest, Resources};
use muster_model::node::Device;
use muster_model::{
    Bytes, CpuMilli, Event, GpuMilli, GpuModel, JobId, JobSpec, NodeConstraint, NodeSpec, Observation,
    PayloadId, Plan, QueueSpec, QueueTree, Rank, Restart, Span, TaskExit, TaskGroup, TaskReport, Time,
};

/// How many distinct mixes there are.
pub const MIXES: usize = 512;
/// Leaf queues and users that they are spread over.
const QUEUES: u64 = 16;
const USERS: u64 = 40;

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
        queue: "team0/queue0".into(),
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
    }
}

/// Queue, user and limit of the `at`-th mix.
fn terms(spec: &mut JobSpec, numbers: &mut Numbers, at: usize) {
    let queue = numbers.below(QUEUES);
    spec.queue = format!("team{}/queue{queue}", queue / 4).into();
    spec.user = format!("user{}", numbers.below(USERS)).into();
    spec.time_limit = Some(Span::from_secs(60 * (1 + numbers.below(48 * 60)) + at as u64));
}

/// Mixes of jobs with a single GPU: CPUs, memory, limit, queue and user differ.
pub fn single_gpu_mixes() -> Vec<Arc<JobSpec>> {
    let mut numbers = Numbers::new();
    let mix = |at: usize| {
        let mut spec = single("single");
        terms(&mut spec, &mut numbers, at);
        let task = &mut spec.groups[0].task;
        task.cpus = CpuMilli(1000 * numbers.below(9) as u32);
        task.memory = Bytes(numbers.below(9) << 30);
        Arc::new(spec)
    };
    (0..MIXES).map(mix).collect()
}

/// Mixes of all shapes: singles, shares, whole nodes, gangs of a few to 64 nodes.
pub fn all_mixes() -> Vec<Arc<JobSpec>> {
    let mut numbers = Numbers::new();
    let mix = |at: usize| {
        let mut spec = single("mixed");
        terms(&mut spec, &mut numbers, at);
        let group = &mut spec.groups[0];
        let (tasks, devices, block) = match numbers.below(10) {
            0..=3 => (1, 1 + numbers.below(8) as u32, None),
            4..=5 => (1 + numbers.below(16) as u32, 1 + numbers.below(4) as u32, None),
            6..=8 => (1 + numbers.below(64) as u32, 8, Some(1)),
            _ => (1 + numbers.below(4) as u32, 0, None),
        };
        (group.min_tasks, group.max_tasks, group.tasks_per_node) = (tasks, tasks, block);
        group.task.gpu = match devices {
            0 => GpuRequest { share: GpuMilli(100 * (1 + numbers.below(9) as u32)), ..GpuRequest::default() },
            devices => GpuRequest::whole(devices),
        };
        group.task.cpus = CpuMilli(1000 * devices * numbers.below(12) as u32);
        Arc::new(spec)
    };
    (0..MIXES).map(mix).collect()
}

/// 4 teams of 4 queues.
fn tree() -> QueueTree {
    let mut tree = QueueTree::single();
    for team in 0..4 {
        let mut parent = QueueSpec::named(&format!("team{team}"));
        parent.queues = (0..4).map(|at| QueueSpec::named(&format!("queue{}", team * 4 + at))).collect();
        tree.queues.push(parent);
    }
    tree
}

/// An engine with so many nodes of 8 GPUs, and 4 teams of 4 queues.
pub fn engine(nodes: usize) -> Engine {
    let mut engine = Engine::new(tree()).expect("the tree is sound");
    for at in 0..nodes {
        engine.apply(Time(0), &Event::NodeJoined(Box::new(node(at))));
    }
    engine
}

/// As [`engine`], with leaves of 20 nodes in blocks of 1,000.
pub fn engine_with_levels(nodes: usize) -> Engine {
    let mut engine = Engine::new(tree()).expect("the tree is sound");
    engine.apply(Time(0), &Event::LevelsSet(vec!["block".into(), "leaf".into()]));
    for at in 0..nodes {
        let domains = vec![format!("b{}", at / 1_000).into(), format!("l{:03}", at / 20).into()];
        let node = NodeSpec { domains, ..node(at) };
        engine.apply(Time(0), &Event::NodeJoined(Box::new(node)));
    }
    engine
}

fn node(at: usize) -> NodeSpec {
    let device = Device {
        model: GpuModel::from("h100"),
        memory: Bytes(80 << 30),
        uuid: "".into(),
        is_virtual: false,
        slice_of: None,
    };
    NodeSpec {
        name: format!("node{at:05}").into(),
        devices: vec![device; 8],
        cpus: CpuMilli(128_000),
        memory: Bytes(1 << 40),
        extras: BTreeMap::new(),
        labels: BTreeMap::new(),
        domains: Vec::new(),
    }
}

/// The engine and the numbers of jobs given so far.
pub struct Bench {
    pub engine: Engine,
    pub now: Time,
    next: u64,
}

impl Bench {
    pub fn new(nodes: usize) -> Self {
        Self { engine: engine(nodes), now: Time(1_000_000), next: 0 }
    }

    pub fn with_levels(nodes: usize) -> Self {
        Self { engine: engine_with_levels(nodes), now: Time(1_000_000), next: 0 }
    }

    /// Limits the queue of a team by running jobs, GPUs per user or quota: about 200 GPUs fit.
    pub fn limit(&mut self, queue: &str, kind: &str) {
        let mut tree = tree();
        let (team, leaf) = queue.split_once('/').expect("a queue of a team");
        let team = tree.queues.iter_mut().find(|spec| &*spec.name == team).expect("a team");
        let leaf = team.queues.iter_mut().find(|spec| &*spec.name == leaf).expect("its queue");
        match kind {
            "running jobs" => leaf.limits.running_jobs = Some(100),
            "GPUs per user" => leaf.limits.gpus_per_user = Some(5),
            "quota" => {
                leaf.quota.insert(GpuModel::from("h100"), 200);
                leaf.borrow = Some(0);
            }
            other => panic!("no limit {other}"),
        }
        self.engine.apply(self.now, &Event::QueuesSet(Box::new(tree)));
    }

    /// Submission of a spec under the next number.
    pub fn submission(&mut self, spec: &Arc<JobSpec>) -> Event {
        self.next += 1;
        Event::Submitted { job: JobId(self.next), spec: Arc::clone(spec) }
    }

    /// Judges, applies, plans, checks, commits: what the runtime does with a batch, without the journal.
    pub fn step(&mut self, events: &[Event]) -> Plan {
        for event in events {
            self.engine.judge(event).expect("bench events are acceptable");
            self.engine.apply(self.now, event);
        }
        let plan = self.engine.plan(self.now);
        self.engine.check(self.now, &plan).expect("plans are right");
        self.engine.commit(self.now, &plan);
        drop(self.engine.take_effects());
        drop(self.engine.take_facts());
        plan
    }

    /// Everything that a start's tasks report, up to their end.
    pub fn whole_life(plan: &Plan) -> Vec<Event> {
        let mut events = Self::reports(plan, &Observation::Started);
        events.extend(Self::reports(plan, &Observation::Exited(TaskExit::Code { code: 0 })));
        events
    }

    /// One report for every task that a plan starts.
    pub fn reports(plan: &Plan, what: &Observation) -> Vec<Event> {
        let starts = plan.starts().map(|(id, placement, _)| (id, placement.len()));
        starts
            .flat_map(|(id, tasks)| (0..tasks as u32).map(move |rank| (id, Rank(rank))))
            .map(|(id, rank)| Event::Task(TaskReport { id, rank, what: what.clone() }))
            .collect()
    }
}
