//! Jobs as controllers and kubelets print them.

use muster_model::view::{JobState, JobView, TaskStage};
use muster_model::{GpuMilli, Outcome, Rank, Reason, TaskExit, Time};
use serde_json::json;

use super::*;
use crate::instant;

const BATCH: &JobApi = &APIS[0];
const JOB_SET: &JobApi = &APIS[1];
const VOLCANO: &JobApi = &APIS[5];

/// Makes a Job of two pods with two tasks each.
fn gang() -> Value {
    let container =
        |name: &str| json!({"name": name, "resources": {"limits": {"nvidia.com/gpu": 1}}});
    json!({
        "metadata": {
            "name": "train-x", "namespace": "team", "uid": "0123456789ab-cdef",
            "creationTimestamp": "2026-11-26T10:00:00Z",
            "labels": {"muster.run/queue": "research.vision"},
            "annotations": {"muster.run/job-name": "Train", "muster.run/user": "ann"},
        },
        "spec": {
            "parallelism": 2, "completions": 2,
            "template": {
                "metadata": {"labels": {"muster.run/role": "main"}},
                "spec": {"activeDeadlineSeconds": 600, "containers": [container("task0"), container("task1")]},
            },
        },
    })
}

/// Makes a pod of the gang; `states` are those of its containers.
fn pod(index: u32, states: [Value; 2]) -> Value {
    let status = |(name, state): (&str, Value)| json!({"name": name, "state": state});
    let statuses: Vec<Value> = ["task0", "task1"].into_iter().zip(states).map(status).collect();
    json!({
        "metadata": {
            "name": format!("train-x-{index}"), "namespace": "team",
            "creationTimestamp": "2026-11-26T10:00:01Z",
            "labels": {"batch.kubernetes.io/job-completion-index": index.to_string(), "muster.run/role": "main"},
        },
        "spec": {"nodeName": format!("node{index}")},
        "status": {"containerStatuses": statuses},
    })
}

fn running() -> Value {
    json!({"running": {"startedAt": "2026-11-26T10:00:05Z"}})
}

fn exited(code: i32, second: u32) -> Value {
    json!({"terminated": {
        "exitCode": code, "startedAt": "2026-11-26T10:00:05Z",
        "finishedAt": format!("2026-11-26T10:01:{second:02}Z"),
    }})
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": "said"}})
}

fn condition_of(kind: &str, reason: &str) -> Value {
    json!([{"type": kind, "status": "True", "reason": reason, "message": "m",
        "lastTransitionTime": "2026-11-26T10:02:00Z"}])
}

fn viewed(object: &Value, pods: &[Value]) -> JobView {
    view(JobObject { api: BATCH, object }, &pods.iter().collect::<Vec<_>>(), "team")
}

fn reason_of(view: &JobView) -> (&str, &str) {
    match &view.waiting_for {
        Some(Reason::Native { code, message, .. }) => (code, message),
        Some(Reason::Held) => ("held", ""),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_share_of_a_gpu_counts_as_what_it_is() {
    let job = json!({
        "metadata": {"name": "notebook", "namespace": "team"},
        "spec": {"parallelism": 2, "completions": 2, "template": {
            "metadata": {"annotations": {"muster.run/gpu-share": "0.25"}},
            "spec": {"containers": [{"name": "main"}]},
        }},
    });
    let [role] = &roles(JobObject { api: BATCH, object: &job })[..] else { panic!("one role") };
    assert_eq!((role.pods, role.gpus), (2, GpuMilli(250)));
}

#[test]
fn a_gang_is_what_its_object_and_pods_say() {
    let view = viewed(&gang(), &[pod(1, [running(), running()]), pod(0, [running(), running()])]);
    assert_eq!(
        (view.job.0, view.name.as_str(), view.user.as_str()),
        (0x0123_4567_89ab, "Train", "ann")
    );
    assert_eq!((view.queue.as_str(), view.label().as_str()), ("research/vision", "train-x"));
    assert_eq!((view.state, view.tasks, view.gpus), (JobState::Running, 4, GpuMilli(4000)));
    assert_eq!(view.started.unwrap().0 - view.submitted.0, 5_000);
    let element = &view.elements[0];
    let places: Vec<_> =
        element.tasks.iter().map(|task| (task.rank.0, task.node.as_str())).collect();
    assert_eq!(places, [(0, "node0"), (1, "node0"), (2, "node1"), (3, "node1")]);
    assert_eq!(element.ends_by, Some(Time(view.started.unwrap().0 + 600_000)));
    // Of the client's clock, what the creation has not: parts of a second.
    let submitted = |text: &str| {
        let mut job = gang();
        job["metadata"]["annotations"]["muster.run/submitted"] = json!(text);
        viewed(&job, &[]).submitted
    };
    let created = view.submitted.0;
    assert_eq!(submitted(&(created + 250).to_string()).0, created + 250);
    assert_eq!(submitted(&(created + 9000).to_string()).0, created);
    assert_eq!(submitted("x").0, created);
    // A user of another namespace types it with its own.
    let job = gang();
    let other = super::view(JobObject { api: BATCH, object: &job }, &[], "mine");
    assert_eq!(other.label(), "team/train-x");
}

#[test]
fn it_runs_when_all_tasks_do() {
    let state = |pods: &[Value]| viewed(&gang(), pods).state;
    assert_eq!(state(&[]), JobState::Pending);
    assert_eq!(state(&[pod(0, [running(), running()])]), JobState::Starting);
    let half = pod(1, [running(), waiting("ContainerCreating")]);
    assert_eq!(state(&[pod(0, [running(), running()]), half]), JobState::Starting);
    let done = |index| pod(index, [exited(0, 1), exited(0, 1)]);
    assert_eq!(state(&[pod(0, [running(), running()]), done(1)]), JobState::Running);
    // Its controller has not counted the last end.
    assert_eq!(state(&[done(0), done(1)]), JobState::Stopping);
    let failed = pod(1, [exited(0, 1), exited(1, 1)]);
    assert_eq!(state(&[done(0), failed]), JobState::Starting);
    let mut unbound = pod(0, [json!({}), json!({})]);
    unbound["spec"] = json!({});
    unbound["status"] = json!({});
    let view = viewed(&gang(), std::slice::from_ref(&unbound));
    let unsaid = ("NotScheduled", "its scheduler has not said why yet");
    assert_eq!((view.state, reason_of(&view)), (JobState::Pending, unsaid));
    unbound["status"] = json!({"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "needs 2 GPUs"}]});
    let view = viewed(&gang(), &[unbound]);
    assert_eq!(
        (view.state, reason_of(&view)),
        (JobState::Pending, ("Unschedulable", "needs 2 GPUs"))
    );
    let view = viewed(&gang(), &[pod(0, [waiting("ImagePullBackOff"), running()])]);
    let text = "said; check the name of the image, and `pull-secrets` for a private registry";
    assert_eq!((view.state, reason_of(&view)), (JobState::Starting, ("ImagePullBackOff", text)));
}

/// Makes the pod of the gang that the cluster ended, and the code with which its program then did.
fn disrupted(index: u32, reason: &str, code: i32) -> Value {
    let mut pod = pod(index, [exited(code, 30), exited(code, 30)]);
    pod["status"]["phase"] = json!("Failed");
    pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
        "reason": reason, "message": "said", "lastTransitionTime": "2026-11-26T10:01:00Z"}]);
    pod
}

fn preempted(pods: &[Value], reason: &str) -> JobView {
    let mut job = gang();
    job["status"] = json!({"conditions": condition_of("Failed", reason)});
    viewed(&job, pods)
}

#[test]
fn a_pod_that_the_cluster_ended_is_lost_or_preempted() {
    const HINT: &str = "`restart` in the job file starts it again";
    for (reason, words) in [
        ("EvictionByEvictionAPI", "it was evicted, as by `kubectl drain` (said)"),
        ("DeletionByTaintManager", "its node has a taint that it does not tolerate (said)"),
        ("TerminationByKubelet", "its node shut down, or ran out of memory or disk (said)"),
        ("DeletionByPodGC", "its node is gone (said)"),
        ("Other", "Other (said)"),
    ] {
        let lost = Outcome::Lost { rank: Rank(2), reason: format!("{words}; {HINT}").into() };
        check_failure(&[disrupted(1, reason, 143)], "BackoffLimitExceeded", lost);
    }
    // The other task fails while the preempted one has its grace period.
    let peer = pod(0, [exited(1, 10), exited(1, 10)]);
    let mut deleted = disrupted(1, "PreemptionByScheduler", 137);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-26T10:01:00Z");
    let view = preempted(&[peer, deleted.clone()], "BackoffLimitExceeded");
    let message =
        format!("rank 2 ended: it was preempted by a pod of a higher priority (said); {HINT}");
    let outcome = Outcome::Native {
        state: "PreemptionByScheduler".into(),
        message: message.into(),
        code: 125,
    };
    assert_eq!((view.state, &view.elements[0].outcome), (JobState::Preempted, &Some(outcome)));
    // A program that had failed before, and one that took too much memory, failed by themselves.
    let mut before = disrupted(1, "DeletionByPodGC", 3);
    before["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-11-26T10:01:31Z");
    let failed = Outcome::Failed { rank: Rank(2), code: 3 };
    check_failure(&[before], "BackoffLimitExceeded", failed);
    let mut killed = disrupted(1, "TerminationByKubelet", 137);
    killed["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = json!("OOMKilled");
    let memory = Outcome::OutOfMemory { rank: Rank(2) };
    check_failure(&[killed], "BackoffLimitExceeded", memory);
    // Its controller starts it again.
    let view = viewed(&gang(), &[deleted]);
    let text = "it was preempted by a pod of a higher priority (said); its controller has not created the next pods yet";
    assert_eq!(reason_of(&view), ("Restarting", text));
}

#[test]
fn a_job_whose_failed_pod_is_gone_names_that_cause_too() {
    let view = preempted(&[], "BackoffLimitExceeded");
    let Some(Outcome::Native { state, message, code: 1 }) = &view.elements[0].outcome else {
        panic!("{view:?}")
    };
    assert_eq!((&**state, view.state), ("BackoffLimitExceeded", JobState::Failed));
    assert!(message.contains("preempted or evicted: `kubectl get events`"), "{message}");
}

/// Checks the outcome of a job that its controller calls failed.
fn check_failure(pods: &[Value], reason: &str, expected: Outcome) {
    let mut job = gang();
    job["status"] = json!({"conditions": condition_of("Failed", reason)});
    let view = viewed(&job, pods);
    assert_eq!(view.elements[0].outcome, Some(expected));
    assert_eq!(view.state, JobState::Failed);
    assert_eq!(view.ended.unwrap().0 - view.submitted.0, 120_000);
}

#[test]
fn it_fails_as_its_first_failed_task_did() {
    let later = pod(0, [exited(1, 30), exited(0, 31)]);
    let first = pod(1, [exited(0, 20), exited(7, 21)]);
    let failed = Outcome::Failed { rank: Rank(3), code: 7 };
    check_failure(&[later.clone(), first.clone()], "BackoffLimitExceeded", failed);
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-26T10:01:00Z"}});
    check_failure(
        &[pod(0, [killed, running()]), first],
        "BackoffLimitExceeded",
        Outcome::OutOfMemory { rank: Rank(0) },
    );
    let mut timed_out = later.clone();
    timed_out["status"]["reason"] = json!("DeadlineExceeded");
    timed_out["status"]["phase"] = json!("Failed");
    check_failure(&[timed_out], "BackoffLimitExceeded", Outcome::TimedOut);
    let mut evicted = later;
    evicted["status"]["reason"] = json!("Evicted");
    evicted["status"]["message"] = json!("low on memory");
    let lost = Outcome::Lost { rank: Rank(0), reason: "Evicted: low on memory".into() };
    check_failure(&[evicted], "BackoffLimitExceeded", lost);
    // Without its pods, the controller alone tells.
    check_failure(&[], "DeadlineExceeded", Outcome::TimedOut);
    let native = Outcome::Native { state: "PodFailurePolicy".into(), message: "m".into(), code: 1 };
    check_failure(&[], "PodFailurePolicy", native);
}

#[test]
fn it_waits_while_it_is_suspended() {
    let suspended = |change: fn(&mut Value)| {
        let mut job = gang();
        job["spec"]["suspend"] = json!(true);
        change(&mut job);
        viewed(&job, &[])
    };
    let view = suspended(|_| {});
    let text = "Muster's scheduler has not said why it waits yet";
    assert_eq!((view.state, reason_of(&view)), (JobState::Pending, ("Suspended", text)));
    let view = suspended(|job| {
        job["status"] = json!({"conditions": [
            {"type": "muster.run/Admitted", "status": "False", "reason": "Waiting", "message": "needs 4 GPUs"}]});
    });
    assert_eq!(reason_of(&view), ("Waiting", "needs 4 GPUs"));
    let view = suspended(|job| job["metadata"]["annotations"]["muster.run/held"] = json!("true"));
    assert_eq!((view.state, reason_of(&view).0), (JobState::Held, "held"));
    let view = suspended(|job| {
        job["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "main"});
    });
    assert_eq!((view.state, view.queue.as_str()), (JobState::Pending, "main"));
    let view = suspended(|job| job["metadata"]["labels"] = json!({}));
    assert_eq!((view.state, reason_of(&view).0), (JobState::Held, "Suspended"));
    // Its pods still run for a while.
    let mut job = gang();
    job["spec"]["suspend"] = json!(true);
    assert_eq!(viewed(&job, &[pod(0, [running(), running()])]).state, JobState::Stopping);
}

#[test]
fn a_user_who_cancels_it_is_named() {
    let cancelled = |change: fn(&mut Value)| {
        let mut job = gang();
        job["metadata"]["annotations"]["muster.run/cancelled"] = json!("bob");
        change(&mut job);
        viewed(&job, &[])
    };
    let by = Some(Outcome::Cancelled { by: "bob".into() });
    assert_eq!(cancelled(|_| {}).state, JobState::Stopping);
    for change in [
        |job: &mut Value| {
            job["status"] = json!({"conditions": condition_of("Failed", "DeadlineExceeded")})
        },
        |job: &mut Value| job["spec"]["suspend"] = json!(true),
    ] {
        let view = cancelled(change);
        assert_eq!((view.state, &view.elements[0].outcome), (JobState::Cancelled, &by));
    }
    // It had ended before.
    let view = cancelled(|job| job["status"] = json!({"conditions": condition_of("Complete", "")}));
    assert_eq!(view.state, JobState::Done);
}

#[test]
fn elements_of_an_array_are_counted_and_shown() {
    let mut job = gang();
    job["metadata"]["annotations"]["muster.run/array"] =
        json!(r#"{"first":3,"last":9,"step":2,"max_running":2}"#);
    job["spec"]["completions"] = json!(4);
    job["spec"]["template"]["spec"]["containers"] = json!([{"name": "main"}]);
    job["status"] = json!({"active": 1, "succeeded": 1, "failed": 3, "failedIndexes": "2"});
    let one = |index: u32, state: Value, created: &str| {
        let mut pod = pod(index, [json!({}), json!({})]);
        pod["metadata"]["name"] = json!(format!("a-{index}-{created}"));
        pod["metadata"]["creationTimestamp"] = json!(format!("2026-11-26T10:00:{created}Z"));
        pod["status"]["containerStatuses"] = json!([{"name": "main", "state": state}]);
        pod
    };
    let pods = [
        one(0, exited(0, 1), "01"),
        one(1, exited(1, 1), "01"),
        one(1, running(), "09"),
        one(2, exited(5, 1), "01"),
    ];
    let view = viewed(&job, &pods);
    let array = view.array.unwrap();
    assert_eq!(
        (array.total, array.active, array.succeeded, array.failed, array.waiting),
        (4, 1, 1, 1, 1)
    );
    assert_eq!(array.max_running, Some(2));
    // Only what runs is listed; the second attempt of index 5 does.
    let shown: Vec<_> =
        view.elements.iter().map(|one| (one.element.index, one.state, one.attempt)).collect();
    assert_eq!(shown, [(5, JobState::Running, 2)]);
    let all: Vec<&Value> = pods.iter().collect();
    let with = with_element(view.clone(), JobObject { api: BATCH, object: &job }, &all, 7);
    let failed = with.elements.iter().find(|one| one.element.index == 7).unwrap();
    assert_eq!(failed.tasks[0].exit, Some(TaskExit::Code { code: 5 }));
    let without = with_element(view.clone(), JobObject { api: BATCH, object: &job }, &all, 6);
    assert_eq!(without, view);
    // All of them, also one whose pod is gone.
    let mut gone = job.clone();
    gone["status"]["completedIndexes"] = json!("0,3");
    let rows = elements(JobObject { api: BATCH, object: &gone }, &all, "default");
    let rows: Vec<_> = rows.iter().map(|row| (row.index, row.state, row.attempt)).collect();
    let indices: Vec<u32> = rows.iter().map(|row| row.0).collect();
    assert_eq!(indices.len(), 4, "{rows:?}");
    assert_eq!(rows[1], (5, JobState::Running, 2));
    assert_eq!(rows[2], (7, JobState::Failed, 1));
    assert_eq!((rows[0].1, rows[3].1), (JobState::Done, JobState::Done));
}

#[test]
fn roles_of_other_kinds_have_ranks_in_their_order() {
    let template = json!({"spec": {"containers": [{"name": "c"}, {"name": "sidecar"}]}});
    let replicated = |name: &str, replicas: u32, parallelism: u32| json!({"name": name, "replicas": replicas, "template": {"spec": {"parallelism": parallelism, "template": template}}});
    let set = json!({
        "metadata": {"name": "s", "uid": "1"},
        "spec": {"replicatedJobs": [replicated("head", 1, 1), replicated("workers", 2, 2)]},
    });
    let job = JobObject { api: JOB_SET, object: &set };
    let found = roles(job);
    let sizes: Vec<_> = found.iter().map(|role| (role.name.as_str(), role.tasks())).collect();
    assert_eq!(sizes, [("head", 1), ("workers", 4)]);
    let pod = |role: &str, job_index: &str, index: &str| {
        json!({"metadata": {"name": format!("{role}-{job_index}-{index}"), "labels": {
        "jobset.sigs.k8s.io/replicatedjob-name": role, "jobset.sigs.k8s.io/job-index": job_index,
        "batch.kubernetes.io/job-completion-index": index}}})
    };
    let pods = [pod("workers", "1", "1"), pod("head", "0", "0"), pod("workers", "0", "1")];
    let all: Vec<&Value> = pods.iter().collect();
    let ranks: Vec<_> =
        tasks(job, &found, &all).iter().map(|task| (task.rank, task.container)).collect();
    assert_eq!(ranks, [(0, "c"), (2, "c"), (4, "c")]);
    let volcano = json!({
        "metadata": {"name": "v", "uid": "2"},
        "spec": {"queue": "q", "tasks": [{"name": "ps", "replicas": 1, "template": template}, {"name": "worker", "replicas": 3, "template": template}]},
        "status": {"state": {"phase": "Aborted", "message": "by a user"}},
    });
    let view = super::view(JobObject { api: VOLCANO, object: &volcano }, &[], "team");
    assert_eq!((view.tasks, view.queue.as_str(), view.state), (4, "q", JobState::Failed));
    assert_eq!(view.native.unwrap().state, "Aborted");
}

#[test]
fn phases_of_volcano_are_states() {
    let job = |phase: &str, message: &str| {
        let template = json!({"spec": {"containers": [{"name": "main"}]}});
        json!({
            "metadata": {"name": "v", "uid": "2"},
            "spec": {"tasks": [{"name": "main", "replicas": 1, "template": template}]},
            "status": {"state": {"phase": phase, "message": message}},
        })
    };
    let pod = json!({
        "metadata": {"name": "v-main-0"}, "spec": {"nodeName": "n"},
        "status": {"containerStatuses": [{"name": "main", "state": running()}]},
    });
    let viewed = |job: &Value, pods: &[&Value]| {
        let view = super::view(JobObject { api: VOLCANO, object: job }, pods, "team");
        assert_eq!(view.native.as_ref().unwrap().state, job["status"]["state"]["phase"]);
        view
    };
    let check = |phase: &str, pods: &[&Value], state| {
        assert_eq!(viewed(&job(phase, ""), pods).state, state, "{phase}");
    };
    check("Pending", &[], JobState::Pending);
    check("Running", &[&pod], JobState::Running);
    for phase in ["Aborting", "Terminating", "Completing"] {
        check(phase, &[&pod], JobState::Stopping);
        check(phase, &[], JobState::Stopping);
    }
    check("Restarting", &[&pod], JobState::Stopping);
    check("Completed", &[], JobState::Done);
    check("Failed", &[], JobState::Failed);
    let mut again = job("Restarting", "");
    again["status"]["retryCount"] = json!(2);
    let restarting = viewed(&again, &[]);
    assert_eq!(restarting.native.as_ref().unwrap().restarts, 2);
    let text = "Volcano starts it again, and has not created the next pods yet";
    assert_eq!(
        (restarting.state, reason_of(&restarting)),
        (JobState::Pending, ("Restarting", text))
    );
    let outcome = |phase: &str, message: &str| {
        let view = viewed(&job(phase, message), &[]);
        assert_eq!(view.state, JobState::Failed);
        view.elements[0].outcome.as_ref().unwrap().to_string()
    };
    assert!(outcome("Aborted", "").starts_with("Volcano aborted it"));
    assert!(outcome("Aborted", "said").starts_with("said; Volcano aborted it"));
    assert!(outcome("Terminated", "").contains("it cannot be resumed"));
}

#[test]
fn volcano_says_why_a_job_waits() {
    let reason = |status: Value| {
        let group = json!({
            "metadata": {"ownerReferences": [{"controller": true, "uid": "u1"}]},
            "spec": {"queue": "research"}, "status": status,
        });
        volcano::waiting_reason(&group).map(|(uid, reason)| match reason {
            Reason::Native { code, message, .. } => format!("{uid} {code}: {message}"),
            other => panic!("{other:?}"),
        })
    };
    let unschedulable = json!([{"type": "Unschedulable", "status": "True",
        "reason": "NotEnoughResources", "message": "2/2 tasks in gang unschedulable"}]);
    let with = |phase: &str| json!({"phase": phase, "conditions": unschedulable});
    let said = Some("u1 NotEnoughResources: 2/2 tasks in gang unschedulable".to_owned());
    assert_eq!(reason(with("Inqueue")), said);
    assert_eq!(reason(with("Unknown")), said);
    assert_eq!(reason(with("Running")), None);
    assert_eq!(reason(json!({"phase": "Inqueue"})), None);
    let waits = reason(json!({"phase": "Pending"})).unwrap();
    assert!(waits.starts_with("u1 NotEnqueued: Volcano has not let it into its queue research"));
    let is_waiting = |spec: Value, phase: &str| {
        let object = json!({"spec": spec, "status": {"state": {"phase": phase}}});
        volcano::is_waiting(JobObject { api: VOLCANO, object: &object })
    };
    assert!(is_waiting(json!({"schedulerName": "volcano"}), "Pending"));
    assert!(is_waiting(json!({}), ""));
    assert!(!is_waiting(json!({}), "Running"));
    assert!(!is_waiting(json!({"schedulerName": "muster"}), "Pending"));
    assert!(!volcano::is_waiting(JobObject { api: BATCH, object: &gang() }));
}

#[test]
fn a_service_runs_as_long_as_a_replica_does() {
    let deployment = json!({
        "metadata": {"name": "api-x", "namespace": "team", "uid": "3", "annotations": {
            "muster.run/replicas": r#"{"floor":2,"ceiling":6}"#}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "main", "ports": [{"containerPort": 8000}]}]}}},
        "status": {"readyReplicas": 1},
    });
    let replica = |name: &str, state: Value| {
        json!({
            "metadata": {"name": name}, "spec": {"nodeName": "n"},
            "status": {"containerStatuses": [{"name": "main", "state": state}]},
        })
    };
    let pods = [replica("api-x-b", waiting("CrashLoopBackOff")), replica("api-x-a", running())];
    let api = &APIS[8];
    let shown = |pods: &[Value]| {
        super::view(
            JobObject { api, object: &deployment },
            &pods.iter().collect::<Vec<_>>(),
            "team",
        )
    };
    let view = shown(&pods);
    let service = view.service.unwrap();
    assert_eq!(
        (service.guaranteed, service.max, service.ready, service.port),
        (2, 6, 1, Some(8000))
    );
    assert_eq!((service.active, service.waiting, view.tasks), (2, 1, 1));
    let states: Vec<_> = view.elements.iter().map(|one| (one.element.index, one.state)).collect();
    assert_eq!(states, [(0, JobState::Running), (1, JobState::Starting)]);
    assert_eq!(view.state, JobState::Running);
    let starting = shown(&pods[..1]);
    assert_eq!((starting.state, reason_of(&starting).0), (JobState::Starting, "CrashLoopBackOff"));
    assert_eq!(shown(&[]).state, JobState::Pending);
}

#[test]
fn an_inference_service_is_one_of_pods_that_kserve_makes() {
    let api = APIS.iter().find(|api| api.is_of_kserve()).unwrap();
    let mut object = json!({
        "metadata": {"name": "chat", "namespace": "team", "uid": "4", "annotations": {}},
        "spec": {"predictor": {"minReplicas": 2, "model": {
            "modelFormat": {"name": "vllm"}, "resources": {"limits": {"nvidia.com/gpu": 2}}}}},
        "status": {"conditions": [{"type": "PredictorReady", "status": "False",
            "reason": "ReconcileFailed", "message": "no runtime supports the model"}]},
    });
    let shown =
        |object: &Value, pods: &[&Value]| super::view(JobObject { api, object }, pods, "team");
    let view = shown(&object, &[]);
    assert_eq!(view.state, JobState::Pending);
    assert_eq!(reason_of(&view), ("ReconcileFailed", "no runtime supports the model"));
    let service = view.service.unwrap();
    assert_eq!((service.guaranteed, service.max, service.waiting, service.port), (2, 2, 2, None));
    let replica = json!({
        "metadata": {"name": "chat-predictor-a"}, "spec": {"nodeName": "n"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "kserve-container", "state": running()}],
        },
    });
    let view = shown(&object, &[&replica]);
    let service = view.service.unwrap();
    assert_eq!((view.state, view.gpus), (JobState::Running, GpuMilli(2000)));
    assert_eq!((service.ready, service.active, service.waiting), (1, 1, 1));
    object["metadata"]["annotations"]["serving.kserve.io/stop"] = "true".into();
    let view = shown(&object, &[]);
    assert_eq!((view.state, reason_of(&view).0), (JobState::Held, "Stopped"));
}

#[test]
fn kueue_says_why_a_job_waits() {
    let workload = |conditions: Value| {
        let workload = json!({
            "metadata": {"ownerReferences": [{"controller": true, "uid": "u1"}]},
            "status": {"conditions": conditions},
        });
        kueue::waiting_reason(&workload)
    };
    let one = |kind: &str, status: &str, text: &str| json!({"type": kind, "status": status, "reason": "Pending", "message": text});
    let reason = |text: &str| {
        let message = text.to_owned();
        let native = Reason::Native { code: "Pending".to_owned(), message, evidence: Vec::new() };
        Some(("u1".to_owned(), native))
    };
    let quota = one("QuotaReserved", "False", "couldn't assign flavors");
    assert_eq!(workload(json!([quota])), reason("couldn't assign flavors"));
    // Words of Kueue 0.19.
    let beyond = "insufficient quota for nvidia.com/gpu in flavor a, previously considered podsets requests (0) + current podset request (12) > maximum capacity (8)";
    let said = |text: &str| match workload(json!([one("QuotaReserved", "False", text)])) {
        Some((_, Reason::Native { message, .. })) => message,
        other => panic!("{other:?}"),
    };
    assert!(said(beyond).starts_with(&format!("{beyond}: it never starts while ")));
    let later = format!(
        "{beyond}, insufficient unused quota for nvidia.com/gpu in flavor b, 4 more needed"
    );
    assert_eq!(said(&later), later);
    let checks = one("Admitted", "False", "the checks are not ready");
    let reserved = one("QuotaReserved", "True", "reserved");
    assert_eq!(workload(json!([checks, reserved])), reason("the checks are not ready"));
    assert_eq!(workload(json!([reserved])), None);
    assert_eq!(workload(Value::Null), None);
    let is_waiting = |change: fn(&mut Value)| {
        let mut job = gang();
        job["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "main"});
        job["spec"]["runPolicy"] = json!({"suspend": true});
        change(&mut job);
        kueue::is_waiting(JobObject { api: BATCH, object: &job })
    };
    assert!(is_waiting(|_| ()));
    assert!(!is_waiting(|job| job["spec"]["runPolicy"] = json!({})));
    assert!(!is_waiting(|job| job["metadata"]["labels"] = json!({})));
    assert!(!is_waiting(|job| job["metadata"]["labels"]["muster.run/queue"] = json!("a")));
    assert!(!is_waiting(|job| {
        job["status"] = json!({"conditions": [{"type": "muster.run/Admitted", "status": "False"}]});
    }));
}

#[test]
fn a_job_whose_pods_are_gone_still_has_its_start() {
    let ended = |kind: &str| {
        let mut job = gang();
        job["status"] =
            json!({"startTime": "2026-11-26T10:00:10Z", "conditions": condition_of(kind, "")});
        viewed(&job, &[]).started
    };
    for kind in ["Complete", "Completed", "Succeeded", "Failed"] {
        assert!(ended(kind).is_some(), "{kind}");
    }
    assert_eq!(viewed(&gang(), &[]).started, None);
}

#[test]
fn parts_of_a_job_are_no_jobs() {
    let owned = |version: &str, kind: &str| {
        let object = json!({"metadata": {"ownerReferences": [
            {"apiVersion": version, "kind": kind, "name": "o", "controller": true}]}});
        JobObject { api: BATCH, object: &object }.is_part_of_another()
    };
    assert!(owned("jobset.x-k8s.io/v1alpha2", "JobSet"));
    assert!(owned("kubeflow.org/v1", "MPIJob"));
    assert!(!owned("batch/v1", "CronJob"));
    assert!(!owned("example.com/v1", "Job"));
}

#[test]
fn stages_are_those_that_kubelets_tell() {
    let job = gang();
    let object = JobObject { api: BATCH, object: &job };
    let found = roles(object);
    let stages = |state: Value| {
        let pod = pod(0, [state.clone(), state]);
        tasks(object, &found, &[&pod])[0].view().stage
    };
    assert_eq!(stages(running()), TaskStage::Running);
    assert_eq!(stages(exited(0, 1)), TaskStage::Ended);
    assert_eq!(stages(waiting("ContainerCreating")), TaskStage::Ordered);
}

#[test]
fn attempts_of_one_pod_are_one_task() {
    let mut job = gang();
    job["spec"]["parallelism"] = json!(1);
    job["spec"]["template"]["spec"]["containers"] = json!([{"name": "main"}]);
    let attempt = |name: &str, created: &str, state: Value| {
        json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-11-26T10:00:{created}Z")},
            "spec": {"nodeName": "n"},
            "status": {"containerStatuses": [{"name": "main", "state": state}]},
        })
    };
    let mut first = attempt("train-x-b", "01", exited(1, 1));
    first["status"]["phase"] = json!("Failed");
    let view = viewed(&job, &[first.clone(), attempt("train-x-a", "09", running())]);
    let element = &view.elements[0];
    assert_eq!((view.state, element.attempt, element.tasks.len()), (JobState::Running, 2, 1));
    assert_eq!(element.tasks[0].stage, TaskStage::Running);
    // In the pause between two attempts.
    let view = viewed(&job, &[first.clone()]);
    assert_eq!((view.state, reason_of(&view).0), (JobState::Pending, "Restarting"));
    job["status"] = json!({"conditions": condition_of("FailureTarget", "BackoffLimitExceeded")});
    assert_eq!(viewed(&job, &[first]).state, JobState::Stopping);
}

#[test]
fn containers_that_run_before_the_program_keep_it_from_starting_or_fail_it() {
    let with_init = |state: Value| {
        let mut pod = pod(0, [json!({}), json!({})]);
        pod["status"]["initContainerStatuses"] = json!([{"name": "fetch", "state": state}]);
        pod
    };
    let view = viewed(&gang(), &[with_init(waiting("CrashLoopBackOff"))]);
    assert_eq!(reason_of(&view).0, "CrashLoopBackOff");
    let mut failed = with_init(exited(9, 1));
    failed["status"]["phase"] = json!("Failed");
    check_failure(&[failed], "BackoffLimitExceeded", Outcome::Failed { rank: Rank(0), code: 9 });
    // A node that takes no pod reports no container.
    let mut refused = pod(1, [json!({}), json!({})]);
    refused["status"] = json!({"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"});
    let lost = Outcome::Lost { rank: Rank(2), reason: "OutOfcpu: no cpu".into() };
    check_failure(&[refused], "BackoffLimitExceeded", lost);
}

#[test]
fn pods_beside_the_tasks_of_a_trainjob_are_no_tasks() {
    let object = json!({
        "metadata": {"name": "t", "uid": "4"}, "spec": {"trainer": {"numNodes": 2}},
    });
    let job = JobObject { api: &APIS[2], object: &object };
    let pod = |role: &str, index: u32, state: Value| {
        json!({
            "metadata": {"name": format!("t-{role}-{index}"), "labels": {
                "jobset.sigs.k8s.io/replicatedjob-name": role,
                "batch.kubernetes.io/job-completion-index": index.to_string()}},
            "spec": {"nodeName": "n", "containers": [{"name": "trainer"}]},
            "status": {"containerStatuses": [{"name": "trainer", "state": state}]},
        })
    };
    let pods = [
        pod("dataset-initializer", 0, exited(0, 1)),
        pod("node", 0, running()),
        pod("node", 1, running()),
    ];
    let view = super::view(job, &pods.iter().collect::<Vec<_>>(), "team");
    assert_eq!((view.state, view.elements[0].tasks.len()), (JobState::Running, 2));
}

#[test]
fn what_anyone_may_write_does_no_harm() {
    let mut job = gang();
    job["metadata"]["annotations"]["muster.run/array"] =
        json!(r#"{"first":3,"last":1,"step":0,"max_running":null}"#);
    job["spec"]["parallelism"] = json!(4_000_000_000_u32);
    let view = viewed(&job, &[]);
    assert_eq!((view.array, view.tasks), (None, u32::MAX));
    job["spec"]["parallelism"] = json!(0);
    let view = viewed(&job, &[]);
    assert_eq!((view.state, reason_of(&view).0), (JobState::Held, "NoParallelism"));
    job["spec"] = json!({"parallelism": 2, "completions": 10, "completionMode": "Indexed"});
    let object = JobObject { api: BATCH, object: &job };
    assert_eq!(ranks(object, &roles(object)), 10);
}

#[test]
fn gpu_time_is_that_of_the_tasks_that_have_started() {
    let object = gang();
    let job = JobObject { api: BATCH, object: &object };
    let first = pod(0, [running(), exited(0, 5)]);
    let second = pod(1, [waiting("ContainerCreating"), running()]);
    let now = instant::parse("2026-11-26T10:01:45Z").unwrap();
    // Two tasks of 100 seconds so far, one of 60; the fourth has not started.
    let of_gang = used(job, &[&first, &second], now);
    let expected = UsedGpuTime { queue: "research/vision".to_owned(), elements: 1, gpu_secs: 260 };
    assert_eq!(of_gang, expected);
    assert_eq!(used(job, &[], now), UsedGpuTime { elements: 0, gpu_secs: 0, ..expected });
}
