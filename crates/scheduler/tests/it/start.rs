//! Suspended Jobs that wait for more than nodes: a release, or an instant.

use muster_kubernetes::group::GroupKind;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use muster_model::view::JobState;
use muster_scheduler::{Action, Subject};

use crate::cluster::Cluster;
use crate::objects::{job, node};

const HELD: &str = "muster.run/held";
const BEGIN: &str = "muster.run/begin";
const CANCELLED: &str = "muster.run/cancelled";

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
    cluster.set_class("high", 100);
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
