//! Jobs that end while they are being evicted, or after the warning before their time limit: none
//! fails because of that.

use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::view::JobState;
use muster_model::{
    AttemptId, Checkpoint, Observation, Outcome, Rank, Span, TaskCheckpoint, TaskExit,
    TaskSignalled,
};

use crate::cluster::{TestCluster, job, node, span, task_event};
use crate::preempt::evicting;

const TERMS: Checkpoint = Checkpoint {
    signal: 10,
    lead: Span::from_secs(60),
    by: CheckpointBy::First,
    then: AfterCheckpoint::Continue,
    to: muster_model::CheckpointTo::Handlers,
};

fn code(code: i32) -> Observation {
    Observation::Exited(TaskExit::Code { code })
}

fn signalled(request: u32, warned: bool, reached: u32) -> Observation {
    Observation::Signalled(TaskSignalled { request, warned, reached })
}

impl TestCluster {
    fn last_end(&self, name: &str) -> Option<Outcome> {
        self.engine.element(self.now, self.element(name, 0)).unwrap().last_end
    }

    fn undelivered(&self, name: &str) -> u32 {
        self.engine
            .element(self.now, self.element(name, 0))
            .unwrap()
            .checkpoint_asked
            .unwrap()
            .undelivered
    }
}

#[test]
fn a_job_that_fails_while_it_is_evicted_is_requeued() {
    let lost = Observation::Lost { reason: "its supervisor was killed".into() };
    for (end, expected) in [
        (
            Observation::Exited(TaskExit::Signal { signal: 10 }),
            Some(Outcome::Signaled { rank: Rank(0), signal: 10 }),
        ),
        (code(1), Some(Outcome::Failed { rank: Rank(0), code: 1 })),
        (Observation::Exited(TaskExit::OutOfMemory), Some(Outcome::OutOfMemory { rank: Rank(0) })),
        (Observation::Exited(TaskExit::TimedOut), Some(Outcome::TimedOut)),
        (lost, None),
    ] {
        let (mut cluster, low) = evicting(Some(TERMS));
        cluster.auto_respond = true;
        cluster.step(vec![task_event(low, 0, end.clone())]);
        cluster.expect("low", JobState::Pending);
        cluster.expect("urgent", JobState::Running);
        assert_eq!(cluster.last_end("low"), expected, "{end:?}");
        cluster.exit("urgent", 0);
        cluster.expect("low", JobState::Running);
        assert_eq!(
            cluster.attempt("low", 0).attempt.0,
            2,
            "at once: it does not count as a restart"
        );
        cluster.exit("low", 0);
        cluster.expect_ended("low", &Outcome::Succeeded);
    }
}

#[test]
fn exit_0_is_success_only_if_no_process_got_the_request() {
    for (heard, state) in [
        (None, None),
        (Some(signalled(1, false, 0)), None),
        (Some(signalled(1, false, 2)), Some(JobState::Pending)),
    ] {
        let (mut cluster, low) = evicting(Some(TERMS));
        cluster.auto_respond = true;
        cluster.step(heard.iter().map(|heard| task_event(low, 0, heard.clone())).collect());
        cluster.step(vec![task_event(low, 0, code(0))]);
        match state {
            Some(state) => cluster.expect("low", state),
            None => cluster.expect_ended("low", &Outcome::Succeeded),
        }
        cluster.expect("urgent", JobState::Running);
    }
}

#[test]
fn an_earlier_checkpoint_request_is_not_an_eviction() {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.submit(job("low").gpus(4).with(|spec| spec.checkpoint = Some(TERMS)));
    let low = cluster.attempt("low", 0);
    let target = cluster.target("low");
    cluster.step(vec![muster_model::Event::Checkpoint(target)]);
    cluster.task(low, 0, signalled(1, false, 1));
    let saved =
        TaskCheckpoint { count: 1, answers: 1, warned: false, at: cluster.now, label: "".into() };
    cluster.task(low, 0, Observation::Checkpointed(saved));
    cluster.submit(job("urgent").gpus(4).priority(1));
    cluster.step(vec![task_event(low, 0, code(0))]);
    cluster.expect_ended("low", &Outcome::Succeeded);
}

#[test]
fn a_job_stopped_for_being_idle_ends_even_while_it_is_evicted() {
    let (mut cluster, low) = evicting(Some(TERMS));
    cluster.auto_respond = true;
    let idle = TaskExit::Idle { after: span("5m") };
    cluster.step(vec![task_event(low, 0, Observation::Exited(idle))]);
    cluster.expect_ended("low", &Outcome::Idle { after: span("5m") });
}

#[test]
fn a_request_without_a_handler_is_shown_as_undelivered() {
    let (mut cluster, low) = evicting(Some(TERMS));
    assert_eq!(cluster.undelivered("low"), 0, "nothing is known yet");
    cluster.task(low, 0, signalled(1, false, 0));
    assert_eq!(cluster.undelivered("low"), 1);
    let evictions =
        cluster.engine.explain(cluster.now, cluster.element("urgent", 0)).unwrap().evictions;
    assert!(evictions[0].undelivered, "{evictions:?}");
    cluster.task(low, 0, signalled(1, false, 1));
    assert_eq!(cluster.undelivered("low"), 0);
    cluster.expect("low", JobState::Running);
}

/// Returns a gang that is requeued at its time limit, after the warning.
fn warned(saved: bool) -> (TestCluster, AttemptId) {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    let terms = Checkpoint { then: AfterCheckpoint::Requeue, ..TERMS };
    cluster.submit(
        job("turns").tasks(2).gpus(1).limit("1h").with(|spec| spec.checkpoint = Some(terms)),
    );
    let id = cluster.attempt("turns", 0);
    cluster.advance("30m");
    if saved {
        let checkpoint = TaskCheckpoint {
            count: 1,
            answers: 0,
            warned: false,
            at: cluster.now,
            label: "".into(),
        };
        cluster.task(id, 0, Observation::Checkpointed(checkpoint));
    }
    cluster.task(id, 1, signalled(0, true, 1));
    (cluster, id)
}

#[test]
fn a_job_that_saves_and_fails_after_the_warning_is_requeued() {
    let died = Observation::Exited(TaskExit::Signal { signal: 10 });
    let (mut cluster, id) = warned(true);
    for turn in 2..20 {
        let id = AttemptId { attempt: muster_model::Attempt(turn - 1), ..id };
        if turn > 2 {
            let checkpoint = TaskCheckpoint {
                count: 1,
                answers: 0,
                warned: false,
                at: cluster.now,
                label: "".into(),
            };
            cluster.task(id, 0, Observation::Checkpointed(checkpoint));
            cluster.task(id, 0, signalled(0, true, 1));
        }
        cluster.task(id, 0, died.clone());
        assert_eq!(
            cluster.attempt("turns", 0).attempt.0,
            turn,
            "what saves gets on, however often it dies"
        );
    }
}

#[test]
fn a_job_that_never_saves_and_fails_after_each_warning_ends() {
    let died = Observation::Exited(TaskExit::Signal { signal: 10 });
    let (mut cluster, first) = warned(false);
    for turn in 1..=3 {
        let id = AttemptId { attempt: muster_model::Attempt(turn), ..first };
        cluster.task(id, 0, signalled(0, true, 1));
        cluster.task(id, 0, died.clone());
        cluster.expect("turns", JobState::Pending);
        cluster.advance("1h");
        cluster.expect("turns", JobState::Running);
    }
    let id = AttemptId { attempt: muster_model::Attempt(4), ..first };
    cluster.task(id, 0, signalled(0, true, 1));
    cluster.task(id, 0, died);
    cluster.expect_ended("turns", &Outcome::Signaled { rank: Rank(0), signal: 10 });
}

#[test]
fn a_requeued_job_ends_when_it_exits_with_0_or_reaches_its_limit() {
    let (mut cluster, _) = warned(true);
    cluster.exit("turns", 0);
    cluster.expect_ended("turns", &Outcome::Succeeded);
    let (mut cluster, id) = warned(true);
    cluster.task(id, 0, Observation::Exited(TaskExit::TimedOut));
    cluster.expect_ended("turns", &Outcome::TimedOut);
}

#[test]
fn an_impossible_start_is_not_retried() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.auto_respond = false;
    cluster.submit(job("typo").tasks(2).gpus(1).restarts(5, "1s"));
    let id = cluster.attempt("typo", 0);
    cluster.auto_respond = true;
    let reason = "pyhton: not found in PATH";
    cluster.task(id, 1, Observation::Impossible { reason: reason.into() });
    cluster.expect_ended("typo", &Outcome::StartFailed { rank: Rank(1), reason: reason.into() });
}
