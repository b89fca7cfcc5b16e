//! Rules on preemption and on drains.

use muster_model::check::Severity::{High, Medium};
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{BUDGETS, PRIORITY_CLASSES};
use crate::kubernetes::view::{ClusterView, DEFAULT_SCHEDULER, Gang, count, name_of, some_of};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any};

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "gang-preempted-pod-by-pod",
        severity: High,
        title: "a priority class preempts gangs pod by pod",
        meaning: "the default scheduler evicts as many pods as it needs: the rest of the gang keeps its GPUs and waits for the ones that are gone",
        cure: "`preemptionPolicy: Never` in that class, a gang scheduler for its pods, or a priority of gangs that is not below it",
        page: DocPage::Web(
            "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/",
        ),
        check: preempted,
    },
    KubernetesRule {
        id: "budget-blocks-drains",
        severity: Medium,
        title: "a disruption budget allows no eviction, ever",
        meaning: "`kubectl drain` of its nodes does not end: updates of the operating system, the driver and Kubernetes are stopped by it",
        cure: "`maxUnavailable: 1`, or one replica more than `minAvailable`; for jobs that must not be interrupted, wait for their end, or checkpoint them, before the drain",
        page: DocPage::Web("https://kubernetes.io/docs/tasks/run-application/configure-pdb/"),
        check: blocks_drains,
    },
];

fn preempted(cluster: &ClusterView<'_>) -> RuleResult {
    let gangs = cluster.gangs()?;
    let pods = cluster.gpu_pods()?;
    let mut findings = Vec::new();
    let classes = cluster.list(PRIORITY_CLASSES)?;
    for class in classes {
        let name = class["metadata"]["name"].as_str().unwrap_or_default();
        let value = class["value"].as_i64().unwrap_or(0);
        let preempts = class["preemptionPolicy"] != "Never" && !name.starts_with("system-");
        let of_class = pods.iter().filter(|pod| {
            pod.scheduler == DEFAULT_SCHEDULER && pod.spec()["priorityClassName"] == name
        });
        let users = of_class.count();
        let is_below = |gang: &&Gang<'_>| {
            let mut running = gang.pods.iter().filter(|pod| pod.facts.node.is_some());
            running.any(|pod| i64::from(pod.facts.priority) < value)
        };
        let victims: Vec<String> =
            gangs.known.iter().filter(is_below).map(|gang| gang.title()).collect();
        if preempts && users > 0 && !victims.is_empty() {
            let users = count(users, "pod");
            let says = format!(
                "priority class {name} ({value}) of {users} with GPUs can preempt pods of {}",
                some_of(&victims)
            );
            findings.push(RuleFinding::about(name, says));
        }
    }
    gangs.judge(findings, format!("priority classes: {}", classes.len()))
}

fn blocks_drains(cluster: &ClusterView<'_>) -> RuleResult {
    let budgets = cluster.list(BUDGETS)?;
    let finding = |budget: &Value| {
        let expected = budget["status"]["expectedPods"].as_u64().filter(|pods| *pods > 0)?;
        let desired = budget["status"]["desiredHealthy"].as_u64()?;
        if desired < expected {
            return None;
        }
        let name = name_of(budget);
        Some(RuleFinding::about(
            name.clone(),
            format!("{name}: {desired} of {} must stay healthy", count(expected, "pod")),
        ))
    };
    let findings = budgets.iter().filter_map(finding).collect();
    fail_if_any(findings, count(budgets.len(), "disruption budget"))
}
