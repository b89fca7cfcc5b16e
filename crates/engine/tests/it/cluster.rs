//! A small test cluster around the engine: nodes, queues, jobs, time, and tasks that follow orders.
//! Every step checks the plan and the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_engine::{AccountingFact, Engine, EventRefusal, Snapshot};
use muster_model::job::{DependencyKind, GpuRequest, Resources};
use muster_model::node::Device;
use muster_model::view::JobState;
use muster_model::{
    Array, AttemptId, Bytes, CommandTarget, CpuMilli, Dependency, Effect, ElementId, Event,
    GpuMilli, GpuModel, JobId, JobSpec, NodeName, NodeSpec, Observation, Outcome, Plan, QueueTree,
    Rank, Restart, Segment, Span, TaskExit, TaskGroup, TaskReport, Time, Topology, TopologyRule,
};

/// Engine, clock, and running tasks.
pub struct TestCluster {
    pub engine: Engine,
    pub now: Time,
    /// Journal: instants with their events and plan.
    pub journal: Vec<(Time, Vec<Event>, Plan)>,
    /// True when tasks respond to orders at once: prepared, then started.
    pub auto_respond: bool,
    pub facts: Vec<AccountingFact>,
    pub effects: Vec<Effect>,
    /// Starts so far: element and instant.
    pub starts: Vec<(ElementId, Time)>,
    names: BTreeMap<String, JobId>,
    live: BTreeMap<AttemptId, u32>,
    going: BTreeSet<AttemptId>,
    next_job: u64,
}

/// Parses `12s`, `5m`, `2h`, `150ms`.
pub fn span(text: &str) -> Span {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap();
    let count: u64 = text[..digits].parse().unwrap();
    match &text[digits..] {
        "ms" => Span(count),
        "s" => Span::from_secs(count),
        "m" => Span::from_secs(60 * count),
        "h" => Span::from_secs(3600 * count),
        unit => panic!("no unit {unit}"),
    }
}

/// Returns a node with `gpus` devices of model `h100`, many CPUs and much memory.
pub fn node(name: &str, gpus: usize) -> NodeSpec {
    node_of(name, gpus, "h100", 128)
}

/// Returns a node with `gpus` devices of a model and so many CPUs.
pub fn node_of(name: &str, gpus: usize, model: &str, cpus: u32) -> NodeSpec {
    let device = Device::declared(model, Bytes(80 << 30));
    NodeSpec {
        devices: vec![device; gpus],
        ..NodeSpec::plain(name, CpuMilli(cpus * 1000), Bytes(1 << 40))
    }
}

/// Builder for the spec of a job.
#[derive(Clone, Debug)]
pub struct JobBuilder {
    pub spec: JobSpec,
}

/// Returns a job of one task without GPU and without time limit.
pub fn job(name: &str) -> JobBuilder {
    JobBuilder {
        spec: JobSpec::plain(name, "ann", vec![TaskGroup::of("worker", 1, Resources::default())]),
    }
}

impl JobBuilder {
    pub fn with(mut self, edit: impl FnOnce(&mut JobSpec)) -> Self {
        edit(&mut self.spec);
        self
    }
    pub fn tasks(self, tasks: u32) -> Self {
        self.with(|spec| {
            spec.groups[0].min_tasks = tasks;
            spec.groups[0].max_tasks = tasks;
        })
    }
    pub fn per_node(self, tasks: u32) -> Self {
        self.with(|spec| spec.groups[0].tasks_per_node = Some(tasks))
    }
    pub fn gpus(self, devices: u32) -> Self {
        self.with(|spec| spec.groups[0].task.gpu = GpuRequest::whole(devices))
    }
    pub fn share(self, milli: u32) -> Self {
        self.with(|spec| spec.groups[0].task.gpu.share = GpuMilli(milli))
    }
    pub fn models(self, models: &[&str]) -> Self {
        self.with(|spec| {
            spec.groups[0].task.gpu.models =
                models.iter().map(|name| GpuModel::from(*name)).collect();
        })
    }
    pub fn cpus(self, cpus: u32) -> Self {
        self.with(|spec| spec.groups[0].task.cpus = CpuMilli(cpus * 1000))
    }
    pub fn memory(self, bytes: u64) -> Self {
        self.with(|spec| spec.groups[0].task.memory = Bytes(bytes))
    }
    pub fn limit(self, text: &str) -> Self {
        self.with(|spec| spec.time_limit = Some(span(text)))
    }
    pub fn grace(self, text: &str) -> Self {
        self.with(|spec| spec.grace = span(text))
    }
    /// Requires one domain of a level.
    pub fn required(self, level: &str) -> Self {
        self.topology(TopologyRule::Required(level.into()))
    }
    pub fn topology(self, rule: TopologyRule) -> Self {
        self.with(|spec| {
            let segment = spec.constraint.topology.take().and_then(|known| known.segment);
            spec.constraint.topology = Some(Topology { rule, segment });
        })
    }
    pub fn segment(self, tasks: u32, level: &str) -> Self {
        self.with(|spec| {
            let rule =
                spec.constraint.topology.take().map_or(TopologyRule::Anywhere, |known| known.rule);
            let segment = Some(Segment { tasks, level: level.into() });
            spec.constraint.topology = Some(Topology { rule, segment });
        })
    }
    pub fn user(self, user: &str) -> Self {
        self.with(|spec| spec.user = user.into())
    }
    pub fn queue(self, queue: &str) -> Self {
        self.with(|spec| spec.queue = queue.into())
    }
    pub fn priority(self, priority: i32) -> Self {
        self.with(|spec| spec.priority = priority)
    }
    pub fn array(self, first: u32, last: u32, cap: Option<u32>) -> Self {
        self.with(|spec| spec.array = Some(Array::range(first, last, 1, cap)))
    }
    pub fn restarts(self, max: u32, backoff: &str) -> Self {
        self.with(|spec| {
            spec.restart = Restart {
                on_failure: true,
                max_restarts: max,
                backoff: span(backoff),
                always: false,
            };
        })
    }
    pub fn held(self) -> Self {
        self.with(|spec| spec.held = true)
    }
    pub fn begin(self, at: Time) -> Self {
        self.with(|spec| spec.begin = Some(at))
    }
    pub fn after(self, kind: DependencyKind, on: JobId) -> Self {
        self.with(|spec| spec.after.push(Dependency { kind, job: on }))
    }
}

impl TestCluster {
    /// Returns a cluster with these nodes and one default queue.
    pub fn new(nodes: &[NodeSpec]) -> Self {
        Self::with_queues(nodes, QueueTree::single())
    }

    pub fn with_queues(nodes: &[NodeSpec], tree: QueueTree) -> Self {
        let mut cluster = Self {
            engine: Engine::new(tree).unwrap(),
            now: Time(1_000_000),
            journal: Vec::new(),
            auto_respond: true,
            facts: Vec::new(),
            effects: Vec::new(),
            starts: Vec::new(),
            names: BTreeMap::new(),
            live: BTreeMap::new(),
            going: BTreeSet::new(),
            next_job: 0,
        };
        let events = nodes.iter().map(|node| Event::NodeJoined(Box::new(node.clone()))).collect();
        cluster.step(events);
        cluster
    }

    /// Returns nodes of equally many GPUs in a tree: the line `b1/l1: a b c` has a block, a leaf
    /// and its nodes.
    pub fn tree(gpus: usize, lines: &[&str]) -> Self {
        let mut cluster = Self::new(&[]);
        cluster.step(vec![Event::LevelsSet(vec!["block".into(), "leaf".into()])]);
        for line in lines {
            let (path, nodes) = line.split_once(": ").unwrap();
            let domains: Vec<Arc<str>> = path.split('/').map(Arc::from).collect();
            let nodes = nodes
                .split(' ')
                .map(|name| NodeSpec { domains: domains.clone(), ..node(name, gpus) });
            cluster.step(nodes.map(|node| Event::NodeJoined(Box::new(node))).collect());
        }
        cluster
    }

    /// Applies events, plans, checks, commits; then lets tasks respond.
    pub fn step(&mut self, events: Vec<Event>) {
        let mut answers = self.step_once(events);
        while self.auto_respond && !answers.is_empty() {
            answers = self.step_once(answers);
        }
    }

    /// Executes one step; returns the responses of the tasks.
    pub fn step_once(&mut self, events: Vec<Event>) -> Vec<Event> {
        for event in &events {
            self.engine.apply(self.now, event);
        }
        let plan = self.engine.plan(self.now);
        assert_eq!(self.engine.check(self.now, &plan), Ok(()));
        assert_eq!(self.engine.plan(self.now), plan, "planning twice gives the same plan");
        self.engine.commit(self.now, &plan);
        let again = self.engine.plan(self.now);
        // A job that has just started on borrowed quota, or from a pending allocation, may be
        // evicted again; then the engine asks to be called again.
        let looks_again = self.engine.next_wake().is_some_and(|at| at <= self.now + Span(1));
        if !looks_again {
            assert_eq!(again.decisions, [], "after a commit nothing is left to decide");
            assert_eq!(again.heads, [], "after a commit no head is new");
        }
        assert_eq!(self.engine.sanity_check(), []);
        for (id, ..) in plan.starts() {
            self.starts.push((id.element, self.now));
        }
        self.journal.push((self.now, events, plan));
        self.facts.extend(self.engine.take_facts());
        let effects = self.engine.take_effects();
        self.effects.extend(effects.iter().cloned());
        effects.iter().flat_map(|effect| self.answer(effect)).collect()
    }

    /// Returns the response of tasks to an effect.
    fn answer(&mut self, effect: &Effect) -> Vec<Event> {
        let id = effect.id();
        match effect {
            Effect::Prepare { placement, .. } => {
                self.live.insert(id, placement.len() as u32);
                (0..placement.len() as u32)
                    .map(|rank| task_event(id, rank, Observation::Prepared))
                    .collect()
            }
            Effect::Go { .. } => {
                self.going.insert(id);
                let tasks = self.live.get(&id).copied().unwrap_or(0);
                (0..tasks).map(|rank| task_event(id, rank, Observation::Started)).collect()
            }
            Effect::Checkpoint { .. } => Vec::new(),
            Effect::Stop { .. } => {
                let tasks = self.live.get(&id).copied().unwrap_or(0);
                (0..tasks)
                    .map(|rank| task_event(id, rank, Observation::Exited(TaskExit::Stopped)))
                    .collect()
            }
            Effect::Forget { .. } => {
                self.live.remove(&id);
                self.going.remove(&id);
                Vec::new()
            }
        }
    }

    /// Advances time in one step.
    pub fn advance(&mut self, text: &str) {
        self.now = self.now + span(text);
        self.step(Vec::new());
    }

    pub fn try_submit(&mut self, ask: JobBuilder) -> Result<JobId, EventRefusal> {
        let id = JobId(self.next_job + 1);
        let name = ask.spec.name.to_string();
        let event = Event::Submitted { job: id, spec: Arc::new(ask.spec) };
        self.engine.validate(&event)?;
        self.next_job += 1;
        self.names.insert(name, id);
        self.step(vec![event]);
        Ok(id)
    }

    #[track_caller]
    pub fn submit(&mut self, ask: JobBuilder) -> JobId {
        self.try_submit(ask).unwrap()
    }

    /// Returns the number of the next submission.
    pub fn next_id(&self) -> JobId {
        JobId(self.next_job + 1)
    }

    /// Skips job numbers used by jobs that were not submitted through [`TestCluster::submit`].
    pub fn skip_ids(&mut self, count: u64) {
        self.next_job += count;
    }

    pub fn id(&self, name: &str) -> JobId {
        self.names[name]
    }

    pub fn target(&self, name: &str) -> CommandTarget {
        CommandTarget { job: self.id(name), index: None }
    }

    pub fn element(&self, name: &str, index: u32) -> ElementId {
        ElementId { job: self.id(name), index }
    }

    /// Returns the current attempt of an element.
    pub fn attempt(&self, name: &str, index: u32) -> AttemptId {
        self.engine.placement(self.element(name, index)).unwrap().0
    }

    /// Reports an observation of a task.
    pub fn task(&mut self, id: AttemptId, rank: u32, what: Observation) {
        self.step(vec![task_event(id, rank, what)]);
    }

    /// Ends all tasks of an element with an exit code.
    pub fn exits(&mut self, name: &str, index: u32, code: i32) {
        let id = self.attempt(name, index);
        let tasks = self.engine.placement(id.element).unwrap().1.len() as u32;
        let exit = || Observation::Exited(TaskExit::Code { code });
        self.step((0..tasks).map(|rank| task_event(id, rank, exit())).collect());
    }

    /// Ends the only element of a job with an exit code.
    pub fn exit(&mut self, name: &str, code: i32) {
        self.exits(name, 0, code);
    }

    pub fn cancel(&mut self, name: &str) {
        let target = self.target(name);
        self.step(vec![Event::Cancel { target, by: "ann".into() }]);
    }

    /// Returns the state of an element that is in memory.
    #[track_caller]
    pub fn state_of(&self, name: &str, index: u32) -> JobState {
        self.engine.element(self.now, self.element(name, index)).unwrap().state
    }

    #[track_caller]
    pub fn expect(&self, name: &str, state: JobState) {
        assert_eq!(self.state_of(name, 0), state, "{name}");
    }

    /// Asserts that a job has left memory with this outcome of its first element.
    #[track_caller]
    pub fn expect_ended(&self, name: &str, expected: &Outcome) {
        let id = self.id(name);
        assert!(self.engine.job(self.now, id).is_none(), "{name} is still in memory");
        assert_eq!(self.outcome(name, 0).as_ref(), Some(expected), "{name}");
    }

    /// Returns the last outcome of an element.
    pub fn outcome(&self, name: &str, index: u32) -> Option<Outcome> {
        let id = self.element(name, index);
        self.facts.iter().rev().find_map(|fact| match fact {
            AccountingFact::ElementEnded { element, outcome, .. } if *element == id => {
                Some(outcome.clone())
            }
            _ => None,
        })
    }

    /// Returns nodes and devices of an element's tasks, by rank.
    pub fn places(&self, name: &str) -> Vec<(NodeName, Vec<u16>)> {
        let view = self.engine.element(self.now, self.element(name, 0)).unwrap();
        view.tasks.into_iter().map(|task| (task.node, task.devices)).collect()
    }

    /// Returns a new engine after the same journal.
    pub fn replayed(&self, tree: QueueTree) -> Engine {
        let mut engine = Engine::new(tree).unwrap();
        for (now, events, plan) in &self.journal {
            for event in events {
                engine.apply(*now, event);
            }
            // A journal stores a plan without its reservations.
            let plan = Plan { reservations: Vec::new(), ..plan.clone() };
            engine.commit(*now, &plan);
        }
        engine
    }
}

/// Returns the report of a task as an event.
pub fn task_event(id: AttemptId, rank: u32, what: Observation) -> Event {
    Event::Task(TaskReport { id, rank: Rank(rank), observation: what })
}

/// Returns a snapshot as text: equal states have equal text.
pub fn text(snapshot: &Snapshot) -> String {
    serde_json::to_string(snapshot).unwrap()
}
