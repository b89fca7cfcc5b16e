//! The journal protocol: owns engine and store, and releases an effect only after the decision
//! behind it is durable. It makes no scheduling decisions.

use muster_engine::{AccountingFact, Engine, RuntimePredictor, Violation};
use muster_model::queue::PlannedRuntimes;
use muster_model::unit::{Span, Time};
use muster_model::{Effect, Event, Plan, QueueTree};

use crate::intake::{JobSubmission, RefusedInput, StepInput, clamp, is_observation};
use crate::journal::{JournalBatch, JournalRecord, Receipt};
use crate::store::{SavedState, Store, StoreError};

/// Minimum number of records between two snapshots; also at least four times the number of jobs in
/// memory, so that snapshots cost a small part of what the records cost.
pub const SNAPSHOT_AFTER: usize = 4096;

/// Time limit for preparing a gang before its start counts as failed. Preparing normally takes
/// milliseconds; it takes minutes if a directory is on a server that does not respond.
pub const START_LIMIT: Span = Span::from_secs(120);

/// Engine and store, kept in step by the journal protocol.
pub struct Runtime<S> {
    store: S,
    /// Queue tree for a state directory without records.
    tree: QueueTree,
    /// Absent after a failure, until the store can be loaded again.
    live: Option<LiveState>,
    /// True after a failure of the store: it is probed before the next use.
    needs_probe: bool,
    snapshot_after: usize,
    start_limit: Span,
    /// Lowest number for a new job.
    first_job: u64,
}

/// State that can be loaded from the store at any time.
struct LiveState {
    engine: Engine,
    /// Queue tree as set last; the engine stores it in another form.
    queues: QueueTree,
    /// Instant of the last step; after a load, of the last record.
    last: Time,
    next_job: u64,
    records_since_snapshot: usize,
    /// Run times of ended jobs.
    predictor: RuntimePredictor,
    /// True once the engine has the time limit for starts.
    is_watching: bool,
}

/// Result of a step. Everything in it is durable.
#[derive(Debug, Default)]
pub struct StepResult {
    /// Answers by input; an event has an empty receipt.
    pub answers: Vec<Result<Receipt, RefusedInput>>,
    /// Effects for the backend, in order.
    pub effects: Vec<Effect>,
    /// Violations for which the checker refused the plan of this instant; the plan was dropped.
    pub violations: Vec<Violation>,
    /// True when something durable has changed.
    pub changed: bool,
    /// Failure to save a snapshot that was due; the journal still contains everything.
    pub snapshot_error: Option<StoreError>,
}

/// Failure of the store. No request of the step was accepted.
#[derive(Debug)]
pub struct StepFailure {
    /// Error of the store.
    pub error: StoreError,
    /// Observations of this step, to be passed in again with a later step.
    pub retry: Vec<Event>,
    /// Effects for the backend: everything that the durable state requires, since the failed batch
    /// may be durable after all. Repeating an effect changes nothing.
    pub effects: Vec<Effect>,
}

impl<S: Store> Runtime<S> {
    /// Loads the state from the store. `tree` is the queue tree for a state directory that was
    /// never used.
    ///
    /// # Errors
    /// When the store cannot be read, or holds what this binary must not interpret.
    pub fn open(mut store: S, tree: QueueTree) -> Result<Self, StoreError> {
        let live = LiveState::load(&mut store, &tree)?;
        Ok(Self {
            store,
            tree,
            live: Some(live),
            needs_probe: false,
            snapshot_after: SNAPSHOT_AFTER,
            start_limit: START_LIMIT,
            first_job: 1,
        })
    }

    /// Sets the lowest number for new jobs, if lower ones were used by a state that was lost.
    #[must_use]
    pub fn with_first_job(mut self, first: u64) -> Self {
        self.first_job = first;
        if let Some(live) = &mut self.live {
            live.next_job = live.next_job.max(first);
        }
        self
    }

    /// Sets the time limit for preparing a gang; the default is two minutes.
    #[must_use]
    pub fn with_start_limit(mut self, limit: Span) -> Self {
        self.start_limit = limit;
        self
    }

    /// Sets the minimum number of records between snapshots; the default is [`SNAPSHOT_AFTER`].
    #[must_use]
    pub fn with_snapshot_after(mut self, records: usize) -> Self {
        self.snapshot_after = records;
        self
    }

    /// Returns the engine for reading; `None` while the store cannot be read.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        self.live.as_ref().map(|live| &live.engine)
    }

    /// Returns the engine for queries that it computes on scratch and rolls back (`explain`).
    #[must_use]
    pub fn engine_mut(&mut self) -> Option<&mut Engine> {
        self.live.as_mut().map(|live| &mut live.engine)
    }

    /// Returns the queue tree as set last; `None` while the store cannot be read.
    #[must_use]
    pub fn queues(&self) -> Option<&QueueTree> {
        self.live.as_ref().map(|live| &live.queues)
    }

    /// Returns the store for reading.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, for data outside the journal.
    #[must_use]
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Returns the store and drops the rest, as a crash would.
    #[must_use]
    pub fn into_store(self) -> S {
        self.store
    }

    /// Returns the instant of the last step, or after a load of the last record; the next step is
    /// not earlier.
    #[must_use]
    pub fn last(&self) -> Time {
        self.live.as_ref().map_or(Time(0), |live| live.last)
    }

    /// Returns the number of the next job.
    #[must_use]
    pub fn next_job(&self) -> u64 {
        self.live.as_ref().map_or(1, |live| live.next_job)
    }

    /// Returns the instant that a step at `now` would have.
    #[must_use]
    pub fn instant(&self, now: Time) -> Time {
        clamp(now, self.last())
    }

    /// Checks whether a submission would be accepted. Changes nothing.
    ///
    /// # Errors
    /// Returns the refusal that a step would return.
    pub fn check(&self, submission: JobSubmission) -> Result<Receipt, RefusedInput> {
        match &self.live {
            Some(live) => submission
                .number(&live.engine, live.next_job, None)
                .map(|numbered| numbered.receipt),
            None => Ok(Receipt::default()),
        }
    }

    /// Processes the inputs of one instant.
    ///
    /// # Errors
    /// Fails when the store fails. The engine in memory is then as the store has it.
    pub fn step(&mut self, now: Time, inputs: Vec<StepInput>) -> Result<StepResult, StepFailure> {
        // 1. Probe a store that failed, before anything depends on it.
        let (mut live, unreleased) = match self.ready() {
            Ok(ready) => ready,
            Err(error) => {
                return Err(StepFailure {
                    error,
                    retry: observations(&inputs),
                    effects: Vec::new(),
                });
            }
        };
        let at = clamp(now, live.last);

        // 2. Inputs, one after another: validated at this instant, in the state that the earlier
        //    ones left.
        live.engine.advance_time(at);
        let mut batch = JournalBatch::at(at);
        let retry = observations(&inputs);
        let mut answers = Vec::with_capacity(inputs.len());
        for input in inputs {
            match live.accept(input, &self.store, &mut batch) {
                Ok(answer) => answers.push(answer),
                Err(error) => return Err(self.fail(error, retry)),
            }
        }

        // Overdue starts and other changes due by time. After a load, tasks get the whole limit to
        // report again.
        if !std::mem::replace(&mut live.is_watching, true) {
            live.engine.set_start_limit(at, self.start_limit);
        }
        for event in live.engine.due_events(at) {
            live.record(event, &mut batch);
        }

        // 3. One plan, checked by `check`; a refused plan is dropped.
        let plan = live.engine.plan(at);
        let (plan, violations) = checked(&live.engine, at, plan);
        live.engine.commit(at, &plan);
        if !plan.is_empty() {
            batch.records.push(JournalRecord::Plan(plan));
        }
        debug_assert_eq!(live.engine.sanity_check(), Vec::new(), "the state breaks an invariant");

        // 4. Make it durable, or undo it.
        batch.facts = live.take_facts();
        let effects = with_unreleased(unreleased, live.engine.take_effects());
        let changed = !batch.records.is_empty();
        if let Err(error) = self.write(&batch) {
            return Err(self.fail(error, retry));
        }
        // Planning has applied what was due at this instant, so a clock that goes back is not
        // followed, even if nothing changed.
        live.mark_durable(at, batch.records.len());

        // 5. Only now release the effects.
        let snapshot_error = live.save_when_due(&mut self.store, self.snapshot_after).err();
        self.live = Some(live);
        Ok(StepResult { answers, effects, violations, changed, snapshot_error })
    }

    /// Applies reports about the past, each event at its own instant, but none before the last
    /// journalled one. Nothing is planned, since nothing can start in the past. Returns the effects
    /// for the backend, in order.
    ///
    /// # Errors
    /// Fails when the store fails. What was applied until then is durable; the rest can be passed
    /// in again.
    pub fn apply_past(&mut self, mut past: Vec<(Time, Event)>) -> Result<Vec<Effect>, StoreError> {
        let (mut live, mut effects) = self.ready()?;
        past.sort_by_key(|(at, _)| *at);
        let mut rest = past.into_iter().peekable();
        while let Some((first, event)) = rest.next() {
            let at = clamp(first, live.last);
            let mut batch = JournalBatch::at(at);
            live.engine.advance_time(at);
            live.record_past(event, &mut batch);
            while let Some((_, event)) = rest.next_if(|(next, _)| *next <= at) {
                live.record_past(event, &mut batch);
            }
            debug_assert_eq!(
                live.engine.sanity_check(),
                Vec::new(),
                "the state breaks an invariant"
            );
            batch.facts = live.take_facts();
            effects = with_unreleased(effects, live.engine.take_effects());
            if let Err(error) = self.write(&batch) {
                return Err(self.fail(error, Vec::new()).error);
            }
            live.mark_durable(at, batch.records.len());
        }
        self.live = Some(live);
        Ok(effects)
    }

    /// Takes the live state out for a step; a step that fails does not put it back. Returns with it
    /// the outstanding effects of a store that could not be read until now: its last batch may be
    /// durable although its effects were never released.
    fn ready(&mut self) -> Result<(LiveState, Vec<Effect>), StoreError> {
        if self.needs_probe {
            self.store.probe()?;
            self.needs_probe = false;
        }
        match self.live.take() {
            Some(live) => Ok((live, Vec::new())),
            None => {
                let live = self.load()?;
                let unreleased = live.engine.outstanding();
                Ok((live, unreleased))
            }
        }
    }

    fn load(&mut self) -> Result<LiveState, StoreError> {
        let mut live = LiveState::load(&mut self.store, &self.tree)?;
        live.next_job = live.next_job.max(self.first_job);
        Ok(live)
    }

    /// Makes a batch durable, unless it is empty.
    fn write(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        if batch.records.is_empty() {
            return Ok(());
        }
        self.store.append(batch)
    }

    /// Drops the state in memory, which may be newer than the durable one, and loads again.
    fn fail(&mut self, error: StoreError, retry: Vec<Event>) -> StepFailure {
        self.needs_probe = true;
        self.live = self.load().ok();
        let effects = self.live.as_ref().map(|live| live.engine.outstanding()).unwrap_or_default();
        StepFailure { error, retry, effects }
    }
}

impl LiveState {
    /// Records that a step is durable, with its instant and number of records.
    fn mark_durable(&mut self, at: Time, records: usize) {
        self.last = at;
        self.records_since_snapshot += records;
    }

    /// Replays the journal: applies and commits, never plans.
    fn load<S: Store>(store: &mut S, tree: &QueueTree) -> Result<Self, StoreError> {
        let loaded = store.load()?;
        let mut live = match loaded.saved {
            Some(saved) => Self {
                engine: Engine::restore(saved.engine).map_err(corrupt)?,
                queues: saved.queues,
                last: saved.at,
                next_job: saved.next_job,
                predictor: saved.predictor,
                records_since_snapshot: 0,
                is_watching: false,
            },
            None => Self {
                engine: Engine::new(tree.clone()).map_err(corrupt)?,
                queues: tree.clone(),
                last: Time(0),
                next_job: 1,
                predictor: RuntimePredictor::default(),
                records_since_snapshot: 0,
                is_watching: false,
            },
        };
        live.records_since_snapshot = loaded.records.len();
        for (at, record) in loaded.records {
            live.fold(at, &record);
        }
        live.predictor.learn(&live.engine.take_facts());
        // Their effects were released before, or are returned by `outstanding`.
        drop(live.engine.take_effects());
        Ok(live)
    }

    fn fold(&mut self, at: Time, record: &JournalRecord) {
        self.last = at;
        match record {
            JournalRecord::Event(event) => {
                if let Event::Submitted { job, .. } = event {
                    self.next_job = self.next_job.max(job.0 + 1);
                }
                self.apply(at, event);
            }
            JournalRecord::Plan(plan) => self.engine.commit(at, plan),
        }
    }

    /// Validates an input and applies it.
    fn accept<S: Store>(
        &mut self,
        input: StepInput,
        store: &S,
        batch: &mut JournalBatch,
    ) -> Result<Result<Receipt, RefusedInput>, StoreError> {
        match input {
            StepInput::Event(event) => Ok(match self.engine.validate(&event) {
                Ok(()) => {
                    self.record(event, batch);
                    Ok(Receipt::default())
                }
                Err(refusal) => Err(RefusedInput { draft: 0, refusal: Box::new(refusal) }),
            }),
            StepInput::Submission(submission) => self.submit(submission, store, batch),
        }
    }

    fn submit<S: Store>(
        &mut self,
        submission: JobSubmission,
        store: &S,
        batch: &mut JournalBatch,
    ) -> Result<Result<Receipt, RefusedInput>, StoreError> {
        let user = submission.user.clone();
        let key = submission.key.clone();
        let repeated =
            batch.receipts.iter().find(|(other, known, _)| *other == user && *known == key);
        if let Some((_, _, receipt)) = repeated {
            return Ok(Ok(receipt.clone()));
        }
        if let Some(receipt) = store.receipt(&user, &key)? {
            return Ok(Ok(receipt));
        }
        let predictor =
            (self.queues.estimates == PlannedRuntimes::Predicted).then_some(&self.predictor);
        let numbered = match submission.number(&self.engine, self.next_job, predictor) {
            Ok(numbered) => numbered,
            Err(refused) => return Ok(Err(refused)),
        };
        self.next_job += numbered.jobs.len() as u64;
        for (job, spec, payload) in numbered.jobs {
            batch.payloads.push((spec.payload, payload));
            self.record(Event::Submitted { job, spec }, batch);
        }
        batch.receipts.push((user, key, numbered.receipt.clone()));
        Ok(Ok(numbered.receipt))
    }

    /// Records an event of the past, unless the state refuses it.
    fn record_past(&mut self, event: Event, batch: &mut JournalBatch) {
        if self.engine.validate(&event).is_ok() {
            self.record(event, batch);
        }
    }

    fn record(&mut self, event: Event, batch: &mut JournalBatch) {
        self.apply(batch.at, &event);
        batch.records.push(JournalRecord::Event(event));
    }

    fn apply(&mut self, at: Time, event: &Event) {
        if let Event::QueuesSet(tree) = event {
            self.queues = (**tree).clone();
        }
        self.engine.apply(at, event);
    }

    /// Returns the facts of a step; run times in them are learned.
    fn take_facts(&mut self) -> Vec<AccountingFact> {
        let facts = self.engine.take_facts();
        self.predictor.learn(&facts);
        facts
    }

    fn save_when_due<S: Store>(&mut self, store: &mut S, after: usize) -> Result<(), StoreError> {
        let records = self.records_since_snapshot;
        // Counting walks all jobs, so it is checked last.
        if records < after || records < 4 * self.engine.counts().jobs as usize {
            return Ok(());
        }
        // After success or failure, the next attempt is a full interval away.
        self.records_since_snapshot = 0;
        store.save(&SavedState {
            at: self.last,
            next_job: self.next_job,
            queues: self.queues.clone(),
            predictor: self.predictor.clone(),
            engine: self.engine.snapshot(),
        })
    }
}

/// Returns unreleased effects followed by new ones, without those for attempts that have ended.
fn with_unreleased(unreleased: Vec<Effect>, new: Vec<Effect>) -> Vec<Effect> {
    let is_over =
        |id| new.iter().any(|effect| matches!(effect, Effect::Forget { id: over } if *over == id));
    let mut effects: Vec<Effect> =
        unreleased.into_iter().filter(|effect| !is_over(effect.id())).collect();
    effects.extend(new);
    effects
}

/// Returns the plan, or an empty one and the violations for which the checker refused it.
fn checked(engine: &Engine, at: Time, plan: Plan) -> (Plan, Vec<Violation>) {
    match engine.check(at, &plan) {
        Ok(()) => (plan, Vec::new()),
        Err(violations) => (Plan::default(), violations),
    }
}

fn observations(inputs: &[StepInput]) -> Vec<Event> {
    let events = inputs.iter().filter_map(|input| match input {
        StepInput::Event(event) if is_observation(event) => Some(event.clone()),
        StepInput::Event(_) | StepInput::Submission(_) => None,
    });
    events.collect()
}

fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_model::job::{Resources, TaskGroup};
    use muster_model::unit::{Bytes, CpuMilli};
    use muster_model::{JobId, JobSpec, NodeSpec, PayloadId};

    use super::*;

    /// Returns an engine with one node and a waiting job of one task.
    fn waiting() -> Engine {
        let node = NodeSpec::plain("n1", CpuMilli(1000), Bytes(1 << 30));
        let group =
            TaskGroup::of("main", 1, Resources { cpus: CpuMilli(1000), ..Resources::default() });
        let spec = JobSpec { payload: PayloadId(1), ..JobSpec::plain("one", "ann", vec![group]) };
        let mut engine = Engine::new(QueueTree::single()).unwrap();
        engine.apply(Time(1), &Event::NodeJoined(Box::new(node)));
        engine.apply(Time(1), &Event::Submitted { job: JobId(1), spec: Arc::new(spec) });
        engine
    }

    #[test]
    fn a_plan_that_fails_its_check_is_dropped() {
        let mut engine = waiting();
        let sound = engine.plan(Time(2));
        assert_eq!(sound.decisions.len(), 1);
        assert_eq!(checked(&engine, Time(2), sound.clone()), (sound.clone(), Vec::new()));

        let mut twice = sound;
        twice.decisions.push(twice.decisions[0].clone());
        let (plan, violations) = checked(&engine, Time(2), twice);
        assert!(plan.is_empty() && !violations.is_empty(), "{violations:?}");
        engine.commit(Time(2), &plan);
        assert_eq!(engine.counts().active, 0);
        assert_eq!(engine.take_effects(), Vec::new(), "nothing leaves for a plan that was refused");
    }
}
