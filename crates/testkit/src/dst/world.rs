//! Daemon, disk, tasks, network and clock of one run, and the invariants after every step. It plays
//! the daemon: it executes orders, delivers reports, crashes and restarts. It makes no scheduling
//! decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::view::JobState;
use muster_model::{
    AttemptId, Decision, Effect, ElementId, Event, Eviction, EvictionCause, Foreign, JobId, NodeId,
    Observation, QueueTree, Span, TaskCheckpoint, TaskExit, TaskReport, TaskSignalled, Time,
};
use muster_runtime::engine::Engine;
use muster_runtime::{JobDraft, JobSubmission, Receipt, RefusedInput, Runtime, StepInput};

use super::RUN_START;
use super::attempt::LedgerAttempt;
use super::checkpoint_reaction::{self, CheckpointReaction};
use super::coverage::Coverage;
use super::features::RunFeatures;
use super::ledger::reclaimable;
use super::ledger::{ElementPhase, Ledger};
use super::network::Network;
use super::site::SpecTemplates;
use super::transcript::Transcript;
use crate::rng::SeededRng;
use crate::scenario::audit::audit;
use crate::scenario::backend::{IdealBackend, TaskTerms};
use crate::scenario::command::{ScriptedBehaviour, StartBehaviour};
use crate::scenario::host::{self, SimHost};
use crate::{FaultyStore, StoreFault};

/// Time that the daemon waits for a gang to be ready.
pub(crate) const START_LIMIT: Span = Span::from_secs(30);
/// Most steps of one instant; more means a livelock.
const MOST_ROUNDS: usize = 1_000;
/// Number of steps between two full audits.
const AUDIT_EVERY: u64 = 6;
/// Delay after which an unfinished pass is repeated.
const MOMENT: Span = Span(1);

/// A submission from its user's view.
#[derive(Clone, Debug)]
pub(crate) struct SentSubmission {
    pub(crate) key: String,
    pub(crate) user: &'static str,
    pub(crate) drafts: Vec<JobDraft>,
    pub(crate) answer: Option<Result<Receipt, RefusedInput>>,
}

/// State of a run.
pub(crate) struct DstWorld {
    pub(crate) rng: SeededRng,
    pub(crate) coverage: Coverage,
    pub(crate) transcript: Transcript,
    pub(crate) templates: SpecTemplates,
    pub(crate) now: Time,
    /// Offset of the daemon's clock from `now`, in milliseconds.
    pub(crate) skew: i64,
    pub(crate) runtime: Option<Runtime<FaultyStore>>,
    remains: Option<FaultyStore>,
    tree: QueueTree,
    pub(crate) levels: Vec<Arc<str>>,
    snapshot_after: usize,
    /// Number of checkpoints that each attempt's tasks have acknowledged.
    acknowledged: BTreeMap<AttemptId, u32>,
    pub(crate) backend: IdealBackend,
    pub(crate) network: Network,
    pub(crate) ledger: Ledger,
    pub(crate) hosts: Vec<SimHost>,
    /// Events that the daemon received and could not make durable.
    undelivered: Vec<Event>,
    /// Node events that are not delivered yet.
    pub(crate) notices: Vec<Event>,
    pub(crate) behaviours: BTreeMap<Arc<str>, ScriptedBehaviour>,
    pub(crate) sent: Vec<SentSubmission>,
    /// Optional features of this run.
    pub(crate) features: RunFeatures,
    pub(crate) in_liveness_phase: bool,
    /// Number of further orders after which the daemon crashes.
    pub(crate) dies_within: Option<usize>,
}

impl DstWorld {
    /// Creates a run with nodes that have not joined, a queue tree and a daemon.
    pub(crate) fn new(seed: u64, transcript: Transcript) -> Result<Self, String> {
        let mut rng = SeededRng::new(seed);
        let templates = SpecTemplates::read()?;
        let features = RunFeatures::of(seed);
        let mut tree = super::site::tree(&mut rng);
        features.tree(&mut rng, &mut tree);
        let nodes = templates.nodes(&mut rng);
        let levels = super::site::levels(&mut rng);
        let snapshot_after = *rng.pick(&[3, 20, 4096]);
        let mut world = Self {
            rng,
            coverage: Coverage::default(),
            transcript,
            templates,
            now: RUN_START,
            skew: 0,
            runtime: None,
            remains: Some(FaultyStore::default()),
            ledger: Ledger::new(tree.clone()),
            tree,
            levels,
            snapshot_after,
            acknowledged: BTreeMap::new(),
            backend: IdealBackend::default(),
            network: Network::default(),
            hosts: nodes.into_iter().map(SimHost::new).collect(),
            undelivered: Vec::new(),
            notices: Vec::new(),
            behaviours: BTreeMap::new(),
            sent: Vec::new(),
            features,
            in_liveness_phase: false,
            dies_within: None,
        };
        world.restart()?;
        Ok(world)
    }

    /// Returns the time of the daemon's clock.
    pub(crate) fn clock(&self) -> Time {
        Time(self.now.0.saturating_add_signed(self.skew))
    }

    /// Returns the time for which the daemon's time stands still: its clock was set back, and no step
    /// is earlier than the one before.
    pub(crate) fn stands_still(&self) -> Span {
        self.runtime.as_ref().map_or(Span(0), |runtime| runtime.last().since(self.clock()))
    }

    /// Returns the engine, while a daemon runs that can read its state.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.runtime.as_ref().and_then(Runtime::engine)
    }

    /// Returns the disk, whether or not the daemon runs.
    pub(crate) fn disk(&mut self) -> Option<&mut FaultyStore> {
        self.runtime.as_mut().map(Runtime::store_mut).or(self.remains.as_mut())
    }

    /// Returns when something is due next, in true time.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let wake = self.engine().and_then(Engine::next_wake);
        let wake = wake.map(|wake| Time(wake.0.saturating_add_signed(-self.skew)));
        let again = (!self.undelivered.is_empty()).then_some(self.now + Span::from_secs(1));
        [wake, self.network.next_due(), self.backend.next_due(), again].into_iter().flatten().min()
    }

    /// Collects due reports and node events as inputs.
    pub(crate) fn arrivals(&mut self) -> Vec<StepInput> {
        self.report_tasks();
        let mut inputs: Vec<StepInput> =
            std::mem::take(&mut self.notices).into_iter().map(StepInput::Event).collect();
        let arrived = self.network.take_due(self.now);
        inputs.extend(arrived.into_iter().map(report_input));
        inputs
    }

    fn report_tasks(&mut self) {
        for report in self.backend.take_due(self.now) {
            self.transcript.line(|| {
                format!("    task {} rank {}: {:?}", report.id, report.rank.0, report.observation)
            });
            self.network.send(
                self.now,
                report,
                &mut self.rng,
                &mut self.coverage,
                self.in_liveness_phase,
            );
        }
    }

    /// Steps the daemon at this instant until nothing more follows. `about` holds the indices of
    /// the submissions among the inputs.
    pub(crate) fn step_until_stable(
        &mut self,
        inputs: Vec<StepInput>,
        about: &[usize],
    ) -> Result<(), String> {
        let mut inputs = inputs;
        let mut about = about;
        for _ in 0..MOST_ROUNDS {
            if self.runtime.is_none() {
                return Ok(());
            }
            let went_well = self.step(inputs, about)?;
            about = &[];
            if !went_well {
                return Ok(());
            }
            inputs = self.arrivals();
            if inputs.is_empty() {
                return Ok(());
            }
        }
        Err("livelock: this instant does not end".to_owned())
    }

    /// Runs one step; false if it failed or the daemon crashed.
    fn step(&mut self, inputs: Vec<StepInput>, about: &[usize]) -> Result<bool, String> {
        let clock = self.clock();
        let Some(runtime) = &mut self.runtime else { return Ok(false) };
        let inputs: Vec<StepInput> = std::mem::take(&mut self.undelivered)
            .into_iter()
            .map(StepInput::Event)
            .chain(inputs)
            .collect();
        for input in &inputs {
            self.transcript.line(|| match input {
                StepInput::Event(event) => format!("    > {event:?}"),
                StepInput::Submission(submission) => format!("    > submit {}", submission.key),
            });
        }
        self.coverage.steps += 1;
        let is_submission: Vec<bool> =
            inputs.iter().map(|one| matches!(one, StepInput::Submission(_))).collect();
        let outcome = runtime.step(clock, inputs);
        let died = runtime.store().died;
        // 1. Durable batches enter the ledger, even if the step failed.
        self.enter()?;
        // 2. Answers and orders of the daemon.
        match outcome {
            Ok(step) => {
                if let Some(violation) = step.violations.first() {
                    let refused = self.engine().map(|engine| engine.clone().plan(clock));
                    self.transcript.line(|| format!("    rejected: {refused:?}"));
                    return Err(format!(
                        "the engine made a plan that its check rejects: {violation}"
                    ));
                }
                let answers = step.answers.into_iter().zip(is_submission).filter(|(_, is)| *is);
                for ((answer, _), which) in answers.zip(about) {
                    self.answered(*which, answer)?;
                }
                self.execute(&step.effects)?;
            }
            Err(_) if died => self.die("dies at the disk"),
            Err(failure) => {
                self.transcript.line(|| format!("    the step failed: {}", failure.error));
                self.undelivered = failure.retry;
                self.execute(&failure.effects)?;
                self.hold(false)?;
                return Ok(false);
            }
        }
        self.hold(true)?;
        Ok(self.runtime.is_some())
    }

    /// Enters durable batches, and counts injected faults.
    fn enter(&mut self) -> Result<(), String> {
        let Some(disk) = self.disk() else { return Ok(()) };
        let batches = disk.take_batches();
        let injected = std::mem::take(&mut disk.injected);
        let failed_loads = std::mem::take(&mut disk.failed_loads);
        let snapshots = std::mem::take(&mut disk.snapshots);
        self.coverage.unreadable += failed_loads;
        self.coverage.snapshots += snapshots;
        for fault in injected {
            match fault {
                StoreFault::FailBefore | StoreFault::FailAfter => self.coverage.failed_appends += 1,
                StoreFault::DieBefore => self.coverage.died_before += 1,
                StoreFault::DieAfter => self.coverage.died_after += 1,
            }
        }
        for batch in batches {
            for record in &batch.records {
                self.transcript.line(|| format!("    = {record:?}"));
            }
            self.ledger.enter(&batch, &mut self.coverage)?;
        }
        Ok(())
    }

    /// Checks and records the answer to a submission.
    fn answered(
        &mut self,
        which: usize,
        answer: Result<Receipt, RefusedInput>,
    ) -> Result<(), String> {
        let Some(sent) = self.sent.get_mut(which) else { return Ok(()) };
        if let Ok(receipt) = &answer {
            if receipt.jobs.len() != sent.drafts.len()
                || receipt.jobs.iter().any(|job| !self.ledger.has_job(job.job))
            {
                return Err(format!("{} is acknowledged and not durable: {receipt:?}", sent.key));
            }
            let names = receipt.jobs.iter().map(|job| self.ledger.named(&job.name));
            if names.zip(&receipt.jobs).any(|(known, job)| known != Some(job.job)) {
                return Err(format!("{} gets the numbers of other jobs: {receipt:?}", sent.key));
            }
        }
        match (&sent.answer, &answer) {
            (Some(Ok(first)), Ok(second)) if first == second => {}
            (Some(Ok(first)), other) => {
                return Err(format!("{} got the answer {first:?} and then {other:?}", sent.key));
            }
            (_, Ok(receipt)) => self.coverage.jobs += receipt.jobs.len() as u64,
            (_, Err(_)) => self.coverage.refused += 1,
        }
        self.transcript.line(|| format!("    {} is answered {answer:?}", sent.key));
        sent.answer = Some(answer);
        Ok(())
    }

    /// Executes orders; the daemon may crash before the last.
    fn execute(&mut self, effects: &[Effect]) -> Result<(), String> {
        for effect in effects {
            if let Some(left) = &mut self.dies_within {
                match left.checked_sub(1) {
                    Some(less) => *left = less,
                    None => {
                        self.die("dies between orders");
                        return Ok(());
                    }
                }
            }
            self.transcript.line(|| format!("    ! {effect:?}"));
            self.order(effect)?;
        }
        Ok(())
    }

    fn order(&mut self, effect: &Effect) -> Result<(), String> {
        let id = effect.id();
        if let Effect::Checkpoint { request, .. } = effect {
            self.react(id, *request);
        }
        let Effect::Prepare { placement, .. } = effect else {
            return self.backend.execute(self.now, effect);
        };
        let attempt = self.ledger.attempt(id.element).filter(|attempt| attempt.id == id);
        if attempt.is_none_or(|attempt| attempt.placement != *placement) {
            return Err(format!("{id} is to be prepared without a durable decision"));
        }
        let spec = self.ledger.jobs.get(&id.element.job).map(|job| Arc::clone(&job.spec));
        let spec = spec.ok_or_else(|| format!("{id} has no job"))?;
        let behaviour = self
            .behaviours
            .get(&spec.name)
            .cloned()
            .ok_or_else(|| format!("{id} has no behaviour"))?;
        let hosts = &self.hosts;
        let nodes = &self.ledger.nodes;
        let bad = std::cell::Cell::new(0);
        let starts = |node: NodeId| {
            let name = nodes.get(node.0 as usize).map(|known| &known.spec.name);
            let host = hosts.iter().find(|host| Some(&host.spec.name) == name);
            let starts = match host {
                Some(host) if host.up => host.starts.clone(),
                _ => StartBehaviour::Mute,
            };
            bad.set(bad.get() + u64::from(starts != StartBehaviour::Works));
            starts
        };
        self.backend.prepare(self.now, id, placement, TaskTerms::of(&spec, behaviour), starts)?;
        self.coverage.bad_starts += bad.get();
        Ok(())
    }

    /// Simulates the reaction of an attempt's tasks to a checkpoint request.
    fn react(&mut self, id: AttemptId, request: u32) {
        let reaction = checkpoint_reaction::random_reaction(&mut self.rng);
        self.transcript.line(|| format!("    {id} gets a checkpoint request: {reaction:?}"));
        let reached = u32::from(reaction != CheckpointReaction::Unheard);
        for rank in self.backend.running_ranks(id) {
            let signalled = TaskSignalled { request, warned: false, reached };
            let report = TaskReport { id, rank, observation: Observation::Signalled(signalled) };
            self.network.send(
                self.now,
                report,
                &mut self.rng,
                &mut self.coverage,
                self.in_liveness_phase,
            );
        }
        let now = self.now + Span(self.rng.roll(3_000));
        match reaction {
            CheckpointReaction::Unheard | CheckpointReaction::Silent => {}
            CheckpointReaction::Saves => self.acknowledge(id, request),
            CheckpointReaction::Exits => {
                let done = Observation::Exited(TaskExit::Code { code: 0 });
                self.coverage.exited_when_asked +=
                    u64::from(self.backend.force(now, id.element, None, &done) > 0);
            }
            CheckpointReaction::Dies(exit) => {
                let rank = self.rng.chance(50).then_some(0);
                let forced = self.backend.force(now, id.element, rank, &Observation::Exited(exit));
                self.coverage.died_when_asked += u64::from(forced > 0);
            }
        }
    }

    /// Reports the warning before the time limit to the tasks of an attempt.
    pub(crate) fn warn(&mut self, id: AttemptId) {
        for rank in self.backend.running_ranks(id) {
            let signalled = TaskSignalled { request: 0, warned: true, reached: 1 };
            let report = TaskReport { id, rank, observation: Observation::Signalled(signalled) };
            self.network.send(
                self.now,
                report,
                &mut self.rng,
                &mut self.coverage,
                self.in_liveness_phase,
            );
        }
    }

    /// Acknowledges a checkpoint from every running task, a little later.
    fn acknowledge(&mut self, id: AttemptId, request: u32) {
        let count = self.acknowledged.entry(id).or_default();
        *count += 1;
        for rank in self.backend.running_ranks(id) {
            let at = self.now;
            let label = format!("step {count}").into();
            let reported =
                TaskCheckpoint { count: *count, answers: request, warned: false, at, label };
            let report = TaskReport { id, rank, observation: Observation::Checkpointed(reported) };
            let later = self.now + Span(self.rng.roll(4_000));
            self.network.send(
                later,
                report,
                &mut self.rng,
                &mut self.coverage,
                self.in_liveness_phase,
            );
        }
    }

    /// Crashes the daemon; durable state and running tasks stay.
    pub(crate) fn die(&mut self, how: &str) {
        let Some(runtime) = self.runtime.take() else { return };
        self.transcript.line(|| format!("    the daemon {how}"));
        let mut disk = runtime.into_store();
        disk.died = false;
        self.remains = Some(disk);
        self.undelivered.clear();
        self.notices.clear();
        self.dies_within = None;
        if self.rng.chance(50) {
            self.network.cut();
        }
    }

    /// Restarts the daemon: it reads its journal, repeats orders, and receives the state of tasks
    /// and nodes.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let Some(disk) = self.remains.take() else { return Ok(()) };
        let mut spare = disk.clone();
        let runtime = match Runtime::open(disk, self.tree.clone()) {
            Ok(runtime) => {
                runtime.with_snapshot_after(self.snapshot_after).with_start_limit(START_LIMIT)
            }
            Err(_) => {
                spare.unreadable = spare.unreadable.saturating_sub(1);
                self.coverage.unreadable += 1;
                self.remains = Some(spare);
                return Ok(());
            }
        };
        self.transcript.line(|| "    the daemon starts".to_owned());
        let engine = runtime.engine().ok_or("the journal cannot be read")?;
        let (prepare, rest) = host::outstanding(engine);
        self.runtime = Some(runtime);
        self.execute(&prepare)?;
        let ledger = &self.ledger;
        self.backend.drop_unrecorded(|id| {
            ledger.attempt(id.element).is_some_and(|attempt| attempt.id == id)
        });
        let mut inputs = self.nodes_now();
        self.report_tasks();
        inputs.extend(self.backend.task_reports().into_iter().map(report_input));
        self.execute(&rest)?;
        self.step_until_stable(inputs, &[])
    }

    /// Returns events for nodes whose state differs from the ledger's.
    pub(crate) fn nodes_now(&self) -> Vec<StepInput> {
        let mut inputs = Vec::new();
        if self.ledger.levels != self.levels {
            inputs.push(Event::LevelsSet(self.levels.clone()));
        }
        for host in &self.hosts {
            let known = self.ledger.nodes.iter().find(|known| known.spec.name == host.spec.name);
            let another = known.is_some_and(|known| known.spec != host.spec);
            inputs.extend(host.news(known.map(|known| known.up), another));
            let joined = known.is_some() || host.up;
            if joined
                && known.map(|known| &known.foreign).unwrap_or(&Foreign::default()) != &host.foreign
            {
                let node = host.spec.name.clone();
                let foreign = host.foreign.clone();
                inputs.push(Event::ForeignUse { node, foreign });
            }
        }
        inputs.into_iter().map(StepInput::Event).collect()
    }

    /// Returns the known state of every task as reports.
    pub(crate) fn task_reports(&mut self) -> Vec<StepInput> {
        self.backend.task_reports().into_iter().map(report_input).collect()
    }

    /// Checks all invariants; if the step has not planned, a plan now may still decide something.
    fn hold(&mut self, has_planned: bool) -> Result<(), String> {
        // 1. No task runs without a durable decision.
        for id in self.backend.live_attempts() {
            if self.ledger.attempt(id.element).is_none_or(|attempt| attempt.id != id) {
                return Err(format!("{id} runs without a durable decision"));
            }
        }
        // 2. Acknowledged jobs exist.
        for sent in &self.sent {
            let Some(Ok(receipt)) = &sent.answer else { continue };
            if let Some(lost) = receipt.jobs.iter().find(|job| !self.ledger.has_job(job.job)) {
                return Err(format!("{} was acknowledged as {} and is lost", sent.key, lost.job));
            }
        }
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let Some(engine) = runtime.engine() else { return Ok(()) };
        // 3. The state is consistent, and agrees with the journal.
        if let Some(violation) = engine.sanity_check().first() {
            return Err(format!("the state breaks an invariant: {violation}"));
        }
        if engine.counts().jobs != self.ledger.jobs.len() as u64 {
            return Err(format!(
                "{} jobs are in memory, {} are not over",
                engine.counts().jobs,
                self.ledger.jobs.len()
            ));
        }
        if runtime.next_job()
            <= self.ledger.jobs.keys().chain(self.ledger.over.keys()).max().map_or(0, |job| job.0)
        {
            return Err(format!("the next job gets the number {} again", runtime.next_job()));
        }
        if !self.coverage.steps.is_multiple_of(AUDIT_EVERY)
            || !runtime.store().works()
            || !self.undelivered.is_empty()
            || !has_planned
        {
            return Ok(());
        }
        // 4. At intervals: every element; plan again, replay, restore.
        self.coverage.audits += 1;
        let at = runtime.instant(self.clock());
        self.compare_elements(engine, at)?;
        if engine.reservations().is_empty()
            && let Some((waits, runs)) = reclaimable::missed_reclaim(&self.ledger, at)
        {
            return Err(format!("{waits} is pending though {runs} borrows its queue's quota"));
        }
        // A pass may leave starts to the next one, if it asks for an immediate wake-up.
        let looks_again = engine.next_wake().is_some_and(|wake| wake <= runtime.last() + MOMENT);
        // That pass may evict an attempt of the same instant that started from a nomination or
        // above its minimum size: for a job that has arrived since, or that is first now.
        let is_fresh = |eviction: &Eviction| {
            let attempt = self.ledger.attempt(eviction.id.element);
            let is_larger = looks_again && eviction.cause == EvictionCause::Shrunk;
            let is_new = |one: &LedgerAttempt| {
                one.held_from == runtime.last() && (one.nominated || is_larger)
            };
            attempt.is_some_and(is_new)
        };
        let excused = |decision: &Decision| match decision {
            Decision::Nominate { evict, .. } => evict.iter().any(is_fresh),
            Decision::Start { .. } => looks_again,
            Decision::Revoke { .. } => false,
        };
        audit(runtime, runtime.store().durable.clone(), &self.tree, at, excused)
    }

    fn compare_elements(&self, engine: &Engine, at: Time) -> Result<(), String> {
        for (id, job) in &self.ledger.jobs {
            for (index, element) in &job.elements {
                let id = ElementId { job: *id, index: *index };
                let view =
                    engine.element(at, id).ok_or_else(|| format!("{id} is not in memory"))?;
                let agree = match (&element.phase, view.state) {
                    (ElementPhase::Pending { held, .. }, state) => {
                        state == if *held { JobState::Held } else { JobState::Pending }
                    }
                    (ElementPhase::Active(attempt), JobState::Starting) => !attempt.has_run,
                    (ElementPhase::Active(attempt), JobState::Running) => {
                        attempt.has_run && attempt.fate.is_none()
                    }
                    (ElementPhase::Active(attempt), JobState::Stopping) => attempt.fate.is_some(),
                    (ElementPhase::Ended(outcome), state) => {
                        state.is_final() && view.outcome.as_ref() == Some(outcome)
                    }
                    (ElementPhase::Active(_), _) => false,
                };
                if engine.last_checkpoint(id) != element.saved {
                    return Err(format!("{id} has lost its checkpoint {:?}", element.saved));
                }
                if !agree {
                    return Err(format!(
                        "{id} is {:?} by the journal and {} in memory",
                        element.phase,
                        view.state.word()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the submission as an input, for the first time or again.
    pub(crate) fn envelope(&self, which: usize) -> Option<StepInput> {
        let sent = self.sent.get(which)?;
        Some(StepInput::Submission(JobSubmission {
            user: sent.user.into(),
            key: sent.key.clone(),
            drafts: sent.drafts.clone(),
            warnings: Vec::new(),
        }))
    }

    /// Returns the number of the next job.
    pub(crate) fn next_job(&self) -> JobId {
        JobId(self.runtime.as_ref().map_or(1, Runtime::next_job))
    }
}

fn report_input(report: TaskReport) -> StepInput {
    StepInput::Event(Event::Task(report))
}
