//! Jobs that leave all their GPUs idle, where their queue stops them.

use muster_model::queue::IdleAction;
use muster_model::view::JobState;
use muster_model::{AttemptId, Effect, Event, Outcome, StopCause};

use crate::cluster::{TestCluster, job, node, span};

fn idle(id: AttemptId, action: IdleAction) -> Event {
    Event::GpusIdle {
        id,
        queue: "default".into(),
        gpus: 2,
        below_percent: 5,
        after: span("30m"),
        action,
    }
}

fn outcome() -> Outcome {
    Outcome::IdleGpus { queue: "default".into(), gpus: 2, below_percent: 5, after: span("30m") }
}

#[test]
fn an_idle_job_is_cancelled_with_its_reason() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("idle").gpus(2).restarts(9, "1s"));
    let id = cluster.attempt("idle", 0);
    cluster.step(vec![idle(id, IdleAction::Notify)]);
    cluster.expect("idle", JobState::Running);
    cluster.step(vec![idle(id, IdleAction::Cancel)]);
    cluster.expect_ended("idle", &outcome());
    let text = "ended by queue default: its 2 GPUs were under 5 % busy for 30m";
    assert_eq!(outcome().to_string(), text);
    assert_eq!((outcome().is_success(), outcome().exit_code()), (false, 125));
}

#[test]
fn a_requeued_job_waits_as_long_as_it_was_idle() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("idle").gpus(2));
    cluster.submit(job("next").gpus(2));
    cluster.expect("next", JobState::Pending);
    let id = cluster.attempt("idle", 0);
    cluster.step(vec![idle(id, IdleAction::Requeue)]);
    // It is older, and still the other one gets the GPUs.
    cluster.expect("next", JobState::Running);
    let view = cluster.engine.element(cluster.now, cluster.element("idle", 0)).unwrap();
    assert_eq!((view.state, view.last_end), (JobState::Pending, Some(outcome())));
    cluster.exit("next", 0);
    cluster.expect("idle", JobState::Pending);
    cluster.advance("29m");
    cluster.expect("idle", JobState::Pending);
    cluster.advance("1m");
    cluster.expect("idle", JobState::Running);
    assert_eq!(cluster.attempt("idle", 0).attempt.0, 2);
}

#[test]
fn neither_an_earlier_attempt_nor_one_that_ends_already_is_stopped() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("idle").gpus(2));
    let first = cluster.attempt("idle", 0);
    cluster.step(vec![Event::Requeue(cluster.target("idle"))]);
    cluster.step(vec![idle(first, IdleAction::Cancel)]);
    cluster.expect("idle", JobState::Running);
    // A requeue of its user counts more.
    cluster.auto_respond = false;
    let second = cluster.attempt("idle", 0);
    cluster.step(vec![Event::Requeue(cluster.target("idle"))]);
    cluster.step(vec![idle(second, IdleAction::Cancel)]);
    let stop = Effect::Stop { id: second, cause: StopCause::Requeued };
    assert_eq!(cluster.engine.outstanding(), [stop]);
}
