//! Saved progress: whose word counts, how often it is told, and what would be lost.

use muster_engine::{Engine, Refusal};
use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::view::{CheckpointAskedView, CheckpointView, State};
use muster_model::{
    Checkpoint, Effect, Event, Observation, Outcome, QueueTree, Span, Target, TaskCheckpoint,
    TaskExit, Time,
};

use crate::world::{Ask, World, job, node, says, span, text};

impl Ask {
    fn checkpoint(self, by: CheckpointBy, then: AfterCheckpoint) -> Self {
        self.with(|spec| {
            spec.checkpoint = Some(Checkpoint {
                signal: 10,
                lead: Span::from_secs(60),
                by,
                then,
                to: Default::default(),
            });
        })
    }
}

fn saved(count: u32, at: Time, label: &str) -> Observation {
    Observation::Checkpointed(TaskCheckpoint {
        count,
        answers: 0,
        warned: false,
        at,
        label: label.into(),
    })
}

fn answer(count: u32, at: Time, answers: u32) -> Observation {
    Observation::Checkpointed(TaskCheckpoint {
        count,
        answers,
        warned: false,
        at,
        label: "".into(),
    })
}

impl World {
    fn checkpoint_of(&self, name: &str) -> Option<CheckpointView> {
        self.engine.element(self.now, self.element(name, 0)).unwrap().checkpoint
    }

    fn asked(&self, name: &str) -> Option<CheckpointAskedView> {
        self.engine.element(self.now, self.element(name, 0)).unwrap().checkpoint_asked
    }

    fn unsaved(&self, name: &str) -> u64 {
        self.engine.unsaved_gpu_millis(self.now, self.element(name, 0))
    }
}

#[test]
fn rank_0_speaks_for_its_gang() {
    let mut world = World::new(&[node("a", 8)]);
    world.submit(job("train").tasks(2).gpus(4));
    let id = world.attempt("train", 0);
    world.advance("10m");
    assert_eq!(world.unsaved("train"), 8 * 1000 * span("10m").0);
    world.task(id, 1, saved(1, world.now, "step 9"));
    assert_eq!(world.checkpoint_of("train"), None, "rank 1 says nothing for the others");
    let at = world.now;
    world.task(id, 0, saved(1, at, "step 10"));
    world.advance("1m");
    let view = CheckpointView { at, label: "step 10".to_owned(), attempt: 1 };
    assert_eq!(world.checkpoint_of("train"), Some(view));
    assert_eq!(world.unsaved("train"), 8 * 1000 * span("1m").0);
    world.exit("train", 0);
    assert_eq!(world.unsaved("train"), 0, "what has ended loses nothing");
}

#[test]
fn where_all_must_speak_the_oldest_counts() {
    let mut world = World::new(&[node("a", 8)]);
    world.submit(
        job("train").tasks(2).gpus(1).checkpoint(CheckpointBy::All, AfterCheckpoint::Continue),
    );
    let id = world.attempt("train", 0);
    world.advance("1m");
    let first = world.now;
    world.task(id, 1, saved(1, first, ""));
    assert_eq!(world.checkpoint_of("train"), None);
    world.advance("1m");
    world.task(id, 0, saved(1, world.now, "epoch 1"));
    assert_eq!(world.checkpoint_of("train").unwrap().at, first);
    world.advance("1m");
    world.task(id, 1, saved(2, world.now, ""));
    assert_eq!(
        world.checkpoint_of("train").unwrap().at,
        first + span("1m"),
        "now rank 0 is the oldest"
    );
}

#[test]
fn what_is_told_again_or_late_changes_nothing() {
    let mut world = World::new(&[node("a", 1)]);
    world.submit(job("train").gpus(1).restarts(1, "1s"));
    let id = world.attempt("train", 0);
    world.advance("1m");
    world.task(id, 0, saved(2, world.now, "two"));
    let state = text(&world.engine.snapshot());
    for again in [saved(2, world.now, "two"), saved(1, world.now, "one")] {
        world.task(id, 0, again);
    }
    world.task(id, 7, saved(9, world.now, "no such rank"));
    assert_eq!(text(&world.engine.snapshot()), state);
    // An earlier attempt has no word any more; what it saved stands.
    world.exit("train", 1);
    world.advance("1s");
    world.task(id, 0, saved(3, world.now, "three"));
    let view = world.checkpoint_of("train").unwrap();
    assert_eq!((view.label.as_str(), view.attempt), ("two", 1));
    assert_eq!(world.engine.last_checkpoint(id.element).as_deref(), Some("two"));
    world.advance("5s");
    assert_eq!(
        world.unsaved("train"),
        1000 * span("5s").0,
        "the new attempt has saved nothing of its own"
    );
}

#[test]
fn a_clock_that_is_wrong_is_believed_within_what_is_possible() {
    let mut world = World::new(&[node("a", 1)]);
    let begin = world.now;
    world.submit(job("train").gpus(1));
    let id = world.attempt("train", 0);
    world.advance("1m");
    world.task(id, 0, saved(1, Time(5), "past"));
    assert_eq!(world.checkpoint_of("train").unwrap().at, begin);
    world.task(id, 0, saved(2, Time::NEVER, "future"));
    assert_eq!(world.checkpoint_of("train").unwrap().at, world.now);
    assert_eq!(world.unsaved("train"), 0);
}

#[test]
fn progress_is_durable() {
    let mut world = World::new(&[node("a", 1)]);
    world.submit(job("train").gpus(1));
    let id = world.attempt("train", 0);
    world.task(id, 0, saved(1, world.now, "step 1"));
    let state = text(&world.engine.snapshot());
    assert_eq!(text(&world.replayed(QueueTree::single()).snapshot()), state);
    let restored = Engine::restore(world.engine.snapshot()).unwrap();
    assert_eq!(restored.last_checkpoint(id.element).as_deref(), Some("step 1"));
    // What was written before there were checkpoints reads.
    let older: serde_json::Value =
        serde_json::from_str(&state.replace("\"saved\":", "\"unknown\":")).unwrap();
    let older = Engine::restore(serde_json::from_value(older).unwrap()).unwrap();
    assert_eq!(older.last_checkpoint(id.element), None);
    // An exit that comes with it ends the element as ever.
    let exit = Observation::Exited(TaskExit::Code { code: 0 });
    world.step(vec![says(id, 0, saved(2, world.now, "step 2")), says(id, 0, exit)]);
    assert!(
        matches!(world.facts.last(), Some(muster_engine::Fact::JobEnded { succeeded: true, view, .. })
        if view.elements[0].checkpoint.as_ref().is_some_and(|saved| saved.label == "step 2"))
    );
}

#[test]
fn a_request_is_one_effect_and_stands_until_it_is_answered() {
    let mut world = World::new(&[node("a", 2)]);
    world.submit(job("plain").gpus(1));
    world.submit(
        job("train").tasks(1).gpus(1).checkpoint(CheckpointBy::First, AfterCheckpoint::Continue),
    );
    let (id, ask) = (world.attempt("train", 0), Event::Checkpoint(world.target("train")));
    assert_eq!(world.engine.judge(&ask), Ok(()));
    world.step(vec![ask.clone()]);
    let effect = Effect::Checkpoint { id, request: 1 };
    assert_eq!(world.effects.last(), Some(&effect));
    assert_eq!(
        world.engine.outstanding().as_slice(),
        std::slice::from_ref(&effect),
        "asked again after a crash"
    );
    let restored = Engine::restore(world.engine.snapshot()).unwrap();
    assert_eq!(restored.outstanding(), [effect]);
    let asked = world.asked("train").unwrap();
    assert_eq!((asked.at, asked.until), (world.now, world.now + span("60s")));

    // What was on its way before the request does not answer it.
    world.advance("1s");
    world.task(id, 0, answer(1, world.now, 0));
    assert_eq!(world.asked("train"), Some(asked));
    world.step(vec![ask]);
    world.task(id, 0, answer(2, world.now, 1));
    assert!(world.asked("train").is_some(), "the second request is still open");
    world.task(id, 0, answer(3, world.now, 2));
    assert_eq!((world.asked("train"), world.engine.outstanding()), (None, Vec::new()));
}

#[test]
fn only_what_runs_and_can_be_asked_is_asked() {
    let mut world = World::new(&[node("a", 2)]);
    let ask = |ask: Ask| ask.gpus(1).checkpoint(CheckpointBy::First, AfterCheckpoint::Continue);
    world.submit(job("plain").gpus(1));
    world.submit(ask(job("many").array(0, 3, Some(1))));
    let judge = |world: &World, name: &str, index| {
        world.engine.judge(&Event::Checkpoint(Target { job: world.id(name), index }))
    };
    assert_eq!(judge(&world, "plain", None), Err(Refusal::NoCheckpoint(world.id("plain"))));
    assert_eq!(judge(&world, "many", None), Ok(()));
    let target = |index| Target { job: world.id("many"), index: Some(index) };
    assert_eq!(judge(&world, "many", Some(2)), Err(Refusal::NotRunning(target(2))));
    assert_eq!(
        judge(&world, "many", Some(9)),
        Err(Refusal::UnknownElement(world.element("many", 9)))
    );
    let target = world.target("many");
    world.step(vec![Event::Checkpoint(target)]);
    let asked: Vec<_> =
        world.effects.iter().filter(|effect| matches!(effect, Effect::Checkpoint { .. })).collect();
    assert_eq!(asked, [&Effect::Checkpoint { id: world.attempt("many", 0), request: 1 }]);
}

#[test]
fn a_job_may_stop_or_wait_for_its_next_turn_once_it_has_saved() {
    for (then, by, over) in [
        (AfterCheckpoint::Continue, CheckpointBy::All, None),
        (AfterCheckpoint::Stop, CheckpointBy::First, Some(Outcome::TimedOut)),
        (AfterCheckpoint::Requeue, CheckpointBy::All, None),
    ] {
        let mut world = World::new(&[node("a", 2)]);
        world.submit(job("train").tasks(2).gpus(1).limit("1h").checkpoint(by, then));
        let id = world.attempt("train", 0);
        world.advance("10m");
        let warned = |count, at| {
            Observation::Checkpointed(TaskCheckpoint {
                count,
                answers: 0,
                warned: true,
                at,
                label: "l".into(),
            })
        };
        world.task(id, 0, saved(1, world.now, "unasked"));
        world.task(id, 1, warned(1, world.now));
        world.expect("train", State::Running);
        world.task(id, 0, warned(2, world.now));
        match (then, over) {
            (AfterCheckpoint::Requeue, _) => {
                world.expect("train", State::Running);
                assert_eq!(world.attempt("train", 0).attempt.0, 2, "its next turn came at once");
                assert_eq!(world.engine.last_checkpoint(id.element).as_deref(), Some("l"));
            }
            (_, Some(outcome)) => world.expect_ended("train", &outcome),
            (_, None) => world.expect("train", State::Running),
        }
    }
}
