//! The life of jobs: start, restart, cancel, hold, requeue.

use muster_engine::{Engine, Refusal};
use muster_model::view::{State, TaskStage};
use muster_model::{
    Effect, ElementId, Event, Observation, Outcome, Rank, Reason, StopCause, Target, TaskExit,
};

use crate::world::{World, job, node, says, span, text};

fn lost(reason: &str) -> Observation {
    Observation::Lost { reason: reason.into() }
}

fn refused() -> Observation {
    Observation::Refused { reason: "no cgroup".into() }
}

fn code(code: i32) -> Observation {
    Observation::Exited(TaskExit::Code { code })
}

#[test]
fn two_gangs_contend_and_start_whole_one_after_the_other() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("left").tasks(5).gpus(1).limit("20s"));
    world.submit(job("right").tasks(5).gpus(1).limit("20s"));
    world.submit(job("quick").gpus(1).limit("3s"));
    world.expect("left", State::Running);
    world.expect("right", State::Pending);
    world.expect("quick", State::Running);
    let quick = world.engine.element(world.now, world.element("quick", 0)).unwrap();
    assert!(quick.backfilled);
    let right = world.engine.job(world.now, world.id("right")).unwrap();
    assert_eq!(right.eta, Some(world.now + span("20s")));
    world.exit("left", 0);
    world.expect_ended("left", &Outcome::Succeeded);
    world.expect("right", State::Running);
}

#[test]
fn a_gang_starts_in_two_phases() {
    let mut world = World::new(&[node("n1", 8)]);
    world.obliging = false;
    world.submit(job("gang").tasks(2).gpus(1));
    world.expect("gang", State::Starting);
    let id = world.attempt("gang", 0);
    world.task(id, 0, Observation::Prepared);
    world.task(id, 0, Observation::Prepared);
    assert!(!world.effects.contains(&Effect::Go { id }), "one of two is not ready");
    world.task(id, 1, Observation::Prepared);
    assert!(world.effects.contains(&Effect::Go { id }));
    assert_eq!(world.engine.outstanding(), [Effect::Go { id }]);
    world.task(id, 1, Observation::Started);
    world.expect("gang", State::Starting);
    world.task(id, 0, Observation::Started);
    world.expect("gang", State::Running);
    assert_eq!(world.engine.outstanding(), []);
    // A rank that is done early just ends; the others go on.
    world.task(id, 0, code(0));
    world.expect("gang", State::Running);
    assert_eq!(world.engine.expected_tasks(), [(id, Rank(1), "n1".into())]);
    world.task(id, 1, code(0));
    world.expect_ended("gang", &Outcome::Succeeded);
    assert_eq!(world.effects.last(), Some(&Effect::Forget { id }));
}

#[test]
fn one_failure_stops_the_rest_and_the_first_failure_is_the_outcome() {
    for (what, expected) in [
        (code(3), Outcome::Failed { rank: Rank(1), code: 3 }),
        (
            Observation::Exited(TaskExit::Signal { signal: 11 }),
            Outcome::Signaled { rank: Rank(1), signal: 11 },
        ),
        (Observation::Exited(TaskExit::OutOfMemory), Outcome::OutOfMemory { rank: Rank(1) }),
        (Observation::Exited(TaskExit::TimedOut), Outcome::TimedOut),
        (Observation::Exited(TaskExit::Stopped), Outcome::Signaled { rank: Rank(1), signal: 15 }),
        (lost("node gone"), Outcome::Lost { rank: Rank(1), reason: "node gone".into() }),
    ] {
        let mut world = World::new(&[node("n1", 8)]);
        world.submit(job("gang").tasks(3).gpus(1));
        world.obliging = false;
        let id = world.attempt("gang", 0);
        world.task(id, 1, what);
        world.expect("gang", State::Stopping);
        assert!(world.effects.contains(&Effect::Stop { id, cause: StopCause::GangFailed }));
        assert_eq!(
            world.engine.nodes()[0].devices.iter().filter(|device| device.used.0 > 0).count(),
            3
        );
        world.task(id, 0, code(7));
        world.task(id, 2, Observation::Exited(TaskExit::Stopped));
        world.expect_ended("gang", &expected);
    }
}

#[test]
fn a_failing_gang_restarts_with_doubling_back_off_until_its_restarts_are_used_up() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("train").tasks(2).gpus(1).restarts(2, "10s"));
    for (attempt, wait) in [(1, "10s"), (2, "20s")] {
        assert_eq!(world.attempt("train", 0).attempt.0, attempt);
        world.exit("train", 1);
        world.expect("train", State::Pending);
        assert_eq!(world.engine.next_wake(), Some(world.now + span(wait)));
        world.advance("1s");
        world.expect("train", State::Pending);
        world.advance(wait);
        world.expect("train", State::Running);
    }
    world.exit("train", 1);
    world.expect_ended("train", &Outcome::Failed { rank: Rank(0), code: 1 });
}

#[test]
fn a_time_out_is_never_restarted() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("train").gpus(1).restarts(5, "1s"));
    let id = world.attempt("train", 0);
    world.task(id, 0, Observation::Exited(TaskExit::TimedOut));
    world.expect_ended("train", &Outcome::TimedOut);
}

#[test]
fn a_failed_start_is_tried_again_even_without_a_restart_policy() {
    let mut world = World::new(&[node("n1", 8)]);
    world.obliging = false;
    world.submit(job("train").gpus(1));
    for attempt in 1..=4 {
        let id = world.attempt("train", 0);
        assert_eq!(id.attempt.0, attempt);
        world.task(id, 0, refused());
        if attempt < 4 {
            world.expect("train", State::Pending);
            world.advance("10s");
        }
    }
    world
        .expect_ended("train", &Outcome::StartFailed { rank: Rank(0), reason: "no cgroup".into() });
}

#[test]
fn a_node_that_refused_is_avoided_only_while_others_can_host_the_job() {
    let mut world = World::new(&[node("a", 4), node("b", 4)]);
    world.obliging = false;
    world.submit(job("one").gpus(1));
    assert_eq!(world.places("one")[0].0.as_str(), "a");
    let id = world.attempt("one", 0);
    world.task(id, 0, refused());
    world.advance("1s");
    assert_eq!(world.places("one")[0].0.as_str(), "b", "the other node is tried");
    let id = world.attempt("one", 0);
    world.task(id, 0, refused());
    world.advance("10s");
    assert_eq!(world.attempt("one", 0).attempt.0, 3, "with both refused, neither is excluded");
    // A gang that needs both nodes comes back although one refused.
    world.cancel("one");
    let id = world.attempt("one", 0);
    world.task(id, 0, Observation::Exited(TaskExit::Stopped));
    world.submit(job("both").tasks(2).gpus(4));
    let id = world.attempt("both", 0);
    world.task(id, 0, refused());
    world.task(id, 1, Observation::Exited(TaskExit::Stopped));
    world.advance("1s");
    world.expect("both", State::Starting);
}

#[test]
fn a_lost_node_takes_its_gangs_down() {
    let mut world = World::new(&[node("a", 4), node("b", 4)]);
    world.submit(job("again").tasks(2).per_node(1).gpus(4).restarts(1, "1s"));
    world.obliging = false;
    let id = world.attempt("again", 0);
    world.step(vec![Event::NodeLost { node: "a".into(), reason: "no heartbeat".into() }]);
    assert!(world.effects.contains(&Effect::Stop { id, cause: StopCause::GangFailed }));
    world.expect("again", State::Stopping);
    world.task(id, 1, Observation::Exited(TaskExit::Stopped));
    world.advance("1s");
    world.expect("again", State::Pending);
    world.step(vec![Event::NodeJoined(Box::new(node("a", 4)))]);
    world.expect("again", State::Starting);
    assert_eq!(world.attempt("again", 0).attempt.0, 2);
    // Old news about the first attempt changes nothing.
    world.task(id, 0, code(1));
    world.expect("again", State::Starting);
}

#[test]
fn cancel_works_at_every_state() {
    let cancelled = Outcome::Cancelled { by: "ann".into() };
    // Waiting: at once.
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("runs").gpus(2));
    world.submit(job("waits").gpus(2));
    world.cancel("waits");
    world.expect_ended("waits", &cancelled);
    // Running: when every task is over, and never restarted.
    world.obliging = false;
    let id = world.attempt("runs", 0);
    world.cancel("runs");
    world.cancel("runs");
    world.expect("runs", State::Stopping);
    let stops = world.effects.iter().filter(|effect| matches!(effect, Effect::Stop { .. })).count();
    assert_eq!(stops, 1);
    world.task(id, 0, Observation::Exited(TaskExit::Stopped));
    world.expect_ended("runs", &cancelled);
    // Starting: prepared tasks are dropped.
    world.submit(job("starts").tasks(2).gpus(1).restarts(9, "1s"));
    let id = world.attempt("starts", 0);
    world.task(id, 0, Observation::Prepared);
    world.cancel("starts");
    world.task(id, 1, refused());
    world.task(id, 0, Observation::Exited(TaskExit::Stopped));
    world.expect_ended("starts", &cancelled);
    // Stopping after a failure: the cancellation wins over the restart.
    world.submit(job("fails").tasks(2).gpus(1).restarts(9, "1s"));
    let id = world.attempt("fails", 0);
    world.task(id, 0, Observation::Started);
    world.task(id, 0, code(1));
    world.cancel("fails");
    world.task(id, 1, Observation::Exited(TaskExit::Stopped));
    world.expect_ended("fails", &cancelled);
    // Waiting for its back-off.
    world.obliging = true;
    world.submit(job("backs-off").gpus(1).restarts(9, "1h"));
    world.exit("backs-off", 1);
    world.cancel("backs-off");
    world.expect_ended("backs-off", &cancelled);
    // What has ended cannot be cancelled.
    let event = Event::Cancel { target: world.target("runs"), by: "ann".into() };
    assert_eq!(world.engine.judge(&event), Err(Refusal::UnknownJob(world.id("runs"))));
}

#[test]
fn hold_keeps_what_waits_from_starting_and_release_undoes_it() {
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("held").gpus(1).held());
    world.expect("held", State::Held);
    world.step(vec![Event::Release(world.target("held"))]);
    world.expect("held", State::Running);
    let single = Target { index: Some(0), ..world.target("held") };
    assert!(matches!(world.engine.judge(&Event::Hold(single)), Err(Refusal::NotWaiting(_))));
    world.submit(job("second").gpus(2));
    world.step(vec![Event::Hold(world.target("second"))]);
    world.exit("held", 0);
    world.expect("second", State::Held);
    world.step(vec![Event::Release(world.target("second"))]);
    world.expect("second", State::Running);
    // A hold on a running job keeps it from restarting.
    world.submit(job("third").gpus(2).restarts(3, "1s"));
    world.exit("second", 0);
    world.step(vec![Event::Hold(world.target("third"))]);
    world.exit("third", 1);
    world.advance("1h");
    world.expect("third", State::Held);
}

/// As in Slurm: a user cannot release what an administrator holds.
#[test]
fn the_hold_of_an_administrator_is_released_by_one() {
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("waits").gpus(2).held());
    world.submit(job("free").gpus(2).held());
    let (waits, free) = (world.target("waits"), world.target("free"));
    let hold = |target| Event::AdminHold { target, by: "root".into() };
    let lift = |target| Event::AdminRelease { target, by: "root".into() };
    let refusal = |target| Err(Refusal::HeldByAdmin { target, by: "root".into() });
    let reasons = |world: &mut World, target: Target| {
        let element = ElementId { job: target.job, index: 0 };
        world.engine.explain(world.now, element).unwrap().reasons
    };
    assert_eq!(reasons(&mut world, waits), [Reason::Held]);
    world.step(vec![hold(waits)]);
    assert_eq!(reasons(&mut world, waits), [Reason::HeldByAdmin { by: "root".into() }]);
    for target in [waits, Target { index: Some(0), ..waits }] {
        assert_eq!(world.engine.judge(&Event::Release(target)), refusal(target));
    }
    // It is durable, and a state without one is written as before.
    let stored = text(&world.engine.snapshot());
    let restored = Engine::restore(serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(restored.judge(&Event::Release(waits)), refusal(waits));
    assert_eq!(text(&world.replayed(muster_model::QueueTree::single()).snapshot()), stored);
    assert_eq!(stored.matches("admin").count(), 1, "{stored}");
    // The user held it before, and does so after.
    world.step(vec![lift(waits)]);
    assert_eq!(reasons(&mut world, waits), [Reason::Held]);
    world.step(vec![Event::Release(waits)]);
    world.expect("waits", State::Running);
    // A hold by the user under that of an administrator; what runs takes the hold along when it
    // waits again.
    world.step(vec![hold(waits), Event::Requeue(waits)]);
    world.exit("waits", 0);
    world.expect("waits", State::Held);
    assert_eq!(world.engine.judge(&Event::Release(waits)), refusal(waits));
    world.step(vec![Event::Hold(waits), lift(waits)]);
    assert_eq!(reasons(&mut world, waits), [Reason::Held]);
    // An administrator releases what a user holds.
    world.step(vec![lift(free)]);
    world.expect("free", State::Running);
}

#[test]
fn an_administrator_holds_one_element_and_the_user_releases_the_others() {
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("sweep").gpus(1).array(0, 3, None).held());
    let sweep = world.target("sweep");
    let one = |index| Target { index: Some(index), ..sweep };
    world.step(vec![Event::AdminHold { target: one(0), by: "root".into() }]);
    world.step(vec![Event::Release(sweep)]);
    let state = |world: &World, index| {
        world
            .engine
            .element(world.now, ElementId { job: sweep.job, index })
            .map(|element| element.state)
    };
    assert_eq!(
        [0, 1, 2].map(|index| state(&world, index)),
        [State::Held, State::Running, State::Running].map(Some)
    );
    assert!(world.engine.judge(&Event::Release(one(0))).is_err());
    assert!(world.engine.judge(&Event::Release(one(3))).is_ok());
}

#[test]
fn requeue_runs_it_again_without_using_up_a_restart() {
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("train").gpus(2).restarts(1, "1s"));
    world.step(vec![Event::Requeue(world.target("train"))]);
    world.expect("train", State::Running);
    assert_eq!(world.attempt("train", 0).attempt.0, 2);
    world.exit("train", 1);
    world.advance("1s");
    assert_eq!(world.attempt("train", 0).attempt.0, 3);
    world.exit("train", 1);
    world.expect_ended("train", &Outcome::Failed { rank: Rank(0), code: 1 });
}

#[test]
fn requeue_ends_a_back_off_but_no_hold_and_no_begin_time() {
    let mut world = World::new(&[node("n1", 4)]);
    // One element, and one of an array.
    world.submit(job("train").gpus(1).restarts(9, "1h"));
    world.submit(job("sweep").gpus(1).restarts(9, "1h").array(0, 1, None));
    world.exit("train", 1);
    world.exits("sweep", 1, 1);
    world.expect("train", State::Pending);
    assert!(world.engine.next_wake().is_some());
    world.step(vec![Event::Requeue(world.target("train"))]);
    world.expect("train", State::Running);
    let single = Target { index: Some(1), ..world.target("sweep") };
    world.step(vec![Event::Requeue(single)]);
    assert_eq!(world.state_of("sweep", 1), State::Running);
    assert_eq!(world.engine.next_wake(), None);
    // A hold is somebody's word, too.
    world.exit("train", 1);
    world.step(vec![Event::Hold(world.target("train"))]);
    world.step(vec![Event::Requeue(world.target("train"))]);
    world.expect("train", State::Held);
    world.step(vec![Event::Release(world.target("train"))]);
    world.expect("train", State::Running);
    // So is a begin time.
    let begin = world.now + span("1h");
    world.submit(job("later").gpus(1).begin(begin));
    world.step(vec![Event::Requeue(world.target("later"))]);
    world.expect("later", State::Pending);
}

/// Tells the engine what is overdue by now; how much that was.
fn time_out(world: &mut World) -> usize {
    let events = world.engine.overdue(world.now);
    let count = events.len();
    world.step(events);
    count
}

#[test]
fn a_gang_that_is_not_ready_in_time_is_started_elsewhere() {
    let mut world = World::new(&[node("a", 2), node("b", 2)]);
    world.engine.watch_starts(world.now, span("2m"));
    world.obliging = false;
    world.submit(job("train").tasks(2).gpus(1).limit("1h"));
    let first = world.attempt("train", 0);
    world.task(first, 0, Observation::Prepared);
    assert_eq!(world.engine.next_wake(), Some(world.now + span("2m")));
    world.now = world.now + span("119999ms");
    assert_eq!(time_out(&mut world), 0);
    world.now = world.now + span("1ms");
    assert_eq!(time_out(&mut world), 1);
    world.expect("train", State::Stopping);
    assert!(world.effects.contains(&Effect::Stop { id: first, cause: StopCause::GangFailed }));
    // Both answer, late: it was a failed start, on a bad node.
    for rank in [0, 1] {
        world.task(first, rank, Observation::Exited(TaskExit::Stopped));
    }
    world.advance("1h");
    let second = world.attempt("train", 0);
    assert_eq!(second.attempt.0, 2);
    assert_eq!(world.places("train")[0].0, "b".into());
    // A report in time ends the wait; so does the end.
    for rank in [0, 1] {
        world.task(second, rank, Observation::Started);
    }
    assert_eq!(world.engine.next_wake(), None);
    world.now = world.now + span("30m");
    assert_eq!(time_out(&mut world), 0);
    // An old time-out means nothing to a newer attempt, or to one that runs.
    for id in [first, second] {
        world.step(vec![Event::StartOverdue { id, after: span("2m") }]);
    }
    world.expect("train", State::Running);
}

#[test]
fn a_task_that_is_never_heard_of_is_given_up_and_frees_what_it_held() {
    let mut world = World::new(&[node("a", 2)]);
    world.obliging = false;
    world.submit(job("train").tasks(2).gpus(1).grace("10s").limit("1h"));
    // The limit counts from when somebody began to watch, as after a restart.
    world.advance("1h");
    let stored = serde_json::to_string(&world.engine.snapshot()).unwrap();
    world.engine = muster_engine::Engine::restore(serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(world.engine.next_wake(), None);
    world.engine.watch_starts(world.now, span("2m"));
    assert_eq!(world.engine.next_wake(), Some(world.now + span("2m")));
    let mut refusals = 0;
    for attempt in 1..=4 {
        let id = world.attempt("train", 0);
        assert_eq!(id.attempt.0, attempt);
        world.now = world.now + span("2m");
        assert_eq!(time_out(&mut world), 1);
        world.task(id, 0, refused());
        // Rank 1 says nothing to the order to stop, either. What would be its last moment passes,
        // and the limit again.
        world.expect("train", State::Stopping);
        assert_eq!(world.engine.next_wake(), Some(world.now + span("130s")));
        world.now = world.now + span("130s");
        assert_eq!(time_out(&mut world), 1);
        refusals += 1;
        if world.engine.job(world.now, world.id("train")).is_some() {
            world.expect("train", State::Pending);
            world.advance("10m");
        }
    }
    assert_eq!(refusals, 4);
    let outcome = world.outcome("train", 0);
    assert!(matches!(outcome, Some(Outcome::StartFailed { rank: Rank(0), .. })), "{outcome:?}");
    assert_eq!((world.engine.next_wake(), world.engine.counts().active), (None, 0));
    // Replay needs no limit: what timed out is in the journal.
    let replayed = world.replayed(muster_model::QueueTree::single());
    assert_eq!(
        crate::world::text(&replayed.snapshot()),
        crate::world::text(&world.engine.snapshot())
    );
}

#[test]
fn repeated_and_stale_reports_change_nothing() {
    let mut world = World::new(&[node("n1", 2)]);
    world.obliging = false;
    world.submit(job("train").tasks(2).gpus(1).restarts(1, "1s"));
    let id = world.attempt("train", 0);
    for _ in 0..2 {
        world.task(id, 0, Observation::Started);
        world.task(id, 0, Observation::Prepared);
    }
    let before = crate::world::text(&world.engine.snapshot());
    let mut stale = id;
    stale.attempt.0 += 1;
    for event in [
        says(id, 0, Observation::Started),
        says(id, 9, code(1)),
        says(stale, 0, code(1)),
        Event::ForeignUse { node: "n1".into(), foreign: Default::default() },
    ] {
        world.step(vec![event]);
        assert_eq!(crate::world::text(&world.engine.snapshot()), before);
    }
}

#[test]
fn a_later_stage_implies_the_earlier_ones() {
    let mut world = World::new(&[node("n1", 2)]);
    world.obliging = false;
    world.submit(job("train").tasks(2).gpus(1));
    let id = world.attempt("train", 0);
    world.task(id, 0, code(0));
    world.task(id, 1, Observation::Started);
    world.expect("train", State::Running);
    let view = world.engine.element(world.now, id.element).unwrap();
    assert_eq!(view.tasks[0].stage, TaskStage::Ended);
    world.task(id, 1, code(0));
    world.expect_ended("train", &Outcome::Succeeded);
}

#[test]
fn what_is_held_stays_held_when_a_node_shrinks_or_others_use_it() {
    let mut world = World::new(&[node("n1", 4)]);
    world.submit(job("runs").gpus(4).cpus(100));
    let foreign = muster_model::Foreign {
        devices: muster_model::DeviceSet::first(4),
        cpus: muster_model::CpuMilli(100_000),
        ..Default::default()
    };
    world.step(vec![Event::ForeignUse { node: "n1".into(), foreign }]);
    world.step(vec![Event::NodeJoined(Box::new(node("n1", 2)))]);
    world.expect("runs", State::Running);
    world.submit(job("next").gpus(1));
    world.expect("next", State::Pending);
    world.exit("runs", 0);
    world.expect("next", State::Pending);
    world.step(vec![Event::ForeignUse { node: "n1".into(), foreign: Default::default() }]);
    world.expect("next", State::Running);
}

#[test]
fn a_drained_node_takes_nothing_new_and_keeps_what_runs() {
    let mut world = World::new(&[node("n1", 4)]);
    world.submit(job("runs").gpus(1));
    world.step(vec![Event::NodeDrained { node: "n1".into(), drained: true, reason: "fan".into() }]);
    world.submit(job("waits").gpus(1));
    world.expect("runs", State::Running);
    world.expect("waits", State::Pending);
    world.step(vec![Event::NodeDrained { node: "n1".into(), drained: false, reason: "".into() }]);
    world.expect("waits", State::Running);
    let unknown = Event::NodeDrained { node: "n9".into(), drained: true, reason: "".into() };
    assert_eq!(world.engine.judge(&unknown), Err(Refusal::UnknownNode("n9".into())));
}

#[test]
fn within_a_queue_priority_goes_first_then_the_users_share_then_age() {
    let mut world = World::new(&[node("n1", 1)]);
    // Of the highest priority, so that nobody makes it go.
    world.submit(job("first").gpus(1).priority(7).limit("1h"));
    world.now = world.now + span("1h");
    for (name, user, priority) in
        [("old", "ann", 0), ("fresh", "bob", 0), ("older", "bob", 0), ("urgent", "ann", 7)]
    {
        world.submit(job(name).gpus(1).user(user).priority(priority).limit("1h"));
    }
    // ann has used an hour, bob nothing; bob's second waits for ann's share to be the lower one.
    let mut order = Vec::new();
    for previous in ["first", "urgent", "fresh", "older", "old"] {
        order.push(previous);
        world.now = world.now + span("1h");
        world.exit(previous, 0);
    }
    assert_eq!(order, ["first", "urgent", "fresh", "older", "old"]);
    assert_eq!(world.engine.counts().jobs, 0);
}
