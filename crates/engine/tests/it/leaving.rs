//! Jobs that end while they are asked to make room, or to save before their limit: none fails for
//! having been asked.

use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::view::State;
use muster_model::{
    AttemptId, Checkpoint, Observation, Outcome, Rank, Span, TaskCheckpoint, TaskExit,
    TaskSignalled,
};

use crate::preempt::leaving;
use crate::world::{World, job, node, says, span};

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

impl World {
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
fn a_job_that_dies_while_it_is_asked_to_make_room_waits_again() {
    let lost = Observation::Lost { reason: "its supervisor was killed".into() };
    for (end, told) in [
        (
            Observation::Exited(TaskExit::Signal { signal: 10 }),
            Some(Outcome::Signaled { rank: Rank(0), signal: 10 }),
        ),
        (code(1), Some(Outcome::Failed { rank: Rank(0), code: 1 })),
        (Observation::Exited(TaskExit::OutOfMemory), Some(Outcome::OutOfMemory { rank: Rank(0) })),
        (Observation::Exited(TaskExit::TimedOut), Some(Outcome::TimedOut)),
        (lost, None),
    ] {
        let (mut world, low) = leaving(Some(TERMS));
        world.obliging = true;
        world.step(vec![says(low, 0, end.clone())]);
        world.expect("low", State::Pending);
        world.expect("urgent", State::Running);
        assert_eq!(world.last_end("low"), told, "{end:?}");
        world.exit("urgent", 0);
        world.expect("low", State::Running);
        assert_eq!(world.attempt("low", 0).attempt.0, 2, "at once: it does not count as a restart");
        world.exit("low", 0);
        world.expect_ended("low", &Outcome::Succeeded);
    }
}

#[test]
fn exit_0_is_done_only_where_no_process_of_the_job_knew_of_the_request() {
    for (heard, state) in [
        (None, None),
        (Some(signalled(1, false, 0)), None),
        (Some(signalled(1, false, 2)), Some(State::Pending)),
    ] {
        let (mut world, low) = leaving(Some(TERMS));
        world.obliging = true;
        world.step(heard.iter().map(|heard| says(low, 0, heard.clone())).collect());
        world.step(vec![says(low, 0, code(0))]);
        match state {
            Some(state) => world.expect("low", state),
            None => world.expect_ended("low", &Outcome::Succeeded),
        }
        world.expect("urgent", State::Running);
    }
}

#[test]
fn an_earlier_request_is_not_the_one_to_make_room() {
    let mut world = World::new(&[node("n1", 4)]);
    world.submit(job("low").gpus(4).with(|spec| spec.checkpoint = Some(TERMS)));
    let low = world.attempt("low", 0);
    let target = world.target("low");
    world.step(vec![muster_model::Event::Checkpoint(target)]);
    world.task(low, 0, signalled(1, false, 1));
    let saved =
        TaskCheckpoint { count: 1, answers: 1, warned: false, at: world.now, label: "".into() };
    world.task(low, 0, Observation::Checkpointed(saved));
    world.submit(job("urgent").gpus(4).priority(1));
    world.step(vec![says(low, 0, code(0))]);
    world.expect_ended("low", &Outcome::Succeeded);
}

#[test]
fn a_job_stopped_for_being_idle_is_over_also_while_it_is_asked_to_make_room() {
    let (mut world, low) = leaving(Some(TERMS));
    world.obliging = true;
    let idle = TaskExit::Idle { after: span("5m") };
    world.step(vec![says(low, 0, Observation::Exited(idle))]);
    world.expect_ended("low", &Outcome::Idle { after: span("5m") });
}

#[test]
fn a_request_that_finds_no_handler_is_told_until_it_does() {
    let (mut world, low) = leaving(Some(TERMS));
    assert_eq!(world.undelivered("low"), 0, "nothing is known yet");
    world.task(low, 0, signalled(1, false, 0));
    assert_eq!(world.undelivered("low"), 1);
    let leaving = world.engine.explain(world.now, world.element("urgent", 0)).unwrap().leaving;
    assert!(leaving[0].undelivered, "{leaving:?}");
    world.task(low, 0, signalled(1, false, 1));
    assert_eq!(world.undelivered("low"), 0);
    world.expect("low", State::Running);
}

/// A gang that takes turns, warned of its limit.
fn warned(saved: bool) -> (World, AttemptId) {
    let mut world = World::new(&[node("n1", 2)]);
    let terms = Checkpoint { then: AfterCheckpoint::Requeue, ..TERMS };
    world.submit(
        job("turns").tasks(2).gpus(1).limit("1h").with(|spec| spec.checkpoint = Some(terms)),
    );
    let id = world.attempt("turns", 0);
    world.advance("30m");
    if saved {
        let told =
            TaskCheckpoint { count: 1, answers: 0, warned: false, at: world.now, label: "".into() };
        world.task(id, 0, Observation::Checkpointed(told));
    }
    world.task(id, 1, signalled(0, true, 1));
    (world, id)
}

#[test]
fn a_job_that_takes_turns_and_dies_of_the_warning_has_another_turn() {
    let died = Observation::Exited(TaskExit::Signal { signal: 10 });
    let (mut world, id) = warned(true);
    for turn in 2..20 {
        let id = AttemptId { attempt: muster_model::Attempt(turn - 1), ..id };
        if turn > 2 {
            let told = TaskCheckpoint {
                count: 1,
                answers: 0,
                warned: false,
                at: world.now,
                label: "".into(),
            };
            world.task(id, 0, Observation::Checkpointed(told));
            world.task(id, 0, signalled(0, true, 1));
        }
        world.task(id, 0, died.clone());
        assert_eq!(
            world.attempt("turns", 0).attempt.0,
            turn,
            "what saves gets on, however often it dies"
        );
    }
}

#[test]
fn a_job_that_never_saves_and_dies_of_each_warning_is_given_up() {
    let died = Observation::Exited(TaskExit::Signal { signal: 10 });
    let (mut world, first) = warned(false);
    for turn in 1..=3 {
        let id = AttemptId { attempt: muster_model::Attempt(turn), ..first };
        world.task(id, 0, signalled(0, true, 1));
        world.task(id, 0, died.clone());
        world.expect("turns", State::Pending);
        world.advance("1h");
        world.expect("turns", State::Running);
    }
    let id = AttemptId { attempt: muster_model::Attempt(4), ..first };
    world.task(id, 0, signalled(0, true, 1));
    world.task(id, 0, died);
    world.expect_ended("turns", &Outcome::Signaled { rank: Rank(0), signal: 10 });
}

#[test]
fn a_job_that_takes_turns_ends_by_exiting_with_0_and_by_its_limit() {
    let (mut world, _) = warned(true);
    world.exit("turns", 0);
    world.expect_ended("turns", &Outcome::Succeeded);
    let (mut world, id) = warned(true);
    world.task(id, 0, Observation::Exited(TaskExit::TimedOut));
    world.expect_ended("turns", &Outcome::TimedOut);
}

#[test]
fn what_can_never_start_is_not_tried_again() {
    let mut world = World::new(&[node("n1", 2)]);
    world.obliging = false;
    world.submit(job("typo").tasks(2).gpus(1).restarts(5, "1s"));
    let id = world.attempt("typo", 0);
    world.obliging = true;
    let reason = "pyhton: not found in PATH";
    world.task(id, 1, Observation::Impossible { reason: reason.into() });
    world.expect_ended("typo", &Outcome::StartFailed { rank: Rank(1), reason: reason.into() });
}
