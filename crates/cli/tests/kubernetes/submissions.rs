//! `muster run` of kinds of work that need no node: what becomes of a service with an autoscaler, a notebook, a job for
//! Kubeflow's Trainer, and of jobs whose GPUs cannot be counted. No scheduler runs.

use std::process::Output;

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, success, until};
use crate::explain::{check_failure, muster_as};
use crate::export::install_trainer;

/// Runs a job file with these settings for Kubernetes; it is for kube-scheduler unless they name another one.
fn run(namespace: &TestNamespace, job: &str, settings: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.yaml");
    let name = namespace.name();
    std::fs::write(&file, format!("{job}\nkubernetes: {{namespace: {name}, {settings}}}\n"))
        .unwrap();
    muster_as(&namespace.cluster().kubeconfig(), &["run", file.to_str().unwrap()])
}

/// Returns the only object of a kind, with its name.
fn only(namespace: &TestNamespace, kind: &str) -> (Value, String) {
    let mut objects = namespace.objects(kind, "");
    assert_eq!(objects.len(), 1, "{kind}");
    let object = objects.remove(0);
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    (object, name)
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_service_with_a_range_of_replicas_has_an_autoscaler() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("submit-service");
    let job = "name: web\nkind: service\nreplicas: 1..3\ncpus: 1\nport: 8000\nrun: serve";
    success(&["run"], &run(&namespace, job, "scheduler: none, image: 'r/serve:1'"));
    let bounds = || {
        let (scaler, name) = only(&namespace, "horizontalpodautoscalers");
        assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], name);
        (scaler["spec"]["minReplicas"].clone(), scaler["spec"]["maxReplicas"].clone())
    };
    assert_eq!(bounds(), (1.into(), 3.into()));
    let (_, name) = only(&namespace, "deployments.apps");
    let label = format!("{}/{name}", namespace.name());
    let ok = |words: &[&str]| success(words, &muster_as(&cluster.kubeconfig(), words));
    ok(&["scale", &label, "2..4"]);
    assert_eq!(bounds(), (2.into(), 4.into()));
    ok(&["cancel", &label]);
    until("its autoscaler is gone", || {
        namespace.objects("horizontalpodautoscalers", "").is_empty()
    });
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_notebook_says_how_it_is_reached_and_which_image_it_has() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("submit-notebook");
    let job = "name: lab\nkind: notebook\ntime: 1h\nrun: jupyter lab --no-browser";
    let output = run(&namespace, job, "scheduler: none");
    success(&["run"], &output);
    let (job, name) = only(&namespace, "jobs");
    assert_eq!(job["spec"]["template"]["spec"]["activeDeadlineSeconds"], 3600);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("`kubectl port-forward job/{name} 8888`")), "{told}");
    assert!(told.contains("names no image: python:3.13-slim is used"), "{told}");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_train_job_is_submitted_shown_and_cancelled_with_its_runtime() {
    let cluster = KubernetesCluster::here();
    install_trainer(&cluster);
    let namespace = cluster.namespace("submit-trainer");
    let job = "name: train\nnodes: 2\ngpus: 8\nrun: torchrun train.py";
    success(
        &["run"],
        &run(&namespace, job, "trainer: true, scheduler: muster, image: 'r/train:1'"),
    );
    let (train_job, name) = only(&namespace, "trainjobs");
    assert_eq!(train_job["spec"]["trainer"]["numNodes"], 2);
    let (runtime, runtime_name) = only(&namespace, "trainingruntimes");
    assert_eq!(runtime_name, name);
    assert_eq!(runtime["metadata"]["ownerReferences"][0]["uid"], train_job["metadata"]["uid"]);
    let label = format!("{}/{name}", namespace.name());
    let ok = |words: &[&str]| success(words, &muster_as(&cluster.kubeconfig(), words));
    let shown: Value = serde_json::from_str(&ok(&["show", &label, "--json"])).unwrap();
    assert_eq!(shown["job"]["state"], "pending");
    ok(&["cancel", &label]);
    until("both are gone", || {
        ["trainjobs", "trainingruntimes"].iter().all(|kind| namespace.objects(kind, "").is_empty())
    });
    let array = "name: several\narray: 0-3\nrun: train";
    let refused = run(&namespace, array, "trainer: true, scheduler: muster, image: 'r/train:1'");
    check_failure(&refused, 1, "a TrainJob trains once");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn gpus_that_can_only_be_claimed_are_not_counted_in_vain() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("submit-claimed");
    let job = "name: train\ngpus: 1\nrun: train";
    let settings = "gpu-resource: amd.com/gpu, scheduler: none, image: 'r/train:1'";
    // 1. A driver offers the GPUs, and no node counts them.
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": "submit-claimed"},
        "spec": {
            "driver": "gpu.amd.com", "allNodes": true,
            "pool": {"name": "all", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    });
    namespace.create_object(&slice);
    let refused = run(&namespace, job, settings);
    check_failure(&refused, 1, "asks for amd.com/gpu, which no node of this cluster has");
    assert!(namespace.objects("jobs", "").is_empty());
    // 2. A class of devices stands for the resource.
    namespace.create_object(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "submit-claimed"}, "spec": {"extendedResourceName": "amd.com/gpu"},
    }));
    success(&["run"], &run(&namespace, job, settings));
    cluster.kubectl(&["delete", "resourceslice/submit-claimed", "deviceclass/submit-claimed"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gang_without_a_gang_scheduler_is_refused_with_what_to_install() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("submit-gang");
    let job = "name: train\nnodes: 2\ngpus: 8\nrun: torchrun train.py";
    let refused = run(&namespace, job, "scheduler: none, image: 'r/train:1'");
    check_failure(&refused, 1, "start its 2 pods one by one");
    check_failure(&refused, 1, "`muster init kubernetes`");
    assert!(namespace.objects("jobs,services", "").is_empty());
}
