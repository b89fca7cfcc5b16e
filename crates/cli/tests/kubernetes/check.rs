//! `muster check kubernetes` on a real API server: what is listed and what kubectl prints give the same
//! findings, and without rights rules are not tested.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, success, until};
use crate::explain::check_failure;
use crate::scheduler_process::SchedulerProcess;

/// Kinds that every API server serves.
const KINDS: [&str; 11] = [
    "nodes",
    "pods",
    "services",
    "resourcequotas",
    "deployments.apps",
    "daemonsets.apps",
    "jobs.batch",
    "priorityclasses.scheduling.k8s.io",
    "poddisruptionbudgets.policy",
    "resourceslices.resource.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
];

fn check(kubeconfig: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(["check", "kubernetes"]).args(words);
    command.env("KUBECONFIG", kubeconfig).env("TZ", "UTC").output().unwrap()
}

/// Returns the report of a check.
fn report(kubeconfig: &Path, words: &[&str]) -> Value {
    let output = check(kubeconfig, &[words, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{words:?}: {error}: {}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Returns the findings of a report as rule and evidence.
fn findings(report: &Value) -> Vec<(String, String)> {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let all = report["findings"].as_array().unwrap();
    all.iter().map(|one| (text(one, "rule"), text(one, "evidence"))).collect()
}

/// Returns the Indexed Job of a gang on the default scheduler, whose pods wait at a gate.
fn gang() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimit": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "schedulingGates": [{"name": "test/never"}],
                "containers": [{
                    "name": "main", "image": "none",
                    "resources": {"limits": {"nvidia.com/gpu": 4}},
                }],
            }},
        },
    })
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_cluster_and_a_dump_of_it_have_the_same_findings() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("check-gang");
    namespace.create_object(&gang());
    until("both pods exist", || namespace.list("batch.kubernetes.io/job-name=train").len() == 2);
    let live = report(&cluster.kubeconfig(), &[]);
    let expected = (
        "gang-on-default-scheduler".to_owned(),
        "Job check-gang/train: default-scheduler places 2 pods with 8 GPUs".to_owned(),
    );
    assert!(findings(&live).contains(&expected), "{live:#}");

    let dir = tempfile::tempdir().unwrap();
    let defined = cluster.kubectl(&["get", "customresourcedefinitions", "--output=name"]);
    let defined = defined.lines().filter_map(|line| line.split_once('/'));
    for kind in KINDS.into_iter().chain(defined.map(|(_, name)| name)) {
        let text = cluster.kubectl(&["get", kind, "--all-namespaces", "--output=json"]);
        fs::write(dir.path().join(format!("{kind}.json")), text).unwrap();
    }
    let folder = dir.path().to_str().unwrap();
    let dumped = report(Path::new("/nonexistent"), &[folder]);
    assert_eq!(findings(&dumped), findings(&live));
    assert_eq!(dumped["not_tested"], live["not_tested"]);

    let saved = tempfile::tempdir().unwrap();
    let folder = saved.path().to_str().unwrap();
    report(&cluster.kubeconfig(), &["--save", folder]);
    assert!(!saved.path().join("secrets.json").exists());
    let read = report(Path::new("/nonexistent"), &[folder]);
    assert_eq!(findings(&read), findings(&live));
    assert_eq!(read["not_tested"], live["not_tested"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn without_rights_rules_are_not_tested() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("check-rights");
    let account = format!("{}/default", namespace.name());
    let words = ["kubeconfig", account.as_str()];
    let config = success(&words, &cluster.xtask(&words));
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    fs::write(&kubeconfig, config).unwrap();
    let none = report(&kubeconfig, &[]);
    assert_eq!(none["findings"], json!([]));
    let pods = none["not_tested"].as_array().unwrap().iter();
    let said: Vec<&str> = pods.map(|one| one["says"].as_str().unwrap()).collect();
    assert!(said.contains(&"the right to list pods"), "{said:?}");
    assert_eq!(check(&kubeconfig, &[]).status.code(), Some(0));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn an_installation_of_muster_passes_every_rule() {
    let cluster = KubernetesCluster::here();
    let before = report(&cluster.kubeconfig(), &[]);
    let words = ["init", "kubernetes", "--image", "none"];
    let output = Command::new(env!("CARGO_BIN_EXE_muster")).args(words).output().unwrap();
    let manifests = success(&words, &output);
    let apply = ["apply", "--filename=-"];
    success(&apply, &cluster.kubectl_with(&apply, &manifests));
    let deployment = "deployment/muster-scheduler";
    let ready = ["wait", deployment, "--for=condition=Available", "--timeout=120s"];
    cluster.kubectl(&[&ready[..], &["--namespace=muster-system"]].concat());
    let installed = report(&cluster.kubeconfig(), &[]);
    assert_eq!(findings(&installed), findings(&before));
    assert_eq!(installed["not_tested"], before["not_tested"]);
    let gone = ["delete", deployment, "poddisruptionbudget/muster-scheduler", "--wait"];
    cluster.kubectl(&[&gone[..], &["--namespace=muster-system"]].concat());
}

/// Returns the outcomes of both probes for a scheduler, and what they say; nothing of them is left.
pub fn proved(
    cluster: &KubernetesCluster,
    namespace: &str,
    words: &[&str],
) -> Vec<(String, String)> {
    let words = [&["--prove", "--namespace", namespace, "--scheduler"], words].concat();
    let report = report(&cluster.kubeconfig(), &words);
    let kinds = match words[3] {
        "pod-groups" => "pods,podgroups.scheduling.k8s.io",
        "volcano" => "pods,podgroups.scheduling.volcano.sh",
        "kai-scheduler" => "pods,podgroups.scheduling.run.ai",
        _ => "pods,jobs",
    };
    let left = cluster.get(&[kinds, "--all-namespaces", "--selector=muster.run/probe"]);
    assert_eq!(left["items"], json!([]));
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let probes = report["probes"].as_array().unwrap();
    probes.iter().map(|one| (text(one, "outcome"), text(one, "says"))).collect()
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn probe_gangs_tell_a_gang_scheduler_from_one_that_places_pod_by_pod() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("check-probes");
    let of_default = proved(&cluster, namespace.name(), &["default-scheduler"]);
    assert_eq!(of_default[0].0, "failed", "{of_default:?}");
    assert!(of_default[0].1.contains("of 9 pods with 8 GPUs got a node"), "{of_default:?}");
    assert_eq!(of_default[1].0, "passed", "{of_default:?}");

    let _scheduler = SchedulerProcess::active(&cluster);
    for scheduler in ["pod-groups", "muster"] {
        assert_eq!(
            proved(&cluster, namespace.name(), &[scheduler]),
            [
                ("passed", "none of 9 pods with 8 GPUs got a node, 8 fit"),
                ("passed", "2 pods with 8 GPUs got their nodes together"),
            ]
            .map(|(outcome, says)| (outcome.to_owned(), says.to_owned())),
            "{scheduler}"
        );
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_probe_without_rights_or_scheduler_is_not_tested() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("check-unproved");
    let none = report(&cluster.kubeconfig(), &["--prove", "--namespace", namespace.name()]);
    assert_eq!(none["probes"][0]["outcome"], "not-tested", "{none}");
    let text = none["probes"][0]["says"].as_str().unwrap();
    assert!(text.contains("--scheduler names one"), "{text}");
    // The API server refuses: the namespace does not exist.
    let words = ["--prove", "--scheduler", "muster", "--namespace", "missing"];
    let refused = check(&cluster.kubeconfig(), &words);
    check_failure(&refused, 4, "missing");
}
