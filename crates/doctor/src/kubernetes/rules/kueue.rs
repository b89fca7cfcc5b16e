//! Rules on Kueue's queues.

use std::collections::BTreeMap;

use muster_kubernetes::kueue::defect;
use muster_model::check::Severity::{High, Medium};
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{CLUSTER_QUEUES, LOCAL_QUEUES};
use crate::kubernetes::view::{ClusterView, count, name_of};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any, judge};

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "kueue-admits-nothing",
        severity: High,
        title: "a queue of Kueue admits nothing",
        meaning: "its workloads stay suspended for ever, and no pod says why",
        cure: "`kubectl describe clusterqueue QUEUE`: the missing ResourceFlavor or check, `stopPolicy: None`, `namespaceSelector: {}` for all namespaces, a `nominalQuota` above 0; the ClusterQueue that the LocalQueue names",
        page: DocPage::Web("https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/"),
        check: admits_nothing,
    },
    KubernetesRule {
        id: "kueue-lends-for-ever",
        severity: Medium,
        title: "a queue of Kueue lends GPUs and never gets them back",
        meaning: "another queue of its cohort may use all of its quota, and its own jobs wait until those end by themselves",
        cure: "`preemption.reclaimWithinCohort: Any` (or LowerPriority), or a `lendingLimit` on its GPUs",
        page: DocPage::Web("https://kueue.sigs.k8s.io/docs/concepts/preemption/"),
        check: lends_for_ever,
    },
];

fn admits_nothing(cluster: &ClusterView<'_>) -> RuleResult {
    let queues = cluster.list(CLUSTER_QUEUES)?;
    let local = cluster.list(LOCAL_QUEUES);
    let finding = |kind: &str, object: &Value, defect: String| {
        let title = format!("{kind} {}", name_of(object));
        RuleFinding::about(title.clone(), format!("{title} {defect}"))
    };
    let mut findings: Vec<RuleFinding> = queues
        .iter()
        .filter_map(|queue| Some(finding("ClusterQueue", queue, defect::of_cluster_queue(queue)?)))
        .collect();
    for queue in local.as_deref().unwrap_or_default() {
        let target = queue["spec"]["clusterQueue"].as_str().unwrap_or_default();
        if !queues.iter().any(|one| one["metadata"]["name"] == target) {
            let defect = format!("names the ClusterQueue {target}, which does not exist");
            findings.push(finding("LocalQueue", queue, defect));
        } else if let Some(defect) = defect::stopped(queue) {
            findings.push(finding("LocalQueue", queue, defect));
        }
    }
    let queues = count(queues.len(), "ClusterQueue");
    let locals = count(local.as_deref().map_or(0, <[Value]>::len), "LocalQueue");
    judge(findings, local.err(), format!("{queues}, {locals}"))
}

fn lends_for_ever(cluster: &ClusterView<'_>) -> RuleResult {
    let queues = cluster.list(CLUSTER_QUEUES)?;
    // A queue that no namespace can use has no jobs of its own: it is the pool of the others.
    let local = cluster.list(LOCAL_QUEUES)?;
    let has_jobs = |queue: &Value| {
        local.iter().any(|one| one["spec"]["clusterQueue"] == queue["metadata"]["name"])
    };
    let mut members: BTreeMap<&str, usize> = BTreeMap::new();
    for queue in queues {
        *members.entry(defect::cohort(queue)).or_default() += 1;
    }
    let finding = |queue: &Value| {
        let cohort = defect::cohort(queue);
        if cohort.is_empty() || members[cohort] < 2 || !has_jobs(queue) {
            return None;
        }
        let lent = defect::lent_for_ever(queue);
        let title = format!("ClusterQueue {}", name_of(queue));
        let gpus = count(lent, "GPU");
        (lent > 0).then(|| {
            let says = format!("{title} lends up to {gpus} to cohort {cohort}, and reclaims none");
            RuleFinding::about(title, says)
        })
    };
    let findings = queues.iter().filter_map(finding).collect();
    fail_if_any(findings, count(queues.len(), "ClusterQueue"))
}
