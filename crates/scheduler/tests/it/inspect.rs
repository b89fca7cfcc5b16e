//! What users are told who ask about a pod or object, and that it agrees with what pods say.

use muster_kubernetes::group::GroupKind;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use muster_model::view::{Explanation, GangPods, GangView, JobState, NotPreemptedReason};
use muster_model::{Reason, Time};
use muster_report::{RenderContext, explain};
use muster_scheduler::Subject;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, job, node, pod};

fn of_pod(name: &str) -> Subject {
    Subject::Pod(ObjectKey::new("team", name))
}

fn of_group(kind: GroupKind, name: &str) -> Subject {
    Subject::Group(kind, ObjectKey::new("team", name))
}

fn inspect(cluster: &mut Cluster, subject: &Subject) -> Option<(Explanation, GangView)> {
    let now = cluster.now;
    cluster.scheduler.inspect(now, subject)
}

fn create_gang(cluster: &mut Cluster, name: &str, size: usize) {
    cluster.create_all((0..size).map(|at| pod(&format!("{name}-{at}"), 1).gang(name, size)));
}

/// A fresh process that lists the cluster says what the pods were told by the one that schedules.
#[test]
fn a_waiting_gang_is_told_as_its_pods_were() {
    let mut cluster = Cluster::new([node("n", 8)]);
    create_gang(&mut cluster, "a", 5);
    cluster.run(2_000);
    create_gang(&mut cluster, "b", 5);
    cluster.run(2_000);
    let told = cluster.reported("b-0").to_owned();
    assert_eq!(told, "needs 5 GPUs together, 3 are free; with 3 pods it would start now");
    cluster.restart_scheduler();
    drop(cluster.scheduler.step(cluster.now));
    for subject in [of_pod("b-0"), of_group(GroupKind::Annotated, "b")] {
        let (explanation, gang) = inspect(&mut cluster, &subject).expect("it waits");
        assert!(matches!(explanation.reasons[..], [Reason::Capacity(_)]), "{explanation:?}");
        let context = RenderContext::plain().at(cluster.now);
        let words = muster_report::Words::Pods(&gang.jobs);
        assert_eq!(explain::of_pods(&explanation, context.in_words(words)), told);
        assert_eq!(gang.pods, GangPods { waiting: 5, ..GangPods::default() });
        assert_eq!(gang.gang, "gang/b");
        let text = explain::gang(&explanation, &gang, context);
        assert!(text.contains("team/a holds 5 without a time limit"), "{text}");
    }
    let (explanation, gang) = inspect(&mut cluster, &of_pod("a-3")).expect("it runs");
    assert_eq!(explanation.state, JobState::Running);
    assert_eq!(gang.pods, GangPods { running: 5, ..GangPods::default() });
    assert_eq!(gang.since, Some(Time(1_000_000)));
    assert_eq!(explanation.placement.expect("it runs").tasks, 5);
}

#[test]
fn a_suspended_job_waits_for_pods_that_do_not_exist() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create_job(&job("a", 5));
    cluster.create_job(&job("b", 5));
    cluster.run(2_000);
    let (explanation, gang) =
        inspect(&mut cluster, &of_group(GroupKind::Job, "b")).expect("it waits");
    assert!(matches!(explanation.reasons[..], [Reason::Capacity(_)]), "{explanation:?}");
    assert_eq!(gang.pods, GangPods { expected: 5, ..GangPods::default() });
    assert_eq!(gang.gang, "job/b");
    // One that starts at once, for a process that only looks.
    cluster.delete_job("a");
    drop(cluster.scheduler.step(cluster.now));
    let (explanation, gang) =
        inspect(&mut cluster, &of_group(GroupKind::Job, "b")).expect("it starts");
    assert_eq!((explanation.state, explanation.reasons.len()), (JobState::Pending, 0));
    assert!(gang.notes.is_empty(), "{gang:?}");
}

#[test]
fn what_keeps_a_gang_from_the_engine_is_its_reason() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create(&pod("a-0", 1).gang("a", 2));
    cluster.run(2_000);
    let (explanation, _) = inspect(&mut cluster, &of_pod("a-0")).expect("it waits");
    let [Reason::Native { code, message, .. }] = &explanation.reasons[..] else {
        panic!("{explanation:?}");
    };
    assert_eq!((code.as_str(), message.as_str()), ("Unschedulable", cluster.reported("a-0")));
}

#[test]
fn of_independent_pods_one_that_waits_is_explained() {
    let mut cluster = Cluster::new([node("n", 2)]);
    let mut sweep = job("sweep", 4);
    sweep.0["spec"]["completionMode"] = json!("NonIndexed");
    sweep.0["spec"]["suspend"] = json!(false);
    sweep.0["metadata"]["labels"] = json!({});
    cluster.create_job(&sweep);
    cluster.run(2_000);
    assert_eq!(cluster.bound("sweep"), 2);
    let (explanation, gang) =
        inspect(&mut cluster, &of_group(GroupKind::Job, "sweep")).expect("some wait");
    assert_eq!(explanation.state, JobState::Pending);
    assert!(gang.gang.starts_with("pod/sweep-"), "{gang:?}");
}

#[test]
fn pods_of_others_and_those_that_have_ended_are_not_explained() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create(&pod("other", 1).spec("schedulerName", json!("default-scheduler")));
    cluster.create(&pod("ended", 1));
    cluster.settle();
    cluster.end("ended", PodPhase::Succeeded);
    cluster.settle();
    for name in ["other", "ended", "missing"] {
        assert_eq!(inspect(&mut cluster, &of_pod(name)), None, "{name}");
    }
}

/// A process that starts later does not give running pods their whole time limit again.
#[test]
fn of_a_time_limit_only_what_is_left_counts_after_a_restart() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create(&pod("a", 8).annotation("muster.run/time-limit", "1h"));
    cluster.settle();
    let begin = cluster.now;
    cluster.run(40 * 60_000);
    cluster.create(&pod("b", 8));
    cluster.restart_scheduler();
    cluster.settle();
    let (explanation, _) = inspect(&mut cluster, &of_pod("b")).expect("it waits");
    let start = explanation.eta.expect("the limit is known").start;
    let hour = Time(begin.0 + 3_600_000);
    // The grace period of a pod follows its limit.
    assert!((hour.0..hour.0 + 60_000).contains(&start.0), "{start:?}, not {hour:?}");
}

#[test]
fn a_pod_that_preempts_no_other_says_so() {
    let with = |name: &str, priority: i32| pod(name, 1).spec("priority", json!(priority));
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.create(&with("low", 1));
    cluster.settle();
    cluster.create(&with("never", 5).spec("preemptionPolicy", json!("Never")));
    cluster.run(2_000);
    let (explanation, _) = inspect(&mut cluster, &of_pod("never")).expect("it waits");
    let why: Vec<_> = explanation.not_preempted.iter().map(|one| one.why).collect();
    assert_eq!(why, [NotPreemptedReason::NeverPreempts]);
    let shown = explain::explain(&explanation, RenderContext::plain());
    assert!(shown.contains("no job can be preempted: its preemption policy is Never"), "{shown}");
}

/// Checks that a process that starts later takes over a running gang: the next one learns when it ends.
fn check_adoption(change: impl Fn(PodBuilder) -> PodBuilder) {
    let mut cluster = Cluster::new([node("n", 8), node("m", 8)]);
    let a = |at: u32| {
        pod(&format!("a-{at}"), 8)
            .gang("a", 2)
            .annotation("muster.run/time-limit", "1h")
            .label("app", "a")
    };
    cluster.create_all((0..2).map(|at| change(a(at))));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 2, "the first process starts it");
    cluster.create(&pod("b", 8));
    cluster.restart_scheduler();
    cluster.settle();
    let (explanation, _) = inspect(&mut cluster, &of_pod("b")).expect("it waits");
    assert!(explanation.eta.is_some(), "{explanation:?}");
}

#[test]
fn a_process_that_starts_later_takes_over_gangs_with_constraints() {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}});
    let apart =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let exclude =
        json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["other"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [exclude]}]});
    let not_there =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    check_adoption(|pod| pod);
    check_adoption(|pod| pod.spec("affinity", apart.clone()));
    check_adoption(|pod| pod.spec("affinity", not_there.clone()));
    let limits = json!({"nvidia.com/gpu": 8});
    let requests = json!({"cpu": "1", "memory": "1Gi"});
    let container = json!([{"ports": [{"hostPort": 8080}], "resources": {"limits": limits, "requests": requests}}]);
    check_adoption(|pod| pod.spec("containers", container.clone()));
    check_adoption(|pod| pod.spec("preemptionPolicy", json!("Never")));
    check_adoption(|pod| pod.spec("activeDeadlineSeconds", json!(1800)));
}
