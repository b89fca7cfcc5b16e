//! Suspended Jobs that wait for more than nodes: a release, an instant, or other objects.

use muster_kubernetes::group::GroupKind;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use muster_model::view::JobState;
use muster_scheduler::{Action, Subject};

use muster_kubernetes::group::GroupFacts;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{job, node, pod};

const HELD: &str = "muster.run/held";
const BEGIN: &str = "muster.run/begin";
const CANCELLED: &str = "muster.run/cancelled";
const AFTER: &str = "muster.run/after";
const AFTER_STATUS: &str = "muster.run/after-status";

fn reported<'a>(cluster: &'a Cluster, job: &str) -> &'a str {
    cluster.told_jobs.get(&ObjectKey::new("team", job)).map_or("", String::as_str)
}

fn state(cluster: &mut Cluster, job: &str) -> JobState {
    let subject = Subject::Group(GroupKind::Job, ObjectKey::new("team", job));
    cluster.scheduler.inspect(cluster.now, &subject).unwrap().0.state
}

fn end_all(cluster: &mut Cluster, job: &str) {
    for pod in cluster.pods_of(job) {
        cluster.end(&pod.name, PodPhase::Succeeded);
    }
    cluster.settle();
}

/// Checks that of these Jobs exactly those run that are named.
fn check_running(cluster: &Cluster, expected: &[&str]) {
    let names = cluster.jobs.keys().map(|key| &*key.name);
    let running: Vec<&str> = names.filter(|name| cluster.bound(&format!("{name}-")) > 0).collect();
    assert_eq!(running, expected);
}

/// A held Job keeps its place: after its release it starts before Jobs that were made later.
#[test]
fn a_held_job_waits_for_its_release_in_its_place() {
    for is_restarted in [false, true] {
        let mut cluster = Cluster::new([node("n", 4)]);
        cluster.create_job(&job("first", 4));
        cluster.run(2_000);
        cluster.create_job(&job("held", 4).annotation(HELD, "true"));
        cluster.run(2_000);
        cluster.create_job(&job("later", 4));
        cluster.run(2_000);
        assert_eq!(
            reported(&cluster, "held"),
            "on hold until its annotation muster.run/held is removed; needs 4 GPUs together, none is free"
        );
        assert_eq!(state(&mut cluster, "held"), JobState::Held);
        if is_restarted {
            cluster.restart_scheduler();
        }
        cluster.annotate_job("held", HELD, None);
        cluster.run(2_000);
        assert_eq!(state(&mut cluster, "held"), JobState::Pending);
        end_all(&mut cluster, "first");
        check_running(&cluster, &["held"]);
    }
}

#[test]
fn others_pass_a_held_job_which_may_be_held_again() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("held", 4).annotation(HELD, "true"));
    cluster.run(60_000);
    cluster.create_job(&job("other", 4));
    cluster.run(2_000);
    check_running(&cluster, &["other"]);
    cluster.annotate_job("held", HELD, Some("false"));
    cluster.run(2_000);
    cluster.annotate_job("held", HELD, Some("true"));
    cluster.run(2_000);
    end_all(&mut cluster, "other");
    cluster.run(60_000);
    check_running(&cluster, &[]);
    cluster.annotate_job("held", HELD, None);
    cluster.settle();
    check_running(&cluster, &["held"]);
}

/// The hold of a Job that runs counts when it is suspended again.
#[test]
fn a_hold_does_not_stop_what_runs() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.set_priority_class("high", 100);
    cluster.create_job(&job("low", 4));
    cluster.run(2_000);
    cluster.annotate_job("low", HELD, Some("true"));
    cluster.run(60_000);
    check_running(&cluster, &["low"]);
    cluster.create_job(&job("high", 4).pod_spec("priorityClassName", "high".into()));
    cluster.run(60_000);
    check_running(&cluster, &["high"]);
    end_all(&mut cluster, "high");
    cluster.run(60_000);
    check_running(&cluster, &[]);
    cluster.annotate_job("low", HELD, None);
    cluster.settle();
    check_running(&cluster, &["low"]);
}

/// A new process keeps nodes for a Job that was resumed, whatever its terms are now.
#[test]
fn terms_do_not_count_once_a_job_is_resumed() {
    for (annotation, value) in
        [(HELD, "true"), (BEGIN, "1970-01-02T00:00:00Z"), (AFTER, "job/none"), (AFTER, "foo")]
    {
        let mut cluster = Cluster::new([node("n", 4)]);
        cluster.has_controller = false;
        cluster.create_job(&job("a", 4));
        cluster.settle();
        assert!(!cluster.is_suspended("a"));
        cluster.annotate_job("a", annotation, Some(value));
        cluster.restart_scheduler();
        // Younger, and it would fit.
        cluster.create(&pod("rival", 1));
        cluster.run(2_000);
        assert_eq!(cluster.bound("rival"), 0, "{annotation}");
        cluster.has_controller = true;
        cluster.settle();
        assert_eq!((cluster.bound("a-"), cluster.bound("rival")), (4, 0), "{annotation}");
    }
}

/// The request to resume it is on its way when the hold, or the cancellation, comes.
#[test]
fn a_job_is_held_or_cancelled_before_it_is_resumed() {
    for annotation in [HELD, CANCELLED] {
        let mut cluster = Cluster::new([node("n", 4)]);
        cluster.create_job(&job("a", 4));
        let late = cluster.scheduler.step(cluster.now);
        assert!(matches!(late[..], [Action::Resume { .. }]), "{late:?}");
        cluster.annotate_job("a", annotation, Some("true"));
        for action in late {
            cluster.carry_out(action);
        }
        cluster.create_job(&job("b", 4));
        cluster.run(60_000);
        check_running(&cluster, &["b"]);
        assert!(cluster.is_suspended("a"));
        cluster.annotate_job("a", annotation, None);
        end_all(&mut cluster, "b");
        cluster.run(60_000);
        check_running(&cluster, &["a"]);
    }
}

#[test]
fn a_job_begins_at_its_instant() {
    let mut cluster = Cluster::new([node("n", 4)]);
    // In 20 seconds.
    cluster.create_job(&job("a", 4).annotation(BEGIN, "1970-01-01T00:17:00Z"));
    cluster.run(10_000);
    assert!(
        reported(&cluster, "a").starts_with("begins at 00:17:00"),
        "{}",
        reported(&cluster, "a")
    );
    cluster.restart_scheduler();
    cluster.run(9_000);
    check_running(&cluster, &[]);
    cluster.run(2_000);
    check_running(&cluster, &["a"]);
    // It may be put off, and brought forward.
    cluster.create_job(&job("b", 4).annotation(BEGIN, "1970-01-02T00:00:00Z"));
    end_all(&mut cluster, "a");
    cluster.run(60_000);
    check_running(&cluster, &[]);
    cluster.annotate_job("b", BEGIN, None);
    cluster.settle();
    check_running(&cluster, &["b"]);
}

#[test]
fn an_instant_that_cannot_be_read_holds_one_job_alone() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("a", 4).annotation(BEGIN, "tomorrow"));
    cluster.run(2_000);
    cluster.create_job(&job("b", 4));
    cluster.run(2_000);
    check_running(&cluster, &["b"]);
    let text = reported(&cluster, "a");
    assert!(
        text.starts_with(
            "muster.run/begin is \"tomorrow\"; write an instant such as 2026-08-01T06:00:00Z"
        ),
        "{text}"
    );
    assert_eq!(state(&mut cluster, "a"), JobState::Pending);
    cluster.annotate_job("a", BEGIN, Some("1970-01-01T00:00:00Z"));
    end_all(&mut cluster, "b");
    check_running(&cluster, &["a"]);
}

/// A cancelled Job is never started, also by a new process, and keeps no nodes.
#[test]
fn a_cancelled_job_is_never_started() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("first", 4));
    cluster.run(2_000);
    cluster.create_job(&job("a", 4));
    cluster.run(2_000);
    cluster.annotate_job("a", CANCELLED, Some("ann"));
    end_all(&mut cluster, "first");
    cluster.run(60_000);
    cluster.restart_scheduler();
    cluster.create_job(&job("b", 4));
    cluster.run(60_000);
    check_running(&cluster, &["b"]);
    let subject = Subject::Group(GroupKind::Job, ObjectKey::new("team", "a"));
    assert_eq!(cluster.scheduler.inspect(cluster.now, &subject), None);
}

/// Ends a Job without success, and its pods with it.
fn fail(cluster: &mut Cluster, job: &str) {
    cluster.change_job(&ObjectKey::new("team", job), |job| {
        job["status"]["conditions"] = json!([{"type": "Failed", "status": "True"}]);
    });
    for pod in cluster.pods_of(job) {
        cluster.delete(&pod);
    }
}

/// Ends a Job before the scheduler looks at it.
fn complete(cluster: &mut Cluster, job: &str) {
    for pod in cluster.pods_of(job) {
        cluster.end(&pod.name, PodPhase::Succeeded);
    }
    cluster.control_job(&ObjectKey::new("team", job), usize::MAX);
    assert!(cluster.is_complete(job));
}

fn noted(cluster: &Cluster, job: &str) -> String {
    let job = &cluster.jobs[&ObjectKey::new("team", job)];
    job["metadata"]["annotations"][AFTER_STATUS].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_chain_runs_one_after_the_other() {
    for is_restarted in [false, true] {
        let mut cluster = Cluster::new([node("n", 4)]);
        // The last one first: what it waits for does not exist yet.
        cluster.create_job(&job("c", 1).annotation(AFTER, "afterok:job/b"));
        cluster.run(2_000);
        assert!(
            reported(&cluster, "c")
                .starts_with("waits for job/b, which does not exist, to succeed"),
            "{}",
            reported(&cluster, "c")
        );
        cluster.create_job(&job("b", 1).annotation(AFTER, "job/a"));
        cluster.create_job(&job("a", 1));
        for name in ["a", "b", "c"] {
            cluster.run(15_000);
            check_running(&cluster, &[name]);
            if name == "a" {
                assert_eq!(reported(&cluster, "c"), "waits for job/b to succeed");
                assert_eq!(state(&mut cluster, "c"), JobState::Pending);
            }
            if is_restarted {
                cluster.restart_scheduler();
            }
            end_all(&mut cluster, name);
        }
        assert_eq!(
            (noted(&cluster, "b"), noted(&cluster, "c")),
            ("job/a=succeeded".into(), "job/b=succeeded".into())
        );
    }
}

/// An end counts after the object is gone, also when the scheduler dies before the Job has nodes.
#[test]
fn the_end_of_a_job_that_is_deleted_at_once_counts() {
    for is_noted in [false, true] {
        let mut cluster = Cluster::new([node("n", 4)]);
        cluster.create_job(&job("a", 1));
        cluster.create_job(&job("other", 3));
        cluster.create_job(&job("b", 2).annotation(AFTER, "afterok:job/a"));
        cluster.run(2_000);
        check_running(&cluster, &["a", "other"]);
        complete(&mut cluster, "a");
        cluster.delete_job("a");
        if is_noted {
            cluster.run(2_000);
            assert_eq!(noted(&cluster, "b"), "job/a=succeeded");
            cluster.restart_scheduler();
        }
        cluster.run(12_000);
        assert!(
            reported(&cluster, "b").starts_with("needs 2 GPUs together"),
            "{}",
            reported(&cluster, "b")
        );
        end_all(&mut cluster, "other");
        check_running(&cluster, &["b"]);
    }
}

/// The watch of the one kind may be behind that of the other.
#[test]
fn a_job_that_is_seen_after_the_end_that_it_waits_for_starts() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("a", 1));
    cluster.settle();
    let mut late = Vec::new();
    cluster.divert(&mut late, |cluster| {
        cluster.create_job(&job("b", 1).annotation(AFTER, "afterok:job/a"));
    });
    complete(&mut cluster, "a");
    cluster.delete_job("a");
    cluster.settle();
    for report in late {
        cluster.scheduler.observe(report);
    }
    cluster.settle();
    check_running(&cluster, &["b"]);
}

#[test]
fn a_job_after_one_that_failed_never_starts() {
    for is_deleted in [false, true] {
        let mut cluster = Cluster::new([node("n", 4)]);
        for (name, after) in [
            ("ok", "afterok:job/a"),
            ("notok", "afternotok:job/a"),
            ("any", "afterany:job/a"),
            ("mixed", "afterany:job/a,afterok:job/a"),
        ] {
            cluster.create_job(&job(name, 1).annotation(AFTER, after));
        }
        cluster.create_job(&job("a", 4));
        cluster.run(2_000);
        check_running(&cluster, &["a"]);
        fail(&mut cluster, "a");
        if is_deleted {
            cluster.delete_job("a");
        }
        cluster.run(30_000);
        check_running(&cluster, &["any", "notok"]);
        cluster.restart_scheduler();
        cluster.run(30_000);
        for name in ["ok", "mixed"] {
            assert_eq!(
                reported(&cluster, name),
                "never starts: job/a failed or was cancelled (afterok); change muster.run/after of the waiting object"
            );
        }
        assert!(cluster.is_suspended("ok"));
        // Another try of the same name counts, as does another wish.
        cluster.delete_job("a");
        cluster.create_job(&job("a", 1));
        cluster.annotate_job("mixed", AFTER, Some("afterany:job/a"));
        cluster.run(2_000);
        check_running(&cluster, &["a", "any", "mixed", "notok"]);
        end_all(&mut cluster, "any");
        end_all(&mut cluster, "a");
        check_running(&cluster, &["mixed", "notok", "ok"]);
    }
}

#[test]
fn a_job_that_is_deleted_while_it_runs_has_ended_without_a_known_outcome() {
    let mut cluster = Cluster::new([node("n", 4)]);
    for kind in ["afterok", "afternotok", "afterany", "after"] {
        cluster.create_job(&job(kind, 1).annotation(AFTER, &format!("{kind}:job/a")));
    }
    cluster.create_job(&job("a", 4));
    cluster.run(2_000);
    cluster.delete_job("a");
    cluster.run(12_000);
    check_running(&cluster, &["after", "afterany"]);
    assert_eq!(
        reported(&cluster, "afternotok"),
        "never starts: job/a was deleted before its end was seen (afternotok); change muster.run/after of the waiting object"
    );
}

#[test]
fn a_job_waits_for_the_start_of_another() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("a", 1).annotation(HELD, "true"));
    cluster.create_job(&job("b", 1).annotation(AFTER, "after:job/a,afterany:job/a"));
    cluster.create_job(&job("c", 1).annotation(AFTER, "after:job/a"));
    cluster.run(2_000);
    check_running(&cluster, &[]);
    cluster.annotate_job("a", HELD, None);
    cluster.settle();
    cluster.change_job(&ObjectKey::new("team", "a"), |job| job["status"]["ready"] = json!(1));
    cluster.settle();
    check_running(&cluster, &["a", "c"]);
    assert_eq!(noted(&cluster, "b"), "job/a=started");
    end_all(&mut cluster, "a");
    check_running(&cluster, &["b", "c"]);
    assert_eq!(noted(&cluster, "b"), "job/a=succeeded");
}

/// A cancelled Job has ended, without success.
#[test]
fn a_cancelled_job_ends_those_that_wait_for_its_success() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("a", 1).annotation(HELD, "true"));
    cluster.create_job(&job("ok", 1).annotation(AFTER, "afterok:job/a"));
    cluster.create_job(&job("any", 1).annotation(AFTER, "afterany:job/a"));
    cluster.run(2_000);
    check_running(&cluster, &[]);
    cluster.annotate_job("a", CANCELLED, Some("ann"));
    cluster.run(20_000);
    check_running(&cluster, &["any"]);
    assert!(reported(&cluster, "ok").starts_with("never starts: "), "{}", reported(&cluster, "ok"));
}

/// Objects without a queue label, of other kinds and of other schedulers count, too; those of other
/// namespaces do not.
#[test]
fn objects_that_muster_does_not_start_count() {
    let mut cluster = Cluster::new([node("n", 4)]);
    let object = |kind: GroupKind, namespace: &str, end: &str| -> GroupFacts {
        let object = json!({
            "metadata": {"name": "prep", "namespace": namespace, "uid": namespace},
            "status": {"conditions": [{"type": end, "status": "True"}]},
        });
        serde_json::from_value::<muster_kubernetes::group::GroupText>(object).unwrap().facts(kind)
    };
    let kinds = [
        (GroupKind::Job, "job", "Complete"),
        (GroupKind::JobSet, "jobset", "Completed"),
        (GroupKind::TrainJob, "trainjob", "Complete"),
        (GroupKind::PyTorchJob, "pytorchjob", "Succeeded"),
        (GroupKind::MpiJob, "mpijob", "Succeeded"),
    ];
    let mut running: Vec<&str> = Vec::new();
    for (kind, word, end) in kinds {
        cluster.create_job(
            &job(word, 0)
                .spec("parallelism", json!(1))
                .spec("completions", json!(1))
                .annotation(AFTER, &format!("afterok:{word}/prep")),
        );
        cluster.set_group(object(kind, "other", end));
        cluster.set_group(object(kind, "team", "Suspended"));
        cluster.run(2_000);
        check_running(&cluster, &running);
        cluster.set_group(object(kind, "team", end));
        cluster.settle();
        running = vec![word];
        check_running(&cluster, &running);
        end_all(&mut cluster, word);
        running.clear();
    }
}

/// A Job that waits keeps its place, as does one that is held.
#[test]
fn a_job_that_waited_for_another_starts_before_younger_ones() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("a", 4));
    cluster.run(2_000);
    cluster.create_job(&job("b", 4).annotation(AFTER, "afterok:job/a"));
    cluster.create_job(&job("other", 4));
    cluster.run(2_000);
    complete(&mut cluster, "a");
    cluster.settle();
    check_running(&cluster, &["b"]);
}

/// The stages are written once, and again where the object is another one, or they were removed.
#[test]
fn stages_are_written_once() {
    let mut cluster = Cluster::new([node("n", 4)]);
    let after = || job("b", 1).annotation(AFTER, "afterok:job/a").annotation(HELD, "true");
    cluster.create_job(&job("a", 1));
    cluster.create_job(&after());
    cluster.run(2_000);
    end_all(&mut cluster, "a");
    cluster.annotate_job("b", AFTER_STATUS, None);
    let writes = |cluster: &mut Cluster| {
        let actions = cluster.scheduler.step(cluster.now);
        let is_write = |action: &&Action| matches!(action, Action::NoteStages { .. });
        actions.iter().filter(is_write).count()
    };
    assert_eq!(writes(&mut cluster), 1);
    cluster.annotate_job("b", "other", Some("x"));
    assert_eq!(writes(&mut cluster), 0);
    // An older request was repeated late, and has replaced the newer one.
    cluster.annotate_job("b", AFTER_STATUS, Some("job/a=started"));
    assert_eq!(writes(&mut cluster), 1);
    cluster.delete_job("b");
    cluster.create_job(&after());
    assert_eq!(writes(&mut cluster), 1);
}

#[test]
fn a_dependency_that_cannot_be_read_holds_one_job_alone() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("a", 1).annotation(AFTER, "foo"));
    cluster.create_job(&job("b", 1));
    cluster.run(2_000);
    check_running(&cluster, &["b"]);
    assert!(
        reported(&cluster, "a")
            .starts_with("muster.run/after is \"foo\": \"foo\" is no object that ends"),
        "{}",
        reported(&cluster, "a")
    );
}
