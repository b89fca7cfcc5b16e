//! Rules on parts of clusters that stay without the rest, and on parts that do not fit together.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::Severity::Medium;

use super::RayRule;
use crate::ray::process::{Owner, RayProgram};
use crate::ray::view::{HostView, ProcessView};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any, judge};
use muster_slurm::conf::evidence::MissingInput;

/// Time in which a start of Ray has a raylet: on a busy machine it takes half a minute.
const STARTED_SECS: u64 = 120;

const START: DocPage = DocPage::Web("https://docs.ray.io/en/latest/cluster/cli.html#ray-start");

pub(super) const RULES: &[RayRule] = &[
    RayRule {
        id: "ray-head-without-node",
        severity: Medium,
        title: "the head of a Ray cluster is left without its node",
        meaning: "a start that failed leaves its control store: it keeps its port and memory, and nothing can run there",
        cure: "end the process in the finding; a script that starts a head checks the exit code of `ray start`",
        page: START,
        check: head_without_node,
    },
    RayRule {
        id: "ray-start-without-node",
        severity: Medium,
        title: "`ray start --block` is left without its node",
        meaning: "it goes on when its node has left the cluster, so its job keeps its GPUs for nothing",
        cure: "cancel its job; a job of `kind: ray` watches the node itself",
        page: START,
        check: start_without_node,
    },
    RayRule {
        id: "ray-versions-differ",
        severity: Medium,
        title: "one cluster or job has several versions of Ray or Python",
        meaning: "nodes and programs of another version are refused, or fail when they exchange objects",
        cure: "one environment for all nodes and the program; `ray: {version: …}` in a job of `kind: ray` checks it before the program starts",
        page: DocPage::Web("https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"),
        check: versions_differ,
    },
];

fn head_without_node(host: &HostView<'_>) -> RuleResult {
    let is_alone = |head: &&ProcessView<'_>| {
        head.process.age_secs >= STARTED_SECS
            && !host.nodes().any(|node| node.session == head.session)
    };
    let finding = |head: &ProcessView<'_>| {
        let process = head.process;
        let says = format!(
            "the control store {} of {}, process {} in {}, has no raylet",
            head.gcs, process.user, process.pid, head.owner
        );
        RuleFinding::about(format!("{} {}", process.user, head.gcs), says)
    };
    let heads = host.running(RayProgram::Gcs);
    fail_if_any(heads.filter(is_alone).map(finding).collect(), host.seen())
}

fn start_without_node(host: &HostView<'_>) -> RuleResult {
    let is_alone = |start: &&ProcessView<'_>| {
        start.process.age_secs >= STARTED_SECS
            && !host.nodes().any(|node| node.process.parent == start.process.pid)
    };
    let finding = |start: &ProcessView<'_>| {
        let process = start.process;
        let says =
            format!("process {} of {} in {} has no raylet", process.pid, process.user, start.owner);
        RuleFinding::about(format!("{} {}", process.user, start.owner), says)
    };
    let starts = host.running(RayProgram::BlockedStart);
    fail_if_any(starts.filter(is_alone).map(finding).collect(), host.seen())
}

fn versions_differ(host: &HostView<'_>) -> RuleResult {
    let mut missing = None;
    let mut by_place: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in host.nodes() {
        let Some(version) = version(node) else {
            let says = format!("the Ray package of process {}", node.process.pid);
            missing = Some(MissingInput(says));
            continue;
        };
        let cluster = format!("the cluster {}", node.gcs);
        by_place.entry(cluster).or_default().insert(version.clone());
        if matches!(node.owner, Owner::Muster(_) | Owner::Slurm(_)) {
            by_place.entry(node.owner.to_string()).or_default().insert(version);
        }
    }
    let finding = |(place, versions): (String, BTreeSet<String>)| {
        let list: Vec<String> = versions.into_iter().collect();
        let says = format!("{place}: {}", list.join(", "));
        (list.len() > 1).then(|| RuleFinding::about(place, says))
    };
    judge(by_place.into_iter().filter_map(finding).collect(), missing, host.seen())
}

/// Returns the versions of Ray and of Python: `2.60.0 (python3.11)`.
fn version(node: &ProcessView<'_>) -> Option<String> {
    let version = node.process.version.as_ref()?;
    let mut parts = node.process.arguments.first()?.split('/');
    let python = parts.find(|part| part.starts_with("python3")).unwrap_or("python3");
    Some(format!("{version} ({python})"))
}
