//! Rules on Kueue's queues.

use std::collections::BTreeMap;

use muster_kubernetes::node::is_gpu;
use muster_model::check::Severity::{High, Medium};
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{CLUSTER_QUEUES, LOCAL_QUEUES};
use crate::kubernetes::view::{ClusterView, count, name_of, quantity};
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
        .filter_map(|queue| Some(finding("ClusterQueue", queue, defect_of(queue)?)))
        .collect();
    for queue in local.as_deref().unwrap_or_default() {
        let target = queue["spec"]["clusterQueue"].as_str().unwrap_or_default();
        if !queues.iter().any(|one| one["metadata"]["name"] == target) {
            let defect = format!("names the ClusterQueue {target}, which does not exist");
            findings.push(finding("LocalQueue", queue, defect));
        } else if let Some(defect) = stopped(queue) {
            findings.push(finding("LocalQueue", queue, defect));
        }
    }
    let queues = count(queues.len(), "ClusterQueue");
    let locals = count(local.as_deref().map_or(0, <[Value]>::len), "LocalQueue");
    judge(findings, local.err(), format!("{queues}, {locals}"))
}

/// Returns why a ClusterQueue admits nothing.
fn defect_of(queue: &Value) -> Option<String> {
    let conditions = queue["status"]["conditions"].as_array().into_iter().flatten();
    let inactive = |one: &&Value| one["type"] == "Active" && one["status"] == "False";
    if let Some(defect) = stopped(queue) {
        return Some(defect);
    }
    if let Some(condition) = conditions.into_iter().find(inactive) {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        return Some(format!("is not active: {} ({})", text("message"), text("reason")));
    }
    if queue["spec"]["namespaceSelector"].is_null() {
        return Some("has no namespaceSelector, so that it serves no namespace".to_owned());
    }
    let quotas = gpu_quotas(queue);
    let is_empty =
        !quotas.is_empty() && quotas.iter().all(|quota| quantity(&quota["nominalQuota"]) == 0);
    (is_empty && cohort(queue).is_empty()).then(|| {
        "admits no job with GPUs: their quota is 0, and there is no cohort to borrow from"
            .to_owned()
    })
}

/// Returns the policy by which an administrator has stopped a queue.
fn stopped(queue: &Value) -> Option<String> {
    let policy = queue["spec"]["stopPolicy"].as_str()?;
    (policy != "None").then(|| format!("is stopped: stopPolicy is {policy}"))
}

/// Returns the quotas of a ClusterQueue for GPUs, one for each flavor.
fn gpu_quotas(queue: &Value) -> Vec<&Value> {
    let mut quotas = Vec::new();
    for group in queue["spec"]["resourceGroups"].as_array().into_iter().flatten() {
        for flavor in group["flavors"].as_array().into_iter().flatten() {
            let resources = flavor["resources"].as_array().into_iter().flatten();
            quotas.extend(resources.filter(|one| one["name"].as_str().is_some_and(is_gpu)));
        }
    }
    quotas
}

/// Returns the cohort of a ClusterQueue; `cohort` is its name in `v1beta1`.
fn cohort(queue: &Value) -> &str {
    let spec = &queue["spec"];
    spec["cohortName"].as_str().or(spec["cohort"].as_str()).unwrap_or_default()
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
        *members.entry(cohort(queue)).or_default() += 1;
    }
    let finding = |queue: &Value| {
        let cohort = cohort(queue);
        let reclaims =
            queue["spec"]["preemption"]["reclaimWithinCohort"].as_str().unwrap_or("Never");
        if cohort.is_empty() || members[cohort] < 2 || reclaims != "Never" || !has_jobs(queue) {
            return None;
        }
        let lent = gpu_quotas(queue).into_iter().map(|quota| match &quota["lendingLimit"] {
            Value::Null => quantity(&quota["nominalQuota"]),
            limit => quantity(limit),
        });
        let lent: u64 = lent.sum();
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
