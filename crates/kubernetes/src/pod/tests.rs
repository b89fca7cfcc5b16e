//! Tests of reading pods.

use super::*;
use crate::anti_affinity::selects;
use crate::group::GroupKind;
use muster_model::GpuMilli;
use serde_json::{Value, json};

fn facts(value: &Value) -> PodFacts {
    serde_json::from_value::<PodText>(value.clone()).unwrap().facts()
}

fn pod(spec: Value) -> PodFacts {
    facts(
        &json!({"metadata": {"name": "p", "namespace": "n", "labels": {"app": "x"}}, "spec": spec}),
    )
}

#[test]
fn a_pod_is_read_whole() {
    let pod = facts(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-0", "namespace": "vision", "uid": "u1", "resourceVersion": "7",
            "creationTimestamp": "2026-11-25T10:00:00Z",
            "labels": {"muster.run/queue": "research.vision"},
            "annotations": {"muster.run/time-limit": "2h"},
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "schedulerName": "muster", "nodeName": "a", "priority": 5,
            "containers": [{
                "name": "main", "image": "x",
                "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}},
                "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}],
            }],
            "nodeSelector": {"pool": "batch"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "set"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "token", "projected": {"sources": []}},
            ],
            "terminationGracePeriodSeconds": 60, "activeDeadlineSeconds": 3600,
            "restartPolicy": "Never", "enableServiceLinks": true,
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-25T10:00:05Z"}],
        },
    }));
    assert_eq!(pod.not_understood, None);
    assert_eq!(pod.key.to_string(), "vision/train-0");
    assert!(pod.is_ours && !pod.is_gated && !pod.is_terminating);
    assert_eq!(pod.node, Some("a".into()));
    assert_eq!(pod.phase, PodPhase::Active);
    assert_eq!(pod.bound_at.as_deref(), Some("2026-11-25T10:00:05Z"));
    assert_eq!(pod.requests.get("cpu"), 2000);
    assert_eq!(pod.requests.get("nvidia.com/gpu"), 1);
    assert_eq!(pod.host_ports, ["8080/TCP".into()]);
    assert_eq!(pod.claims, ["set".into(), "train-0-scratch".into()]);
    assert_eq!((pod.priority, pod.grace_secs, pod.deadline_secs), (5, 60, Some(3600)));
    assert_eq!(pod.wishes.queue.as_deref(), Some("research.vision"));
    assert_eq!(pod.wishes.time_limit.as_deref(), Some("2h"));
    assert_eq!(pod.gang, None);
}

#[test]
fn unsupported_constraints_are_named() {
    let required = |term: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let anti = |term: Value| json!({"affinity": {"podAntiAffinity": required(term)}});
    let own = json!({"matchLabels": {"app": "x"}});
    for (spec, expected) in [
        (json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}), None),
        (
            json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "a", "newer": "b"}]}),
            Some("the field `spec.resourceClaims[].newer`"),
        ),
        (json!({"resourceClaims": [{"name": "gpu"}]}), Some("a resource claim without a name")),
        (json!({"affinity": {"podAffinity": required(json!({}))}}), Some("required pod affinity")),
        (
            json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}),
            None,
        ),
        (anti(json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": own})), None),
        (
            anti(json!({"topologyKey": "zone", "labelSelector": own})),
            Some("pod anti-affinity by `zone`"),
        ),
        (
            anti(
                json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "y"}}}),
            ),
            Some("pod anti-affinity to pods with other labels than its own"),
        ),
        (
            anti(
                json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": own, "namespaceSelector": {}}),
            ),
            Some("pod anti-affinity with `namespaceSelector`"),
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}),
            Some("a topology spread constraint with `whenUnsatisfiable: DoNotSchedule`"),
        ),
        (json!({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}), None),
        (json!({"preemptionPolicy": "Never"}), None),
        (json!({"preemptionPolicy": "Sometimes"}), Some("the preemption policy `Sometimes`")),
        (json!({"volumes": [{"name": "v", "rbd": {}}]}), Some("a volume of the kind `rbd`")),
        (json!({"newConstraint": 1}), Some("the field `spec.newConstraint`")),
        (
            json!({"schedulingGroup": {"podGroupName": "g", "more": 1}}),
            Some("the field `spec.schedulingGroup.more`"),
        ),
        (
            json!({"containers": [{"resources": {"requests": {"cpu": "x"}}}]}),
            Some("cpu: \"x\" is not a quantity"),
        ),
    ] {
        assert_eq!(pod(spec.clone()).not_understood.as_deref(), expected, "{spec}");
    }
}

#[test]
fn shares_of_a_gpu_are_read_and_what_is_wrong_with_them_is_named() {
    let of = |annotations: Value, container: Value| {
        let metadata = json!({"name": "p", "namespace": "n", "annotations": annotations});
        let facts = facts(&json!({"metadata": metadata, "spec": {"containers": [container]}}));
        (facts.gpu_share, facts.not_understood)
    };
    let share = |share, is_read| Some(GpuShare { share: GpuMilli(share), is_read });
    let source = json!({"fieldRef": {"fieldPath": "metadata.annotations['muster.run/gpu']"}});
    let reads = json!({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}]});
    let literal = json!({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]});
    for key in [names::GPU_SHARE, names::KAI_FRACTION] {
        assert_eq!(of(json!({key: "0.5"}), reads.clone()), (share(500, true), None));
        assert_eq!(of(json!({key: "0.5"}), literal.clone()), (share(500, false), None));
    }
    let whole = json!({"resources": {"limits": {"nvidia.com/gpu": 1}}});
    for (annotations, container, expected) in [
        (
            json!({"gpu-memory": "2000"}),
            json!({}),
            "the annotation gpu-memory; muster.run/gpu-share gives a share of one GPU",
        ),
        (
            json!({"gpu-fraction": "1.5"}),
            json!({}),
            "the annotation gpu-fraction: \"1.5\" is no share from 0.001 to 0.999",
        ),
        (
            json!({"muster.run/gpu-share": "0.5"}),
            whole,
            "the annotation muster.run/gpu-share beside nvidia.com/gpu: ask for one or the other",
        ),
    ] {
        assert_eq!(of(annotations, container), (None, Some(expected.to_owned())));
    }
}

#[test]
fn equal_anti_affinity_has_an_equal_key() {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}});
    let spec = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    assert_eq!(pod(spec).apart, ["n/app=x".into()]);
}

#[test]
fn anti_affinity_selects_pods_with_and_without_the_term() {
    let check = |key: &str, namespace: &str, labels: &[(&str, &str)], expected: bool| {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        assert_eq!(selects(key, namespace, &labels.collect()), expected, "{key} {namespace}");
    };
    check("n/app=x", "n", &[("app", "x"), ("tier", "a")], true);
    check("n/app=x", "m", &[("app", "x")], false);
    check("n/app=x", "n", &[("app", "y")], false);
    check("n/a.b/app=x,tier=a", "n", &[("a.b/app", "x"), ("tier", "a")], true);
    check("n/a.b/app=x,tier=a", "n", &[("a.b/app", "x")], false);
    check("n/", "n", &[], true);
}

#[test]
fn tolerations_in_another_order_are_the_same_rule() {
    let two = |a: &str, b: &str| json!({"tolerations": [{"key": a}, {"key": b}]});
    assert_eq!(pod(two("a", "b")).rule, pod(two("b", "a")).rule);
}

fn gang_of(metadata: Value, spec: Value) -> Result<Option<(GroupKind, String)>, String> {
    let mut metadata = metadata;
    metadata["name"] = json!("p");
    metadata["namespace"] = json!("n");
    let pod = facts(&json!({"metadata": metadata, "spec": spec}));
    match pod.not_understood {
        Some(text) => Err(text),
        None => Ok(pod.gang.map(|gang| (gang.kind, format!("{}{}", gang.object.name, gang.part)))),
    }
}

#[test]
fn pods_name_their_gang_in_many_ways() {
    let label = |key: &str| json!({"labels": {key: "g"}});
    let owner = |kind: &str, api: &str| json!({"ownerReferences": [{"kind": kind, "apiVersion": api, "name": "g", "controller": true}]});
    for (metadata, expected) in [
        (label("scheduling.x-k8s.io/pod-group"), Some(GroupKind::Coscheduling)),
        (json!({"annotations": {"scheduling.k8s.io/group-name": "g"}}), Some(GroupKind::Volcano)),
        (json!({"annotations": {"pod-group-name": "g"}}), Some(GroupKind::Kai)),
        (label("jobset.sigs.k8s.io/jobset-name"), Some(GroupKind::JobSet)),
        (label("training.kubeflow.org/job-name"), Some(GroupKind::PyTorchJob)),
        (
            json!({"labels": {"training.kubeflow.org/job-name": "g", "training.kubeflow.org/operator-name": "mpi-operator"}}),
            Some(GroupKind::MpiJob),
        ),
        (
            json!({"labels": {"training.kubeflow.org/job-name": "g", "training.kubeflow.org/operator-name": "tfjob-controller"}}),
            None,
        ),
        (label("ray.io/cluster"), Some(GroupKind::RayCluster)),
        (label("muster.run/gang"), Some(GroupKind::Annotated)),
        (owner("Job", "batch/v1"), Some(GroupKind::Job)),
        (owner("Job", "batch.volcano.sh/v1alpha1"), None),
        (owner("ReplicaSet", "apps/v1"), None),
        (json!({}), None),
    ] {
        let expected = expected.map(|kind| (kind, "g".to_owned()));
        assert_eq!(gang_of(metadata.clone(), json!({})), Ok(expected), "{metadata}");
    }
    let lws = json!({"labels": {"leaderworkerset.sigs.k8s.io/name": "g", "leaderworkerset.sigs.k8s.io/group-index": "3"}});
    assert_eq!(gang_of(lws, json!({})), Ok(Some((GroupKind::LeaderWorkerSet, "g3".into()))));
    let native = json!({"schedulingGroup": {"podGroupName": "g"}});
    assert_eq!(gang_of(json!({}), native), Ok(Some((GroupKind::Native, "g".into()))));
}

#[test]
fn explicit_membership_wins_over_the_controller_and_contradictions_are_named() {
    let both = json!({"labels": {"scheduling.x-k8s.io/pod-group": "g", "jobset.sigs.k8s.io/jobset-name": "s"}});
    assert_eq!(gang_of(both, json!({})), Ok(Some((GroupKind::Coscheduling, "g".into()))));
    let two = json!({"labels": {"scheduling.x-k8s.io/pod-group": "g", "muster.run/gang": "h"}});
    assert_eq!(
        gang_of(two, json!({})).unwrap_err(),
        "membership in two gangs, PodGroup g and gang h"
    );
}
