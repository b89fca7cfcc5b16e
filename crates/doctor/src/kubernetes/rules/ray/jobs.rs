//! Rules on RayJobs that keep their GPUs.

use muster_model::check::Severity::Medium;
use serde_json::Value;

use super::super::KubernetesRule;
use crate::kubernetes::ray::RayObject;
use crate::kubernetes::view::{ClusterView, count};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any};

const RAY_JOB: DocPage = DocPage::Web(
    "https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html",
);

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "ray-job-without-limit",
        severity: Medium,
        title: "a RayJob with GPUs has no time limit",
        meaning: "a program that hangs, or waits for actors that can never start, keeps its GPUs for ever",
        cure: "`activeDeadlineSeconds` in the RayJob",
        page: RAY_JOB,
        check: without_limit,
    },
    KubernetesRule {
        id: "ray-job-keeps-cluster",
        severity: Medium,
        title: "the cluster of a RayJob stays when the job has ended",
        meaning: "its pods keep their GPUs until somebody deletes the RayJob",
        cure: "`shutdownAfterJobFinishes: true`, or rules in `deletionStrategy`",
        page: RAY_JOB,
        check: keeps_cluster,
    },
];

/// Judges the RayJobs that make a cluster with GPUs.
fn each_job(cluster: &ClusterView<'_>, wrong: fn(&Value) -> Option<&'static str>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let jobs = rays.iter().filter(|ray| ray.kind == "RayJob" && ray.gpus() > 0);
    let finding = |ray: &RayObject<'_>| {
        let title = ray.title();
        let says =
            format!("{title}: {}, {}", count(ray.gpus(), "GPU"), wrong(&ray.object["spec"])?);
        Some(RuleFinding::about(title, says))
    };
    fail_if_any(jobs.filter_map(finding).collect(), count(rays.len(), "Ray cluster"))
}

fn without_limit(cluster: &ClusterView<'_>) -> RuleResult {
    each_job(cluster, |spec| {
        let has_limit = spec["activeDeadlineSeconds"].as_u64().is_some_and(|secs| secs > 0);
        (!has_limit).then_some("without activeDeadlineSeconds")
    })
}

fn keeps_cluster(cluster: &ClusterView<'_>) -> RuleResult {
    each_job(cluster, |spec| {
        let is_ended =
            spec["shutdownAfterJobFinishes"] == true || spec["deletionStrategy"].is_object();
        (!is_ended).then_some("without shutdownAfterJobFinishes")
    })
}
