//! Daemon, disk, tasks, wire and clock of one story, and what must hold after every step. It plays
//! the daemon: it carries out orders, hands in reports, dies and comes back; it chooses nothing by
//! itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::view::State;
use muster_model::{
    AttemptId, Decision, Effect, ElementId, Event, Eviction, EvictionCause, Foreign, JobId, NodeId,
    Observation, QueueTree, Span, TaskCheckpoint, TaskExit, TaskReport, TaskSignalled, Time,
};
use muster_runtime::engine::Engine;
use muster_runtime::{Draft, Input, Receipt, Refused, Runtime, Submission};

use super::asked::{self, Reaction};
use super::attempt::Attempt;
use super::beyond::Beyond;
use super::book::{Book, Phase};
use super::cover::Cover;
use super::disk::{Blow, DAWN, Disk};
use super::owed;
use super::site::Patterns;
use super::trace::Trace;
use super::wire::Wire;
use crate::dice::Dice;
use crate::scenario::audit::audit;
use crate::scenario::backend::{Backend, Terms};
use crate::scenario::command::{Conduct, Starts};
use crate::scenario::host::{self, Host};

/// How long the daemon of a story waits for a gang to be ready.
pub(crate) const START_LIMIT: Span = Span::from_secs(30);
/// Steps of one instant after which the world has gone round in circles.
const MOST_ROUNDS: usize = 1_000;
/// One step in so many is audited whole.
const AUDIT_EVERY: u64 = 6;
/// How soon a pass is looked at again that says so.
const MOMENT: Span = Span(1);

/// A submission as its user knows it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) key: String,
    pub(crate) user: &'static str,
    pub(crate) drafts: Vec<Draft>,
    pub(crate) answer: Option<Result<Receipt, Refused>>,
}

/// Everything there is.
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) cover: Cover,
    pub(crate) trace: Trace,
    pub(crate) patterns: Patterns,
    pub(crate) now: Time,
    /// What the daemon's clock shows beyond `now`, in milliseconds.
    pub(crate) skew: i64,
    pub(crate) runtime: Option<Runtime<Disk>>,
    remains: Option<Disk>,
    tree: QueueTree,
    pub(crate) levels: Vec<Arc<str>>,
    snapshot_after: usize,
    /// Checkpoints of each attempt that its tasks have acknowledged.
    acknowledged: BTreeMap<AttemptId, u32>,
    pub(crate) backend: Backend,
    pub(crate) wire: Wire,
    pub(crate) book: Book,
    pub(crate) hosts: Vec<Host>,
    /// What the daemon heard and could not keep.
    kept: Vec<Event>,
    /// Said by nodes, not heard yet.
    pub(crate) notices: Vec<Event>,
    pub(crate) conducts: BTreeMap<Arc<str>, Conduct>,
    pub(crate) sent: Vec<Sent>,
    /// What this story has that others have not.
    pub(crate) beyond: Beyond,
    pub(crate) calm: bool,
    /// The daemon dies after so many of the next orders.
    pub(crate) dies_within: Option<usize>,
}

impl World {
    /// Nodes that have not joined, a tree, a daemon.
    pub(crate) fn new(seed: u64, trace: Trace) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let patterns = Patterns::read()?;
        let beyond = Beyond::of(seed);
        let mut tree = super::site::tree(&mut dice);
        beyond.tree(&mut dice, &mut tree);
        let nodes = patterns.nodes(&mut dice);
        let levels = super::site::levels(&mut dice);
        let snapshot_after = *dice.pick(&[3, 20, 4096]);
        let mut world = Self {
            dice,
            cover: Cover::default(),
            trace,
            patterns,
            now: DAWN,
            skew: 0,
            runtime: None,
            remains: Some(Disk::default()),
            book: Book::new(tree.clone()),
            tree,
            levels,
            snapshot_after,
            acknowledged: BTreeMap::new(),
            backend: Backend::default(),
            wire: Wire::default(),
            hosts: nodes.into_iter().map(Host::new).collect(),
            kept: Vec::new(),
            notices: Vec::new(),
            conducts: BTreeMap::new(),
            sent: Vec::new(),
            beyond,
            calm: false,
            dies_within: None,
        };
        world.restart()?;
        Ok(world)
    }

    /// What the daemon's clock shows.
    pub(crate) fn clock(&self) -> Time {
        Time(self.now.0.saturating_add_signed(self.skew))
    }

    /// The engine, while there is a daemon that can read its state.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.runtime.as_ref().and_then(Runtime::engine)
    }

    /// The disk, wherever it is.
    pub(crate) fn disk(&mut self) -> Option<&mut Disk> {
        self.runtime.as_mut().map(Runtime::store_mut).or(self.remains.as_mut())
    }

    /// When something is due next, in true time.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let wake = self.engine().and_then(Engine::next_wake);
        let wake = wake.map(|wake| Time(wake.0.saturating_add_signed(-self.skew)));
        let again = (!self.kept.is_empty()).then_some(self.now + Span::from_secs(1));
        [wake, self.wire.next_due(), self.backend.next_due(), again].into_iter().flatten().min()
    }

    /// Time passes: tasks do what they do, and what arrives is handed in.
    pub(crate) fn arrivals(&mut self) -> Vec<Input> {
        self.report_tasks();
        let mut inputs: Vec<Input> =
            std::mem::take(&mut self.notices).into_iter().map(Input::Event).collect();
        let arrived = self.wire.take_due(self.now);
        inputs.extend(arrived.into_iter().map(report_input));
        inputs
    }

    fn report_tasks(&mut self) {
        for report in self.backend.take_due(self.now) {
            self.trace.line(|| {
                format!("    task {} rank {}: {:?}", report.id, report.rank.0, report.what)
            });
            self.wire.send(self.now, report, &mut self.dice, &mut self.cover, self.calm);
        }
    }

    /// Steps of the daemon at this instant until nothing more follows. `about` says which
    /// submission an input is.
    pub(crate) fn settle(&mut self, inputs: Vec<Input>, about: &[usize]) -> Result<(), String> {
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
        Err("the world does not come to rest at this instant".to_owned())
    }

    /// One step; false when it failed or the daemon died.
    fn step(&mut self, inputs: Vec<Input>, about: &[usize]) -> Result<bool, String> {
        let clock = self.clock();
        let Some(runtime) = &mut self.runtime else { return Ok(false) };
        let inputs: Vec<Input> =
            std::mem::take(&mut self.kept).into_iter().map(Input::Event).chain(inputs).collect();
        for input in &inputs {
            self.trace.line(|| match input {
                Input::Event(event) => format!("    > {event:?}"),
                Input::Submission(submission) => format!("    > submit {}", submission.key),
            });
        }
        self.cover.steps += 1;
        let is_submission: Vec<bool> =
            inputs.iter().map(|one| matches!(one, Input::Submission(_))).collect();
        let outcome = runtime.step(clock, inputs);
        let died = runtime.store().died;
        // 1. What became durable enters the book, whatever the daemon thinks of it.
        self.enter()?;
        // 2. What the daemon says and orders.
        match outcome {
            Ok(step) => {
                if let Some(violation) = step.violations.first() {
                    let refused = self.engine().map(|engine| engine.clone().plan(clock));
                    self.trace.line(|| format!("    refused: {refused:?}"));
                    return Err(format!(
                        "the engine made a plan that its judge refuses: {violation}"
                    ));
                }
                let answers = step.answers.into_iter().zip(is_submission).filter(|(_, is)| *is);
                for ((answer, _), which) in answers.zip(about) {
                    self.answered(*which, answer)?;
                }
                self.carry_out(&step.effects)?;
            }
            Err(_) if died => self.die("dies at the disk"),
            Err(failure) => {
                self.trace.line(|| format!("    the step failed: {}", failure.error));
                self.kept = failure.retry;
                self.carry_out(&failure.effects)?;
                self.hold(false)?;
                return Ok(false);
            }
        }
        self.hold(true)?;
        Ok(self.runtime.is_some())
    }

    /// Enters batches that became durable, and counts what the disk went through.
    fn enter(&mut self) -> Result<(), String> {
        let Some(disk) = self.disk() else { return Ok(()) };
        let (batches, struck) = (disk.take_batches(), std::mem::take(&mut disk.struck));
        let (failed_loads, snapshots) =
            (std::mem::take(&mut disk.failed_loads), std::mem::take(&mut disk.snapshots));
        self.cover.unreadable += failed_loads;
        self.cover.snapshots += snapshots;
        for blow in struck {
            match blow {
                Blow::None => {}
                Blow::FailBefore | Blow::FailAfter => self.cover.failed_appends += 1,
                Blow::DieBefore => self.cover.died_before += 1,
                Blow::DieAfter => self.cover.died_after += 1,
            }
        }
        for batch in batches {
            for record in &batch.records {
                self.trace.line(|| format!("    = {record:?}"));
            }
            self.book.enter(&batch, &mut self.cover)?;
        }
        Ok(())
    }

    /// A user gets an answer.
    fn answered(&mut self, which: usize, answer: Result<Receipt, Refused>) -> Result<(), String> {
        let Some(sent) = self.sent.get_mut(which) else { return Ok(()) };
        if let Ok(receipt) = &answer {
            if receipt.jobs.len() != sent.drafts.len()
                || receipt.jobs.iter().any(|job| !self.book.knows(job.job))
            {
                return Err(format!("{} is acknowledged and not durable: {receipt:?}", sent.key));
            }
            let names = receipt.jobs.iter().map(|job| self.book.named(&job.name));
            if names.zip(&receipt.jobs).any(|(known, job)| known != Some(job.job)) {
                return Err(format!("{} gets the numbers of other jobs: {receipt:?}", sent.key));
            }
        }
        match (&sent.answer, &answer) {
            (Some(Ok(first)), Ok(second)) if first == second => {}
            (Some(Ok(first)), other) => {
                return Err(format!("{} was told {first:?} and then {other:?}", sent.key));
            }
            (_, Ok(receipt)) => self.cover.jobs += receipt.jobs.len() as u64,
            (_, Err(_)) => self.cover.refused += 1,
        }
        self.trace.line(|| format!("    {} is told {answer:?}", sent.key));
        sent.answer = Some(answer);
        Ok(())
    }

    /// Hands orders to the backend, of which the daemon may not live to see the last.
    fn carry_out(&mut self, effects: &[Effect]) -> Result<(), String> {
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
            self.trace.line(|| format!("    ! {effect:?}"));
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
            return self.backend.carry_out(self.now, effect);
        };
        let attempt = self.book.attempt(id.element).filter(|attempt| attempt.id == id);
        if attempt.is_none_or(|attempt| attempt.placement != *placement) {
            return Err(format!("{id} is to be prepared without a durable decision"));
        }
        let spec = self.book.jobs.get(&id.element.job).map(|job| Arc::clone(&job.spec));
        let spec = spec.ok_or_else(|| format!("{id} is of no job"))?;
        let conduct =
            self.conducts.get(&spec.name).cloned().ok_or_else(|| format!("{id} is of nobody"))?;
        let (hosts, nodes) = (&self.hosts, &self.book.nodes);
        let bad = std::cell::Cell::new(0);
        let starts = |node: NodeId| {
            let name = nodes.get(node.0 as usize).map(|known| &known.spec.name);
            let host = hosts.iter().find(|host| Some(&host.spec.name) == name);
            let starts = match host {
                Some(host) if host.up => host.starts.clone(),
                _ => Starts::Mute,
            };
            bad.set(bad.get() + u64::from(starts != Starts::Works));
            starts
        };
        self.backend.prepare(self.now, id, placement, Terms::of(&spec, conduct), starts)?;
        self.cover.bad_starts += bad.get();
        Ok(())
    }

    /// What the tasks of an attempt do when they are asked to save their progress.
    fn react(&mut self, id: AttemptId, request: u32) {
        let reaction = asked::reaction(&mut self.dice);
        self.trace.line(|| format!("    {id} is asked to save: {reaction:?}"));
        let reached = u32::from(reaction != Reaction::Unheard);
        for rank in self.backend.running_ranks(id) {
            let signalled = TaskSignalled { request, warned: false, reached };
            let report = TaskReport { id, rank, what: Observation::Signalled(signalled) };
            self.wire.send(self.now, report, &mut self.dice, &mut self.cover, self.calm);
        }
        let now = self.now + Span(self.dice.roll(3_000));
        match reaction {
            Reaction::Unheard | Reaction::Silent => {}
            Reaction::Saves => self.acknowledge(id, request),
            Reaction::Exits => {
                let done = Observation::Exited(TaskExit::Code { code: 0 });
                self.cover.exited_when_asked +=
                    u64::from(self.backend.force(now, id.element, None, &done) > 0);
            }
            Reaction::Dies(exit) => {
                let rank = self.dice.chance(50).then_some(0);
                let forced = self.backend.force(now, id.element, rank, &Observation::Exited(exit));
                self.cover.died_when_asked += u64::from(forced > 0);
            }
        }
    }

    /// The warning before its limit reaches the tasks of an attempt.
    pub(crate) fn warn(&mut self, id: AttemptId) {
        for rank in self.backend.running_ranks(id) {
            let signalled = TaskSignalled { request: 0, warned: true, reached: 1 };
            let report = TaskReport { id, rank, what: Observation::Signalled(signalled) };
            self.wire.send(self.now, report, &mut self.dice, &mut self.cover, self.calm);
        }
    }

    /// Tasks that are asked to save their progress do so, if they are of that kind, and say so a
    /// little later.
    fn acknowledge(&mut self, id: AttemptId, request: u32) {
        let count = self.acknowledged.entry(id).or_default();
        *count += 1;
        for rank in self.backend.running_ranks(id) {
            let (at, label) = (self.now, format!("step {count}").into());
            let told = TaskCheckpoint { count: *count, answers: request, warned: false, at, label };
            let report = TaskReport { id, rank, what: Observation::Checkpointed(told) };
            let later = self.now + Span(self.dice.roll(4_000));
            self.wire.send(later, report, &mut self.dice, &mut self.cover, self.calm);
        }
    }

    /// The daemon is gone; what is durable and what runs stays.
    pub(crate) fn die(&mut self, how: &str) {
        let Some(runtime) = self.runtime.take() else { return };
        self.trace.line(|| format!("    the daemon {how}"));
        let mut disk = runtime.into_store();
        disk.died = false;
        self.remains = Some(disk);
        self.kept.clear();
        self.notices.clear();
        self.dies_within = None;
        if self.dice.chance(50) {
            self.wire.cut();
        }
    }

    /// The daemon comes back, reads its journal, repeats orders, and is told what became of tasks
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
                self.cover.unreadable += 1;
                self.remains = Some(spare);
                return Ok(());
            }
        };
        self.trace.line(|| "    the daemon starts".to_owned());
        let engine = runtime.engine().ok_or("the journal cannot be read")?;
        let (prepare, rest) = host::outstanding(engine);
        self.runtime = Some(runtime);
        self.carry_out(&prepare)?;
        let book = &self.book;
        self.backend
            .drop_strays(|id| book.attempt(id.element).is_some_and(|attempt| attempt.id == id));
        let mut inputs = self.nodes_now();
        self.report_tasks();
        inputs.extend(self.backend.recall().into_iter().map(report_input));
        self.carry_out(&rest)?;
        self.settle(inputs, &[])
    }

    /// Nodes as they are, where the engine has them otherwise.
    pub(crate) fn nodes_now(&self) -> Vec<Input> {
        let mut inputs = Vec::new();
        if self.book.levels != self.levels {
            inputs.push(Event::LevelsSet(self.levels.clone()));
        }
        for host in &self.hosts {
            let known = self.book.nodes.iter().find(|known| known.spec.name == host.spec.name);
            let another = known.is_some_and(|known| known.spec != host.spec);
            inputs.extend(host.news(known.map(|known| known.up), another));
            let joined = known.is_some() || host.up;
            if joined
                && known.map(|known| &known.foreign).unwrap_or(&Foreign::default()) != &host.foreign
            {
                let (node, foreign) = (host.spec.name.clone(), host.foreign.clone());
                inputs.push(Event::ForeignUse { node, foreign });
            }
        }
        inputs.into_iter().map(Input::Event).collect()
    }

    /// Everything that is known of tasks is said again.
    pub(crate) fn recall(&mut self) -> Vec<Input> {
        self.backend.recall().into_iter().map(report_input).collect()
    }

    /// What must hold at all times; when a step has not planned, planning now may decide something.
    fn hold(&mut self, has_planned: bool) -> Result<(), String> {
        // 1. Nothing goes on that the durable state does not stand for.
        for id in self.backend.live() {
            if self.book.attempt(id.element).is_none_or(|attempt| attempt.id != id) {
                return Err(format!("{id} goes on and nobody stands for it"));
            }
        }
        // 2. What was acknowledged is there.
        for sent in &self.sent {
            let Some(Ok(receipt)) = &sent.answer else { continue };
            if let Some(lost) = receipt.jobs.iter().find(|job| !self.book.knows(job.job)) {
                return Err(format!("{} was acknowledged as {} and is lost", sent.key, lost.job));
            }
        }
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let Some(engine) = runtime.engine() else { return Ok(()) };
        // 3. The state is sound, and says what the journal says.
        if let Some(violation) = engine.sanity_check().first() {
            return Err(format!("the state breaks an invariant: {violation}"));
        }
        if engine.counts().jobs != self.book.jobs.len() as u64 {
            return Err(format!(
                "{} jobs are in memory, {} are not over",
                engine.counts().jobs,
                self.book.jobs.len()
            ));
        }
        if runtime.next_job()
            <= self.book.jobs.keys().chain(self.book.over.keys()).max().map_or(0, |job| job.0)
        {
            return Err(format!("the next job gets the number {} again", runtime.next_job()));
        }
        if !self.cover.steps.is_multiple_of(AUDIT_EVERY)
            || !runtime.store().is_well()
            || !self.kept.is_empty()
            || !has_planned
        {
            return Ok(());
        }
        // 4. Now and then: everything, element by element; plan again, replay, restore.
        self.cover.audits += 1;
        let at = runtime.instant(self.clock());
        self.compare_elements(engine, at)?;
        if engine.reservations().is_empty()
            && let Some((waits, runs)) = owed::waits_in_vain(&self.book, at)
        {
            return Err(format!("{waits} waits though {runs} runs on what its queue owns"));
        }
        // A pass may have kept something from starting, if it says that it has to be looked at
        // again at once.
        let looks_again = engine.next_wake().is_some_and(|wake| wake <= runtime.last() + MOMENT);
        // And what starts where it had been promised to, or larger than it must, may be taken back
        // by that look: for somebody who came meanwhile, or comes first now.
        let is_fresh = |eviction: &Eviction| {
            let attempt = self.book.attempt(eviction.id.element);
            let is_larger = looks_again && eviction.cause == EvictionCause::Shrunk;
            let is_new =
                |one: &Attempt| one.held_from == runtime.last() && (one.promised || is_larger);
            attempt.is_some_and(is_new)
        };
        let excused = |decision: &Decision| match decision {
            Decision::Claim { evict, .. } => evict.iter().any(is_fresh),
            Decision::Start { .. } => looks_again,
            Decision::Unclaim { .. } => false,
        };
        audit(runtime, runtime.store().copy(), &self.tree, at, excused)
    }

    fn compare_elements(&self, engine: &Engine, at: Time) -> Result<(), String> {
        for (id, job) in &self.book.jobs {
            for (index, element) in &job.elements {
                let id = ElementId { job: *id, index: *index };
                let view =
                    engine.element(at, id).ok_or_else(|| format!("{id} is not in memory"))?;
                let agree = match (&element.phase, view.state) {
                    (Phase::Waits { held, .. }, state) => {
                        state == if *held { State::Held } else { State::Pending }
                    }
                    (Phase::Active(attempt), State::Starting) => !attempt.has_run,
                    (Phase::Active(attempt), State::Running) => {
                        attempt.has_run && attempt.fate.is_none()
                    }
                    (Phase::Active(attempt), State::Stopping) => attempt.fate.is_some(),
                    (Phase::Ended(outcome), state) => {
                        state.is_final() && view.outcome.as_ref() == Some(outcome)
                    }
                    (Phase::Active(_), _) => false,
                };
                if engine.last_checkpoint(id) != element.saved {
                    return Err(format!("{id} forgets that {:?} is saved", element.saved));
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

    /// The submission as it is sent, once more or for the first time.
    pub(crate) fn envelope(&self, which: usize) -> Option<Input> {
        let sent = self.sent.get(which)?;
        Some(Input::Submission(Submission {
            user: sent.user.into(),
            key: sent.key.clone(),
            drafts: sent.drafts.clone(),
            warnings: Vec::new(),
        }))
    }

    /// The number that the next job gets.
    pub(crate) fn next_job(&self) -> JobId {
        JobId(self.runtime.as_ref().map_or(1, Runtime::next_job))
    }
}

fn report_input(report: TaskReport) -> Input {
    Input::Event(Event::Task(report))
}
