//! Jobs that wait for more than nodes, as `muster export kubernetes` writes them: for a release, or for an
//! instant. They wait without pods, also when the scheduler is replaced, and the real Job controller runs them.

use serde_json::{Value, json};

use crate::admission::{get_job, is_done, job, opted_in};
use crate::cluster::{KubernetesCluster, TestNamespace, success, until};
use crate::explain::explained;
use crate::export::export;
use crate::scheduler_process::SchedulerProcess;

/// Creates the objects of a job file whose only pod takes a node for a second.
fn create_exported(cluster: &KubernetesCluster, namespace: &TestNamespace, terms: &str) {
    let file = format!(
        "{terms}\ngpus: 8\nrun: train\nkubernetes: {{image: none, annotations: {{fake-kubelet/run-seconds: '1'}}}}\n"
    );
    let objects = success(&["export", terms], &export(&file, "muster"));
    let words = ["create", "--filename=-", "--namespace", namespace.name()];
    success(&words, &cluster.kubectl_with(&words, &objects));
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
