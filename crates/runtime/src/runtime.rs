//! The journal protocol. It owns engine and store, and lets an effect out only after the decision
//! behind it is durable. It makes no scheduling choice.

use muster_engine::{Engine, Violation};
use muster_model::unit::{Span, Time};
use muster_model::{Effect, Event, Plan, QueueTree};

use crate::intake::{Input, Refused, Submission, clamp, is_observation};
use crate::journal::{Batch, Receipt, Record};
use crate::store::{SavedState, Store, StoreError};

/// A snapshot is taken after this many records at the earliest, and after four times as many as
/// there are jobs in memory, so that its cost stays a small part of what the records cost.
pub const SNAPSHOT_AFTER: usize = 4096;

/// How long a gang may take to be made ready before it counts as failed to start. Preparing takes
/// milliseconds; what takes minutes is a directory on a server that does not answer.
pub const START_LIMIT: Span = Span::from_secs(120);

/// Engine and store, kept in step.
pub struct Runtime<S> {
    store: S,
    /// What a state directory without records starts from.
    tree: QueueTree,
    /// Absent after a failure, until the store gives it back.
    live: Option<Live>,
    /// The store failed last time: it is probed before anything is asked of it.
    doubtful: bool,
    snapshot_after: usize,
    start_limit: Span,
    /// The lowest number that a new job may get.
    first_job: u64,
}

/// State that the store can give back at any time.
struct Live {
    engine: Engine,
    /// As set last; the engine has it in its own form.
    queues: QueueTree,
    /// The instant of the last step, or after a load of the last record.
    last: Time,
    next_job: u64,
    records_since_snapshot: usize,
    /// The engine was told how long to wait for a start.
    is_watching: bool,
}

/// What a step came to. Everything in it is durable.
#[derive(Debug, Default)]
pub struct Step {
    /// By input. An event has an empty receipt.
    pub answers: Vec<Result<Receipt, Refused>>,
    /// For the backend, in order.
    pub effects: Vec<Effect>,
    /// The plan of this instant was refused by its judge and dropped, because of these.
    pub violations: Vec<Violation>,
    /// Something durable has changed.
    pub changed: bool,
    /// A snapshot was due and could not be kept; the journal still has everything.
    pub snapshot_error: Option<StoreError>,
}

/// The store failed. No request of the step was accepted.
#[derive(Debug)]
pub struct StepFailure {
    /// Why.
    pub error: StoreError,
    /// What the world reported in this step: hand it in again with a later step.
    pub retry: Vec<Event>,
    /// For the backend: everything that the durable state stands for, since the failed batch may be
    /// durable after all. Repeating an effect changes nothing.
    pub effects: Vec<Effect>,
}

impl<S: Store> Runtime<S> {
    /// Loads what the store holds. `tree` is the queue tree of a state directory that was never
    /// used.
    ///
    /// # Errors
    /// When the store cannot be read, or holds what this binary must not interpret.
    pub fn open(mut store: S, tree: QueueTree) -> Result<Self, StoreError> {
        let live = Live::load(&mut store, &tree)?;
        Ok(Self {
            store,
            tree,
            live: Some(live),
            doubtful: false,
            snapshot_after: SNAPSHOT_AFTER,
            start_limit: START_LIMIT,
            first_job: 1,
        })
    }

    /// Gives no new job a number below `first`: lower ones were given by a state that was lost.
    #[must_use]
    pub fn with_first_job(mut self, first: u64) -> Self {
        self.first_job = first;
        if let Some(live) = &mut self.live {
            live.next_job = live.next_job.max(first);
        }
        self
    }

    /// Waits this long for a gang to be ready instead of two minutes.
    #[must_use]
    pub fn with_start_limit(mut self, limit: Span) -> Self {
        self.start_limit = limit;
        self
    }

    /// Takes snapshots after this many records instead of [`SNAPSHOT_AFTER`].
    #[must_use]
    pub fn with_snapshot_after(mut self, records: usize) -> Self {
        self.snapshot_after = records;
        self
    }

    /// The engine, for reading; absent while the store cannot be read.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        self.live.as_ref().map(|live| &live.engine)
    }

    /// The engine, for questions that it answers on scratch and rolls back (`explain`).
    #[must_use]
    pub fn engine_mut(&mut self) -> Option<&mut Engine> {
        self.live.as_mut().map(|live| &mut live.engine)
    }

    /// The queue tree as set last; absent while the store cannot be read.
    #[must_use]
    pub fn queues(&self) -> Option<&QueueTree> {
        self.live.as_ref().map(|live| &live.queues)
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, for what is not part of the journal.
    #[must_use]
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Gives the store back and drops the rest, as a crash would.
    #[must_use]
    pub fn into_store(self) -> S {
        self.store
    }

    /// The instant of the last step, or after a load of the last record; the next step is not
    /// before it.
    #[must_use]
    pub fn last(&self) -> Time {
        self.live.as_ref().map_or(Time(0), |live| live.last)
    }

    /// The number that the next job gets.
    #[must_use]
    pub fn next_job(&self) -> u64 {
        self.live.as_ref().map_or(1, |live| live.next_job)
    }

    /// The instant that a step at `now` would have.
    #[must_use]
    pub fn instant(&self, now: Time) -> Time {
        clamp(now, self.last())
    }

    /// Would this submission be accepted? Changes nothing.
    ///
    /// # Errors
    /// The refusal, as a step would give it.
    pub fn judge(&self, submission: Submission) -> Result<Receipt, Refused> {
        match &self.live {
            Some(live) => {
                submission.number(&live.engine, live.next_job).map(|numbered| numbered.receipt)
            }
            None => Ok(Receipt::default()),
        }
    }

    /// Takes the inputs of one instant through the protocol.
    ///
    /// # Errors
    /// When the store fails. The engine in memory is then what the store holds.
    pub fn step(&mut self, now: Time, inputs: Vec<Input>) -> Result<Step, StepFailure> {
        // 1. A store that failed is asked first, before anything depends on it.
        let (mut live, owed) = match self.ready() {
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

        // 2. Inputs, one after the other: judged at this instant, on the state that the ones before
        //    it left.
        live.engine.turn(at);
        let mut batch = Batch::at(at);
        let retry = observations(&inputs);
        let mut answers = Vec::with_capacity(inputs.len());
        for input in inputs {
            match live.take(input, &self.store, &mut batch) {
                Ok(answer) => answers.push(answer),
                Err(error) => return Err(self.fail(error, retry)),
            }
        }

        // What was waited for in vain, and what time brings; after a load, tasks get the whole
        // limit to be heard of again.
        if !std::mem::replace(&mut live.is_watching, true) {
            live.engine.watch_starts(at, self.start_limit);
        }
        for event in live.engine.overdue(at) {
            live.record(event, &mut batch);
        }

        // 3. One plan, judged by `check`; decisions that it refuses never happen.
        let plan = live.engine.plan(at);
        let (plan, violations) = vetted(&live.engine, at, plan);
        live.engine.commit(at, &plan);
        if !plan.is_empty() {
            batch.records.push(Record::Plan(plan));
        }
        debug_assert_eq!(live.engine.sanity_check(), Vec::new(), "the state breaks an invariant");

        // 4. Durable, or undone.
        batch.facts = live.engine.take_facts();
        let effects = with_owed(owed, live.engine.take_effects());
        let changed = !batch.records.is_empty();
        if let Err(error) = self.write(&batch) {
            return Err(self.fail(error, retry));
        }
        // Planning woke what was due by now, so a clock that goes back is not followed, whether
        // anything changed or not.
        live.passed(at, batch.records.len());

        // 5. Only now may effects leave.
        let snapshot_error = live.save_when_due(&mut self.store, self.snapshot_after).err();
        self.live = Some(live);
        Ok(Step { answers, effects, violations, changed, snapshot_error })
    }

    /// Applies what the world reports of the past, each event at its own instant, but none before
    /// the last that is journalled. Nothing is planned: nothing can start in the past. Returns what
    /// is for the backend, in order.
    ///
    /// # Errors
    /// When the store fails. What was applied until then is durable, and the rest can be handed in
    /// again.
    pub fn recall(&mut self, mut past: Vec<(Time, Event)>) -> Result<Vec<Effect>, StoreError> {
        let (mut live, mut effects) = self.ready()?;
        past.sort_by_key(|(at, _)| *at);
        let mut rest = past.into_iter().peekable();
        while let Some((first, event)) = rest.next() {
            let at = clamp(first, live.last);
            let mut batch = Batch::at(at);
            live.engine.turn(at);
            live.recall(event, &mut batch);
            while let Some((_, event)) = rest.next_if(|(next, _)| *next <= at) {
                live.recall(event, &mut batch);
            }
            debug_assert_eq!(
                live.engine.sanity_check(),
                Vec::new(),
                "the state breaks an invariant"
            );
            batch.facts = live.engine.take_facts();
            effects = with_owed(effects, live.engine.take_effects());
            if let Err(error) = self.write(&batch) {
                return Err(self.fail(error, Vec::new()).error);
            }
            live.passed(at, batch.records.len());
        }
        self.live = Some(live);
        Ok(effects)
    }

    /// Takes the live state out for a step; a step that does not put it back has failed. With it,
    /// what a store that could not be read until now stands for: the last batch may be durable, and
    /// its orders never left.
    fn ready(&mut self) -> Result<(Live, Vec<Effect>), StoreError> {
        if self.doubtful {
            self.store.probe()?;
            self.doubtful = false;
        }
        match self.live.take() {
            Some(live) => Ok((live, Vec::new())),
            None => {
                let live = self.load()?;
                let owed = live.engine.outstanding();
                Ok((live, owed))
            }
        }
    }

    fn load(&mut self) -> Result<Live, StoreError> {
        let mut live = Live::load(&mut self.store, &self.tree)?;
        live.next_job = live.next_job.max(self.first_job);
        Ok(live)
    }

    /// Makes a batch durable, if there is anything in it.
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if batch.records.is_empty() {
            return Ok(());
        }
        self.store.append(batch)
    }

    /// The state in memory may be ahead of the durable one: drops it and loads again.
    fn fail(&mut self, error: StoreError, retry: Vec<Event>) -> StepFailure {
        self.doubtful = true;
        self.live = self.load().ok();
        let effects = self.live.as_ref().map(|live| live.engine.outstanding()).unwrap_or_default();
        StepFailure { error, retry, effects }
    }
}

impl Live {
    /// Notes that a step is durable: its instant, and how many records it wrote.
    fn passed(&mut self, at: Time, records: usize) {
        self.last = at;
        self.records_since_snapshot += records;
    }

    /// Folds the journal: applies and commits, never plans.
    fn load<S: Store>(store: &mut S, tree: &QueueTree) -> Result<Self, StoreError> {
        let loaded = store.load()?;
        let mut live = match loaded.saved {
            Some(saved) => Self {
                engine: Engine::restore(saved.engine).map_err(damaged)?,
                queues: saved.queues,
                last: saved.at,
                next_job: saved.next_job,
                records_since_snapshot: 0,
                is_watching: false,
            },
            None => Self {
                engine: Engine::new(tree.clone()).map_err(damaged)?,
                queues: tree.clone(),
                last: Time(0),
                next_job: 1,
                records_since_snapshot: 0,
                is_watching: false,
            },
        };
        live.records_since_snapshot = loaded.records.len();
        for (at, record) in loaded.records {
            live.fold(at, &record);
        }
        // What these stand for was handed out, or is asked for by `outstanding`.
        drop((live.engine.take_effects(), live.engine.take_facts()));
        Ok(live)
    }

    fn fold(&mut self, at: Time, record: &Record) {
        self.last = at;
        match record {
            Record::Event(event) => {
                if let Event::Submitted { job, .. } = event {
                    self.next_job = self.next_job.max(job.0 + 1);
                }
                self.apply(at, event);
            }
            Record::Plan(plan) => self.engine.commit(at, plan),
        }
    }

    /// Judges an input and applies it.
    fn take<S: Store>(
        &mut self,
        input: Input,
        store: &S,
        batch: &mut Batch,
    ) -> Result<Result<Receipt, Refused>, StoreError> {
        match input {
            Input::Event(event) => Ok(match self.engine.judge(&event) {
                Ok(()) => {
                    self.record(event, batch);
                    Ok(Receipt::default())
                }
                Err(refusal) => Err(Refused { draft: 0, refusal: Box::new(refusal) }),
            }),
            Input::Submission(submission) => self.submit(submission, store, batch),
        }
    }

    fn submit<S: Store>(
        &mut self,
        submission: Submission,
        store: &S,
        batch: &mut Batch,
    ) -> Result<Result<Receipt, Refused>, StoreError> {
        let (user, key) = (submission.user.clone(), submission.key.clone());
        let twin = batch.receipts.iter().find(|(whose, which, _)| *whose == user && *which == key);
        if let Some((_, _, receipt)) = twin {
            return Ok(Ok(receipt.clone()));
        }
        if let Some(receipt) = store.receipt(&user, &key)? {
            return Ok(Ok(receipt));
        }
        let numbered = match submission.number(&self.engine, self.next_job) {
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

    /// Records an event of the past, unless the state does not take it.
    fn recall(&mut self, event: Event, batch: &mut Batch) {
        if self.engine.judge(&event).is_ok() {
            self.record(event, batch);
        }
    }

    fn record(&mut self, event: Event, batch: &mut Batch) {
        self.apply(batch.at, &event);
        batch.records.push(Record::Event(event));
    }

    fn apply(&mut self, at: Time, event: &Event) {
        if let Event::QueuesSet(tree) = event {
            self.queues = (**tree).clone();
        }
        self.engine.apply(at, event);
    }

    fn save_when_due<S: Store>(&mut self, store: &mut S, after: usize) -> Result<(), StoreError> {
        let records = self.records_since_snapshot;
        // Counting walks all jobs, so it comes last.
        if records < after || records < 4 * self.engine.counts().jobs as usize {
            return Ok(());
        }
        // Whether it works or not, the next try is a full interval away.
        self.records_since_snapshot = 0;
        store.save(&SavedState {
            at: self.last,
            next_job: self.next_job,
            queues: self.queues.clone(),
            engine: self.engine.snapshot(),
        })
    }
}

/// Orders that never left go before the new ones, but for attempts that are over by now.
fn with_owed(owed: Vec<Effect>, new: Vec<Effect>) -> Vec<Effect> {
    let is_over =
        |id| new.iter().any(|effect| matches!(effect, Effect::Forget { id: over } if *over == id));
    let mut effects: Vec<Effect> =
        owed.into_iter().filter(|effect| !is_over(effect.id())).collect();
    effects.extend(new);
    effects
}

/// The plan, or an empty one with the reasons why its judge refused it.
fn vetted(engine: &Engine, at: Time, plan: Plan) -> (Plan, Vec<Violation>) {
    match engine.check(at, &plan) {
        Ok(()) => (plan, Vec::new()),
        Err(violations) => (Plan::default(), violations),
    }
}

fn observations(inputs: &[Input]) -> Vec<Event> {
    let events = inputs.iter().filter_map(|input| match input {
        Input::Event(event) if is_observation(event) => Some(event.clone()),
        Input::Event(_) | Input::Submission(_) => None,
    });
    events.collect()
}

fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use muster_model::job::{Resources, Restart, TaskGroup};
    use muster_model::unit::{Bytes, CpuMilli};
    use muster_model::{JobId, JobSpec, NodeConstraint, NodeSpec, PayloadId};

    use super::*;

    /// One node, and a job of one task that waits.
    fn waiting() -> Engine {
        let node = NodeSpec {
            name: "n1".into(),
            devices: Vec::new(),
            cpus: CpuMilli(1000),
            memory: Bytes(1 << 30),
            extras: BTreeMap::new(),
            labels: BTreeMap::new(),
            domains: Vec::new(),
        };
        let group = TaskGroup {
            name: "main".into(),
            min_tasks: 1,
            max_tasks: 1,
            tasks_per_node: None,
            task: Resources { cpus: CpuMilli(1000), ..Resources::default() },
        };
        let spec = JobSpec {
            name: "one".into(),
            user: "ann".into(),
            uid: None,
            queue: "default".into(),
            priority: 0,
            groups: vec![group],
            time_limit: None,
            grace: Span(0),
            constraint: NodeConstraint::default(),
            array: None,
            after: Vec::new(),
            restart: Restart::NEVER,
            checkpoint: None,
            held: false,
            begin: None,
            protect: muster_model::Protection::None,
            payload: PayloadId(1),
            kind: muster_model::Kind::Task,
            tier: muster_model::Tier::Usual,
            grow_after: Some(muster_model::JobSpec::GROW_AFTER),
        };
        let mut engine = Engine::new(QueueTree::single()).unwrap();
        engine.apply(Time(1), &Event::NodeJoined(Box::new(node)));
        engine.apply(Time(1), &Event::Submitted { job: JobId(1), spec: Arc::new(spec) });
        engine
    }

    #[test]
    fn a_plan_that_its_judge_refuses_is_dropped_whole() {
        let mut engine = waiting();
        let sound = engine.plan(Time(2));
        assert_eq!(sound.decisions.len(), 1);
        assert_eq!(vetted(&engine, Time(2), sound.clone()), (sound.clone(), Vec::new()));

        let mut twice = sound;
        twice.decisions.push(twice.decisions[0].clone());
        let (plan, violations) = vetted(&engine, Time(2), twice);
        assert!(plan.is_empty() && !violations.is_empty(), "{violations:?}");
        engine.commit(Time(2), &plan);
        assert_eq!(engine.counts().active, 0);
        assert_eq!(engine.take_effects(), Vec::new(), "nothing leaves for a plan that was refused");
    }
}
