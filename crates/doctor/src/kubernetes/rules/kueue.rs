//! Rules on Kueue's queues.

use std::collections::BTreeMap;

use muster_kubernetes::kueue::defect;
use muster_model::check::Severity::{High, Medium};
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES};
use crate::kubernetes::view::{ClusterView, NodeView, count, name_of};
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
        id: "kueue-flavor-without-nodes",
        severity: Medium,
        title: "a quota of Kueue is for nodes that do not exist",
        meaning: "no node has the labels of its ResourceFlavor, so jobs wait although the quota is free",
        cure: "`kubectl label node NODE KEY=VALUE` for the nodes that are meant, as `node-labels.sh` of `muster init kueue` does, or correct `nodeLabels` of the flavor; where an autoscaler adds such nodes on demand, put the finding into the baseline",
        page: DocPage::Web("https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/"),
        check: flavor_without_nodes,
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

fn flavor_without_nodes(cluster: &ClusterView<'_>) -> RuleResult {
    let queues = cluster.list(CLUSTER_QUEUES)?;
    let flavors = cluster.list(FLAVORS)?;
    let nodes = cluster.nodes()?;
    let is_used = |flavor: &&Value| {
        queues.iter().flat_map(flavors_of).any(|name| *name == flavor["metadata"]["name"])
    };
    let finding = |flavor: &Value| {
        let labels = flavor["spec"]["nodeLabels"].as_object()?;
        let has_all = |node: &NodeView<'_>| {
            labels.iter().all(|(key, value)| node.object["metadata"]["labels"][key] == *value)
        };
        (!labels.is_empty() && !nodes.iter().any(has_all)).then(|| {
            let title = format!("ResourceFlavor {}", name_of(flavor));
            let wanted = labels
                .iter()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            let wanted = wanted.collect::<Vec<_>>().join(", ");
            RuleFinding::about(
                title.clone(),
                format!("{title} is for nodes with {wanted}, and no node has that"),
            )
        })
    };
    let findings = flavors.iter().filter(is_used).filter_map(finding).collect();
    fail_if_any(findings, count(flavors.len(), "ResourceFlavor"))
}

/// Returns the names of the flavors for which a ClusterQueue has quotas.
fn flavors_of(queue: &Value) -> impl Iterator<Item = &Value> {
    let groups = queue["spec"]["resourceGroups"].as_array().into_iter().flatten();
    let quotas = groups.flat_map(|group| group["flavors"].as_array().into_iter().flatten());
    quotas.map(|quota| &quota["name"])
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
