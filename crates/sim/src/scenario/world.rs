//! The world of a scenario: one daemon (the runtime with its journal), one ideal backend, nodes
//! that fail as told, and a clock that moves only by `advance` and `until`, stopping wherever
//! something is due. It must not decide where or when anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::view::JobView;
use muster_model::{
    AttemptId, Effect, ElementId, Event, JobId, JobSpec, NodeId, NodeName, QueueTree, Span, Time,
};
use muster_runtime::engine::{Engine, Fact};
use muster_runtime::{Input, Receipt, Refused, Runtime};
use muster_spec::Document;

use super::audit::audit;
use super::backend::{Backend, Terms};
use super::command::{Conduct, Starts};
use super::host::{self, Host};
use super::journal::{Fault, Journal, NOON};
use super::mistake::Mistake;
use super::question::Account;
use super::story::clock_of;

/// Steps of one instant after which a world has gone round in circles.
const MOST_ROUNDS: usize = 1_000;
/// Instants at which something happens within one line.
const MOST_INSTANTS: usize = 100_000;

/// Everything there is.
pub(crate) struct World {
    pub(crate) now: Time,
    /// Absent while the daemon is down.
    pub(crate) runtime: Option<Runtime<Journal>>,
    /// What is left of it then.
    pub(crate) remains: Option<Journal>,
    /// What a daemon without a journal starts from.
    pub(crate) tree: QueueTree,
    pub(crate) backend: Backend,
    pub(crate) hosts: BTreeMap<NodeName, Host>,
    /// Topology levels of the cluster, widest first.
    pub(crate) levels: Vec<Arc<str>>,
    /// Nodes in the order in which they joined first.
    pub(crate) joined: Vec<NodeName>,
    pub(crate) jobs: BTreeMap<JobId, Known>,
    pub(crate) names: BTreeMap<String, JobId>,
    /// What was submitted and has no number yet, by name.
    pub(crate) drafts: BTreeMap<String, Known>,
    /// Jobs that have left the engine's memory, as they were last seen.
    pub(crate) ended: BTreeMap<JobId, JobView>,
    pub(crate) account: Account,
    /// Submissions so far: the idempotency key of the next.
    pub(crate) submissions: u64,
    /// Reports that a daemon without disk could not keep.
    retry: Vec<Event>,
    /// Happened, and not told yet.
    facts: Vec<Fact>,
    /// Elements of which the transcript says at the end of the instant why they wait.
    pub(crate) asked: BTreeSet<ElementId>,
}

/// A job as its submitter knows it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) conduct: Conduct,
    pub(crate) document: Document,
}

/// Why a scenario cannot go on.
type Broken = String;

impl World {
    /// Nothing but a clock and a daemon.
    pub(crate) fn new() -> Result<Self, Broken> {
        let tree = QueueTree::single();
        let runtime =
            Runtime::open(Journal::default(), tree.clone()).map_err(|error| error.to_string())?;
        Ok(Self {
            now: NOON,
            runtime: Some(runtime),
            remains: None,
            tree,
            backend: Backend::default(),
            hosts: BTreeMap::new(),
            levels: Vec::new(),
            joined: Vec::new(),
            jobs: BTreeMap::new(),
            names: BTreeMap::new(),
            drafts: BTreeMap::new(),
            ended: BTreeMap::new(),
            account: Account::default(),
            submissions: 0,
            retry: Vec::new(),
            facts: Vec::new(),
            asked: BTreeSet::new(),
        })
    }

    pub(crate) fn engine(&self, line: usize) -> Result<&Engine, Mistake> {
        self.runtime.as_ref().and_then(Runtime::engine).ok_or_else(|| no_daemon(line))
    }

    pub(crate) fn engine_mut(&mut self, line: usize) -> Result<&mut Engine, Mistake> {
        self.runtime.as_mut().and_then(Runtime::engine_mut).ok_or_else(|| no_daemon(line))
    }

    /// The node with this number: they are given in the order of joining.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        let name = self.joined.get(node.0 as usize);
        name.map_or_else(|| format!("node number {node}"), NodeName::to_string)
    }

    pub(crate) fn is_backfilled(&self, id: AttemptId) -> bool {
        self.runtime.as_ref().is_some_and(|runtime| runtime.store().is_backfilled(id))
    }

    /// Takes inputs through the daemon, and whatever follows from them at this instant.
    pub(crate) fn settle(
        &mut self,
        inputs: Vec<Input>,
    ) -> Result<Vec<Result<Receipt, Refused>>, Broken> {
        let mut answers = None;
        let mut inputs: Vec<Input> =
            std::mem::take(&mut self.retry).into_iter().map(Input::Event).chain(inputs).collect();
        let kept = inputs.len();
        for _ in 0..MOST_ROUNDS {
            let Some(runtime) = &mut self.runtime else { return Ok(answers.unwrap_or_default()) };
            match runtime.step(self.now, inputs) {
                Ok(step) => {
                    if let Some(violation) = step.violations.first() {
                        return Err(format!(
                            "the engine made a plan that its judge refuses: {violation}"
                        ));
                    }
                    answers.get_or_insert(step.answers);
                    let store = runtime.store_mut();
                    self.facts.extend(store.take_facts());
                    let accepted = store.take_accepted();
                    self.know(accepted);
                    self.carry_out(&step.effects)?;
                }
                Err(_) if runtime.store().died => {
                    self.die();
                    return Ok(Vec::new());
                }
                Err(failure) => {
                    self.retry = failure.retry;
                    self.carry_out(&failure.effects)?;
                    let seen = self.backend.take_due(self.now);
                    self.retry.extend(seen.into_iter().map(Event::Task));
                    return Ok(answers.unwrap_or_default());
                }
            }
            inputs = self.reports();
            if inputs.is_empty() {
                let answers: Vec<_> = answers.unwrap_or_default();
                debug_assert!(answers.len() <= kept, "one answer per input");
                return Ok(answers);
            }
        }
        Err("the world does not come to rest at this instant".to_owned())
    }

    /// Accepted jobs get the numbers that the daemon gave them.
    fn know(&mut self, accepted: Vec<(JobId, Arc<str>)>) {
        for (job, name) in accepted {
            let Some(known) = self.drafts.remove(&*name) else { continue };
            let first = known.spec.array.as_ref().map_or(0, |array| array.head.first);
            let replicas = known.spec.service().map_or(1, |service| service.replicas.ceiling);
            self.asked.extend((first..first + replicas).map(|index| ElementId { job, index }));
            self.names.insert(name.to_string(), job);
            self.jobs.insert(job, known);
        }
    }

    fn reports(&mut self) -> Vec<Input> {
        self.backend
            .take_due(self.now)
            .into_iter()
            .map(|report| Input::Event(Event::Task(report)))
            .collect()
    }

    /// Hands effects to the backend.
    pub(crate) fn carry_out(&mut self, effects: &[Effect]) -> Result<(), Broken> {
        for effect in effects {
            let Effect::Prepare { id, placement, .. } = effect else {
                self.backend.carry_out(self.now, effect)?;
                continue;
            };
            let known =
                self.jobs.get(&id.element.job).ok_or_else(|| format!("{id} is of no job"))?;
            let terms = Terms::of(&known.spec, known.conduct.clone());
            let (hosts, joined) = (&self.hosts, &self.joined);
            let starts = |node: NodeId| {
                let host = joined.get(node.0 as usize).and_then(|name| hosts.get(name));
                host.map_or(Starts::Works, |host| host.starts.clone())
            };
            self.backend.prepare(self.now, *id, placement, terms, starts)?;
        }
        Ok(())
    }

    /// The daemon is gone; what is durable and what runs stays.
    pub(crate) fn die(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let mut store = runtime.into_store();
            self.know(store.take_accepted());
            self.remains = Some(store);
        }
        self.drafts.clear();
        self.retry.clear();
    }

    /// The daemon comes back: it reads its journal, repeats orders, is told what became of tasks
    /// and nodes.
    pub(crate) fn restart(&mut self) -> Result<(), Broken> {
        let mut store = self.remains.take().ok_or("the daemon runs")?;
        store.died = false;
        let runtime = Runtime::open(store, self.tree.clone());
        let runtime = runtime.map_err(|error| error.to_string())?;
        let engine = runtime.engine().ok_or("the journal cannot be read")?;
        let (prepare, rest) = host::outstanding(engine);
        // 1. Nodes as they are now.
        let known: BTreeMap<NodeName, bool> =
            engine.nodes().into_iter().map(|node| (node.name, node.up)).collect();
        let news =
            self.hosts.iter().filter_map(|(name, host)| host.news(known.get(name).copied(), false));
        let mut inputs: Vec<Input> = news.map(Input::Event).collect();
        self.runtime = Some(runtime);
        self.carry_out(&prepare)?;
        // 2. What is known of every task, seen before or not.
        inputs.extend(
            self.backend.recall().into_iter().map(|report| Input::Event(Event::Task(report))),
        );
        self.carry_out(&rest)?;
        self.settle(inputs)?;
        Ok(())
    }

    /// Sets how the store takes the next batch.
    pub(crate) fn set_fault(&mut self, line: usize, fault: Fault) -> Result<(), Mistake> {
        let runtime = self.runtime.as_mut().ok_or_else(|| no_daemon(line))?;
        runtime.store_mut().fault = fault;
        Ok(())
    }

    /// Time passes up to an instant, or with `None` until nothing is due.
    pub(crate) fn advance(&mut self, to: Option<Time>) -> Result<Vec<String>, Broken> {
        let mut lines = Vec::new();
        for _ in 0..MOST_INSTANTS {
            // 1. The next instant at which something is due.
            let engine = self.runtime.as_ref().and_then(Runtime::engine);
            let wake = engine.and_then(Engine::next_wake);
            let due = [wake, self.backend.next_due(), to].into_iter().flatten().min();
            let Some(next) = due else { return Ok(lines) };
            if next < self.now {
                return Err(format!("something is due in the past, at {}", clock_of(next)));
            }
            self.now = next;
            // 2. What happens then. Without a daemon nobody hears of it.
            let reports = self.reports();
            if !reports.is_empty() || wake.is_some_and(|wake| wake <= next) {
                self.settle(reports)?;
            }
            let at = clock_of(next);
            lines.extend(self.tell().into_iter().map(|line| format!("{at} {line}")));
            self.audit()?;
            if to.is_some_and(|to| next >= to) {
                return Ok(lines);
            }
        }
        Err(format!("something is due again and again, last at {}", clock_of(self.now)))
    }

    /// What happened at this instant and was not told.
    pub(crate) fn tell(&mut self) -> Vec<String> {
        let facts = std::mem::take(&mut self.facts);
        let mut lines = self.told(&facts);
        for fact in &facts {
            match fact {
                Fact::AttemptEnded { id, .. } => drop(self.asked.insert(id.element)),
                Fact::JobEnded { job, view, .. } => drop(self.ended.insert(*job, (**view).clone())),
                _ => {}
            }
        }
        let jobs = &self.jobs;
        self.account.enter(&facts, |job| jobs.get(&job).map(|known| &*known.spec));
        let asked = std::mem::take(&mut self.asked);
        let mut runtime = self.runtime.take();
        if let Some(engine) = runtime.as_mut().and_then(Runtime::engine_mut) {
            lines.extend(asked.into_iter().filter_map(|element| self.waiting(engine, element)));
        }
        self.runtime = runtime;
        lines
    }

    /// What must hold at all times.
    pub(crate) fn audit(&self) -> Result<(), Broken> {
        match &self.runtime {
            Some(runtime) if runtime.store().fault == Fault::None => {
                audit(runtime, runtime.store().copy(), &self.tree, self.now, |_| false)
            }
            _ => Ok(()),
        }
    }

    /// The next instant with this time of day, in seconds since midnight.
    pub(crate) fn next_time_of_day(&self, seconds: u64) -> Time {
        const DAY: u64 = 86_400_000;
        let today = Time(self.now.0 / DAY * DAY) + Span::from_secs(seconds);
        if today > self.now { today } else { today + Span(DAY) }
    }
}

pub(crate) fn no_daemon(line: usize) -> Mistake {
    Mistake::at(line, "there is no daemon to tell this to").hint("`restart` brings it back")
}
