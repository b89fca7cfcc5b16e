//! Invariants that hold after every line of any scenario: a consistent state, a plan that planning
//! again does not change, and a journal and a snapshot that restore the same state.

use muster_model::{Decision, Plan, QueueTree, Span, Time};
use muster_runtime::engine::Engine;
use muster_runtime::{Runtime, SavedState, Store};

use crate::MemStore;

/// Most plans, a millisecond apart, that may still make excused decisions.
const MOST_PLANS: u64 = 8;

/// Checks all invariants and returns the first violation. `durable` is a copy of the store;
/// `excused` decisions may be left to make, with those that follow from them.
pub(crate) fn audit<S: Store>(
    runtime: &Runtime<S>,
    durable: MemStore,
    tree: &QueueTree,
    now: Time,
    excused: impl Fn(&Decision) -> bool,
) -> Result<(), String> {
    let engine = runtime.engine().ok_or("the engine cannot be read")?;
    // 1. The state.
    if let Some(violation) = engine.sanity_check().first() {
        return Err(format!("the state breaks an invariant: {violation}"));
    }
    // 2. Nothing is left to decide, now or in a second plan.
    let mut live = engine.clone();
    let plan = live.plan(now);
    if let Some(decision) = plan.decisions.first().filter(|decision| !excused(decision)) {
        return Err(format!("planning again decides something: {decision:?}"));
    }
    if live.plan(now) != plan {
        return Err("planning twice gives two plans".to_owned());
    }
    check_convergence(live, now, &plan)?;
    // 3. The journal restores the same state, and a snapshot of it plans the same and wakes at the
    // same time.
    let mut replayed = open(durable, tree)?;
    let mut restored = from_snapshot(runtime, tree)?;
    if let Some(difference) = difference(&form(&from_snapshot(&replayed, tree)?), &form(&restored))
    {
        return Err(format!("replaying the journal gives another state: {difference}"));
    }
    if restored.engine_mut().map(|engine| engine.plan(now)) != Some(plan) {
        return Err("an engine restored from a snapshot makes another plan".to_owned());
    }
    let wake = |runtime: &mut Runtime<MemStore>| {
        runtime.engine_mut().and_then(|engine| {
            engine.plan(now);
            engine.next_wake()
        })
    };
    match (wake(&mut replayed), wake(&mut restored)) {
        (one, other) if one == other => Ok(()),
        (one, other) => {
            Err(format!("an engine restored from a snapshot wakes at {other:?}, not {one:?}"))
        }
    }
}

/// Checks that excused decisions come to an end, plan by plan, as the runtime would make them.
fn check_convergence(mut engine: Engine, now: Time, first: &Plan) -> Result<(), String> {
    let mut plan = first.clone();
    let mut at = now;
    for _ in 0..MOST_PLANS {
        if plan.decisions.is_empty() {
            return Ok(());
        }
        engine
            .check(at, &plan)
            .map_err(|all| format!("the checker rejects the next plan: {all:?}"))?;
        engine.commit(at, &plan);
        at = at + Span(1);
        plan = engine.plan(at);
    }
    Err(format!(
        "after {MOST_PLANS} more plans there are still decisions: {:?}",
        plan.decisions.first()
    ))
}

/// Returns a runtime restored from the snapshot of another: from durable data alone.
fn from_snapshot<S: Store>(
    runtime: &Runtime<S>,
    tree: &QueueTree,
) -> Result<Runtime<MemStore>, String> {
    let (Some(engine), Some(queues)) = (runtime.engine(), runtime.queues()) else {
        return Err("the engine cannot be read".to_owned());
    };
    let at = runtime.last();
    let next_job = runtime.next_job();
    let queues = queues.clone();
    let mut store = MemStore::default();
    let saved = SavedState {
        at,
        next_job,
        queues,
        predictor: Default::default(),
        engine: engine.snapshot(),
    };
    store.save(&saved).map_err(|error| error.to_string())?;
    open(store, tree)
}

fn open(store: MemStore, tree: &QueueTree) -> Result<Runtime<MemStore>, String> {
    Runtime::open(store, tree.clone()).map_err(|error| error.to_string())
}

/// Returns a canonical form of the state.
fn form(runtime: &Runtime<MemStore>) -> String {
    runtime
        .engine()
        .map(Engine::snapshot)
        .map(|snapshot| format!("{snapshot:?}"))
        .unwrap_or_default()
}

/// Returns the first difference of two forms, with its context.
fn difference(left: &str, right: &str) -> Option<String> {
    if left == right {
        return None;
    }
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    let part =
        |text: &str| text.chars().skip(same.saturating_sub(200)).take(300).collect::<String>();
    Some(format!("{} beside {}", part(left), part(right)))
}
