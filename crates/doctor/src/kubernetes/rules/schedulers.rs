//! Rules on the schedulers of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use muster_kubernetes::names;
use muster_kubernetes::node::is_gpu;
use muster_model::check::Severity::{High, Medium};
use muster_slurm::conf::evidence::{MissingInput, needs_input};
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{DEPLOYMENTS, SCHEDULER_CONFIGURATION};
use crate::kubernetes::view::{ClusterView, DEFAULT_SCHEDULER, PodView, count, name_of, some_of};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any};

/// GPUs of a node from which the place of small pods matters: such nodes are bought for jobs that take
/// all of them.
const LARGE_NODE: u64 = 8;

/// Schedulers that start gangs as a whole: the name by which pods ask for one, and the names of its
/// Deployment in the charts of each project (November 2026).
pub(crate) const GANG_SCHEDULERS: [(&str, &[&str]); 6] = [
    (names::SCHEDULER, &["muster-scheduler"]),
    ("volcano", &["volcano-scheduler"]),
    ("kai-scheduler", &["kai-scheduler", "kai-scheduler-default"]),
    ("scheduler-plugins-scheduler", &["scheduler-plugins-scheduler"]),
    ("yunikorn", &["yunikorn-scheduler"]),
    ("koord-scheduler", &["koord-scheduler"]),
];

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "gang-scheduler-not-used",
        severity: High,
        title: "a gang scheduler is installed, and gangs do not get to it",
        meaning: "Kubernetes gives a pod to the scheduler that it names: one that is installed and not named, or named and not running, starts nothing",
        cure: "`schedulerName` of that scheduler in the pods of gangs; a Deployment of it with a ready replica",
        page: DocPage::Web(
            "https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/",
        ),
        check: not_used,
    },
    KubernetesRule {
        id: "two-schedulers-on-nodes",
        severity: High,
        title: "two schedulers place pods with GPUs on the same nodes",
        meaning: "neither sees what the other is about to place: pods fail with OutOf errors of the kubelet, and quotas and gangs of one are broken by the other",
        cure: "one scheduler for all pods with GPUs, or nodes of its own for each: a taint that only its pods tolerate",
        page: DocPage::Web(
            "https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/",
        ),
        check: two_on_nodes,
    },
    KubernetesRule {
        id: "small-pods-spread",
        severity: Medium,
        title: "pods with few GPUs are spread over large nodes",
        meaning: "LeastAllocated, the default, puts each pod where the most is free: small pods take a GPU of every node, and no node is left for a job of a whole one",
        cure: "a profile of KubeSchedulerConfiguration with `pluginConfig` of NodeResourcesFit: `scoringStrategy.type: MostAllocated`, with nvidia.com/gpu among its resources",
        page: DocPage::Web(
            "https://kubernetes.io/docs/concepts/scheduling-eviction/resource-bin-packing/",
        ),
        check: spread,
    },
];

fn not_used(cluster: &ClusterView<'_>) -> RuleResult {
    let deployments = cluster.list(DEPLOYMENTS)?;
    let pods = cluster.gpu_pods()?;
    let gangs = cluster.gangs()?;
    let outside: Vec<String> = gangs
        .known
        .iter()
        .filter(|gang| !gang.placed_one_by_one().is_empty())
        .map(|gang| gang.title())
        .collect();
    let mut findings = Vec::new();
    let mut installed = Vec::new();
    for (scheduler, deployed_as) in GANG_SCHEDULERS {
        let is_it = |one: &&Value| {
            one["metadata"]["name"].as_str().is_some_and(|name| deployed_as.contains(&name))
        };
        let Some(deployment) = deployments.iter().find(is_it) else { continue };
        installed.push(scheduler);
        let name = name_of(deployment);
        let ready = deployment["status"]["readyReplicas"].as_u64().unwrap_or(0);
        let users = pods.iter().filter(|pod| pod.scheduler == scheduler).count();
        if ready == 0 && users > 0 {
            let says = format!(
                "{name} has no ready replica; `{scheduler}` is named by {}",
                count(users, "pod")
            );
            findings.push(RuleFinding::about(scheduler, says));
        } else if users == 0 && !outside.is_empty() {
            let says = format!(
                "{name} is installed, and {DEFAULT_SCHEDULER} places {}: {}",
                count(outside.len(), "gang"),
                some_of(&outside)
            );
            findings.push(RuleFinding::about(scheduler, says));
        }
    }
    let pass = match installed[..] {
        [] => "no gang scheduler is installed".to_owned(),
        _ => format!("installed: {}", installed.join(", ")),
    };
    gangs.judge(findings, pass)
}

fn two_on_nodes(cluster: &ClusterView<'_>) -> RuleResult {
    let mut of_node: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let pods = cluster.gpu_pods()?;
    for pod in &pods {
        if let Some(node) = &pod.facts.node {
            of_node.entry(node.0.as_ref()).or_default().insert(pod.scheduler);
        }
    }
    let mut nodes_of: BTreeMap<BTreeSet<&str>, Vec<&str>> = BTreeMap::new();
    for (node, schedulers) in of_node {
        nodes_of.entry(schedulers).or_default().push(node);
    }
    let finding = |(schedulers, nodes): (&BTreeSet<&str>, &Vec<&str>)| {
        let names: Vec<&str> = schedulers.iter().copied().collect();
        let says = format!("{} on {}", names.join(" and "), some_of(nodes));
        (names.len() > 1).then(|| RuleFinding::about(names.join("+"), says))
    };
    let findings = nodes_of.iter().filter_map(finding).collect();
    let schedulers: BTreeSet<&str> = pods.iter().map(|pod| pod.scheduler).collect();
    fail_if_any(findings, format!("{} of pods with GPUs", count(schedulers.len(), "scheduler")))
}

fn spread(cluster: &ClusterView<'_>) -> RuleResult {
    let large: Vec<u64> = cluster.gpu_nodes()?.iter().map(|node| node.gpus).collect();
    let Some(largest) = large.iter().max().filter(|gpus| **gpus >= LARGE_NODE) else {
        return fail_if_any(Vec::new(), format!("no node has {LARGE_NODE} GPUs"));
    };
    let pods = cluster.gpu_pods()?;
    let is_small = |pod: &&&PodView<'_>| pod.gpus < *largest && pod.scheduler == DEFAULT_SCHEDULER;
    let small = pods.iter().filter(is_small).count();
    if small == 0 {
        return fail_if_any(
            Vec::new(),
            format!("{DEFAULT_SCHEDULER} places no small pod with GPUs"),
        );
    }
    let scoring = default_scoring(cluster)?;
    let says = format!("{}; {} with fewer than {largest} GPUs", scoring.text, count(small, "pod"));
    let finding = (!scoring.packs).then(|| RuleFinding::about(DEFAULT_SCHEDULER, says.clone()));
    fail_if_any(finding.into_iter().collect(), says)
}

/// Order in which the default scheduler prefers nodes.
struct Scoring {
    /// True if it fills one node after the other with GPUs.
    packs: bool,
    text: String,
}

/// Returns how the default scheduler scores nodes.
fn default_scoring(cluster: &ClusterView<'_>) -> Result<Scoring, MissingInput> {
    if let Some(file) = cluster.list(SCHEDULER_CONFIGURATION).ok().and_then(<[Value]>::first) {
        return Ok(scoring_of(file));
    }
    let pods = cluster.pods()?;
    let own = pods.iter().filter(|pod| pod.label("component") == "kube-scheduler");
    let words: Vec<&str> = own
        .flat_map(|pod| pod.spec()["containers"].as_array().into_iter().flatten())
        .flat_map(|container| ["command", "args"].map(|field| &container[field]))
        .flat_map(|words| words.as_array().into_iter().flatten().filter_map(Value::as_str))
        .collect();
    // A shell may run it, with all words in one.
    let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    let after = words.iter().skip_while(|word| **word != "--config").nth(1).copied();
    let config = words.iter().find_map(|word| word.strip_prefix("--config=")).or(after);
    match (config, words.is_empty()) {
        (Some(path), _) => needs_input(format!("{path} of kube-scheduler, as JSON")),
        (None, true) => needs_input("the KubeSchedulerConfiguration of kube-scheduler, as JSON"),
        (None, false) => {
            Ok(Scoring { packs: false, text: "kube-scheduler runs without --config".to_owned() })
        }
    }
}

/// Returns how a configuration has the default scheduler score nodes.
fn scoring_of(file: &Value) -> Scoring {
    let profiles = file["profiles"].as_array().into_iter().flatten();
    let mut own = profiles.filter(|profile| {
        profile["schedulerName"].as_str().unwrap_or(DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
    });
    let config = own.next().and_then(|profile| profile["pluginConfig"].as_array());
    let fit = config.into_iter().flatten().find(|one| one["name"] == "NodeResourcesFit");
    let strategy = fit.map_or(&Value::Null, |one| &one["args"]["scoringStrategy"]);
    let kind = strategy["type"].as_str().unwrap_or("LeastAllocated");
    let resources = strategy["resources"].as_array().into_iter().flatten();
    let counts_gpus = resources.filter_map(|one| one["name"].as_str()).any(is_gpu);
    let is_default = kind == "LeastAllocated";
    let exception = if is_default || counts_gpus { "" } else { ", and does not count GPUs" };
    Scoring {
        packs: !is_default && counts_gpus,
        text: format!("scoringStrategy is {kind}{exception}"),
    }
}
