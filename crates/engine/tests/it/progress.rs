//! Checkpoints: which acknowledgements count, repetitions, and unsaved work.

use muster_engine::{Engine, EventRefusal};
use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::view::{CheckpointAskedView, CheckpointView, JobState};
use muster_model::{
    Checkpoint, CommandTarget, Effect, Event, Observation, Outcome, QueueTree, Span,
    TaskCheckpoint, TaskExit, Time,
};

use crate::cluster::{JobBuilder, TestCluster, job, node, span, task_event, text};

impl JobBuilder {
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

impl TestCluster {
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
fn rank_0_acknowledges_for_its_gang() {
    let mut cluster = TestCluster::new(&[node("a", 8)]);
    cluster.submit(job("train").tasks(2).gpus(4));
    let id = cluster.attempt("train", 0);
    cluster.advance("10m");
    assert_eq!(cluster.unsaved("train"), 8 * 1000 * span("10m").0);
    cluster.task(id, 1, saved(1, cluster.now, "step 9"));
    assert_eq!(cluster.checkpoint_of("train"), None, "rank 1 says nothing for the others");
    let at = cluster.now;
    cluster.task(id, 0, saved(1, at, "step 10"));
    cluster.advance("1m");
    let view = CheckpointView { at, label: "step 10".to_owned(), attempt: 1 };
    assert_eq!(cluster.checkpoint_of("train"), Some(view));
    assert_eq!(cluster.unsaved("train"), 8 * 1000 * span("1m").0);
    cluster.exit("train", 0);
    assert_eq!(cluster.unsaved("train"), 0, "what has ended loses nothing");
}

#[test]
fn with_all_ranks_counting_the_oldest_checkpoint_counts() {
    let mut cluster = TestCluster::new(&[node("a", 8)]);
    cluster.submit(
        job("train").tasks(2).gpus(1).checkpoint(CheckpointBy::All, AfterCheckpoint::Continue),
    );
    let id = cluster.attempt("train", 0);
    cluster.advance("1m");
    let first = cluster.now;
    cluster.task(id, 1, saved(1, first, ""));
    assert_eq!(cluster.checkpoint_of("train"), None);
    cluster.advance("1m");
    cluster.task(id, 0, saved(1, cluster.now, "epoch 1"));
    assert_eq!(cluster.checkpoint_of("train").unwrap().at, first);
    cluster.advance("1m");
    cluster.task(id, 1, saved(2, cluster.now, ""));
    assert_eq!(
        cluster.checkpoint_of("train").unwrap().at,
        first + span("1m"),
        "now rank 0 is the oldest"
    );
}

#[test]
fn repeated_or_late_acknowledgements_change_nothing() {
    let mut cluster = TestCluster::new(&[node("a", 1)]);
    cluster.submit(job("train").gpus(1).restarts(1, "1s"));
    let id = cluster.attempt("train", 0);
    cluster.advance("1m");
    cluster.task(id, 0, saved(2, cluster.now, "two"));
    let state = text(&cluster.engine.snapshot());
    for again in [saved(2, cluster.now, "two"), saved(1, cluster.now, "one")] {
        cluster.task(id, 0, again);
    }
    cluster.task(id, 7, saved(9, cluster.now, "no such rank"));
    assert_eq!(text(&cluster.engine.snapshot()), state);
    // An ended attempt can acknowledge nothing; its last checkpoint remains.
    cluster.exit("train", 1);
    cluster.advance("1s");
    cluster.task(id, 0, saved(3, cluster.now, "three"));
    let view = cluster.checkpoint_of("train").unwrap();
    assert_eq!((view.label.as_str(), view.attempt), ("two", 1));
    assert_eq!(cluster.engine.last_checkpoint(id.element).as_deref(), Some("two"));
    cluster.advance("5s");
    assert_eq!(
        cluster.unsaved("train"),
        1000 * span("5s").0,
        "the new attempt has saved nothing of its own"
    );
}

#[test]
fn a_wrong_clock_is_clamped_to_the_possible_range() {
    let mut cluster = TestCluster::new(&[node("a", 1)]);
    let begin = cluster.now;
    cluster.submit(job("train").gpus(1));
    let id = cluster.attempt("train", 0);
    cluster.advance("1m");
    cluster.task(id, 0, saved(1, Time(5), "past"));
    assert_eq!(cluster.checkpoint_of("train").unwrap().at, begin);
    cluster.task(id, 0, saved(2, Time::NEVER, "future"));
    assert_eq!(cluster.checkpoint_of("train").unwrap().at, cluster.now);
    assert_eq!(cluster.unsaved("train"), 0);
}

#[test]
fn progress_is_durable() {
    let mut cluster = TestCluster::new(&[node("a", 1)]);
    cluster.submit(job("train").gpus(1));
    let id = cluster.attempt("train", 0);
    cluster.task(id, 0, saved(1, cluster.now, "step 1"));
    let state = text(&cluster.engine.snapshot());
    assert_eq!(text(&cluster.replayed(QueueTree::single()).snapshot()), state);
    let restored = Engine::restore(cluster.engine.snapshot()).unwrap();
    assert_eq!(restored.last_checkpoint(id.element).as_deref(), Some("step 1"));
    // Snapshots from before checkpoints existed can be read.
    let older: serde_json::Value =
        serde_json::from_str(&state.replace("\"saved\":", "\"unknown\":")).unwrap();
    let older = Engine::restore(serde_json::from_value(older).unwrap()).unwrap();
    assert_eq!(older.last_checkpoint(id.element), None);
    // An exit reported with it ends the element as usual.
    let exit = Observation::Exited(TaskExit::Code { code: 0 });
    cluster.step(vec![task_event(id, 0, saved(2, cluster.now, "step 2")), task_event(id, 0, exit)]);
    assert!(
        matches!(cluster.facts.last(), Some(muster_engine::AccountingFact::JobEnded { succeeded: true, view, .. })
        if view.elements[0].checkpoint.as_ref().is_some_and(|saved| saved.label == "step 2"))
    );
}

#[test]
fn a_checkpoint_request_is_outstanding_until_it_is_acknowledged() {
    let mut cluster = TestCluster::new(&[node("a", 2)]);
    cluster.submit(job("plain").gpus(1));
    cluster.submit(
        job("train").tasks(1).gpus(1).checkpoint(CheckpointBy::First, AfterCheckpoint::Continue),
    );
    let id = cluster.attempt("train", 0);
    let ask = Event::Checkpoint(cluster.target("train"));
    assert_eq!(cluster.engine.validate(&ask), Ok(()));
    cluster.step(vec![ask.clone()]);
    let effect = Effect::Checkpoint { id, request: 1 };
    assert_eq!(cluster.effects.last(), Some(&effect));
    assert_eq!(
        cluster.engine.outstanding().as_slice(),
        std::slice::from_ref(&effect),
        "asked again after a crash"
    );
    let restored = Engine::restore(cluster.engine.snapshot()).unwrap();
    assert_eq!(restored.outstanding(), [effect]);
    let asked = cluster.asked("train").unwrap();
    assert_eq!((asked.at, asked.until), (cluster.now, cluster.now + span("60s")));

    // A checkpoint that was under way before the request does not acknowledge it.
    cluster.advance("1s");
    cluster.task(id, 0, answer(1, cluster.now, 0));
    assert_eq!(cluster.asked("train"), Some(asked));
    cluster.step(vec![ask]);
    cluster.task(id, 0, answer(2, cluster.now, 1));
    assert!(cluster.asked("train").is_some(), "the second request is still open");
    cluster.task(id, 0, answer(3, cluster.now, 2));
    assert_eq!((cluster.asked("train"), cluster.engine.outstanding()), (None, Vec::new()));
}

#[test]
fn only_running_jobs_with_checkpoints_can_be_asked_for_one() {
    let mut cluster = TestCluster::new(&[node("a", 2)]);
    let ask =
        |ask: JobBuilder| ask.gpus(1).checkpoint(CheckpointBy::First, AfterCheckpoint::Continue);
    cluster.submit(job("plain").gpus(1));
    cluster.submit(ask(job("many").array(0, 3, Some(1))));
    let check = |cluster: &TestCluster, name: &str, index| {
        cluster.engine.validate(&Event::Checkpoint(CommandTarget { job: cluster.id(name), index }))
    };
    assert_eq!(
        check(&cluster, "plain", None),
        Err(EventRefusal::NoCheckpoint(cluster.id("plain")))
    );
    assert_eq!(check(&cluster, "many", None), Ok(()));
    let target = |index| CommandTarget { job: cluster.id("many"), index: Some(index) };
    assert_eq!(check(&cluster, "many", Some(2)), Err(EventRefusal::NotRunning(target(2))));
    assert_eq!(
        check(&cluster, "many", Some(9)),
        Err(EventRefusal::UnknownElement(cluster.element("many", 9)))
    );
    let target = cluster.target("many");
    cluster.step(vec![Event::Checkpoint(target)]);
    let asked: Vec<_> = cluster
        .effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Checkpoint { .. }))
        .collect();
    assert_eq!(asked, [&Effect::Checkpoint { id: cluster.attempt("many", 0), request: 1 }]);
}

#[test]
fn a_job_may_stop_or_requeue_after_its_last_checkpoint() {
    for (then, by, over) in [
        (AfterCheckpoint::Continue, CheckpointBy::All, None),
        (AfterCheckpoint::Stop, CheckpointBy::First, Some(Outcome::TimedOut)),
        (AfterCheckpoint::Requeue, CheckpointBy::All, None),
    ] {
        let mut cluster = TestCluster::new(&[node("a", 2)]);
        cluster.submit(job("train").tasks(2).gpus(1).limit("1h").checkpoint(by, then));
        let id = cluster.attempt("train", 0);
        cluster.advance("10m");
        let warned = |count, at| {
            Observation::Checkpointed(TaskCheckpoint {
                count,
                answers: 0,
                warned: true,
                at,
                label: "l".into(),
            })
        };
        cluster.task(id, 0, saved(1, cluster.now, "unasked"));
        cluster.task(id, 1, warned(1, cluster.now));
        cluster.expect("train", JobState::Running);
        cluster.task(id, 0, warned(2, cluster.now));
        match (then, over) {
            (AfterCheckpoint::Requeue, _) => {
                cluster.expect("train", JobState::Running);
                assert_eq!(cluster.attempt("train", 0).attempt.0, 2, "its next turn came at once");
                assert_eq!(cluster.engine.last_checkpoint(id.element).as_deref(), Some("l"));
            }
            (_, Some(outcome)) => cluster.expect_ended("train", &outcome),
            (_, None) => cluster.expect("train", JobState::Running),
        }
    }
}
