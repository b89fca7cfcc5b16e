//! Probe gangs: their size, their objects, and the verdicts on their pods.

use muster_doctor::kubernetes::prove::{
    OBSERVED, PATIENCE, PROBES, ProbePlan, ProbeTerms, ProbedGang,
};
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

fn gang_of(pods: &[Value]) -> ProbedGang {
    ProbedGang { pods: pods.to_vec(), refusal: None }
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
        ("pod-groups", vec!["PodGroup", "Pod", "Pod"], "muster.run/probe"),
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
        let is_native = scheduler == "pod-groups";
        let own = if is_native { "default-scheduler" } else { scheduler };
        assert_eq!(last["spec"]["schedulerName"], own);
        assert_eq!(last["spec"]["schedulingGroup"]["podGroupName"] == "probe", is_native);
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
        // A job ended in between.
        (
            vec![pod(Some("n4"), None); plan.too_large() as usize],
            Span(0),
            Some(ProbeOutcome::NotTested),
        ),
    ] {
        let verdict = plan.judge(PROBES[0], &gang_of(&pods), watched);
        assert_eq!(verdict.map(|one| one.outcome), expected, "{pods:?}");
    }
}

/// A gang that Kueue has not started has no pods; its reason is in a Workload.
#[test]
fn a_gang_in_kueue_is_seen_by_its_workload() {
    let plan = plan(&SampleCluster::good(), Some("kueue")).unwrap();
    assert!(plan.objects("probe", 2, &terms()).unwrap_err().contains("--queue"));
    let terms = ProbeTerms { queue: Some("main".to_owned()), ..terms() };
    let objects = plan.objects("probe", 2, &terms).unwrap();
    let [job] = &objects[..] else { panic!("{objects:?}") };
    let labels = &job.object["metadata"]["labels"];
    assert_eq!((job.plural, &labels["kueue.x-k8s.io/queue-name"]), ("jobs", &json!("main")));
    assert_eq!(
        (&job.object["spec"]["suspend"], &job.object["spec"]["parallelism"]),
        (&json!(true), &json!(2))
    );
    let pods = &job.object["spec"]["template"];
    assert_eq!(pods["metadata"]["labels"]["muster.run/probe"], "probe");
    assert_eq!(pods["spec"]["schedulerName"], "default-scheduler");

    let workload_with = |job: &str, reason: &str| {
        let condition = json!({"type": "QuotaReserved", "status": "False", "reason": reason, "message": "no quota"});
        json!({
            "metadata": {"ownerReferences": [{"controller": true, "uid": "u", "name": job}]},
            "status": {"conditions": [condition]},
        })
    };
    let workload = |job: &str| workload_with(job, "Pending");
    let waits = ProbedGang::in_kueue(Vec::new(), "probe", &[workload("other"), workload("probe")]);
    assert_eq!(waits.refusal.as_ref().unwrap().message, "no quota");
    // A queue that does not exist proves nothing.
    let lost = [workload_with("probe", "Inadmissible")];
    let lost = ProbedGang::in_kueue(Vec::new(), "probe", &lost);
    let unseen = ProbedGang::in_kueue(Vec::new(), "probe", &[workload("other")]);
    let outcome = |id, gang: &ProbedGang, watched| {
        plan.judge(id, gang, watched).map(|verdict| (verdict.outcome, verdict.text))
    };
    assert_eq!(outcome(PROBES[0], &waits, OBSERVED).unwrap().0, ProbeOutcome::Passed);
    assert_eq!(outcome(PROBES[0], &unseen, OBSERVED), None);
    assert_eq!(outcome(PROBES[0], &lost, OBSERVED), None);
    let (verdict, text) = outcome(PROBES[0], &lost, PATIENCE).unwrap();
    assert_eq!(
        (verdict, text.as_str()),
        (ProbeOutcome::NotTested, "a queue that admits gangs: no quota")
    );
    // Without quota for the small one nothing is known of the scheduler.
    let (verdict, text) = outcome(PROBES[1], &waits, PATIENCE).unwrap();
    assert_eq!(verdict, ProbeOutcome::NotTested);
    assert_eq!(text, "room for 2 pods with 1 GPU in the queue: no quota");
    let admitted = ProbedGang { pods: vec![pod(Some("n4"), None)], refusal: None };
    let (verdict, text) = outcome(PROBES[0], &admitted, Span(0)).unwrap();
    assert_eq!(verdict, ProbeOutcome::Failed);
    assert!(text.ends_with(
        "the quota of the queue is larger than what is free, and its flavors have no topology"
    ));
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
        let verdict = plan.judge(PROBES[1], &gang_of(&pods), watched);
        assert_eq!(verdict.map(|one| one.outcome), expected, "{pods:?}");
    }
    let refused = [pod(None, Some("the quota is used up"))];
    let verdict = plan.judge(PROBES[1], &gang_of(&refused), PATIENCE).unwrap();
    assert!(verdict.text.ends_with("got a node: the quota is used up"), "{}", verdict.text);
}
