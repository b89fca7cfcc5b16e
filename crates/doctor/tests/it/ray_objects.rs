//! Each rule on objects of KubeRay passes on sound manifests, and fails on the same ones with one change.
//! A rule without such a change fails a test here.

use std::collections::BTreeSet;

use muster_doctor::kubernetes::{Snapshot, add_dump, complete_ray};
use muster_doctor::{check_ray_objects, ray_object_rule_texts};
use muster_model::check::CheckReport;

use crate::site::failed;

const GOOD: &str = include_str!("ray.yaml");

/// Rule, text of the manifests and its replacement, and the evidence.
type ManifestCase = (&'static str, Replacements, &'static str);

type Replacements = &'static [(&'static str, &'static str)];

const QUEUE: &str = "  labels: {kueue.x-k8s.io/queue-name: team}\n";
const OPERATOR: &str = "          args: [\"--batch-scheduler=volcano\"]\n";
/// Beginning of the RayJob.
const TRAIN: &str = "metadata:\n  name: train\n";
/// Cluster that the RayJob made.
const MADE: &str = "
---
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: train-abcde
  namespace: ml
  ownerReferences: [{apiVersion: ray.io/v1, kind: RayJob, name: train}]
spec:
  headGroupSpec: {template: {spec: {containers: [{name: head, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
";
/// End of the RayCluster, which is alone in that namespace.
const HEAD_OF_SHARED: &str = "    rayStartParams: {num-gpus: \"0\"}\n";

const FAILS: &[ManifestCase] = &[
    ("ray-outside-quota", &[(QUEUE, "")], "RayCluster ml/shared: 8 GPUs"),
    ("ray-outside-quota", &[(QUEUE, "")], "RayJob ml/train: 32 GPUs"),
    (
        "ray-selects-cluster",
        &[(
            "  entrypoint: python",
            "  clusterSelector: {ray.io/cluster: shared}\n  entrypoint: python",
        )],
        r#"RayJob ml/train: clusterSelector is {"ray.io/cluster":"shared"}"#,
    ),
    (
        "ray-upgrade-needs-twice",
        &[("nvidia.com/gpu: \"8\"", "nvidia.com/gpu: \"7\"")],
        "RayService serving/chat: an upgrade needs 8 GPUs, the quota of its namespace is 7",
    ),
    (
        "ray-upgrade-needs-twice",
        &[("nvidia.com/gpu: \"8\"", "nvidia.com/gpu: \"7\""), ("{type: NewCluster}", "{}")],
        "RayService serving/chat: an upgrade needs 8 GPUs, the quota of its namespace is 7",
    ),
    (
        "ray-not-a-gang",
        &[
            (OPERATOR, ""),
            ("replicas: 1\n        minReplicas: 1", "replicas: 2\n        minReplicas: 1"),
            ("\"8\"", "\"16\""),
            ("maxReplicas: 1\n", "maxReplicas: 2\n"),
        ],
        "RayService serving/chat: 2 pods with 8 GPUs, of no gang",
    ),
    (
        "ray-exposed",
        &[("type: ClusterIP", "type: NodePort")],
        "Service ml/shared-head: a NodePort of the dashboard (8265)",
    ),
    (
        "ray-exposed",
        &[(HEAD_OF_SHARED, "    serviceType: LoadBalancer\n")],
        "RayCluster ml/shared: the Service of its head is a LoadBalancer",
    ),
    (
        "ray-autoscales-without-bound",
        &[("maxReplicas: 4 # of shared", "maxReplicas: 2147483647")],
        "RayCluster ml/shared group gpus: autoscaling without maxReplicas",
    ),
    (
        "ray-autoscales-without-bound",
        &[("      maxReplicas: 4 # of shared\n", "")],
        "RayCluster ml/shared group gpus: autoscaling without maxReplicas",
    ),
    (
        "ray-bounds-without-autoscaling",
        &[("maxReplicas: 4 # of train", "maxReplicas: 8")],
        "RayJob ml/train group workers: maxReplicas is 8, replicas 4, without autoscaling",
    ),
    (
        "ray-service-without-floor",
        &[("minReplicas: 1 # of chat", "minReplicas: 0")],
        "RayService serving/chat: minReplicas is 0 in every group with GPUs",
    ),
    (
        "ray-store-beyond-volume",
        &[("sizeLimit: 16Gi", "sizeLimit: 4Gi")],
        "RayCluster ml/shared group gpus: its object store has 7.4GiB, /dev/shm 4GiB",
    ),
    (
        "ray-store-beyond-volume",
        &[("{medium: Memory, sizeLimit: 16Gi}", "{}")],
        "RayCluster ml/shared group gpus: its volume at /dev/shm is on disk",
    ),
    (
        "ray-job-without-limit",
        &[("  activeDeadlineSeconds: 14400\n", "")],
        "RayJob ml/train: 32 GPUs, without activeDeadlineSeconds",
    ),
    (
        "ray-job-keeps-cluster",
        &[("  shutdownAfterJobFinishes: true\n", "")],
        "RayJob ml/train: 32 GPUs, without shutdownAfterJobFinishes",
    ),
    (
        "ray-image-differs",
        &[("  rayVersion: 2.60.0\n  enable", "  rayVersion: 2.46.0\n  enable")],
        "RayCluster ml/shared: rayVersion 2.46.0, images rayproject/ray:2.60.0-py311",
    ),
    (
        "ray-image-differs",
        &[(
            "image: rayproject/ray:2.60.0-py311\n              resources",
            "image: rayproject/ray:2.9.3\n              resources",
        )],
        "RayCluster ml/shared: rayVersion 2.60.0, images rayproject/ray:2.60.0-py311, rayproject/ray:2.9.3",
    ),
    (
        "ray-image-moves",
        &[(
            "image: rayproject/ray:2.60.0-py311\n              resources",
            "image: rayproject/ray:latest\n              resources",
        )],
        "RayCluster ml/shared: rayproject/ray:latest",
    ),
];

/// Changes after which a rule passes.
const PASSES: &[(&str, Replacements)] = &[
    // The quota of the namespace counts them.
    ("ray-outside-quota", &[(QUEUE, ""), ("namespace: serving", "namespace: ml")]),
    // Each is in a queue of Kueue, which admits all its pods at once.
    ("ray-not-a-gang", &[(OPERATOR, "")]),
    ("ray-upgrade-needs-twice", &[("\"8\"", "\"4\""), ("NewCluster", "None")]),
    (
        "ray-exposed",
        &[
            ("type: ClusterIP", "type: NodePort"),
            (
                "  enableInTreeAutoscaling: true\n  headGroupSpec",
                "  authOptions: {mode: token}\n  headGroupSpec",
            ),
        ],
    ),
    (
        "ray-exposed",
        &[("type: ClusterIP", "type: NodePort"), ("targetPort: 8265", "targetPort: 8000")],
    ),
    ("ray-job-keeps-cluster", &[("  activeDeadlineSeconds: 14400", "  suspend: true")]),
    // It has ended, or never began, and has no cluster.
    (
        "ray-job-keeps-cluster",
        &[
            ("  shutdownAfterJobFinishes: true\n", ""),
            (TRAIN, "status: {jobDeploymentStatus: ValidationFailed}\nmetadata:\n  name: train\n"),
        ],
    ),
    // Other software with Ray in it has versions of its own.
    (
        "ray-image-differs",
        &[(
            "image: rayproject/ray:2.60.0-py311\n              resources",
            "image: vllm/vllm-openai:0.9.1\n              resources",
        )],
    ),
    (
        "ray-image-moves",
        &[("ray:2.60.0-py311\n              resources", "ray@sha256:00\n              resources")],
    ),
];

/// Kinds without which a rule is not tested.
const NOT_TESTED: &[(&str, &str, Replacements)] = &[
    ("ray-outside-quota", "ResourceQuota", &[(QUEUE, "")]),
    ("ray-upgrade-needs-twice", "ResourceQuota", &[]),
    ("ray-not-a-gang", "Deployment", &[(QUEUE, "")]),
    ("ray-exposed", "Service", &[]),
];

fn changed(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// Returns the report on manifests without those of a kind.
fn report_of(text: &str, without: &str) -> CheckReport {
    let mut snapshot = Snapshot::default();
    let is_kept = |one: &&str| without.is_empty() || !one.contains(&format!("kind: {without}\n"));
    let kept: Vec<&str> = text.split("---\n").filter(is_kept).collect();
    add_dump(&mut snapshot, "ray", &kept.join("---\n")).unwrap();
    complete_ray(&mut snapshot);
    check_ray_objects(&snapshot, &BTreeSet::new())
}

#[test]
fn sound_manifests_pass_every_rule() {
    let report = report_of(GOOD, "");
    assert_eq!((report.findings, report.not_tested), (Vec::new(), Vec::new()));
    let passed: Vec<&str> = report.passed.iter().map(|outcome| outcome.rule).collect();
    assert_eq!(passed, ray_object_rule_texts().map(|rule| rule.id).collect::<Vec<_>>());
}

#[test]
fn each_change_fails_its_rule_and_no_other() {
    for (rule, changes, evidence) in FAILS {
        let report = report_of(&changed(changes), "");
        assert_eq!(failed(&report), [*rule], "{evidence}");
        let says: Vec<&str> = report.findings.iter().map(|one| one.evidence.as_str()).collect();
        assert!(says.contains(evidence), "{rule}: {says:?}");
    }
}

#[test]
fn harmless_changes_fail_nothing() {
    for (rule, changes) in PASSES {
        let report = report_of(&changed(changes), "");
        assert!(report.passed.iter().any(|outcome| outcome.rule == *rule), "{rule}: {report:#?}");
    }
}

#[test]
fn without_its_input_a_rule_is_not_tested() {
    for (rule, kind, changes) in NOT_TESTED {
        let report = report_of(&changed(changes), kind);
        let outcome = report.not_tested.iter().find(|outcome| outcome.rule == *rule);
        let outcome = outcome.unwrap_or_else(|| panic!("{rule}: {report:#?}"));
        assert!(outcome.text.contains("`kubectl get "), "{rule}: {}", outcome.text);
    }
    // Deployments are listed, and none of them is the operator.
    let other = [
        ("kuberay-operator, ", "web, "),
        ("name: kuberay-operator", "name: web"),
        ("kuberay/operator", "web"),
    ];
    let report = report_of(&changed(&other).replace(QUEUE, ""), "");
    let outcome =
        report.not_tested.iter().find(|outcome| outcome.rule == "ray-not-a-gang").unwrap();
    assert!(outcome.text.contains("the Deployment of KubeRay's operator"), "{}", outcome.text);
    let none = report_of("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "");
    assert_eq!(none.not_tested.len(), ray_object_rule_texts().count());
}

#[test]
fn every_rule_has_a_failing_case() {
    let fails: BTreeSet<&str> = FAILS.iter().map(|(rule, ..)| *rule).collect();
    assert_eq!(fails, ray_object_rule_texts().map(|rule| rule.id).collect());
}

/// A cluster that a RayJob made is that job's: its GPUs count once, and its Service is known.
#[test]
fn a_cluster_counts_for_the_object_that_made_it() {
    let text = changed(&[(QUEUE, "")]) + MADE;
    let report = report_of(&text, "");
    let says: Vec<&str> = report.findings.iter().map(|one| one.evidence.as_str()).collect();
    assert_eq!(says, ["RayJob ml/train: 32 GPUs", "RayCluster ml/shared: 8 GPUs"]);
}

/// Its cluster keeps its GPUs as long as it is there.
#[test]
fn a_job_that_has_ended_keeps_its_cluster() {
    let ended = [
        ("  shutdownAfterJobFinishes: true\n", ""),
        (TRAIN, "status: {jobDeploymentStatus: Complete}\nmetadata:\n  name: train\n"),
    ];
    let report = report_of(&(changed(&ended) + MADE), "");
    assert_eq!(failed(&report), ["ray-job-keeps-cluster"]);
}
