//! Crashes lose nothing. Random runs with a store that fails at random appends, before or after the
//! batch became durable, are compared step by step with a run on a sound store that gets only what
//! was durable.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::collections::BTreeMap;

use cluster::{SimBackend, at, draft, joined, submission};
use muster_model::queue::PlannedRuntimes;
use muster_model::unit::{Span, Time};
use muster_model::{CommandTarget, Drain, Effect, Event, JobId, QueueTree};
use muster_runtime::engine::{AccountingFact, Engine};
use muster_runtime::{Runtime, StepInput, Store, StoreError};
use muster_testkit::{FaultyStore, MemStore, StoreFault};
use proptest::prelude::*;

/// One operation of a random run.
#[derive(Clone, Debug)]
enum Op {
    Submit {
        tasks: u32,
        elements: u32,
        restarts: u32,
        chained: bool,
    },
    Cancel(u64),
    Hold(u64),
    Release(u64),
    Requeue(u64),
    Report {
        pick: usize,
        fail: bool,
    },
    NodeLost(bool),
    NodeJoined(bool),
    Tick,
    /// All nodes are up, nothing is held, and every task reports.
    Finish,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..5u32, 1..5u32, 0..2u32, any::<bool>())
            .prop_map(|(tasks, elements, restarts, chained)| Op::Submit { tasks, elements, restarts, chained }),
        1 => (1..12u64).prop_map(Op::Cancel),
        1 => (1..12u64).prop_map(Op::Hold),
        1 => (1..12u64).prop_map(Op::Release),
        1 => (1..12u64).prop_map(Op::Requeue),
        12 => (any::<usize>(), prop::bool::weighted(0.15)).prop_map(|(pick, fail)| Op::Report { pick, fail }),
        1 => any::<bool>().prop_map(Op::NodeLost),
        1 => any::<bool>().prop_map(Op::NodeJoined),
        2 => Just(Op::Tick),
    ]
}

fn faults() -> impl Strategy<Value = BTreeMap<usize, StoreFault>> {
    let fault = prop_oneof![Just(StoreFault::FailBefore), Just(StoreFault::FailAfter)];
    prop::collection::btree_map(0..80usize, fault, 0..12)
}

/// Runtime under test with its failing store, and a reference whose store never fails.
struct RuntimePair {
    subject: Runtime<FaultyStore>,
    reference: Runtime<MemStore>,
    outside: SimBackend,
    /// Effects that the reference has released or still requires.
    allowed: std::collections::BTreeSet<String>,
    /// Observations to be passed in again.
    retry: Vec<Event>,
    submissions: usize,
}

impl RuntimePair {
    fn new(faults: BTreeMap<usize, StoreFault>, snapshot_after: usize) -> Self {
        let store = FaultyStore::with_faults(faults);
        let subject =
            Runtime::open(store, QueueTree::single()).unwrap().with_snapshot_after(snapshot_after);
        let reference = Runtime::open(MemStore::default(), QueueTree::single()).unwrap();
        Self {
            subject,
            reference,
            outside: SimBackend::default(),
            allowed: Default::default(),
            retry: Vec::new(),
            submissions: 0,
        }
    }

    fn inputs(&mut self, op: &Op) -> Vec<StepInput> {
        let node = |first: bool| if first { "n1" } else { "n2" };
        let whole = |job: u64| CommandTarget { job: JobId(job), index: None };
        let event = match op {
            Op::Submit { tasks, elements, restarts, chained } => {
                self.submissions += 1;
                let key = format!("key-{}", self.submissions);
                let mut drafts = vec![draft("one", *tasks, *elements, *restarts)];
                if *chained {
                    let mut second = draft("two", 1, 1, 0);
                    second.after.push((muster_model::DependencyKind::AfterAny, 0));
                    drafts.push(second);
                }
                return vec![StepInput::Submission(submission(&key, drafts))];
            }
            Op::Cancel(job) => Event::Cancel { target: whole(*job), by: "ann".into() },
            Op::Hold(job) => Event::Hold(whole(*job)),
            Op::Release(job) => Event::Release(whole(*job)),
            Op::Requeue(job) => Event::Requeue(whole(*job)),
            Op::Report { pick, fail } => match self.outside.report(*pick, *fail) {
                Some(event) => event,
                None => return Vec::new(),
            },
            Op::NodeLost(first) => {
                Event::NodeLost { node: node(*first).into(), reason: "gone".into() }
            }
            Op::NodeJoined(first) => joined(node(*first), 4),
            Op::Tick => return Vec::new(),
            Op::Finish => return self.all_well(),
        };
        vec![StepInput::Event(event)]
    }

    fn all_well(&mut self) -> Vec<StepInput> {
        let mut events = vec![joined("n1", 4), joined("n2", 4)];
        let jobs = engine(&self.subject).jobs(at(0));
        events.extend(
            jobs.iter().map(|view| Event::Release(CommandTarget { job: view.job, index: None })),
        );
        while let Some(event) = self.outside.report(0, false) {
            events.push(event);
        }
        events.into_iter().map(StepInput::Event).collect()
    }

    /// Executes one step on both sides. The reference gets it if and only if it became durable.
    fn step(&mut self, now: Time, op: &Op) {
        let mut inputs: Vec<StepInput> =
            std::mem::take(&mut self.retry).into_iter().map(StepInput::Event).collect();
        inputs.extend(self.inputs(op));
        let copy = inputs.clone();
        let before = self.subject.store().durable.appended();
        let outcome = self.subject.step(now, inputs);
        let is_durable = self.subject.store().durable.appended() > before;

        if is_durable || outcome.is_ok() {
            let step = self.reference.step(now, copy).unwrap();
            self.allowed.extend(step.effects.iter().map(|effect| format!("{effect:?}")));
            if let Ok(outcome) = &outcome {
                assert_eq!(outcome.answers, step.answers, "the same inputs get the same answers");
            }
        }
        let standing = engine(&self.reference).outstanding();
        self.allowed.extend(standing.iter().map(|effect| format!("{effect:?}")));

        match outcome {
            Ok(step) => {
                assert!(step.violations.is_empty(), "{:?}", step.violations);
                self.outside.take(&step.effects);
            }
            Err(failure) => {
                self.retry = failure.retry;
                self.outside.take(&failure.effects);
            }
        }
    }

    fn compare(&mut self) {
        assert_eq!(state(&self.subject), state(&self.reference), "live state is what was durable");
        let mut copy = self.subject.store().clone();
        assert!(copy.load().is_ok());
        let recovered = Runtime::open(copy, QueueTree::single()).unwrap();
        assert_eq!(
            state(&recovered),
            state(&self.reference),
            "so is the state that a restart finds"
        );
        assert_eq!(
            recovered.next_job(),
            self.reference.next_job(),
            "numbers are never given twice"
        );
        let stray: Vec<_> = self.outside.seen.difference(&self.allowed).collect();
        assert!(stray.is_empty(), "effects left without a durable decision: {stray:?}");
        assert_eq!(engine(&self.subject).sanity_check(), Vec::new());
    }
}

fn engine<S: Store>(runtime: &Runtime<S>) -> &Engine {
    runtime.engine().expect("the store of this test can always be read")
}

fn state<S: Store>(runtime: &Runtime<S>) -> serde_json::Value {
    serde_json::to_value(engine(runtime).snapshot()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_durable_state_is_lost_and_only_durable_effects_are_released(
        ops in prop::collection::vec((op(), 0..3u64), 1..70),
        faults in faults(),
        snapshot_after in prop_oneof![Just(5usize), Just(40), Just(10_000)],
    ) {
        let mut pair = RuntimePair::new(faults, snapshot_after);
        let mut secs = 0;
        for joins in [true, false] {
            pair.step(at(secs), &Op::NodeJoined(joins));
        }
        for (op, pause) in &ops {
            secs += pause;
            pair.step(at(secs), op);
            pair.compare();
        }

        // Then all faults stop: every refused observation is taken, and every job ends.
        pair.subject.store_mut().faults.clear();
        for _ in 0..400 {
            if engine(&pair.subject).counts().jobs == 0 && pair.retry.is_empty() {
                break;
            }
            secs += 5;
            pair.step(at(secs), &Op::Finish);
        }
        pair.compare();
        prop_assert_eq!(engine(&pair.subject).counts().jobs, 0, "every job comes to an end");
    }
}

fn started() -> Runtime<FaultyStore> {
    let mut runtime = Runtime::open(FaultyStore::default(), QueueTree::single()).unwrap();
    runtime.step(at(0), vec![StepInput::Event(joined("n1", 4))]).unwrap();
    runtime
}

#[test]
fn a_repeated_key_is_one_submission() {
    let mut runtime = started();
    let twice = || StepInput::Submission(submission("same", vec![draft("one", 1, 1, 0)]));
    let step = runtime.step(at(1), vec![twice(), twice()]).unwrap();
    let first = step.answers[0].clone().unwrap();
    assert_eq!(first, step.answers[1].clone().unwrap(), "within one step");
    let later = runtime.step(at(2), vec![twice()]).unwrap();
    assert_eq!(first, later.answers[0].clone().unwrap(), "in a later step");
    let mut restarted = Runtime::open(runtime.into_store(), QueueTree::single()).unwrap();
    let after = restarted.step(at(3), vec![twice()]).unwrap();
    assert_eq!(first, after.answers[0].clone().unwrap(), "after a restart");
    assert_eq!(engine(&restarted).counts().jobs, 1);
}

#[test]
fn a_submission_is_accepted_as_a_whole_or_not_at_all() {
    let mut runtime = started();
    let before = state(&runtime);
    let drafts = vec![draft("fits", 1, 1, 0), draft("never fits", 5, 1, 0)];
    let step = runtime.step(at(1), vec![StepInput::Submission(submission("k", drafts))]).unwrap();
    assert_eq!(step.answers[0].as_ref().unwrap_err().draft, 1);
    assert!(!step.changed && step.effects.is_empty());
    assert_eq!(state(&runtime), before);
    assert_eq!(runtime.next_job(), 1, "no number was used up");

    let mut forward = draft("waits for a later one", 1, 1, 0);
    forward.after.push((muster_model::DependencyKind::AfterOk, 1));
    let drafts = vec![forward, draft("later", 1, 1, 0)];
    let step = runtime.step(at(1), vec![StepInput::Submission(submission("k", drafts))]).unwrap();
    assert!(step.answers[0].is_err());
    assert_eq!(state(&runtime), before);
}

#[test]
fn time_never_goes_back() {
    let mut runtime = started();
    runtime
        .step(at(100), vec![StepInput::Submission(submission("a", vec![draft("a", 1, 1, 0)]))])
        .unwrap();
    runtime
        .step(at(50), vec![StepInput::Submission(submission("b", vec![draft("b", 1, 1, 0)]))])
        .unwrap();
    let jobs = engine(&runtime).jobs(at(100));
    assert_eq!(jobs[1].submitted, at(100), "the clock went back, the time line did not");
    let restarted = Runtime::open(runtime.into_store(), QueueTree::single()).unwrap();
    assert_eq!(restarted.last(), at(100));
    assert_eq!(restarted.instant(at(3)), at(100));
}

#[test]
fn a_step_without_changes_advances_the_clock() {
    let mut runtime = started();
    runtime.step(at(100), Vec::new()).unwrap();
    assert_eq!(runtime.instant(at(50)), at(100), "planning woke what was due by then");
}

#[test]
fn a_full_store_refuses_requests_keeps_observations_and_recovers() {
    let mut runtime = started();
    let mut outside = SimBackend::default();
    let submit = |key: &str| StepInput::Submission(submission(key, vec![draft("one", 1, 1, 0)]));
    outside.take(&runtime.step(at(1), vec![submit("a")]).unwrap().effects);

    runtime.store_mut().is_full = true;
    let report = outside.report(0, false).unwrap();
    let failure =
        runtime.step(at(2), vec![StepInput::Event(report.clone()), submit("b")]).unwrap_err();
    assert!(matches!(failure.error, StoreError::Full(_)));
    assert_eq!(
        failure.retry,
        std::slice::from_ref(&report),
        "the observation is handed back, the request is not"
    );
    let again = runtime.step(at(3), vec![StepInput::Event(report.clone())]).unwrap_err();
    assert_eq!(again.retry, std::slice::from_ref(&report));
    assert_eq!(engine(&runtime).counts().jobs, 1, "reading goes on");

    runtime.store_mut().is_full = false;
    let step = runtime.step(at(4), vec![StepInput::Event(report)]).unwrap();
    assert!(
        step.effects.iter().any(|effect| matches!(effect, muster_model::Effect::Go { .. })),
        "{step:?}"
    );
    assert!(runtime.step(at(5), vec![submit("b")]).unwrap().answers[0].is_ok());
}

#[test]
fn effects_of_an_unreadable_batch_are_released_once_it_is_read() {
    let mut runtime = started();
    let mut outside = SimBackend::default();
    let submit = StepInput::Submission(submission("a", vec![draft("one", 1, 1, 0)]));
    outside.take(&runtime.step(at(1), vec![submit]).unwrap().effects);
    let prepared = outside.report(0, false).unwrap();

    runtime.store_mut().set_fault(Some(StoreFault::FailAfter));
    runtime.store_mut().unreadable = 2;
    let failure = runtime.step(at(2), vec![StepInput::Event(prepared.clone())]).unwrap_err();
    assert!(failure.effects.is_empty() && runtime.engine().is_none(), "{failure:?}");
    let inputs = |events: Vec<Event>| events.into_iter().map(StepInput::Event).collect::<Vec<_>>();
    let again = runtime.step(at(3), inputs(failure.retry)).unwrap_err();
    let step = runtime.step(at(4), inputs(again.retry)).unwrap();
    let is_go = |effect: &muster_model::Effect| matches!(effect, muster_model::Effect::Go { .. });
    assert!(
        step.effects.iter().any(is_go),
        "the gang is let go though its report is old news: {step:?}"
    );
}

#[test]
fn a_newer_journal_is_refused() {
    let newer = muster_runtime::JOURNAL_VERSION + 1;
    let refused = Runtime::open(MemStore::with_version(newer), QueueTree::single()).err().unwrap();
    assert_eq!(refused, StoreError::NewerVersion { found: newer });
    assert!(
        refused.to_string().contains("version 2") && refused.hint().contains("newer"),
        "{refused}"
    );
}

#[test]
fn snapshots_bound_the_journal() {
    let mut runtime = started().with_snapshot_after(10);
    for round in 0..50 {
        let event =
            Event::NodeDrained { node: "n1".into(), drained: round % 2 == 0, reason: "".into() };
        runtime.step(at(round), vec![StepInput::Event(event)]).unwrap();
    }
    assert!(
        runtime.store().durable.journal_len() <= 10,
        "{}",
        runtime.store().durable.journal_len()
    );
    let expected = state(&runtime);
    let restarted = Runtime::open(runtime.into_store(), QueueTree::single()).unwrap();
    assert_eq!(state(&restarted), expected);
}

#[test]
fn past_events_are_applied_at_their_own_instant() {
    let mut runtime = started();
    let mut outside = SimBackend::default();
    let submit =
        StepInput::Submission(submission("a", vec![draft("two", 2, 1, 0), draft("next", 4, 1, 0)]));
    let mut effects = runtime.step(at(10), vec![submit]).unwrap().effects;
    for _ in 0..4 {
        outside.take(&effects);
        let report = outside.report(0, false).unwrap();
        effects = runtime.step(at(10), vec![StepInput::Event(report)]).unwrap().effects;
    }
    // The daemon is down from 10 to 1,000. One rank ended before the last record by its own clock,
    // the other at 30.
    let mut runtime = Runtime::open(runtime.into_store(), QueueTree::single()).unwrap();
    let mut end = |when| (at(when), outside.report(0, false).unwrap());
    let past = vec![end(5), end(30)];
    let effects = runtime.apply_past(past.into_iter().rev().collect()).unwrap();
    assert!(
        matches!(effects[..], [Effect::Forget { .. }]),
        "nothing starts in the past: {effects:?}"
    );
    let expected = state(&runtime);
    let mut runtime = Runtime::open(runtime.into_store(), QueueTree::single()).unwrap();
    assert_eq!((state(&runtime), runtime.last()), (expected, at(30)));
    let batches = runtime.store_mut().take_batches();
    let facts = batches.iter().flat_map(|batch| &batch.facts);
    let ends = facts.filter_map(|fact| match fact {
        AccountingFact::AttemptEnded { at, gpu_millis, .. } => Some((*at, *gpu_millis)),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(at(30), 2 * 1000 * 20_000)]);
    let next = runtime.step(at(1000), Vec::new()).unwrap();
    assert!(matches!(next.effects[..], [Effect::Prepare { .. }]), "{next:?}");
}

/// Submits a job of one task and runs it for ten seconds, from `secs` on.
fn run_for_ten_seconds<S: Store>(runtime: &mut Runtime<S>, outside: &mut SimBackend, secs: u64) {
    let submit = submission(&format!("key-{secs}"), vec![draft("one", 1, 1, 0)]);
    let mut effects = runtime.step(at(secs), vec![StepInput::Submission(submit)]).unwrap().effects;
    for now in [secs, secs, secs + 10] {
        outside.take(&effects);
        let report = outside.report(0, false).unwrap();
        effects = runtime.step(at(now), vec![StepInput::Event(report)]).unwrap().effects;
    }
    outside.take(&effects);
}

#[test]
fn run_times_are_predicted_and_predictions_survive_a_restart() {
    let predicted = QueueTree { estimates: PlannedRuntimes::Predicted, ..QueueTree::single() };
    for (tree, expected) in [(&predicted, Some(Span::from_secs(10))), (&QueueTree::single(), None)]
    {
        let mut runtime = Runtime::open(MemStore::default(), tree.clone()).unwrap();
        let mut outside = SimBackend::default();
        runtime.step(at(0), vec![StepInput::Event(joined("n1", 1))]).unwrap();
        run_for_ten_seconds(&mut runtime, &mut outside, 10);
        run_for_ten_seconds(&mut runtime, &mut outside, 30);
        let next = |runtime: &mut Runtime<MemStore>, secs| {
            let submit = submission(&format!("next-{secs}"), vec![draft("next", 1, 1, 0)]);
            let result = runtime.step(at(secs), vec![StepInput::Submission(submit)]).unwrap();
            let job = result.answers[0].as_ref().unwrap().jobs[0].job;
            runtime.engine().unwrap().job_spec(job).unwrap().expected_runtime
        };
        assert_eq!(next(&mut runtime, 50), expected);
        // From the journal alone, and from a snapshot.
        let mut runtime =
            Runtime::open(runtime.into_store(), tree.clone()).unwrap().with_snapshot_after(1);
        assert_eq!(next(&mut runtime, 51), expected);
        for secs in 52..70 {
            next(&mut runtime, secs);
        }
        let mut runtime = Runtime::open(runtime.into_store(), tree.clone()).unwrap();
        assert_eq!(next(&mut runtime, 70), expected);
    }
}

/// An expected run time holds only where no drain begins before the time limit. The drain of another node has
/// begun when the job starts, and no event says so: only the plan is in the journal.
#[test]
fn what_began_between_two_events_has_begun_on_replay() {
    let predicted = QueueTree { estimates: PlannedRuntimes::Predicted, ..QueueTree::single() };
    let mut runtime = Runtime::open(MemStore::default(), predicted.clone()).unwrap();
    let mut outside = SimBackend::default();
    let nodes = ["n1", "n2"].map(|node| StepInput::Event(joined(node, 1)));
    runtime.step(at(0), nodes.into()).unwrap();
    run_for_ten_seconds(&mut runtime, &mut outside, 10);
    run_for_ten_seconds(&mut runtime, &mut outside, 30);
    let drain = Drain { from: at(60), by: None, reason: "fan".into(), stop: false };
    let drain = Event::DrainSet { node: "n2".into(), devices: None, drain: Some(drain) };
    let mut later = draft("next", 1, 1, 0);
    later.spec.begin = Some(at(70));
    let submit = StepInput::Submission(submission("next", vec![later]));
    runtime.step(at(50), vec![StepInput::Event(drain), submit]).unwrap();
    let started = runtime.step(at(70), Vec::new()).unwrap();
    assert!(matches!(started.effects[..], [Effect::Prepare { .. }]), "{started:?}");
    let live = state(&runtime);
    let replayed = Runtime::open(runtime.into_store(), predicted).unwrap();
    assert_eq!(state(&replayed), live);
}
