//! Life of jobs: start, restart, cancel, hold, requeue.

use muster_engine::{Engine, EventRefusal};
use muster_model::view::{JobState, TaskStage};
use muster_model::{
    CommandTarget, Effect, ElementId, Event, Observation, Outcome, Rank, Reason, StopCause,
    TaskExit,
};

use crate::cluster::{TestCluster, job, node, span, task_event, text};

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
fn two_competing_gangs_start_one_after_the_other() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("left").tasks(5).gpus(1).limit("20s"));
    cluster.submit(job("right").tasks(5).gpus(1).limit("20s"));
    cluster.submit(job("quick").gpus(1).limit("3s"));
    cluster.expect("left", JobState::Running);
    cluster.expect("right", JobState::Pending);
    cluster.expect("quick", JobState::Running);
    let quick = cluster.engine.element(cluster.now, cluster.element("quick", 0)).unwrap();
    assert!(quick.backfilled);
    let right = cluster.engine.job(cluster.now, cluster.id("right")).unwrap();
    assert_eq!(right.eta, Some(cluster.now + span("20s")));
    cluster.exit("left", 0);
    cluster.expect_ended("left", &Outcome::Succeeded);
    cluster.expect("right", JobState::Running);
}

#[test]
fn a_gang_starts_in_two_phases() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.auto_respond = false;
    cluster.submit(job("gang").tasks(2).gpus(1));
    cluster.expect("gang", JobState::Starting);
    let id = cluster.attempt("gang", 0);
    cluster.task(id, 0, Observation::Prepared);
    cluster.task(id, 0, Observation::Prepared);
    assert!(!cluster.effects.contains(&Effect::Go { id }), "one of two is not ready");
    cluster.task(id, 1, Observation::Prepared);
    assert!(cluster.effects.contains(&Effect::Go { id }));
    assert_eq!(cluster.engine.outstanding(), [Effect::Go { id }]);
    cluster.task(id, 1, Observation::Started);
    cluster.expect("gang", JobState::Starting);
    cluster.task(id, 0, Observation::Started);
    cluster.expect("gang", JobState::Running);
    assert_eq!(cluster.engine.outstanding(), []);
    // A rank that ends early with success just ends; the others continue.
    cluster.task(id, 0, code(0));
    cluster.expect("gang", JobState::Running);
    assert_eq!(cluster.engine.expected_tasks(), [(id, Rank(1), "n1".into())]);
    cluster.task(id, 1, code(0));
    cluster.expect_ended("gang", &Outcome::Succeeded);
    assert_eq!(cluster.effects.last(), Some(&Effect::Forget { id }));
}

#[test]
fn a_single_task_that_runs_gets_no_order_to_run() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.auto_respond = false;
    cluster.submit(job("one").gpus(1));
    let id = cluster.attempt("one", 0);
    cluster.task(id, 0, Observation::Started);
    cluster.expect("one", JobState::Running);
    cluster.task(id, 0, code(0));
    cluster.expect_ended("one", &Outcome::Succeeded);
    let kinds = cluster.effects.iter().filter(|effect| matches!(effect, Effect::Go { .. }));
    assert_eq!(kinds.count(), 0, "{:?}", cluster.effects);
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
        let mut cluster = TestCluster::new(&[node("n1", 8)]);
        cluster.submit(job("gang").tasks(3).gpus(1));
        cluster.auto_respond = false;
        let id = cluster.attempt("gang", 0);
        cluster.task(id, 1, what);
        cluster.expect("gang", JobState::Stopping);
        assert!(cluster.effects.contains(&Effect::Stop { id, cause: StopCause::GangFailed }));
        assert_eq!(
            cluster.engine.nodes()[0].devices.iter().filter(|device| device.used.0 > 0).count(),
            3
        );
        cluster.task(id, 0, code(7));
        cluster.task(id, 2, Observation::Exited(TaskExit::Stopped));
        cluster.expect_ended("gang", &expected);
    }
}

#[test]
fn a_failing_gang_restarts_with_doubling_back_off_until_its_restarts_are_used_up() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("train").tasks(2).gpus(1).restarts(2, "10s"));
    for (attempt, wait) in [(1, "10s"), (2, "20s")] {
        assert_eq!(cluster.attempt("train", 0).attempt.0, attempt);
        cluster.exit("train", 1);
        cluster.expect("train", JobState::Pending);
        assert_eq!(cluster.engine.next_wake(), Some(cluster.now + span(wait)));
        cluster.advance("1s");
        cluster.expect("train", JobState::Pending);
        cluster.advance(wait);
        cluster.expect("train", JobState::Running);
    }
    cluster.exit("train", 1);
    cluster.expect_ended("train", &Outcome::Failed { rank: Rank(0), code: 1 });
}

#[test]
fn a_time_out_is_never_restarted() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("train").gpus(1).restarts(5, "1s"));
    let id = cluster.attempt("train", 0);
    cluster.task(id, 0, Observation::Exited(TaskExit::TimedOut));
    cluster.expect_ended("train", &Outcome::TimedOut);
}

#[test]
fn a_failed_start_is_tried_again_even_without_a_restart_policy() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.auto_respond = false;
    cluster.submit(job("train").gpus(1));
    for attempt in 1..=4 {
        let id = cluster.attempt("train", 0);
        assert_eq!(id.attempt.0, attempt);
        cluster.task(id, 0, refused());
        if attempt < 4 {
            cluster.expect("train", JobState::Pending);
            cluster.advance("10s");
        }
    }
    cluster
        .expect_ended("train", &Outcome::StartFailed { rank: Rank(0), reason: "no cgroup".into() });
}

#[test]
fn a_node_that_refused_is_avoided_only_while_others_can_host_the_job() {
    let mut cluster = TestCluster::new(&[node("a", 4), node("b", 4)]);
    cluster.auto_respond = false;
    cluster.submit(job("one").gpus(1));
    assert_eq!(cluster.places("one")[0].0.as_str(), "a");
    let id = cluster.attempt("one", 0);
    cluster.task(id, 0, refused());
    cluster.advance("1s");
    assert_eq!(cluster.places("one")[0].0.as_str(), "b", "the other node is tried");
    let id = cluster.attempt("one", 0);
    cluster.task(id, 0, refused());
    cluster.advance("10s");
    assert_eq!(cluster.attempt("one", 0).attempt.0, 3, "with both refused, neither is excluded");
    // A gang that needs both nodes is placed again although one refused.
    cluster.cancel("one");
    let id = cluster.attempt("one", 0);
    cluster.task(id, 0, Observation::Exited(TaskExit::Stopped));
    cluster.submit(job("both").tasks(2).gpus(4));
    let id = cluster.attempt("both", 0);
    cluster.task(id, 0, refused());
    cluster.task(id, 1, Observation::Exited(TaskExit::Stopped));
    cluster.advance("1s");
    cluster.expect("both", JobState::Starting);
}

#[test]
fn a_lost_node_stops_its_gangs() {
    let mut cluster = TestCluster::new(&[node("a", 4), node("b", 4)]);
    cluster.submit(job("again").tasks(2).per_node(1).gpus(4).restarts(1, "1s"));
    cluster.auto_respond = false;
    let id = cluster.attempt("again", 0);
    cluster.step(vec![Event::NodeLost { node: "a".into(), reason: "no heartbeat".into() }]);
    assert!(cluster.effects.contains(&Effect::Stop { id, cause: StopCause::GangFailed }));
    cluster.expect("again", JobState::Stopping);
    cluster.task(id, 1, Observation::Exited(TaskExit::Stopped));
    cluster.advance("1s");
    cluster.expect("again", JobState::Pending);
    cluster.step(vec![Event::NodeJoined(Box::new(node("a", 4)))]);
    cluster.expect("again", JobState::Starting);
    assert_eq!(cluster.attempt("again", 0).attempt.0, 2);
    // Late reports about the first attempt change nothing.
    cluster.task(id, 0, code(1));
    cluster.expect("again", JobState::Starting);
}

#[test]
fn cancel_works_at_every_state() {
    let cancelled = Outcome::Cancelled { by: "ann".into() };
    // Waiting: at once.
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("runs").gpus(2));
    cluster.submit(job("waits").gpus(2));
    cluster.cancel("waits");
    cluster.expect_ended("waits", &cancelled);
    // Running: when every task has ended, and never restarted.
    cluster.auto_respond = false;
    let id = cluster.attempt("runs", 0);
    cluster.cancel("runs");
    cluster.cancel("runs");
    cluster.expect("runs", JobState::Stopping);
    let stops =
        cluster.effects.iter().filter(|effect| matches!(effect, Effect::Stop { .. })).count();
    assert_eq!(stops, 1);
    cluster.task(id, 0, Observation::Exited(TaskExit::Stopped));
    cluster.expect_ended("runs", &cancelled);
    // Starting: prepared tasks are dropped.
    cluster.submit(job("starts").tasks(2).gpus(1).restarts(9, "1s"));
    let id = cluster.attempt("starts", 0);
    cluster.task(id, 0, Observation::Prepared);
    cluster.cancel("starts");
    cluster.task(id, 1, refused());
    cluster.task(id, 0, Observation::Exited(TaskExit::Stopped));
    cluster.expect_ended("starts", &cancelled);
    // Stopping after a failure: the cancellation overrides the restart.
    cluster.submit(job("fails").tasks(2).gpus(1).restarts(9, "1s"));
    let id = cluster.attempt("fails", 0);
    cluster.task(id, 0, Observation::Started);
    cluster.task(id, 0, code(1));
    cluster.cancel("fails");
    cluster.task(id, 1, Observation::Exited(TaskExit::Stopped));
    cluster.expect_ended("fails", &cancelled);
    // Waiting for its back-off.
    cluster.auto_respond = true;
    cluster.submit(job("backs-off").gpus(1).restarts(9, "1h"));
    cluster.exit("backs-off", 1);
    cluster.cancel("backs-off");
    cluster.expect_ended("backs-off", &cancelled);
    // An ended job cannot be cancelled.
    let event = Event::Cancel { target: cluster.target("runs"), by: "ann".into() };
    assert_eq!(cluster.engine.validate(&event), Err(EventRefusal::UnknownJob(cluster.id("runs"))));
}

#[test]
fn a_hold_keeps_waiting_jobs_from_starting_until_release() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("held").gpus(1).held());
    cluster.expect("held", JobState::Held);
    cluster.step(vec![Event::Release(cluster.target("held"))]);
    cluster.expect("held", JobState::Running);
    let single = CommandTarget { index: Some(0), ..cluster.target("held") };
    assert!(matches!(
        cluster.engine.validate(&Event::Hold(single)),
        Err(EventRefusal::NotWaiting(_))
    ));
    cluster.submit(job("second").gpus(2));
    cluster.step(vec![Event::Hold(cluster.target("second"))]);
    cluster.exit("held", 0);
    cluster.expect("second", JobState::Held);
    cluster.step(vec![Event::Release(cluster.target("second"))]);
    cluster.expect("second", JobState::Running);
    // A hold on a running job keeps it from restarting.
    cluster.submit(job("third").gpus(2).restarts(3, "1s"));
    cluster.exit("second", 0);
    cluster.step(vec![Event::Hold(cluster.target("third"))]);
    cluster.exit("third", 1);
    cluster.advance("1h");
    cluster.expect("third", JobState::Held);
}

/// As in Slurm: a user cannot release the hold of an administrator.
#[test]
fn an_administrators_hold_is_released_only_by_an_administrator() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("waits").gpus(2).held());
    cluster.submit(job("free").gpus(2).held());
    let waits = cluster.target("waits");
    let free = cluster.target("free");
    let hold = |target| Event::AdminHold { target, by: "root".into() };
    let lift = |target| Event::AdminRelease { target, by: "root".into() };
    let refusal = |target| Err(EventRefusal::HeldByAdmin { target, by: "root".into() });
    let reasons = |cluster: &mut TestCluster, target: CommandTarget| {
        let element = ElementId { job: target.job, index: 0 };
        cluster.engine.explain(cluster.now, element).unwrap().reasons
    };
    assert_eq!(reasons(&mut cluster, waits), [Reason::Held]);
    cluster.step(vec![hold(waits)]);
    assert_eq!(reasons(&mut cluster, waits), [Reason::HeldByAdmin { by: "root".into() }]);
    for target in [waits, CommandTarget { index: Some(0), ..waits }] {
        assert_eq!(cluster.engine.validate(&Event::Release(target)), refusal(target));
    }
    // It is durable, and a state without one is serialised as before.
    let stored = text(&cluster.engine.snapshot());
    let restored = Engine::restore(serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(restored.validate(&Event::Release(waits)), refusal(waits));
    assert_eq!(text(&cluster.replayed(muster_model::QueueTree::single()).snapshot()), stored);
    assert_eq!(stored.matches("admin").count(), 1, "{stored}");
    // The user's hold from before stays.
    cluster.step(vec![lift(waits)]);
    assert_eq!(reasons(&mut cluster, waits), [Reason::Held]);
    cluster.step(vec![Event::Release(waits)]);
    cluster.expect("waits", JobState::Running);
    // A hold by the user below that of an administrator; a running job keeps the hold when it waits
    // again.
    cluster.step(vec![hold(waits), Event::Requeue(waits)]);
    cluster.exit("waits", 0);
    cluster.expect("waits", JobState::Held);
    assert_eq!(cluster.engine.validate(&Event::Release(waits)), refusal(waits));
    cluster.step(vec![Event::Hold(waits), lift(waits)]);
    assert_eq!(reasons(&mut cluster, waits), [Reason::Held]);
    // An administrator releases the hold of a user.
    cluster.step(vec![lift(free)]);
    cluster.expect("free", JobState::Running);
}

#[test]
fn an_administrator_holds_one_element_and_the_user_releases_the_others() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("sweep").gpus(1).array(0, 3, None).held());
    let sweep = cluster.target("sweep");
    let one = |index| CommandTarget { index: Some(index), ..sweep };
    cluster.step(vec![Event::AdminHold { target: one(0), by: "root".into() }]);
    cluster.step(vec![Event::Release(sweep)]);
    let state = |cluster: &TestCluster, index| {
        cluster
            .engine
            .element(cluster.now, ElementId { job: sweep.job, index })
            .map(|element| element.state)
    };
    assert_eq!(
        [0, 1, 2].map(|index| state(&cluster, index)),
        [JobState::Held, JobState::Running, JobState::Running].map(Some)
    );
    assert!(cluster.engine.validate(&Event::Release(one(0))).is_err());
    assert!(cluster.engine.validate(&Event::Release(one(3))).is_ok());
}

#[test]
fn requeue_runs_it_again_without_using_up_a_restart() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("train").gpus(2).restarts(1, "1s"));
    cluster.step(vec![Event::Requeue(cluster.target("train"))]);
    cluster.expect("train", JobState::Running);
    assert_eq!(cluster.attempt("train", 0).attempt.0, 2);
    cluster.exit("train", 1);
    cluster.advance("1s");
    assert_eq!(cluster.attempt("train", 0).attempt.0, 3);
    cluster.exit("train", 1);
    cluster.expect_ended("train", &Outcome::Failed { rank: Rank(0), code: 1 });
}

#[test]
fn requeue_ends_a_back_off_but_no_hold_and_no_begin_time() {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    // One element, and one of an array.
    cluster.submit(job("train").gpus(1).restarts(9, "1h"));
    cluster.submit(job("sweep").gpus(1).restarts(9, "1h").array(0, 1, None));
    cluster.exit("train", 1);
    cluster.exits("sweep", 1, 1);
    cluster.expect("train", JobState::Pending);
    assert!(cluster.engine.next_wake().is_some());
    cluster.step(vec![Event::Requeue(cluster.target("train"))]);
    cluster.expect("train", JobState::Running);
    let single = CommandTarget { index: Some(1), ..cluster.target("sweep") };
    cluster.step(vec![Event::Requeue(single)]);
    assert_eq!(cluster.state_of("sweep", 1), JobState::Running);
    assert_eq!(cluster.engine.next_wake(), None);
    // A requeue does not end a hold.
    cluster.exit("train", 1);
    cluster.step(vec![Event::Hold(cluster.target("train"))]);
    cluster.step(vec![Event::Requeue(cluster.target("train"))]);
    cluster.expect("train", JobState::Held);
    cluster.step(vec![Event::Release(cluster.target("train"))]);
    cluster.expect("train", JobState::Running);
    // Nor does it end a begin time.
    let begin = cluster.now + span("1h");
    cluster.submit(job("later").gpus(1).begin(begin));
    cluster.step(vec![Event::Requeue(cluster.target("later"))]);
    cluster.expect("later", JobState::Pending);
}

/// Applies overdue events; returns their number.
fn time_out(cluster: &mut TestCluster) -> usize {
    let events = cluster.engine.due_events(cluster.now);
    let count = events.len();
    cluster.step(events);
    count
}

#[test]
fn a_gang_that_is_not_ready_in_time_is_started_elsewhere() {
    let mut cluster = TestCluster::new(&[node("a", 2), node("b", 2)]);
    cluster.engine.set_start_limit(cluster.now, span("2m"));
    cluster.auto_respond = false;
    cluster.submit(job("train").tasks(2).gpus(1).limit("1h"));
    let first = cluster.attempt("train", 0);
    cluster.task(first, 0, Observation::Prepared);
    assert_eq!(cluster.engine.next_wake(), Some(cluster.now + span("2m")));
    cluster.now = cluster.now + span("119999ms");
    assert_eq!(time_out(&mut cluster), 0);
    cluster.now = cluster.now + span("1ms");
    assert_eq!(time_out(&mut cluster), 1);
    cluster.expect("train", JobState::Stopping);
    assert!(cluster.effects.contains(&Effect::Stop { id: first, cause: StopCause::GangFailed }));
    // Both respond, late: it was a failed start, on a bad node.
    for rank in [0, 1] {
        cluster.task(first, rank, Observation::Exited(TaskExit::Stopped));
    }
    cluster.advance("1h");
    let second = cluster.attempt("train", 0);
    assert_eq!(second.attempt.0, 2);
    assert_eq!(cluster.places("train")[0].0, "b".into());
    // A report in time ends the wait, and so does the end of the attempt.
    for rank in [0, 1] {
        cluster.task(second, rank, Observation::Started);
    }
    assert_eq!(cluster.engine.next_wake(), None);
    cluster.now = cluster.now + span("30m");
    assert_eq!(time_out(&mut cluster), 0);
    // An old timeout does not affect a newer attempt, or one that runs.
    for id in [first, second] {
        cluster.step(vec![Event::StartOverdue { id, after: span("2m") }]);
    }
    cluster.expect("train", JobState::Running);
}

#[test]
fn a_task_that_never_reports_is_given_up_and_its_gpus_are_released() {
    let mut cluster = TestCluster::new(&[node("a", 2)]);
    cluster.auto_respond = false;
    cluster.submit(job("train").tasks(2).gpus(1).grace("10s").limit("1h"));
    // The limit counts from the call of `watch_starts`, as after a restart.
    cluster.advance("1h");
    let stored = serde_json::to_string(&cluster.engine.snapshot()).unwrap();
    cluster.engine =
        muster_engine::Engine::restore(serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(cluster.engine.next_wake(), None);
    cluster.engine.set_start_limit(cluster.now, span("2m"));
    assert_eq!(cluster.engine.next_wake(), Some(cluster.now + span("2m")));
    let mut refusals = 0;
    for attempt in 1..=4 {
        let id = cluster.attempt("train", 0);
        assert_eq!(id.attempt.0, attempt);
        cluster.now = cluster.now + span("2m");
        assert_eq!(time_out(&mut cluster), 1);
        cluster.task(id, 0, refused());
        // Rank 1 does not respond to the stop, either. Its last moment passes, and then the limit
        // again.
        cluster.expect("train", JobState::Stopping);
        assert_eq!(cluster.engine.next_wake(), Some(cluster.now + span("130s")));
        cluster.now = cluster.now + span("130s");
        assert_eq!(time_out(&mut cluster), 1);
        refusals += 1;
        if cluster.engine.job(cluster.now, cluster.id("train")).is_some() {
            cluster.expect("train", JobState::Pending);
            cluster.advance("10m");
        }
    }
    assert_eq!(refusals, 4);
    let outcome = cluster.outcome("train", 0);
    assert!(matches!(outcome, Some(Outcome::StartFailed { rank: Rank(0), .. })), "{outcome:?}");
    assert_eq!((cluster.engine.next_wake(), cluster.engine.counts().active), (None, 0));
    // Replay needs no limit: timeouts are in the journal.
    let replayed = cluster.replayed(muster_model::QueueTree::single());
    assert_eq!(
        crate::cluster::text(&replayed.snapshot()),
        crate::cluster::text(&cluster.engine.snapshot())
    );
}

#[test]
fn repeated_and_stale_reports_change_nothing() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.auto_respond = false;
    cluster.submit(job("train").tasks(2).gpus(1).restarts(1, "1s"));
    let id = cluster.attempt("train", 0);
    for _ in 0..2 {
        cluster.task(id, 0, Observation::Started);
        cluster.task(id, 0, Observation::Prepared);
    }
    let before = crate::cluster::text(&cluster.engine.snapshot());
    let mut stale = id;
    stale.attempt.0 += 1;
    for event in [
        task_event(id, 0, Observation::Started),
        task_event(id, 9, code(1)),
        task_event(stale, 0, code(1)),
        Event::ForeignUse { node: "n1".into(), foreign: Default::default() },
    ] {
        cluster.step(vec![event]);
        assert_eq!(crate::cluster::text(&cluster.engine.snapshot()), before);
    }
}

#[test]
fn a_later_stage_implies_the_earlier_ones() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.auto_respond = false;
    cluster.submit(job("train").tasks(2).gpus(1));
    let id = cluster.attempt("train", 0);
    cluster.task(id, 0, code(0));
    cluster.task(id, 1, Observation::Started);
    cluster.expect("train", JobState::Running);
    let view = cluster.engine.element(cluster.now, id.element).unwrap();
    assert_eq!(view.tasks[0].stage, TaskStage::Ended);
    cluster.task(id, 1, code(0));
    cluster.expect_ended("train", &Outcome::Succeeded);
}

#[test]
fn holdings_stay_when_a_node_shrinks_or_is_used_outside_muster() {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.submit(job("runs").gpus(4).cpus(100));
    let foreign = muster_model::Foreign {
        devices: muster_model::DeviceSet::first(4),
        cpus: muster_model::CpuMilli(100_000),
        ..Default::default()
    };
    cluster.step(vec![Event::ForeignUse { node: "n1".into(), foreign }]);
    cluster.step(vec![Event::NodeJoined(Box::new(node("n1", 2)))]);
    cluster.expect("runs", JobState::Running);
    cluster.submit(job("next").gpus(1));
    cluster.expect("next", JobState::Pending);
    cluster.exit("runs", 0);
    cluster.expect("next", JobState::Pending);
    cluster.step(vec![Event::ForeignUse { node: "n1".into(), foreign: Default::default() }]);
    cluster.expect("next", JobState::Running);
}

#[test]
fn a_drained_node_gets_no_new_jobs_and_keeps_running_ones() {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.submit(job("runs").gpus(1));
    cluster.step(vec![Event::NodeDrained {
        node: "n1".into(),
        drained: true,
        reason: "fan".into(),
    }]);
    cluster.submit(job("waits").gpus(1));
    cluster.expect("runs", JobState::Running);
    cluster.expect("waits", JobState::Pending);
    cluster.step(vec![Event::NodeDrained { node: "n1".into(), drained: false, reason: "".into() }]);
    cluster.expect("waits", JobState::Running);
    let unknown = Event::NodeDrained { node: "n9".into(), drained: true, reason: "".into() };
    assert_eq!(cluster.engine.validate(&unknown), Err(EventRefusal::UnknownNode("n9".into())));
}

#[test]
fn within_a_queue_priority_goes_first_then_the_users_share_then_age() {
    let mut cluster = TestCluster::new(&[node("n1", 1)]);
    // Of the highest priority, so that it is not preempted.
    cluster.submit(job("first").gpus(1).priority(7).limit("1h"));
    cluster.now = cluster.now + span("1h");
    for (name, user, priority) in
        [("old", "ann", 0), ("fresh", "bob", 0), ("older", "bob", 0), ("urgent", "ann", 7)]
    {
        cluster.submit(job(name).gpus(1).user(user).priority(priority).limit("1h"));
    }
    // ann has used an hour, bob nothing; bob's second job waits until ann's share is the lower one.
    let mut order = Vec::new();
    for previous in ["first", "urgent", "fresh", "older", "old"] {
        order.push(previous);
        cluster.now = cluster.now + span("1h");
        cluster.exit(previous, 0);
    }
    assert_eq!(order, ["first", "urgent", "fresh", "older", "old"]);
    assert_eq!(cluster.engine.counts().jobs, 0);
}
