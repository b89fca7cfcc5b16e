//! Rules on the quotas that Ray clusters are in.

use muster_model::check::Severity::Medium;
use muster_slurm::conf::evidence::MissingInput;

use super::super::KubernetesRule;
use super::super::workloads::{WITH_QUEUES, names_queue, with_quota};
use crate::kubernetes::ray::RayObject;
use crate::kubernetes::resource::QUOTAS;
use crate::kubernetes::view::{ClusterView, count, has_mark_of_kueue, quantity};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any, judge};

const KUEUE: DocPage =
    DocPage::Web("https://docs.ray.io/en/latest/cluster/kubernetes/k8s-ecosystem/kueue.html");

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "ray-outside-quota",
        severity: Medium,
        title: "a Ray cluster uses GPUs outside every queue",
        meaning: "Ray keeps its GPUs as long as the cluster exists, whether it computes or not, and no quota counts that",
        cure: "the label kueue.x-k8s.io/queue-name (with Muster: muster.run/queue) on the RayCluster or RayJob, or a ResourceQuota on GPUs in its namespace",
        page: KUEUE,
        check: outside_quota,
    },
    KubernetesRule {
        id: "ray-selects-cluster",
        severity: Medium,
        title: "a RayJob in a queue runs on a cluster that it selects",
        meaning: "Kueue admits the job without counting anything: the selected cluster is in another queue, or in none",
        cure: "`rayClusterSpec` in the RayJob in place of `clusterSelector`, or the queue's label on the RayCluster",
        page: KUEUE,
        check: selects_cluster,
    },
    KubernetesRule {
        id: "ray-upgrade-needs-twice",
        severity: Medium,
        title: "an upgrade of a RayService needs more GPUs than its quota has",
        meaning: "the strategy NewCluster, the default, starts a second whole cluster beside the first: its pods are refused, and the upgrade never ends",
        cure: "`upgradeStrategy.type: None`, or a quota for two clusters",
        page: DocPage::Web(
            "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/rayservice-incremental-upgrade.html",
        ),
        check: upgrade_needs_twice,
    },
];

fn outside_quota(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let is_open = |ray: &&RayObject<'_>| {
        let names_scheduler = ray.groups().iter().any(|group| {
            let named = group.spec()["schedulerName"].as_str();
            named.is_some_and(|name| WITH_QUEUES.contains(&name))
        });
        ray.gpus() > 0 && !names_queue(ray.object) && !names_scheduler
    };
    let open: Vec<&RayObject<'_>> = rays.iter().filter(is_open).collect();
    let pass = count(rays.len(), "Ray cluster");
    if open.is_empty() {
        return fail_if_any(Vec::new(), pass);
    }
    let limited = with_quota(cluster)?;
    let outside = open.into_iter().filter(|ray| !limited.contains(ray.namespace()));
    let finding = |ray: &RayObject<'_>| {
        let title = ray.title();
        RuleFinding::about(title.clone(), format!("{title}: {}", count(ray.gpus(), "GPU")))
    };
    fail_if_any(outside.map(finding).collect(), pass)
}

fn selects_cluster(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let selects = |ray: &&RayObject<'_>| {
        ray.object["spec"]["clusterSelector"].as_object().is_some_and(|labels| !labels.is_empty())
            && has_mark_of_kueue(ray.object)
    };
    let finding = |ray: &RayObject<'_>| {
        let title = ray.title();
        let labels = &ray.object["spec"]["clusterSelector"];
        RuleFinding::about(title.clone(), format!("{title}: clusterSelector is {labels}"))
    };
    let findings = rays.iter().filter(selects).map(finding).collect();
    fail_if_any(findings, count(rays.len(), "Ray cluster"))
}

fn upgrade_needs_twice(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let is_doubled = |ray: &&RayObject<'_>| {
        let strategy = ray.object["spec"]["upgradeStrategy"]["type"].as_str();
        ray.kind == "RayService" && ray.gpus() > 0 && matches!(strategy, None | Some("NewCluster"))
    };
    let mut missing: Option<MissingInput> = None;
    let mut findings = Vec::new();
    for ray in rays.iter().filter(is_doubled) {
        match gpu_quota(cluster, ray.namespace()) {
            Ok(Some(quota)) if quota < ray.gpus().saturating_mul(2) => {
                let title = ray.title();
                let says = format!(
                    "{title}: an upgrade needs {}, the quota of its namespace is {quota}",
                    count(ray.gpus().saturating_mul(2), "GPU")
                );
                findings.push(RuleFinding::about(title, says));
            }
            Ok(_) => {}
            Err(needed) => missing = Some(needed),
        }
    }
    judge(findings, missing, count(rays.len(), "Ray cluster"))
}

/// Returns the smallest quota on GPUs of a namespace.
fn gpu_quota(cluster: &ClusterView<'_>, namespace: &str) -> Result<Option<u64>, MissingInput> {
    let quotas = cluster.list(QUOTAS)?;
    let own = quotas.iter().filter(|quota| quota["metadata"]["namespace"] == namespace);
    let hard = own.filter_map(|quota| quota["spec"]["hard"].as_object()).flatten();
    let of_gpus = hard.filter(|(name, _)| {
        name.strip_prefix("requests.").is_some_and(muster_kubernetes::node::is_gpu)
    });
    Ok(of_gpus.map(|(_, amount)| quantity(amount)).min())
}
