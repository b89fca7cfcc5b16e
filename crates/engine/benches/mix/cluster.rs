//! An engine with nodes, queues and running jobs, driven as the runtime drives it, without journal
//! and clock.

use std::sync::Arc;

use muster_engine::Engine;
use muster_model::node::Device;
use muster_model::{
    Bytes, CpuMilli, Event, GpuModel, JobId, JobSpec, NodeSpec, Observation, Plan, QueueName,
    QueueSpec, QueueTree, Rank, Span, TaskExit, TaskReport, Time,
};

use super::{Scale, SeededNumbers, filling};

/// Number of queues of a team.
const TEAM: usize = 5;
/// Number of events of one instant while a cluster is set up.
const BATCH: usize = 512;
/// Number of nodes of a leaf switch.
const LEAF: usize = 20;

/// Returns the path of a leaf queue.
pub fn queue_name(at: usize) -> QueueName {
    format!("team{}/queue{at}", at / TEAM).into()
}

/// Returns a tree of teams with five queues each.
fn tree(queues: usize) -> QueueTree {
    let mut tree = QueueTree::single();
    for team in 0..queues.div_ceil(TEAM) {
        let mut parent = QueueSpec::named(&format!("team{team}"));
        let own = team * TEAM..queues.min((team + 1) * TEAM);
        parent.queues = own.map(|at| QueueSpec::named(&format!("queue{at}"))).collect();
        tree.queues.push(parent);
    }
    tree
}

pub fn node(at: usize) -> NodeSpec {
    let device = Device {
        model: GpuModel::from("h100"),
        memory: Bytes(80 << 30),
        uuid: "".into(),
        is_virtual: false,
        slice_of: None,
    };
    NodeSpec {
        devices: vec![device; 8],
        ..NodeSpec::plain(format!("node{at:05}"), CpuMilli(128_000), Bytes(1 << 40))
    }
}

/// Engine under measurement, with its clock and the last job number.
pub struct EngineBench {
    pub engine: Engine,
    pub now: Time,
    /// Plans of the jobs that hold half of the cluster.
    pub running: Vec<Plan>,
    next: u64,
}

impl EngineBench {
    /// Returns an engine with idle nodes.
    pub fn idle(scale: Scale) -> Self {
        let mut engine = Engine::new(tree(scale.queues)).expect("the tree is valid");
        for at in 0..scale.nodes {
            engine.apply(Time(0), &Event::NodeJoined(Box::new(node(at))));
        }
        Self { engine, now: Time(1_000_000), running: Vec::new(), next: 0 }
    }

    /// Returns an engine with nodes in leaves and blocks of `block` nodes. They are added before
    /// anything runs.
    pub fn in_blocks(scale: Scale, block: usize) -> Self {
        let mut bench = Self::idle(Scale { nodes: 0, ..scale });
        bench.engine.apply(Time(0), &Event::LevelsSet(vec!["block".into(), "leaf".into()]));
        for at in 0..scale.nodes {
            let domains =
                vec![format!("b{:02}", at / block).into(), format!("l{:04}", at / LEAF).into()];
            let node = NodeSpec { domains, ..node(at) };
            bench.engine.apply(Time(0), &Event::NodeJoined(Box::new(node)));
        }
        bench
    }

    /// Returns a half-full cluster: twice the jobs fill it, then every other of them ends.
    pub fn half_full(scale: Scale) -> Self {
        Self::idle(scale).fill_half(scale)
    }

    /// Fills the cluster as [`EngineBench::half_full`] does.
    pub fn fill_half(mut self, scale: Scale) -> Self {
        let jobs = filling(scale, 2 * scale.running);
        let mut started = Vec::new();
        for jobs in jobs.chunks(BATCH) {
            let events: Vec<Event> = jobs.iter().map(|spec| self.submission(spec)).collect();
            let plan = self.step(&events);
            assert_eq!(plan.decisions.len(), jobs.len(), "all jobs start");
            started.extend(plan.decisions);
        }
        let mut numbers = SeededNumbers::new();
        let alone = |decision| Plan { decisions: vec![decision], ..Plan::default() };
        for plan in started.into_iter().map(alone) {
            self.apply(&Self::reports(&plan, &Observation::Started));
            match numbers.below(2) {
                0 => self
                    .apply(&Self::reports(&plan, &Observation::Exited(TaskExit::Code { code: 0 }))),
                _ => self.running.push(plan),
            }
        }
        self.forget();
        self
    }

    /// Returns a full cluster: the first queue owns a fifth of all GPUs and uses none; the others
    /// own the rest in equal parts and hold all GPUs.
    pub fn lent(scale: Scale) -> Self {
        let mut bench = Self::idle(scale);
        let gpus = scale.nodes as u64 * 8;
        let lender = gpus / 5;
        let others = (gpus * 4 / 5).div_ceil(scale.queues as u64 - 1);
        let mut tree = tree(scale.queues);
        for (at, leaf) in tree.queues[1..].iter_mut().flat_map(|team| &mut team.queues).enumerate()
        {
            leaf.quota.insert(GpuModel::from("h100"), if at == 0 { lender } else { others });
        }
        bench.engine.apply(bench.now, &Event::QueuesSet(Box::new(tree)));
        let mut jobs = filling(scale, scale.running);
        for (at, spec) in jobs.iter_mut().enumerate() {
            Arc::make_mut(spec).queue = queue_name(1 + at % (scale.queues - 1));
        }
        for jobs in jobs.chunks(BATCH) {
            bench.tick();
            let events: Vec<Event> = jobs.iter().map(|spec| bench.submission(spec)).collect();
            let plan = bench.step(&events);
            assert_eq!(plan.decisions.len(), jobs.len(), "all jobs start");
            bench.apply(&Self::reports(&plan, &Observation::Started));
        }
        bench.forget();
        bench
    }

    /// Starts a job without a time limit on all free GPUs.
    pub fn fill_up(&mut self, spec: &JobSpec, tasks: usize) {
        let mut spec = JobSpec { time_limit: None, ..spec.clone() };
        (spec.groups[0].min_tasks, spec.groups[0].max_tasks) = (tasks as u32, tasks as u32);
        let event = self.submission(&Arc::new(spec));
        assert_eq!(self.step(&[event]).decisions.len(), 1);
    }

    /// Limits the first queue by running jobs, GPUs per user or quota: about 200 GPUs fit.
    pub fn limit(&mut self, queues: usize, kind: &str) {
        let mut tree = tree(queues);
        let leaf = &mut tree.queues[1].queues[0];
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

    /// Returns the submission of a job under the next number.
    pub fn submission(&mut self, spec: &Arc<JobSpec>) -> Event {
        self.next += 1;
        Event::Submitted { job: JobId(self.next), spec: Arc::clone(spec) }
    }

    /// Returns `count` submissions, from position `at` in the list on, cyclically.
    pub fn batch(&mut self, specs: &[Arc<JobSpec>], at: &mut usize, count: usize) -> Vec<Event> {
        (0..count)
            .map(|_| {
                *at += 1;
                self.submission(&specs[*at % specs.len()])
            })
            .collect()
    }

    /// Applies events without a pass.
    pub fn apply(&mut self, events: &[Event]) {
        for event in events {
            self.engine.validate(event).expect("bench events are valid");
            self.engine.apply(self.now, event);
        }
    }

    /// Validates, applies, plans, checks and commits: what the runtime does with a batch, without
    /// the journal.
    pub fn step(&mut self, events: &[Event]) -> Plan {
        self.apply(events);
        let plan = self.engine.plan(self.now);
        self.engine.check(self.now, &plan).expect("plans pass the checker");
        self.engine.commit(self.now, &plan);
        self.forget();
        plan
    }

    /// Advances the clock by one millisecond.
    pub fn tick(&mut self) {
        self.now = self.now + Span(1);
    }

    fn forget(&mut self) {
        drop(self.engine.take_effects());
        drop(self.engine.take_facts());
    }

    /// Returns all reports of the tasks that a plan starts, up to their end.
    pub fn whole_life(plan: &Plan) -> Vec<Event> {
        let mut events = Self::reports(plan, &Observation::Started);
        events.extend(Self::reports(plan, &Observation::Exited(TaskExit::Code { code: 0 })));
        events
    }

    /// Returns one report for every task that a plan starts.
    pub fn reports(plan: &Plan, what: &Observation) -> Vec<Event> {
        let starts = plan.starts().map(|(id, placement, _)| (id, placement.len()));
        starts
            .flat_map(|(id, tasks)| (0..tasks as u32).map(move |rank| (id, Rank(rank))))
            .map(|(id, rank)| Event::Task(TaskReport { id, rank, observation: what.clone() }))
            .collect()
    }
}
