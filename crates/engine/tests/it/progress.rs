//! Saved progress: whose word counts, how often it is told, and what would be lost.

use muster_engine::Engine;
use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::view::CheckpointView;
use muster_model::{Checkpoint, Observation, QueueTree, Span, TaskCheckpoint, TaskExit, Time};

use crate::world::{Ask, World, job, node, says, span, text};

impl Ask {
    fn checkpoint(self, by: CheckpointBy, then: AfterCheckpoint) -> Self {
        self.with(|spec| {
            spec.checkpoint = Some(Checkpoint { signal: 10, lead: Span::from_secs(60), by, then });
        })
    }
}

fn saved(count: u32, at: Time, label: &str) -> Observation {
    Observation::Checkpointed(TaskCheckpoint { count, answers: 0, warned: false, at, label: label.into() })
}

impl World {
    fn checkpoint_of(&self, name: &str) -> Option<CheckpointView> {
        self.engine.element(self.now, self.element(name, 0)).unwrap().checkpoint
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
    world.submit(job("train").tasks(2).gpus(1).checkpoint(CheckpointBy::All, AfterCheckpoint::Continue));
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
    assert_eq!(world.checkpoint_of("train").unwrap().at, first + span("1m"), "now rank 0 is the oldest");
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
    assert_eq!(world.unsaved("train"), 1000 * span("5s").0, "the new attempt has saved nothing of its own");
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
    assert!(matches!(world.facts.last(), Some(muster_engine::Fact::JobEnded { succeeded: true, view, .. })
        if view.elements[0].checkpoint.as_ref().is_some_and(|saved| saved.label == "step 2")));
}
