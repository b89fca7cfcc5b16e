//! Suspended Jobs get their nodes before they have pods, and only then their pods.

use muster_kubernetes::group::{GroupFacts, GroupKind, GroupText};
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use muster_model::Time;
use muster_scheduler::{Action, Observation};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{job, node, pod};

fn reported<'a>(cluster: &'a Cluster, job: &str) -> &'a str {
    cluster.told_jobs.get(&ObjectKey::new("team", job)).map_or("", String::as_str)
}

fn end_all(cluster: &mut Cluster, job: &str) {
    for pod in cluster.pods_of(job) {
        cluster.end(&pod.name, PodPhase::Succeeded);
    }
    cluster.settle();
}

fn running_jobs(cluster: &Cluster) -> Vec<String> {
    let names = cluster.jobs.keys().map(|key| key.name.to_string());
    names.filter(|name| !cluster.is_suspended(name)).collect()
}

#[test]
fn jobs_run_one_after_the_other_and_waiting_ones_have_no_pods() {
    let mut cluster = Cluster::new([node("n", 8)]);
    let names: Vec<String> = (0..20).map(|at| format!("j{at:02}")).collect();
    for name in &names {
        cluster.create_job(&job(name, 5));
    }
    for name in &names {
        cluster.run(15_000);
        assert_eq!(running_jobs(&cluster), std::slice::from_ref(name));
        assert_eq!(cluster.pods.len(), 5);
        assert_eq!(cluster.bound(name), 5);
        end_all(&mut cluster, name);
        cluster.jobs.remove(&ObjectKey::new("team", name));
    }
    let counts = cluster.scheduler.counts();
    assert_eq!((counts.resumed, counts.suspended, counts.bound), (20, 0, 100));
}

/// The text is the same that pods would get.
#[test]
fn a_suspended_job_says_why_it_waits() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create_job(&job("a", 5));
    cluster.create_job(&job("b", 5));
    cluster.run(2_000);
    assert!(
        reported(&cluster, "b").contains("needs 5 GPUs together, 3 are free"),
        "{}",
        reported(&cluster, "b")
    );
    let check = |one: crate::objects::JobBuilder, expected: &str| {
        let mut cluster = Cluster::new([node("n", 8)]);
        cluster.create_job(&one);
        cluster.run(2_000);
        assert_eq!(reported(&cluster, "x"), expected);
        assert!(cluster.pods.is_empty() && cluster.is_suspended("x"));
    };
    let x = || job("x", 1);
    check(job("x", 9), "never fits: 8 GPUs in all, on 1 node that it may use");
    check(job("x", 0), "it asks for no pods");
    check(
        x().pod_spec("schedulerName", json!("default-scheduler")),
        "its pods ask for another scheduler; write `schedulerName: muster` in its pod template",
    );
    check(
        x().pod_spec("priorityClassName", json!("high")),
        "the priority class high does not exist",
    );
    check(
        x().pod_spec("resourceClaims", json!([{}])),
        "not supported by this scheduler: a resource claim without a name",
    );
}

/// Between the decision and the pods nobody else gets the nodes.
#[test]
fn nodes_are_kept_until_the_pods_come() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.has_controller = false;
    let key = cluster.create_job(&job("a", 4));
    cluster.settle();
    assert!(!cluster.is_suspended("a"));
    cluster.create(&pod("other", 1));
    cluster.run(20_000);
    assert_eq!(cluster.bound("other"), 0);
    // They start together, once all are there.
    cluster.control_job(&key, usize::MAX);
    let last = cluster.pods_of("a").pop().unwrap();
    let facts = cluster.pods[&last].clone();
    cluster.delete(&last);
    cluster.run(20_000);
    assert_eq!(cluster.bound("a-"), 0);
    cluster.put(facts);
    cluster.settle();
    assert_eq!((cluster.bound("a-"), cluster.bound("other")), (4, 0));
    end_all(&mut cluster, "a");
    assert_eq!(cluster.bound("other"), 1);
}

#[test]
fn a_job_without_pods_is_suspended_again() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.has_controller = false;
    cluster.create_job(&job("a", 4));
    cluster.create(&pod("other", 1));
    cluster.run(59_000);
    assert!(!cluster.is_suspended("a") && cluster.bound("other") == 0);
    cluster.run(2_000);
    assert!(cluster.is_suspended("a"));
    assert_eq!(
        cluster.suspensions,
        [("a".to_owned(), "no pod was created for 1m; 0 of its 4 exist".to_owned())]
    );
    assert_eq!(cluster.bound("other"), 1);
    // It is tried again after a pause.
    cluster.end("other", PodPhase::Succeeded);
    cluster.has_controller = true;
    cluster.run(30_000);
    assert!(cluster.is_suspended("a"));
    cluster.run(60_000);
    assert_eq!(cluster.bound("a-"), 4);
}

#[test]
fn preemption_suspends_the_job() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.set_priority_class("high", 100);
    cluster.create_job(&job("low", 4));
    cluster.run(60_000);
    assert_eq!(cluster.bound("low-"), 4);
    cluster.create_job(&job("high", 4).pod_spec("priorityClassName", json!("high")));
    cluster.run(60_000);
    assert_eq!(running_jobs(&cluster), ["high"]);
    assert_eq!((cluster.bound("high-"), cluster.pods.len()), (4, 4));
    assert_eq!(
        cluster.suspensions,
        [("low".to_owned(), "preempted by a job with precedence".to_owned())]
    );
    assert_eq!(cluster.scheduler.counts().evicted, 0);
    end_all(&mut cluster, "high");
    assert_eq!(cluster.bound("low-"), 4);
}

/// A job may lose its nodes before it has pods.
#[test]
fn a_job_is_preempted_before_its_pods_come() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.set_priority_class("high", 100);
    cluster.has_controller = false;
    cluster.create_job(&job("low", 4));
    cluster.run(2_000);
    assert!(!cluster.is_suspended("low"));
    cluster.create_job(&job("high", 4).pod_spec("priorityClassName", json!("high")));
    cluster.run(40_000);
    assert_eq!(running_jobs(&cluster), ["high"]);
    assert_eq!(cluster.suspensions[0].0, "low");
}

/// A job may even lose them while the request to resume it is on its way.
#[test]
fn a_job_is_preempted_before_it_is_resumed() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.set_priority_class("high", 100);
    cluster.create_job(&job("low", 4));
    let late = cluster.scheduler.step(cluster.now);
    assert!(matches!(late[..], [Action::Resume { .. }]), "{late:?}");
    cluster.now = Time(cluster.now.0 + 40_000);
    cluster.create_job(&job("high", 4).pod_spec("priorityClassName", json!("high")));
    cluster.settle();
    for action in late {
        cluster.carry_out(action);
    }
    cluster.run(2_000);
    assert_eq!(running_jobs(&cluster), ["high"]);
    assert_eq!((cluster.bound("high-"), cluster.pods.len()), (4, 4));
    assert_eq!(cluster.suspensions.len(), 1);
}

#[test]
fn a_deleted_job_gives_its_nodes_up() {
    for has_pods in [false, true] {
        let mut cluster = Cluster::new([node("n", 4)]);
        cluster.has_controller = has_pods;
        cluster.create_job(&job("a", 4));
        cluster.create(&pod("other", 1));
        cluster.settle();
        assert_eq!(cluster.bound("other"), 0);
        cluster.delete_job("a");
        cluster.settle();
        assert_eq!(cluster.bound("other"), 1);
        // Another Job of the same name starts anew.
        cluster.create_job(&job("a", 3));
        cluster.has_controller = true;
        cluster.run(2_000);
        assert_eq!(cluster.bound("a-"), 3);
    }
}

/// The new process finds a Job that was resumed and has none, some or all of its pods.
#[test]
fn a_new_process_keeps_nodes_for_pods_that_are_yet_to_come() {
    for there in 0..=4 {
        let mut cluster = Cluster::new([node("n", 4)]);
        cluster.has_controller = false;
        let key = cluster.create_job(&job("a", 4));
        cluster.settle();
        let mut reports = Vec::new();
        cluster.divert(&mut reports, |cluster| {
            cluster.control_job(&key, usize::MAX);
            for pod in cluster.pods_of("a").iter().skip(there) {
                cluster.delete(pod);
            }
        });
        // Younger, and it would fit.
        cluster.create(&pod("other", 1));
        cluster.restart_scheduler();
        cluster.run(2_000);
        let expected = if there == 4 { 4 } else { 0 };
        assert_eq!((cluster.bound("a-"), cluster.bound("other")), (expected, 0), "{there}");
        cluster.control_job(&key, usize::MAX);
        cluster.settle();
        assert_eq!((cluster.bound("a-"), cluster.bound("other")), (4, 0), "{there}");
        assert!(cluster.suspensions.is_empty());
    }
}

/// After a restart the Jobs keep the order in which they were made.
#[test]
fn a_new_process_keeps_the_order() {
    let mut cluster = Cluster::new([node("n", 4)]);
    for name in ["z", "y", "x"] {
        cluster.create_job(&job(name, 4));
        cluster.run(2_000);
    }
    cluster.restart_scheduler();
    for name in ["z", "y", "x"] {
        cluster.run(2_000);
        assert_eq!(cluster.bound(name), 4);
        end_all(&mut cluster, name);
    }
}

/// A failed pod is replaced beside the others; its Job is not suspended.
#[test]
fn a_running_job_replaces_its_pods_itself() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_job(&job("a", 4));
    cluster.run(2_000);
    let pods = cluster.pods_of("a");
    cluster.end(&pods[1].name, PodPhase::Failed);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 4);
    for pod in cluster.pods_of("a") {
        cluster.end(&pod.name, PodPhase::Failed);
    }
    cluster.has_controller = false;
    cluster.run(300_000);
    assert!(!cluster.is_suspended("a") && cluster.suspensions.is_empty());
}

/// A list of independent tasks starts with as many pods as run at once.
#[test]
fn a_list_of_tasks_starts_as_a_whole() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create(&pod("other", 2));
    cluster.settle();
    let tasks =
        job("a", 3).spec("completionMode", json!("NonIndexed")).spec("completions", json!(5));
    cluster.create_job(&tasks);
    cluster.run(2_000);
    assert!(cluster.is_suspended("a"));
    cluster.end("other", PodPhase::Succeeded);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 3);
    cluster.end(&cluster.pods_of("a")[0].name.clone(), PodPhase::Succeeded);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 3);
    end_all(&mut cluster, "a");
    assert_eq!(cluster.bound("a-"), 1);
    end_all(&mut cluster, "a");
    assert_eq!(cluster.pods.len(), 1, "{:?}", cluster.pods.keys());
}

/// Without its label a list of tasks is single pods again, which keep their nodes.
#[test]
fn a_job_that_loses_its_label_keeps_its_nodes() {
    let mut cluster = Cluster::new([node("n", 4)]);
    let tasks = job("a", 3).spec("completionMode", json!("NonIndexed"));
    let key = cluster.create_job(&tasks);
    cluster.settle();
    cluster.change_job(&key, |job| job["metadata"]["labels"] = json!({}));
    cluster.settle();
    cluster.has_controller = false;
    for name in ["x", "y", "z"] {
        cluster.create(&pod(name, 1));
    }
    cluster.run(2_000);
    assert_eq!((cluster.bound("a-"), cluster.bound("x"), cluster.bound("y")), (3, 1, 0));
    cluster.end(&cluster.pods_of("a")[0].name.clone(), PodPhase::Succeeded);
    cluster.run(2_000);
    assert_eq!((cluster.bound("y"), cluster.bound("z")), (1, 0));
    cluster.assert_no_overcommit();
}

/// Admission plugins may change pods: a pod that needs more is planned anew.
#[test]
fn pods_that_are_larger_than_their_template_are_planned_anew() {
    let mut cluster = Cluster::new([node("n", 4), node("m", 4)]);
    cluster.has_controller = false;
    let key = cluster.create_job(&job("a", 4));
    cluster.settle();
    cluster.change_job(&key, |job| {
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] =
            json!(2);
    });
    cluster.control_job(&key, usize::MAX);
    cluster.run(2_000);
    assert_eq!(cluster.bound("a-"), 4);
    cluster.assert_no_overcommit();
}

/// A user may change the Job while the request to resume it is on its way.
#[test]
fn a_job_that_was_changed_is_planned_anew() {
    let mut cluster = Cluster::new([node("n", 4)]);
    let key = cluster.create_job(&job("a", 4));
    let actions = cluster.scheduler.step(cluster.now);
    assert_eq!(actions.len(), 1, "{actions:?}");
    cluster.change_job(&key, |job| {
        job["spec"]["parallelism"] = json!(5);
        job["spec"]["completions"] = json!(5);
    });
    for action in actions {
        cluster.carry_out(action);
    }
    cluster.run(10_000);
    assert!(cluster.is_suspended("a"));
    assert!(reported(&cluster, "a").contains("never fits"), "{}", reported(&cluster, "a"));
}

/// Without the label a suspended Job is the user's own business, as is one that others resumed.
#[test]
fn other_jobs_are_left_alone() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.set_priority_class("high", 100);
    let mut own = job("own", 1);
    own.0["metadata"]["labels"] = json!({});
    cluster.create_job(&own);
    let resumed = cluster.create_job(&job("resumed", 4).spec("suspend", json!(false)));
    cluster.run(60_000);
    assert!(cluster.is_suspended("own"));
    assert_eq!(cluster.bound("resumed-"), 4);
    cluster.create_job(&job("high", 4).pod_spec("priorityClassName", json!("high")));
    cluster.run(60_000);
    assert_eq!(cluster.bound("high-"), 4);
    assert!(cluster.suspensions.is_empty());
    assert_eq!(cluster.jobs[&resumed]["spec"]["suspend"], json!(false));
}

/// Returns an object of the namespace `team` with a queue label and two pods.
fn object(kind: GroupKind, is_suspended: bool) -> Value {
    let template = json!({"spec": pod("", 1).0["spec"]});
    let ray_cluster = || {
        json!({
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [{"replicas": 1, "template": template}],
        })
    };
    let mut spec = match kind {
        GroupKind::RayCluster => ray_cluster(),
        GroupKind::RayJob => {
            json!({"rayClusterSpec": ray_cluster(), "shutdownAfterJobFinishes": true})
        }
        GroupKind::TrainJob => json!({}),
        _ => {
            json!({"replicatedJobs": [{"replicas": 2, "template": {"spec": {"template": template}}}]})
        }
    };
    spec["suspend"] = json!(is_suspended);
    json!({
        "metadata": {
            "name": "a", "namespace": "team", "uid": kind.to_string(), "generation": 1,
            "labels": {"muster.run/queue": "default"}, "annotations": {},
        },
        "spec": spec,
    })
}

fn read(kind: GroupKind, object: &Value) -> GroupFacts {
    serde_json::from_value::<GroupText>(object.clone()).unwrap().facts(kind)
}

#[test]
fn objects_of_other_projects_wait_without_pods() {
    for (kind, label) in [
        (GroupKind::JobSet, "jobset.sigs.k8s.io/jobset-name"),
        (GroupKind::RayCluster, "ray.io/cluster"),
        (GroupKind::TrainJob, "jobset.sigs.k8s.io/jobset-name"),
    ] {
        let mut cluster = Cluster::new([node("n", 2)]);
        if kind == GroupKind::TrainJob {
            cluster.set_group(read(kind, &object(kind, true)));
            cluster.run(2_000);
            assert_eq!(reported(&cluster, "a"), "the JobSet a of this TrainJob does not exist");
            let mut job_set = object(GroupKind::JobSet, true);
            job_set["metadata"]["labels"] = json!({});
            job_set["metadata"]["ownerReferences"] =
                json!([{"kind": "TrainJob", "name": "a", "controller": true}]);
            cluster.set_group(read(GroupKind::JobSet, &job_set));
        } else {
            cluster.set_group(read(kind, &object(kind, true)));
        }
        let actions = cluster.scheduler.step(cluster.now);
        let [Action::Resume { workload, generation: 1 }] = &actions[..] else {
            panic!("{kind}: {actions:?}")
        };
        assert_eq!((workload.kind, &*workload.uid), (kind, &*kind.to_string()));
        let mut resumed = object(kind, false);
        resumed["metadata"]["generation"] = json!(2);
        resumed["metadata"]["annotations"]["muster.run/admitted"] = json!("x");
        cluster.set_group(read(kind, &resumed));
        cluster.scheduler.observe(Observation::Done(workload.clone()));
        cluster.create(&pod("rival", 1));
        cluster.run(2_000);
        cluster.create(&pod("a-0", 1).label(label, "a"));
        cluster.run(2_000);
        assert_eq!((cluster.bound("a-"), cluster.bound("rival")), (0, 0), "{kind}");
        cluster.create(&pod("a-1", 1).label(label, "a"));
        cluster.settle();
        assert_eq!((cluster.bound("a-"), cluster.bound("rival")), (2, 0), "{kind}");
        check_preemption_suspends(&mut cluster, kind);
    }
}

/// Checks that a pod of a higher priority has an object suspended, and none of its pods evicted: its controller
/// ends them.
fn check_preemption_suspends(cluster: &mut Cluster, kind: GroupKind) {
    let mut urgent = pod("urgent", 2);
    urgent.0["spec"]["priority"] = json!(1000);
    cluster.create(&urgent);
    let actions = cluster.scheduler.step(cluster.now);
    let suspends = |action: &Action| matches!(action, Action::Suspend { workload, .. } if workload.kind == kind);
    assert!(actions.iter().any(suspends), "{kind}: {actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Evict { .. })), "{actions:?}");
}

#[test]
fn an_explanation_names_the_roles_of_pods_that_differ() {
    let template = |gpus| json!({"spec": pod("", gpus).0["spec"]});
    let of_job_set = |name: &str, gpus| json!({"name": name, "template": {"spec": {"template": template(gpus)}}});
    let job_set = json!({"replicatedJobs": [of_job_set("driver", 1), of_job_set("trainer", 2)]});
    let ray = json!({
        "headGroupSpec": {"template": template(1)},
        "workerGroupSpecs": [{"groupName": "actors", "replicas": 1, "template": template(2)}],
    });
    for (kind, spec, [first, second]) in [
        (GroupKind::JobSet, job_set, ["driver", "trainer"]),
        (GroupKind::RayCluster, ray, ["headgroup", "actors"]),
    ] {
        let mut cluster = Cluster::new([node("n", 2)]);
        let mut waiting = object(kind, true);
        waiting["spec"] = spec;
        waiting["spec"]["suspend"] = json!(true);
        cluster.set_group(read(kind, &waiting));
        cluster.run(2_000);
        let text = reported(&cluster, "a");
        assert!(text.contains(&format!("0 of 1 pod of {first} fits beside {second}")), "{text}");
    }
}

/// The pods of a RayJob name its cluster, which has a name of its own for each start.
#[test]
fn a_ray_job_is_the_gang_of_the_pods_of_its_cluster() {
    let mut cluster = Cluster::new([node("n", 2)]);
    let label = "ray.io/cluster";
    let ray_job = |generation: u64, is_suspended: bool, cluster: &str| {
        let mut object = object(GroupKind::RayJob, is_suspended);
        object["metadata"]["generation"] = json!(generation);
        object["status"]["rayClusterName"] = json!(cluster);
        if !is_suspended {
            object["metadata"]["annotations"]["muster.run/admitted"] = json!("x");
        }
        read(GroupKind::RayJob, &object)
    };
    let pods = |cluster: &mut Cluster, name: &str| {
        for at in 0..2 {
            cluster.create(&pod(&format!("{name}-{at}"), 1).label(label, name));
        }
    };
    // 1. It is resumed, and its nodes are kept for pods of whatever cluster KubeRay makes.
    cluster.set_group(ray_job(1, true, ""));
    let actions = cluster.scheduler.step(cluster.now);
    let [Action::Resume { workload, .. }] = &actions[..] else { panic!("{actions:?}") };
    cluster.set_group(ray_job(2, false, "a-x1"));
    cluster.scheduler.observe(Observation::Done(workload.clone()));
    cluster.create(&pod("rival", 1));
    pods(&mut cluster, "a-x1");
    cluster.settle();
    assert_eq!((cluster.bound("a-"), cluster.bound("rival")), (2, 0));
    // 2. After a retry the pods of the next cluster are its own, also when they are seen before it says so.
    cluster.delete(&ObjectKey::new("team", "rival"));
    for name in ["a-x1-0", "a-x1-1"] {
        cluster.end(name, PodPhase::Failed);
        cluster.delete(&ObjectKey::new("team", name));
    }
    cluster.settle();
    pods(&mut cluster, "a-x2");
    cluster.set_group(ray_job(2, false, "a-x2"));
    cluster.settle();
    assert_eq!(cluster.bound("a-x2"), 2);
    // 3. It is preempted as a whole.
    check_preemption_suspends(&mut cluster, GroupKind::RayJob);
}
