//! Each invariant of the state is broken on purpose; the sanity check must find it.

use std::sync::Arc;

use muster_model::view::TaskStage;
use muster_model::{
    Array, DeviceSet, Effect, ElementId, Event, JobId, JobSpec, Plan, QueueTree, Time,
};

use super::{Violation, sanity_check, starts_have_effects};
use crate::fixture::{node, spec};
use crate::plan::Planner;
use crate::state::entries::{EntryOwner, EntryStanding};
use crate::state::job::{Element, Phase, Run, RunStage};
use crate::state::{State, rank_of};

const NOW: Time = Time(1000);

/// Returns a node with 8 devices on which a gang of three runs, and an array of ten with five
/// active and five waiting elements.
fn sound() -> (State, Plan) {
    let mut state = State::new(QueueTree::single()).unwrap();
    state.apply(NOW, &Event::NodeJoined(Box::new(node("n1", 8, "h100"))));
    let array = Array::range(0, 9, 1, None);
    for (job, spec) in [(1, spec(3)), (2, JobSpec { array: Some(array), ..spec(1) })] {
        state.apply(NOW, &Event::Submitted { job: JobId(job), spec: Arc::new(spec) });
    }
    let plan = Planner::default().plan(&mut state, NOW);
    state.commit(NOW, &plan);
    assert_eq!(sanity_check(&state), []);
    (state, plan)
}

fn element(state: &mut State) -> &mut Element {
    state.jobs.get_mut(&JobId(1)).unwrap().record.elements.get_mut(&0).unwrap()
}

fn run(state: &mut State) -> &mut Run {
    element(state).run.as_mut().unwrap()
}

#[track_caller]
fn assert_detected(what: &str, break_it: impl FnOnce(&mut State)) {
    let (mut state, _) = sound();
    break_it(&mut state);
    assert_ne!(sanity_check(&state), [], "not detected: {what}");
}

#[test]
fn a_broken_gang_is_found() {
    assert_detected("a task is missing", |state| {
        let tasks = run(state).placement[..2].into();
        run(state).placement = tasks;
    });
    assert_detected("all tasks have ended", |state| {
        let run = run(state);
        run.tasks.iter_mut().for_each(|task| task.stage = TaskStage::Ended);
        run.over = 3;
    });
    assert_detected("wrong count of ended tasks", |state| run(state).over = 1);
    assert_detected("ordered to run too early", |state| run(state).stage = RunStage::Going);
    assert_detected("active without an attempt", |state| element(state).run = None);
    assert_detected("ended while it holds", |state| {
        let job = &mut state.jobs.get_mut(&JobId(1)).unwrap().record;
        job.active = 0;
        job.failed = 1;
        job.begun = 1;
        let element = job.elements.get_mut(&0).unwrap();
        element.begun = true;
        element.phase = Phase::Ended { outcome: muster_model::Outcome::TimedOut, at: NOW };
    });
}

#[test]
fn broken_counts_are_found() {
    fn job(state: &mut State) -> &mut crate::state::job::JobRecord {
        &mut state.jobs.get_mut(&JobId(2)).unwrap().record
    }
    assert_detected("active", |state| job(state).active += 1);
    assert_detected("succeeded", |state| job(state).succeeded += 1);
    assert_detected("total", |state| job(state).total += 1);
    assert_detected("begun", |state| job(state).begun += 1);
    assert_detected("next", |state| job(state).next -= 1);
    assert_detected("cap", |state| {
        let mut spec = (*job(state).spec).clone();
        spec.array = Some(Array::range(0, 9, 1, Some(2)));
        job(state).spec = Arc::new(spec);
    });
    assert_detected("ended but in memory", |state| {
        let record = &mut state.jobs.get_mut(&JobId(1)).unwrap().record;
        record.total = 0;
    });
}

#[test]
fn broken_nodes_are_found() {
    assert_detected("a device is held twice", |state| {
        let job = state.jobs.get_mut(&JobId(2)).unwrap();
        let other = job.record.elements.get(&0).unwrap().run.clone().unwrap().placement;
        let run = job.record.elements.get_mut(&1).unwrap().run.as_mut().unwrap();
        run.placement = other;
    });
    assert_detected("held without an element", |state| {
        let shape = Arc::clone(state.classes.shape(state.jobs[&JobId(1)].class));
        let placement: Arc<[_]> = state.pool.holdings().next().unwrap().placement[..1].into();
        let end = crate::pool::ends::HoldingEnd::Never;
        let id = ElementId::single(JobId(1));
        let moved =
            muster_model::TaskPlacement { devices: DeviceSet::EMPTY, ..placement[0].clone() };
        state.pool.hold(id, end, shape, Arc::from([moved]));
    });
    assert_detected("released too early", |state| {
        let key = run(state).key;
        let holding = state.pool.holding(key).clone();
        state.pool.release(key);
        let again: Arc<[_]> = holding.placement[..2].into();
        let key = state.pool.hold(holding.element, holding.end, holding.shape, again);
        run(state).key = key;
    });
    assert_detected("holding of another element", |state| {
        let other = state.jobs[&JobId(2)].record.elements[&0].run.as_ref().unwrap().key;
        run(state).key = other;
    });
    assert_detected("a booking outlives its pass", |state| {
        let holding = state.pool.holdings().next().unwrap().clone();
        let when = (Time(5000), Time(6000));
        state.pool.book(holding.element, when, holding.shape, holding.placement);
    });
}

#[test]
fn a_missing_queue_entry_is_found() {
    assert_detected("the rest of the array is not queued", |state| {
        let job = &state.jobs[&JobId(2)];
        let rank = rank_of(job, None);
        let owner = EntryOwner { job: JobId(2), ordinal: None };
        state.entries.set(&mut state.policy, owner, rank, EntryStanding::Out);
    });
    assert_detected("too many tickets", |state| {
        let job = &state.jobs[&JobId(2)];
        let rank = rank_of(job, None);
        let owner = EntryOwner { job: JobId(2), ordinal: None };
        state.entries.set(&mut state.policy, owner, rank, EntryStanding::Queued(40));
    });
}

#[test]
fn a_start_without_an_effect_is_found() {
    let (state, plan) = sound();
    assert_eq!(starts_have_effects(&plan, &state.effects), []);
    let without: Vec<Effect> = state.effects[1..].to_vec();
    assert_eq!(starts_have_effects(&plan, &without), [Violation::NoEffect(state.effects[0].id())]);
}
