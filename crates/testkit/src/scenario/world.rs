//! World of a scenario: one daemon (the runtime with its journal), one ideal backend, nodes that
//! fail as scripted, and a clock that moves only by `advance` and `until`, stopping wherever
//! something is due. It makes no scheduling decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::view::JobView;
use muster_model::{
    AttemptId, Effect, ElementId, Event, JobId, JobSpec, NodeId, NodeName, QueueTree, Span, Time,
};
use muster_runtime::engine::{AccountingFact, Engine};
use muster_runtime::{JournalBatch, JournalRecord, Receipt, RefusedInput, Runtime, StepInput};
use muster_spec::ParsedJob;

use super::audit::audit;
use super::backend::{IdealBackend, TaskTerms};
use super::command::{ScriptedBehaviour, StartBehaviour};
use super::host::{self, SimHost};
use super::script_error::ScriptError;
use super::time_of_day::{NOON, format_time};
use super::usage_account::UsageAccount;
use crate::FaultyStore;

/// Most steps of one instant; more means a livelock.
const MOST_ROUNDS: usize = 1_000;
/// Most instants within one line.
const MOST_INSTANTS: usize = 100_000;

/// State of a scenario.
pub(crate) struct ScenarioWorld {
    pub(crate) now: Time,
    /// Absent while the daemon is down.
    pub(crate) runtime: Option<Runtime<FaultyStore>>,
    /// Journal while the daemon is down.
    pub(crate) remains: Option<FaultyStore>,
    /// Queue tree of a daemon without a journal.
    pub(crate) tree: QueueTree,
    pub(crate) backend: IdealBackend,
    pub(crate) hosts: BTreeMap<NodeName, SimHost>,
    /// Topology levels of the cluster, widest first.
    pub(crate) levels: Vec<Arc<str>>,
    /// Nodes in the order of their first joining.
    pub(crate) joined: Vec<NodeName>,
    pub(crate) jobs: BTreeMap<JobId, SubmittedJob>,
    pub(crate) names: BTreeMap<String, JobId>,
    /// Submitted jobs without a number yet, by name.
    pub(crate) drafts: BTreeMap<String, SubmittedJob>,
    /// Jobs that the engine has dropped, as last seen.
    pub(crate) ended: BTreeMap<JobId, JobView>,
    pub(crate) account: UsageAccount,
    /// Number of submissions so far: the idempotency key of the next.
    pub(crate) submissions: u64,
    /// Reports that a daemon without disk could not make durable.
    retry: Vec<Event>,
    /// Facts that are not in the transcript yet.
    facts: Vec<AccountingFact>,
    /// Facts of a daemon that died before it reported them.
    unreported: Vec<AccountingFact>,
    /// Starts that passed a blocked job.
    backfilled: BTreeSet<AttemptId>,
    /// Elements whose pending reason is reported at the end of the instant.
    pub(crate) asked: BTreeSet<ElementId>,
}

/// A job from its submitter's view.
#[derive(Clone, Debug)]
pub(crate) struct SubmittedJob {
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) behaviour: ScriptedBehaviour,
    pub(crate) document: ParsedJob,
}

/// Reason why a scenario stops.
type ScenarioFailure = String;

impl ScenarioWorld {
    /// Creates a world with a clock and a daemon only.
    pub(crate) fn new() -> Result<Self, ScenarioFailure> {
        let tree = QueueTree::single();
        let runtime = Runtime::open(FaultyStore::default(), tree.clone())
            .map_err(|error| error.to_string())?;
        Ok(Self {
            now: NOON,
            runtime: Some(runtime),
            remains: None,
            tree,
            backend: IdealBackend::default(),
            hosts: BTreeMap::new(),
            levels: Vec::new(),
            joined: Vec::new(),
            jobs: BTreeMap::new(),
            names: BTreeMap::new(),
            drafts: BTreeMap::new(),
            ended: BTreeMap::new(),
            account: UsageAccount::default(),
            submissions: 0,
            retry: Vec::new(),
            facts: Vec::new(),
            unreported: Vec::new(),
            backfilled: BTreeSet::new(),
            asked: BTreeSet::new(),
        })
    }

    pub(crate) fn engine(&self, line: usize) -> Result<&Engine, ScriptError> {
        self.runtime.as_ref().and_then(Runtime::engine).ok_or_else(|| no_daemon(line))
    }

    pub(crate) fn engine_mut(&mut self, line: usize) -> Result<&mut Engine, ScriptError> {
        self.runtime.as_mut().and_then(Runtime::engine_mut).ok_or_else(|| no_daemon(line))
    }

    /// Returns the node with this number; numbers follow the order of joining.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        let name = self.joined.get(node.0 as usize);
        name.map_or_else(|| format!("node number {node}"), NodeName::to_string)
    }

    pub(crate) fn is_backfilled(&self, id: AttemptId) -> bool {
        self.backfilled.contains(&id)
    }

    /// Steps the daemon with these inputs, until nothing more follows at this instant.
    pub(crate) fn step_until_stable(
        &mut self,
        inputs: Vec<StepInput>,
    ) -> Result<Vec<Result<Receipt, RefusedInput>>, ScenarioFailure> {
        let mut answers = None;
        let mut inputs: Vec<StepInput> = std::mem::take(&mut self.retry)
            .into_iter()
            .map(StepInput::Event)
            .chain(inputs)
            .collect();
        let kept = inputs.len();
        for _ in 0..MOST_ROUNDS {
            let Some(runtime) = &mut self.runtime else { return Ok(answers.unwrap_or_default()) };
            match runtime.step(self.now, inputs) {
                Ok(step) => {
                    if let Some(violation) = step.violations.first() {
                        return Err(format!(
                            "the engine made a plan that its check rejects: {violation}"
                        ));
                    }
                    answers.get_or_insert(step.answers);
                    let batches = runtime.store_mut().take_batches();
                    self.read_batches(batches);
                    self.facts.append(&mut self.unreported);
                    self.execute(&step.effects)?;
                }
                Err(_) if runtime.store().died => {
                    self.die();
                    return Ok(Vec::new());
                }
                Err(failure) => {
                    self.retry = failure.retry;
                    self.execute(&failure.effects)?;
                    let seen = self.backend.take_due(self.now);
                    self.retry.extend(seen.into_iter().map(Event::Task));
                    return Ok(answers.unwrap_or_default());
                }
            }
            inputs = self.reports();
            if inputs.is_empty() {
                let answers: Vec<_> = answers.unwrap_or_default();
                debug_assert!(answers.len() <= kept, "at most one answer per input");
                return Ok(answers);
            }
        }
        Err("livelock: this instant does not end".to_owned())
    }

    /// Reads accepted jobs, backfilled starts and facts from durable batches.
    fn read_batches(&mut self, batches: Vec<JournalBatch>) {
        for batch in batches {
            self.unreported.extend(batch.facts);
            for record in &batch.records {
                match record {
                    JournalRecord::Event(Event::Submitted { job, spec }) => {
                        self.record_accepted(*job, &spec.name);
                    }
                    JournalRecord::Event(_) => {}
                    JournalRecord::Plan(plan) => {
                        let backfilled = plan.starts().filter(|(_, _, backfilled)| *backfilled);
                        self.backfilled.extend(backfilled.map(|(id, _, _)| id));
                    }
                }
            }
        }
    }

    /// Stores the number of an accepted job.
    fn record_accepted(&mut self, job: JobId, name: &str) {
        let Some(known) = self.drafts.remove(name) else { return };
        let first = known.spec.array.as_ref().map_or(0, |array| array.head.first);
        let replicas = known.spec.service().map_or(1, |service| service.replicas.max);
        self.asked.extend((first..first + replicas).map(|index| ElementId { job, index }));
        self.names.insert(name.to_owned(), job);
        self.jobs.insert(job, known);
    }

    fn reports(&mut self) -> Vec<StepInput> {
        self.backend
            .take_due(self.now)
            .into_iter()
            .map(|report| StepInput::Event(Event::Task(report)))
            .collect()
    }

    /// Executes effects on the backend.
    pub(crate) fn execute(&mut self, effects: &[Effect]) -> Result<(), ScenarioFailure> {
        for effect in effects {
            let Effect::Prepare { id, placement, .. } = effect else {
                self.backend.execute(self.now, effect)?;
                continue;
            };
            let known = self
                .jobs
                .get(&id.element.job)
                .ok_or_else(|| format!("{id} does not belong to a job"))?;
            let terms = TaskTerms::of(&known.spec, known.behaviour.clone());
            let hosts = &self.hosts;
            let joined = &self.joined;
            let starts = |node: NodeId| {
                let host = joined.get(node.0 as usize).and_then(|name| hosts.get(name));
                host.map_or(StartBehaviour::Works, |host| host.starts.clone())
            };
            self.backend.prepare(self.now, *id, placement, terms, starts)?;
        }
        Ok(())
    }

    /// Crashes the daemon; durable state and running tasks stay.
    pub(crate) fn die(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let mut store = runtime.into_store();
            self.read_batches(store.take_batches());
            self.remains = Some(store);
        }
        self.drafts.clear();
        self.retry.clear();
    }

    /// Restarts the daemon: it reads its journal, repeats orders, and receives the state of tasks
    /// and nodes.
    pub(crate) fn restart(&mut self) -> Result<(), ScenarioFailure> {
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
        let mut inputs: Vec<StepInput> = news.map(StepInput::Event).collect();
        self.runtime = Some(runtime);
        self.execute(&prepare)?;
        // 2. The known state of every task, reported before or not.
        inputs.extend(
            self.backend
                .task_reports()
                .into_iter()
                .map(|report| StepInput::Event(Event::Task(report))),
        );
        self.execute(&rest)?;
        self.step_until_stable(inputs)?;
        Ok(())
    }

    /// Returns the store of the running daemon.
    pub(crate) fn store(&mut self, line: usize) -> Result<&mut FaultyStore, ScriptError> {
        self.runtime.as_mut().map(Runtime::store_mut).ok_or_else(|| no_daemon(line))
    }

    /// Advances time to an instant, or with `None` until nothing is due.
    pub(crate) fn advance(&mut self, to: Option<Time>) -> Result<Vec<String>, ScenarioFailure> {
        let mut lines = Vec::new();
        for _ in 0..MOST_INSTANTS {
            // 1. The next instant at which something is due.
            let engine = self.runtime.as_ref().and_then(Runtime::engine);
            let wake = engine.and_then(Engine::next_wake);
            let due = [wake, self.backend.next_due(), to].into_iter().flatten().min();
            let Some(next) = due else { return Ok(lines) };
            if next < self.now {
                return Err(format!("something is due in the past, at {}", format_time(next)));
            }
            self.now = next;
            // 2. Events of that instant. Without a daemon they are not received.
            let reports = self.reports();
            if !reports.is_empty() || wake.is_some_and(|wake| wake <= next) {
                self.step_until_stable(reports)?;
            }
            let at = format_time(next);
            lines.extend(self.take_transcript().into_iter().map(|line| format!("{at} {line}")));
            self.audit()?;
            if to.is_some_and(|to| next >= to) {
                return Ok(lines);
            }
        }
        Err(format!(
            "livelock: something is due again and again, last at {}",
            format_time(self.now)
        ))
    }

    /// Returns the transcript of this instant.
    pub(crate) fn take_transcript(&mut self) -> Vec<String> {
        let facts = std::mem::take(&mut self.facts);
        let mut lines = self.accounting_lines(&facts);
        for fact in &facts {
            match fact {
                AccountingFact::AttemptEnded { id, .. } => drop(self.asked.insert(id.element)),
                AccountingFact::JobEnded { job, view, .. } => {
                    drop(self.ended.insert(*job, (**view).clone()))
                }
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

    pub(crate) fn audit(&self) -> Result<(), ScenarioFailure> {
        match &self.runtime {
            Some(runtime) if runtime.store().works() && runtime.store().faults.is_empty() => {
                let copy = runtime.store().durable.clone();
                audit(runtime, copy, &self.tree, self.now, |_| false)
            }
            _ => Ok(()),
        }
    }

    /// Returns the next instant with this time of day, in seconds since midnight.
    pub(crate) fn next_time_of_day(&self, seconds: u64) -> Time {
        const DAY: u64 = 86_400_000;
        let today = Time(self.now.0 / DAY * DAY) + Span::from_secs(seconds);
        if today > self.now { today } else { today + Span(DAY) }
    }
}

pub(crate) fn no_daemon(line: usize) -> ScriptError {
    ScriptError::at(line, "the daemon is down").hint("`restart` brings it back")
}
