//! Probe gangs: their size, their objects, and the verdicts on their pods.

use muster_doctor::kubernetes::prove::{OBSERVED, PATIENCE, PROBES, ProbePlan, ProbeTerms};
use muster_model::Span;
use muster_model::check::ProbeOutcome;
use serde_json::{Value, json};

use crate::cluster::SampleCluster;

fn terms() -> ProbeTerms {
    ProbeTerms { namespace: "ops".to_owned(), queue: None, image: "pause".to_owned() }
}

fn plan(cluster: &SampleCluster, scheduler: Option<&str>) -> Result<ProbePlan, String> {
    ProbePlan::of(&cluster.snapshot(), scheduler)
}

/// Returns a pod as the API server prints it, with a node or with what its scheduler says.
fn pod(node: Option<&str>, says: Option<&str>) -> Value {
    let conditions = says.map(|text| json!([{"type": "PodScheduled", "message": text}]));
    json!({"spec": {"nodeName": node}, "status": {"conditions": conditions}})
}

#[test]
fn the_large_gang_has_one_pod_more_than_fits() {
    // Free are all of n4, and five of n3: one whole node, so that pods of one GPU are taken.
    let of_good = plan(&SampleCluster::good(), None).unwrap();
    assert_eq!(of_good.scheduler, "muster");
    assert_eq!((of_good.too_large(), of_good.request()), (14, "1 GPU".to_owned()));
    // Of empty nodes, pods take whole ones.
    let empty = SampleCluster::good().without("Pod");
    let of_empty = plan(&empty, Some("default-scheduler")).unwrap();
    assert_eq!((of_empty.too_large(), of_empty.request()), (5, "8 GPUs".to_owned()));
}

#[test]
fn what_keeps_a_probe_from_running_is_named() {
    let tainted = |cluster: SampleCluster, node| {
        let taints = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
        cluster.set("Node", node, "spec", taints)
    };
    let none_free = tainted(tainted(SampleCluster::good(), "n3"), "n4");
    for (cluster, scheduler, needed) in [
        (none_free, None, "two free GPUs"),
        (SampleCluster::good().without("Deployment"), None, "--scheduler"),
        (SampleCluster::good().unlisted("pods"), None, "the right to list pods"),
        (SampleCluster::good().without("Node"), Some("muster"), "free GPUs"),
    ] {
        let error = plan(&cluster, scheduler).unwrap_err();
        assert!(error.contains(needed), "{error}");
    }
}

#[test]
fn each_scheduler_is_told_of_the_gang_in_its_way() {
    for (scheduler, kinds, mark) in [
        ("muster", vec!["Pod", "Pod"], "muster.run/gang"),
        ("volcano", vec!["PodGroup", "Pod", "Pod"], "scheduling.k8s.io/group-name"),
        (
            "scheduler-plugins-scheduler",
            vec!["PodGroup", "Pod", "Pod"],
            "scheduling.x-k8s.io/pod-group",
        ),
        ("kai-scheduler", vec!["PodGroup", "Pod", "Pod"], "pod-group-name"),
        ("default-scheduler", vec!["Pod", "Pod"], "muster.run/probe"),
    ] {
        let plan = plan(&SampleCluster::good(), Some(scheduler)).unwrap();
        let objects = plan.objects("probe", 2, &terms()).unwrap();
        let found: Vec<&str> =
            objects.iter().map(|one| one.object["kind"].as_str().unwrap()).collect();
        assert_eq!(found, kinds, "{scheduler}");
        for one in &objects {
            assert_eq!(one.object["metadata"]["labels"]["muster.run/probe"], "probe");
            assert_eq!(one.object["metadata"]["namespace"], "ops");
        }
        let last = &objects.last().unwrap().object;
        assert_eq!(last["metadata"]["labels"][mark], "probe", "{last}");
        assert_eq!(last["spec"]["schedulerName"], scheduler);
    }
    let unknown = plan(&SampleCluster::good(), Some("other")).unwrap();
    assert!(unknown.objects("probe", 2, &terms()).unwrap_err().contains("other"));
}

#[test]
fn a_large_gang_must_get_no_node_for_a_while() {
    let plan = plan(&SampleCluster::good(), None).unwrap();
    let waiting = pod(None, Some("does not fit"));
    for (pods, watched, expected) in [
        (vec![waiting.clone()], Span(0), None),
        (vec![waiting.clone()], OBSERVED, Some(ProbeOutcome::Passed)),
        (vec![waiting, pod(Some("n4"), None)], Span(0), Some(ProbeOutcome::Failed)),
        (vec![pod(None, None)], OBSERVED, None),
        (vec![pod(None, None)], PATIENCE, Some(ProbeOutcome::NotTested)),
    ] {
        let verdict = plan.judge(PROBES[0], &pods, watched);
        assert_eq!(verdict.map(|one| one.outcome), expected, "{pods:?}");
    }
}

#[test]
fn a_gang_that_fits_must_start_in_time() {
    let plan = plan(&SampleCluster::good(), None).unwrap();
    let bound = || pod(Some("n4"), None);
    for (pods, watched, expected) in [
        (vec![bound(), bound()], Span(0), Some(ProbeOutcome::Passed)),
        (vec![bound()], Span(0), None),
        (vec![bound()], PATIENCE, Some(ProbeOutcome::Failed)),
    ] {
        let verdict = plan.judge(PROBES[1], &pods, watched);
        assert_eq!(verdict.map(|one| one.outcome), expected, "{pods:?}");
    }
    let refused = [pod(None, Some("the quota is used up"))];
    let verdict = plan.judge(PROBES[1], &refused, PATIENCE).unwrap();
    assert!(verdict.text.ends_with("got a node: the quota is used up"), "{}", verdict.text);
}
