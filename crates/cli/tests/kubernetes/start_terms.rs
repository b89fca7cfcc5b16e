//! Jobs that wait for more than nodes, as `muster export kubernetes` writes them: for a release, an instant,
//! or other objects. They wait without pods, also when the scheduler is replaced, and the real Job controller runs them.

use serde_json::{Value, json};

use crate::admission::{get_job, is_done, job, opted_in};
use crate::cluster::{KubernetesCluster, TestNamespace, success, until};
use crate::explain::explained;
use crate::export::{export, export_document};
use crate::scheduler_process::SchedulerProcess;

/// Returns a job of a file with one pod, which takes a node for a second.
fn document(terms: &str) -> String {
    format!(
        "{terms}\ngpus: 8\nrun: train\nkubernetes: {{image: none, annotations: {{fake-kubelet/run-seconds: '1'}}}}\n"
    )
}

/// Creates the objects of a job file.
fn create_exported(cluster: &KubernetesCluster, namespace: &TestNamespace, terms: &str) {
    create(cluster, namespace, &success(&["export", terms], &export(&document(terms), "muster")));
}

fn create(cluster: &KubernetesCluster, namespace: &TestNamespace, objects: &str) {
    let words = ["create", "--filename=-", "--namespace", namespace.name()];
    success(&words, &cluster.kubectl_with(&words, objects));
}

/// Sets an annotation, or removes it, if it ends with `-`.
fn annotate(cluster: &KubernetesCluster, namespace: &TestNamespace, job: &str, annotation: &str) {
    let object = format!("job/{job}");
    let words = ["annotate", "--overwrite", &object, annotation, "--namespace", namespace.name()];
    cluster.kubectl(&words);
}

/// Waits until a Job says with this text why it waits.
fn says(cluster: &KubernetesCluster, namespace: &TestNamespace, job: &str, text: &str) {
    until(text, || told(&get_job(cluster, namespace, job)).contains(text));
}

fn told(job: &Value) -> String {
    let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let own = conditions.iter().find(|one| one["type"] == "muster.run/Admitted");
    own.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned()
}

fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == json!(true)
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_held_job_waits_until_it_is_released() {
    let cluster = KubernetesCluster::here();
    let first = SchedulerProcess::active(&cluster);
    // Without the label of the namespace, and with it: then its queue is that of the namespace.
    let plain = cluster.namespace("terms-held");
    let labelled = opted_in(&cluster, "terms-held-opted-in");
    for (namespace, queue) in [(&plain, ""), (&labelled, "default")] {
        create_exported(&cluster, namespace, "name: held\nhold: true");
        let job = get_job(&cluster, namespace, "held");
        assert_eq!(job["metadata"]["labels"]["muster.run/queue"], queue);
        says(
            &cluster,
            namespace,
            "held",
            "on hold until its annotation muster.run/held is removed",
        );
    }
    let text = explained(&cluster, &plain, "held");
    assert!(text.starts_with("held is held\n"), "{text}");
    assert!(text.contains("until its annotation muster.run/held is removed"), "{text}");

    // The successor holds it, too.
    drop(first);
    let _second = SchedulerProcess::active(&cluster);
    plain.create_object(&suspended("other"));
    until("a Job that is not held is done", || is_done(&get_job(&cluster, &plain, "other")));
    for namespace in [&plain, &labelled] {
        let job = get_job(&cluster, namespace, "held");
        assert!(is_suspended(&job) && job["status"]["startTime"].is_null(), "{job}");
        annotate(&cluster, namespace, "held", "muster.run/held-");
        until("the released Job is done", || {
            get_job(&cluster, namespace, "held")["status"]["succeeded"] == json!(1)
        });
    }
}

/// Returns a Job with a pod that Muster starts as soon as it can.
fn suspended(name: &str) -> Value {
    let mut one = job(name, 1, "1");
    one["metadata"]["labels"] = json!({"muster.run/queue": ""});
    one["spec"]["suspend"] = json!(true);
    one["spec"]["template"]["spec"]["schedulerName"] = json!("muster");
    one
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_job_begins_at_its_instant() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("terms-begin");
    create_exported(&cluster, &namespace, "name: later\nbegin: +8s");
    says(&cluster, &namespace, "later", "begins at ");
    until("the Job is done", || {
        get_job(&cluster, &namespace, "later")["status"]["succeeded"] == json!(1)
    });
    let job = get_job(&cluster, &namespace, "later");
    let text = |path: &str| job.pointer(path).unwrap().as_str().unwrap().to_owned();
    let begin = text("/metadata/annotations/muster.run~1begin");
    let start = text("/status/startTime");
    // To the second, as the API server counts; in this form the order of texts is that of time.
    assert!(start[..19] >= begin[..19], "{start} is before {begin}");

    // What cannot be read holds this Job alone; one that is cancelled never starts.
    let mut unreadable = suspended("unreadable");
    unreadable["metadata"]["annotations"] = json!({"muster.run/begin": "tomorrow"});
    namespace.create_object(&unreadable);
    says(&cluster, &namespace, "unreadable", "muster.run/begin is \"tomorrow\"; write an instant");
    annotate(&cluster, &namespace, "unreadable", "muster.run/cancelled=ann");
    annotate(&cluster, &namespace, "unreadable", "muster.run/begin-");
    namespace.create_object(&suspended("other"));
    until("another Job is done", || is_done(&get_job(&cluster, &namespace, "other")));
    assert!(is_suspended(&get_job(&cluster, &namespace, "unreadable")));
    let text = explained(&cluster, &namespace, "job/unreadable");
    assert!(text.starts_with("unreadable was cancelled: Cancelled\n"), "{text}");
    annotate(&cluster, &namespace, "unreadable", "muster.run/cancelled-");
    until("it starts", || is_done(&get_job(&cluster, &namespace, "unreadable")));
}

fn has_succeeded(job: &Value) -> bool {
    job["status"]["succeeded"] == json!(1)
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_chain_of_jobs_runs_in_order_under_two_schedulers() {
    let cluster = KubernetesCluster::here();
    let first = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("terms-chain");
    let file = [
        document("name: first\nhold: true"),
        document("name: second\nafter: first"),
        document("name: third\nafter: afterany:second"),
    ]
    .join("---\n");
    for at in ["3", "2", "1"] {
        let objects = success(&["export", at], &export_document(&file, "muster", at));
        create(&cluster, &namespace, &objects);
        if at == "3" {
            let text = "waits for job/second, which does not exist, to end";
            says(&cluster, &namespace, "third", text);
        }
    }
    says(&cluster, &namespace, "second", "waits for job/first to succeed");
    let text = explained(&cluster, &namespace, "second");
    assert!(text.starts_with("second is pending: Dependency"), "{text}");
    assert!(text.contains("waits for job/first to succeed (Dependency)"), "{text}");

    // The first one ends, and is deleted, while its successor waits for a release, too. A new scheduler
    // knows what the old one has seen.
    annotate(&cluster, &namespace, "second", "muster.run/held=true");
    annotate(&cluster, &namespace, "first", "muster.run/held-");
    until("the first Job is done", || has_succeeded(&get_job(&cluster, &namespace, "first")));
    until("its end is written down", || {
        let job = get_job(&cluster, &namespace, "second");
        job["metadata"]["annotations"]["muster.run/after-status"] == "job/first=succeeded"
    });
    cluster.kubectl(&["delete", "job", "first", "--namespace", namespace.name()]);
    first.kill();
    let _second = SchedulerProcess::active(&cluster);
    assert!(is_suspended(&get_job(&cluster, &namespace, "second")));
    annotate(&cluster, &namespace, "second", "muster.run/held-");
    until("the last Job is done", || has_succeeded(&get_job(&cluster, &namespace, "third")));
    let instant = |job: &str, field: &str| {
        let job = get_job(&cluster, &namespace, job);
        job["status"][field].as_str().unwrap().to_owned()
    };
    assert!(instant("third", "startTime") >= instant("second", "completionTime"));
}

/// A Job that Muster has no part in counts, also if it is deleted as it ends.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn jobs_of_other_schedulers_count() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("terms-foreign");
    let waiting = |name: &str, after: &str| {
        let mut one = suspended(name);
        one["metadata"]["annotations"] = json!({"muster.run/after": after});
        namespace.create_object(&one);
    };
    waiting("after-good", "afterok:job/good");
    waiting("after-bad", "afterok:job/bad");
    waiting("cleanup", "afternotok:job/bad");
    waiting("unreadable", "foo");
    says(
        &cluster,
        &namespace,
        "after-good",
        "waits for job/good, which does not exist, to succeed",
    );
    says(&cluster, &namespace, "unreadable", "muster.run/after is \"foo\"");

    let mut good = job("good", 1, "1");
    good["spec"]["ttlSecondsAfterFinished"] = json!(0);
    namespace.create_object(&good);
    until("the Job after it is done", || is_done(&get_job(&cluster, &namespace, "after-good")));
    until("it is deleted", || {
        namespace.objects("jobs", "").iter().all(|job| job["metadata"]["name"] != json!("good"))
    });

    let mut bad = job("bad", 1, "1");
    bad["spec"]["backoffLimit"] = json!(0);
    bad["spec"]["template"]["metadata"]["annotations"]["fake-kubelet/exit-code"] = json!("3");
    namespace.create_object(&bad);
    until("the Job after the failure is done", || {
        is_done(&get_job(&cluster, &namespace, "cleanup"))
    });
    let text = "never starts: job/bad failed or was cancelled (afterok)";
    says(&cluster, &namespace, "after-bad", text);
    assert!(is_suspended(&get_job(&cluster, &namespace, "after-bad")));
    let text = explained(&cluster, &namespace, "job/after-bad");
    assert!(text.starts_with("after-bad is pending: DependencyNeverSatisfied"), "{text}");
}
