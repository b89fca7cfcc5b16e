//! Arrays and dependencies.

use muster_engine::{Fact, Refusal};
use muster_model::job::DependencyKind::{After, AfterAny, AfterNotOk, AfterOk};
use muster_model::view::State;
use muster_model::{ElementId, Event, JobId, Outcome, Rank, Reason, Target};

use crate::world::{World, job, node, span};

#[test]
fn an_array_runs_at_most_its_cap_at_once_in_order_of_its_indices() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("sweep").gpus(1).array(10, 15, Some(2)));
    let view = world.engine.job(world.now, world.id("sweep")).unwrap();
    let array = view.array.unwrap();
    assert_eq!((array.total, array.waiting, array.active), (6, 4, 2));
    assert!(matches!(view.waiting_for, Some(Reason::ArrayCap { running: 2, cap: 2 })));
    for index in 10..=15 {
        assert_eq!(world.state_of("sweep", index), State::Running);
        world.exits("sweep", index, 0);
    }
    assert_eq!(world.engine.counts().jobs, 0);
    let starts: Vec<u32> = world.starts.iter().map(|(element, _)| element.index).collect();
    assert_eq!(starts, [10, 11, 12, 13, 14, 15]);
}

#[test]
fn a_step_leaves_indices_out() {
    let mut world = World::new(&[node("n1", 8)]);
    let array = muster_model::Array::range(1, 8, 3, None);
    world.submit(job("sweep").gpus(1).with(|spec| spec.array = Some(array)));
    let starts: Vec<u32> = world.starts.iter().map(|(element, _)| element.index).collect();
    assert_eq!(starts, [1, 4, 7]);
    let two = Target { index: Some(2), ..world.target("sweep") };
    let id = ElementId { job: two.job, index: 2 };
    assert_eq!(world.engine.judge(&Event::Hold(two)), Err(Refusal::UnknownElement(id)));
}

#[test]
fn a_list_has_the_indices_that_it_names() {
    let mut world = World::new(&[node("n1", 2)]);
    let array = muster_model::Array::list(vec![1, 3, 7, 8, 9], None);
    world.submit(job("sweep").gpus(1).with(|spec| spec.array = array));
    world.exits("sweep", 1, 0);
    world.exits("sweep", 3, 1);
    let starts: Vec<u32> = world.starts.iter().map(|(element, _)| element.index).collect();
    assert_eq!(starts, [1, 3, 7, 8]);
    for unknown in [0, 2, 4, 10] {
        let target = Target { index: Some(unknown), ..world.target("sweep") };
        let id = ElementId { job: target.job, index: unknown };
        assert_eq!(world.engine.judge(&Event::Hold(target)), Err(Refusal::UnknownElement(id)));
    }
}

#[test]
fn what_is_left_of_a_list_ends_range_by_range() {
    let mut world = World::new(&[node("n1", 1)]);
    let array = muster_model::Array::list(vec![1, 3, 7, 8, 9], None);
    world.submit(job("sweep").gpus(1).with(|spec| spec.array = array));
    let all = world.target("sweep");
    world.step(vec![Event::Hold(Target { index: Some(8), ..all })]);
    world.cancel("sweep");
    let rests: Vec<(u32, u32, u32)> = world
        .facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::RestEnded { count, first, last, .. } => Some((*count, *first, *last)),
            _ => None,
        })
        .collect();
    assert_eq!(rests, [(1, 3, 3), (2, 7, 9)]);
}

#[test]
fn a_large_array_starts_more_than_its_tickets_in_one_pass_and_costs_one_job_while_it_waits() {
    let nodes: Vec<_> = (0..50).map(|at| node(&format!("n{at:02}"), 8)).collect();
    let mut world = World::new(&nodes);
    world.submit(job("sweep").gpus(1).array(0, 99_999, None));
    assert_eq!(world.starts.len(), 400);
    assert_eq!(world.engine.counts().pending, 100_000 - 400);
    let queue = &world.engine.queues(world.now)[0];
    assert_eq!((queue.waiting, queue.running), (100_000 - 400, 400));
}

#[test]
fn two_users_arrays_share_what_is_there() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("first").gpus(8));
    world.submit(job("a").gpus(1).user("ann").array(0, 99, None));
    world.submit(job("b").gpus(1).user("bob").array(0, 99, None));
    world.exit("first", 0);
    let of = |name| world.engine.job(world.now, world.id(name)).unwrap().array.unwrap().active;
    // ann has used the machine before, so bob is ahead until he holds as much.
    assert_eq!(of("a") + of("b"), 8);
    assert!(of("a") >= 3 && of("b") >= 3, "{} and {}", of("a"), of("b"));
}

#[test]
fn elements_are_held_released_cancelled_and_requeued_one_by_one() {
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("sweep").gpus(1).array(0, 5, None));
    let one = |world: &World, index| Target { index: Some(index), ..world.target("sweep") };
    world.step(vec![Event::Hold(one(&world, 2))]);
    world.step(vec![Event::Cancel { target: one(&world, 3), by: "ann".into() }]);
    world.exits("sweep", 0, 0);
    assert_eq!(world.state_of("sweep", 2), State::Held);
    assert_eq!(world.state_of("sweep", 3), State::Cancelled);
    assert_eq!(world.state_of("sweep", 4), State::Running);
    world.exits("sweep", 1, 0);
    assert_eq!(world.state_of("sweep", 5), State::Running);
    world.step(vec![Event::Requeue(one(&world, 3))]);
    world.step(vec![Event::Release(one(&world, 2))]);
    world.exits("sweep", 4, 0);
    world.exits("sweep", 5, 0);
    assert_eq!(world.state_of("sweep", 2), State::Running);
    assert_eq!(world.state_of("sweep", 3), State::Running);
    world.exits("sweep", 2, 0);
    world.exits("sweep", 3, 0);
    assert_eq!(world.engine.counts().jobs, 0);
}

#[test]
fn cancelling_an_array_ends_what_waits_together_and_stops_what_runs() {
    let mut world = World::new(&[node("n1", 2)]);
    let id = world.submit(job("sweep").gpus(1).array(0, 99_999, None));
    world.cancel("sweep");
    assert_eq!(world.engine.counts().jobs, 0);
    let rest = world.facts.iter().find_map(|fact| match fact {
        Fact::RestEnded { job, count, .. } if *job == id => Some(*count),
        _ => None,
    });
    assert_eq!(rest, Some(99_998));
    let view = world.facts.iter().find_map(|fact| match fact {
        Fact::JobEnded { view, succeeded: false, .. } => Some(view.clone()),
        _ => None,
    });
    assert_eq!(view.unwrap().state, State::Cancelled);
}

#[test]
fn an_array_that_was_cancelled_in_part_can_be_requeued_while_it_is_in_memory() {
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("sweep").gpus(1).array(0, 9, None));
    world.obliging = false;
    world.cancel("sweep");
    assert_eq!(world.state_of("sweep", 7), State::Cancelled);
    world.obliging = true;
    let ids = [world.attempt("sweep", 0), world.attempt("sweep", 1)];
    world.step(vec![Event::Requeue(world.target("sweep"))]);
    assert_eq!(world.state_of("sweep", 7), State::Pending);
    for id in ids {
        let exit = muster_model::Observation::Exited(muster_model::TaskExit::Stopped);
        world.task(id, 0, exit);
    }
    // The two that were being stopped are cancelled; the others run.
    assert_eq!(world.state_of("sweep", 2), State::Running);
    assert_eq!(world.outcome("sweep", 0), Some(Outcome::Cancelled { by: "ann".into() }));
}

#[test]
fn dependencies_open_when_the_other_job_gets_there() {
    for (kind, code, before, after) in [
        (After, 0, State::Running, None),
        (AfterAny, 0, State::Pending, Some(State::Running)),
        (AfterAny, 1, State::Pending, Some(State::Running)),
        (AfterOk, 0, State::Pending, Some(State::Running)),
        (AfterNotOk, 1, State::Pending, Some(State::Running)),
        (AfterOk, 1, State::Pending, None),
        (AfterNotOk, 0, State::Pending, None),
    ] {
        let mut world = World::new(&[node("n1", 8)]);
        let first = world.submit(job("first").gpus(1));
        world.submit(job("second").gpus(1).after(kind, first));
        world.expect("second", before);
        if before == State::Pending {
            let view = world.engine.job(world.now, world.id("second")).unwrap();
            assert_eq!(view.waiting_for, Some(Reason::Dependency { on: first, kind }));
        }
        world.exit("first", code);
        match after {
            Some(state) => world.expect("second", state),
            None if kind == After => world.expect("second", State::Running),
            None => world.expect_ended("second", &Outcome::DependencyFailed { on: first }),
        }
    }
}

#[test]
fn a_dependency_that_can_never_be_met_ends_a_whole_chain() {
    let mut world = World::new(&[node("n1", 1)]);
    let mut last = world.submit(job("j0").gpus(1));
    for at in 1..1000 {
        last = world.submit(job(&format!("j{at}")).gpus(1).after(AfterOk, last));
    }
    let any = world.submit(job("clean-up").gpus(1).after(AfterAny, last));
    world.exit("j0", 1);
    world.expect_ended("j1", &Outcome::DependencyFailed { on: JobId(1) });
    world.expect_ended("j999", &Outcome::DependencyFailed { on: JobId(999) });
    assert_eq!(world.engine.counts().jobs, 1);
    world.expect("clean-up", State::Running);
    // Jobs that ended are remembered for those that come later.
    world.submit(job("too-late").gpus(1).after(AfterOk, last));
    world.expect_ended("too-late", &Outcome::DependencyFailed { on: last });
    world.exit("clean-up", 0);
    world.submit(job("in-time").gpus(1).after(AfterOk, any));
    world.expect("in-time", State::Running);
}

#[test]
fn dependencies_on_itself_on_later_and_on_unknown_jobs_are_refused_by_name() {
    let mut world = World::new(&[node("n1", 1)]);
    world.submit(job("first").gpus(1));
    let own = world.next_id();
    for on in [own, JobId(own.0 + 5)] {
        let refused = world.try_submit(job("loop").gpus(1).after(After, on));
        assert_eq!(refused, Err(Refusal::DependencyCycle { job: own, on }));
    }
    let refused = world.try_submit(job("lost").gpus(1).after(AfterOk, JobId(0)));
    assert_eq!(refused, Err(Refusal::UnknownDependency(JobId(0))));
}

#[test]
fn a_dependency_on_an_array_waits_for_all_of_it() {
    let mut world = World::new(&[node("n1", 2)]);
    let sweep = world.submit(job("sweep").gpus(1).array(0, 3, None));
    world.submit(job("begun").after(After, sweep));
    world.submit(job("all-good").gpus(1).after(AfterOk, sweep));
    world.expect("begun", State::Pending);
    world.exits("sweep", 0, 0);
    world.exits("sweep", 1, 5);
    world.expect("begun", State::Running);
    world.exits("sweep", 2, 0);
    world.expect("all-good", State::Pending);
    world.exits("sweep", 3, 0);
    world.expect_ended("all-good", &Outcome::DependencyFailed { on: sweep });
    assert_eq!(world.outcome("sweep", 1), Some(Outcome::Failed { rank: Rank(0), code: 5 }));
}

#[test]
fn a_begin_time_is_waited_for() {
    let mut world = World::new(&[node("n1", 2)]);
    let at = world.now + span("1h");
    world.submit(job("later").gpus(1).begin(at));
    world.expect("later", State::Pending);
    assert_eq!(world.engine.next_wake(), Some(at));
    world.advance("1h");
    world.expect("later", State::Running);
    assert_eq!(world.engine.next_wake(), None);
}
