//! Rules on which job a Ray cluster belongs to, and on clusters that get in each other's way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_model::check::Severity::{High, Medium};
use muster_model::hostlist;

use super::RayRule;
use crate::ray::process::{Owner, RayProgram, option};
use crate::ray::view::{Cluster, HostView, ProcessView};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any, judge};

pub(super) const RULES: &[RayRule] = &[
    RayRule {
        id: "ray-outside-jobs",
        severity: High,
        title: "a Ray cluster runs outside every job",
        meaning: "no scheduler counts its GPUs and CPUs or ends it: they are given to jobs as well, and no quota applies",
        cure: "end it, and submit its program as a job of `kind: ray` (docs/ray.md), which has a Ray cluster of its own",
        page: DocPage::Web(
            "https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html",
        ),
        check: outside_jobs,
    },
    RayRule {
        id: "ray-joined-elsewhere",
        severity: High,
        title: "a job lends its machine to the Ray cluster of another job",
        meaning: "programs of other users and jobs run on its GPUs, are charged to it, and fail when it ends",
        cure: "in the job, `ray start --address` with the address of its own head, not that of `ray_current_cluster`; a job of `kind: ray` does so",
        page: DocPage::Web("https://docs.ray.io/en/latest/cluster/cli.html#ray-start"),
        check: joined_elsewhere,
    },
    RayRule {
        id: "ray-clusters-collide",
        severity: Medium,
        title: "several Ray clusters share a job, or a directory",
        meaning: "programs without an address join whichever started last, each cluster offers the same GPUs again, and `ray stop` ends them all",
        cure: "one cluster for each job, each with its own `--temp-dir` and ports; jobs of `kind: ray` have their own",
        page: DocPage::Web("https://docs.ray.io/en/latest/cluster/cli.html#ray-start"),
        check: collide,
    },
];

fn outside_jobs(host: &HostView<'_>) -> RuleResult {
    let mut missing = None;
    let mut findings = Vec::new();
    for cluster in host.clusters() {
        for process in &cluster.processes {
            if process.owner == Owner::Unknown {
                missing = missing.or_else(|| process.unread());
            }
        }
        if cluster.processes.iter().any(|process| process.owner == Owner::Nobody) {
            findings.push(outside(&cluster));
        }
    }
    judge(findings, missing, host.seen())
}

fn outside(cluster: &Cluster<'_, '_>) -> RuleFinding {
    let users = cluster.users();
    let address = cluster.address();
    let outside = |process: &&&ProcessView<'_>| process.owner == Owner::Nobody;
    let pids: Vec<String> = cluster
        .processes
        .iter()
        .filter(outside)
        .map(|process| process.process.pid.to_string())
        .collect();
    let says = format!(
        "the cluster {address} of {users}: {}, in no job (processes {})",
        cluster.offer(),
        pids.join(", ")
    );
    RuleFinding::about(format!("{users} {address}"), says)
}

fn joined_elsewhere(host: &HostView<'_>) -> RuleResult {
    let mut missing = None;
    let mut findings = Vec::new();
    for node in host.nodes().filter(|node| node.is_in_job()) {
        if let Some(other) = owner_of_head(host, node) {
            let title = node.title();
            let says = format!("{title} is of the cluster {}, which is in {other}", node.gcs);
            findings.push(RuleFinding::about(format!("{} {}", node.owner, node.gcs), says));
            continue;
        }
        match is_of_its_nodes(host, node) {
            Some(true) => {}
            Some(false) => {
                let title = node.title();
                let says = format!("{title} is of the cluster {}, on none of its nodes", node.gcs);
                findings.push(RuleFinding::about(format!("{} {}", node.owner, node.gcs), says));
            }
            None => missing = missing.or_else(|| node.unread()),
        }
    }
    judge(findings, missing, host.seen())
}

/// Returns the owner of the head on this machine, if it is another than that of the node.
fn owner_of_head(host: &HostView<'_>, node: &ProcessView<'_>) -> Option<Owner> {
    let mut heads = host.running(RayProgram::Gcs).filter(|head| head.session == node.session);
    let other = heads.find(|head| head.owner != node.owner && head.owner != Owner::Unknown)?;
    Some(other.owner.clone())
}

/// Returns whether the head of a node is on a machine of its job; `None` where that cannot be told.
fn is_of_its_nodes(host: &HostView<'_>, node: &ProcessView<'_>) -> Option<bool> {
    let (address, _) = node.gcs.rsplit_once(':')?;
    let Ok(address) = address.trim_matches(['[', ']']).parse::<IpAddr>() else { return Some(true) };
    if address.is_loopback() || host.host.addresses.contains(&address) {
        return Some(true);
    }
    // The tasks of a job of Muster's own daemon are on one machine.
    if matches!(node.owner, Owner::Muster(_)) && node.process.environment.is_some() {
        return Some(false);
    }
    let names = hostlist::expand(node.variable("SLURM_JOB_NODELIST")?).ok()?;
    let known: Option<Vec<&BTreeSet<IpAddr>>> =
        names.iter().map(|name| host.host.resolved.get(name)).collect();
    let is_found = |name: &String| {
        host.host.resolved.get(name).is_some_and(|addresses| addresses.contains(&address))
    };
    if names.iter().any(is_found) { Some(true) } else { known.map(|_| false) }
}

fn collide(host: &HostView<'_>) -> RuleResult {
    // Clusters by what they share: a job, or outside of jobs a directory.
    let mut shared: BTreeMap<(Owner, String), Vec<String>> = BTreeMap::new();
    for cluster in host.clusters() {
        let Some(first) = cluster.running(RayProgram::Raylet).next() else { continue };
        let directory = option(&first.process.arguments, "temp_dir").unwrap_or_default();
        let key = match first.owner {
            Owner::Muster(_) | Owner::Slurm(_) => (first.owner.clone(), String::new()),
            Owner::Pod | Owner::Nobody | Owner::Unknown => (Owner::Nobody, directory.to_owned()),
        };
        // A pod has its own file system.
        if first.owner != Owner::Pod {
            let users = cluster.users();
            shared.entry(key).or_default().push(format!("{} of {users}", cluster.address()));
        }
    }
    let finding = |((owner, directory), clusters): ((Owner, String), Vec<String>)| {
        let place = if directory.is_empty() { owner.to_string() } else { directory };
        let says = format!("in {place}: {}", clusters.join(", "));
        (clusters.len() > 1).then(|| RuleFinding::about(place, says))
    };
    let findings = shared.into_iter().filter_map(finding).collect();
    fail_if_any(findings, host.seen())
}
