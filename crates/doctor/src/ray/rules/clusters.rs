//! Rules on which job a Ray cluster belongs to, and on clusters that get in each other's way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_model::check::Severity::{High, Medium};
use muster_model::hostlist;
use muster_slurm::conf::evidence::MissingInput;

use super::RayRule;
use crate::ray::process::{JOINS, Owner, RayProgram, option};
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

/// Place of the head of a cluster for a node of it in a job.
enum HeadPlace {
    /// Node of the job, as far as that can be told.
    OfJob,
    /// Another one, with the words for it in a finding.
    Elsewhere(String),
    Unknown,
}

fn joined_elsewhere(host: &HostView<'_>) -> RuleResult {
    let mut missing = None;
    let mut findings = Vec::new();
    // A job that Muster lets join another is meant to.
    let is_meant = |node: &&ProcessView<'_>| node.variable(JOINS).is_some();
    for node in host.nodes().filter(|node| node.is_in_job() && !is_meant(node)) {
        let gcs = &node.gcs;
        // Whether it is meant to join is in its environment.
        match (place_of_head(host, node), node.unread()) {
            (HeadPlace::OfJob, _) => {}
            (_, Some(unread)) => missing = missing.or(Some(unread)),
            (HeadPlace::Elsewhere(place), None) => {
                let says = format!("{} is of the cluster {gcs}, {place}", node.title());
                findings.push(RuleFinding::about(format!("{} {gcs}", node.owner), says));
            }
            (HeadPlace::Unknown, None) => {
                let says =
                    format!("the node of {gcs}, the cluster of process {}", node.process.pid);
                missing = missing.or(Some(MissingInput(says)));
            }
        }
    }
    judge(findings, missing, host.seen())
}

fn place_of_head(host: &HostView<'_>, node: &ProcessView<'_>) -> HeadPlace {
    if let Some(other) = owner_of_head(host, node) {
        return HeadPlace::Elsewhere(format!("which is in {other}"));
    }
    let Some((address, _)) = node.gcs.rsplit_once(':') else { return HeadPlace::Unknown };
    let address = address.trim_matches(['[', ']']).parse::<IpAddr>();
    let Ok(address) = address else { return HeadPlace::OfJob };
    if address.is_loopback() || host.host.addresses.contains(&address) {
        return HeadPlace::OfJob;
    }
    if !matches!(node.owner, Owner::Muster(_)) {
        return place_of_address(host, node, address).unwrap_or(HeadPlace::Unknown);
    }
    // The tasks of a job of Muster's own daemon are on one machine.
    if node.process.is_in_other_network || host.host.addresses.is_empty() {
        HeadPlace::Unknown
    } else {
        HeadPlace::Elsewhere("on none of its nodes".to_owned())
    }
}

/// Returns the owner of the head on this machine, if it is another than that of the node.
fn owner_of_head(host: &HostView<'_>, node: &ProcessView<'_>) -> Option<Owner> {
    let mut heads = host.running(RayProgram::Gcs).filter(|head| head.session == node.session);
    let other = heads.find(|head| head.owner != node.owner && head.owner != Owner::Unknown)?;
    Some(other.owner.clone())
}

/// Returns the place of an address for a node in a job of Slurm; `None` where no node is known to have it: a
/// node has other addresses than that of its name.
fn place_of_address(
    host: &HostView<'_>,
    node: &ProcessView<'_>,
    address: IpAddr,
) -> Option<HeadPlace> {
    let names = hostlist::expand(node.variable("SLURM_JOB_NODELIST")?).ok()?;
    let own: BTreeSet<&String> = names.iter().collect();
    let known = host.host.resolved.iter();
    let with_address: BTreeSet<&String> =
        known.filter(|(_, addresses)| addresses.contains(&address)).map(|(name, _)| name).collect();
    if !own.is_disjoint(&with_address) {
        return Some(HeadPlace::OfJob);
    }
    let name = with_address.first()?;
    Some(HeadPlace::Elsewhere(format!("on {name}, which is none of its nodes")))
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
