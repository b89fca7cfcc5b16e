//! Rules on what keeps jobs apart beside GPUs: memory, cores, users, nodes of others.

use muster_model::check::Severity::{High, Low, Medium};

use crate::evidence::{Evidence, Record, Untested, untested};
use crate::rule::{Judged, Page, Rule, Trip, none_of, right};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "memory-not-constrained",
        severity: Medium,
        title: "a job can take the memory of others",
        meaning: "memory is counted when jobs are placed, and not held: one job can bring the node down for all",
        cure: "ConstrainRAMSpace=yes in cgroup.conf",
        page: Page::Man("cgroup.conf", "ConstrainRAMSpace"),
        check: |evidence| {
            memory_counts(evidence)?;
            let constrains = evidence.cgroup("ConstrainRAMSpace", "no")?;
            right(&constrains, constrains.is_yes())
        },
    },
    Rule {
        id: "cores-not-constrained",
        severity: Low,
        title: "a job can use the cores of others",
        meaning: "data loaders of one job slow down the training of its neighbour",
        cure: "ConstrainCores=yes in cgroup.conf",
        page: Page::Man("cgroup.conf", "ConstrainCores"),
        check: |evidence| {
            let constrains = evidence.cgroup("ConstrainCores", "no")?;
            right(&constrains, constrains.is_yes())
        },
    },
    Rule {
        id: "no-affinity",
        severity: Low,
        title: "tasks are not bound to cores",
        meaning: "tasks wander between sockets, away from their GPU and their memory",
        cure: "TaskPlugin=task/affinity,task/cgroup",
        page: Page::Man("slurm.conf", "TaskPlugin"),
        check: |evidence| {
            let plugin = evidence.said("TaskPlugin", Some("task/none"))?;
            right(&plugin, plugin.lists("task/affinity") || plugin.lists("affinity"))
        },
    },
    Rule {
        id: "no-memory-default",
        severity: Medium,
        title: "a job that names no memory gets all of it",
        meaning: "memory is counted and has no default, so that one job without --mem keeps every other off its node",
        cure: "DefMemPerGPU or DefMemPerCPU, for the cluster or on every partition",
        page: Page::Man("slurm.conf", "DefMemPerCPU"),
        check: memory_default,
    },
    Rule {
        id: "node-without-memory",
        severity: High,
        title: "nodes have no memory to give",
        meaning: "RealMemory is 1 MB where it is not set, and memory is counted: nearly no job fits",
        cure: "RealMemory as `slurmd -C` prints it, less what the system needs",
        page: Page::Man("slurm.conf", "RealMemory"),
        check: real_memory,
    },
    Rule {
        id: "authentication-off",
        severity: High,
        title: "messages are not authenticated",
        meaning: "anybody who reaches the port can be anybody",
        cure: "AuthType=auth/munge, or auth/slurm where there is one",
        page: Page::Man("slurm.conf", "AuthType"),
        check: |evidence| {
            let kind = evidence.said("AuthType", Some("auth/munge"))?;
            right(&kind, kind.is("auth/munge") || kind.is("auth/slurm"))
        },
    },
    Rule {
        id: "controller-is-root",
        severity: Medium,
        title: "slurmctld runs as root",
        meaning: "a fault in the controller is a fault with all rights; it needs none of them",
        cure: "SlurmUser=slurm, who must exist on all nodes and own StateSaveLocation",
        page: Page::Man("slurm.conf", "SlurmUser"),
        check: |evidence| {
            let user = evidence.said("SlurmUser", Some("root"))?;
            right(&user, user.value.split('(').next() != Some("root"))
        },
    },
    Rule {
        id: "ssh-not-contained",
        severity: Low,
        title: "logins to nodes are not part of a job",
        meaning: "without a container per job pam_slurm_adopt has nothing to put an ssh session into, and it sees all GPUs",
        cure: "PrologFlags=Contain, and pam_slurm_adopt on the nodes",
        page: Page::Man("slurm.conf", "PrologFlags"),
        check: |evidence| {
            let flags = evidence.said("PrologFlags", Some(""))?;
            right(&flags, flags.lists("contain") || flags.lists("x11"))
        },
    },
    Rule {
        id: "nodes-also-in-kubernetes",
        severity: High,
        title: "Kubernetes starts pods on the same nodes",
        meaning: "neither knows what the other started: GPUs, memory and cores are given away twice",
        cure: "give each node to one of them: drain it here, or taint it there",
        page: Page::Man("slurm.conf", "NodeName"),
        check: in_kubernetes,
    },
];

/// Memory is given to jobs, by its amount.
fn memory_counts(evidence: &Evidence) -> Result<(), Untested> {
    let select = evidence.said("SelectTypeParameters", None)?;
    let counts = select.value.split(',').any(|word| word.to_ascii_lowercase().ends_with("memory"));
    match counts {
        true => Ok(()),
        false => untested(format!("memory to be counted (CR_..._Memory): {}", select.text())),
    }
}

/// The cluster's default counts where a partition has none.
fn memory_default(evidence: &Evidence) -> Judged {
    memory_counts(evidence)?;
    const KEYS: [&str; 3] = ["DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode"];
    for key in KEYS {
        let said = evidence.said(key, Some("0"))?;
        if said.number() > Some(0) {
            return right(&said, true);
        }
    }
    let jobs = evidence.said("JobDefaults", Some(""))?;
    if jobs.option("DefMemPerGPU").is_some() {
        return right(&jobs, true);
    }
    let amount = |text: &str| text.parse().is_ok_and(|amount: u64| amount > 0);
    let partitions = evidence.partitions()?;
    let lacks = |partition: &&Record| {
        let of_jobs = partition
            .get("JobDefaults")
            .is_some_and(|jobs| jobs.to_ascii_lowercase().contains("defmempergpu="));
        !of_jobs && !KEYS.iter().any(|key| partition.get(key).is_some_and(amount))
    };
    let trip = |partition: &Record| Trip {
        key: partition.name.clone(),
        says: format!("partition {} has no default of memory, nor has the cluster", partition.name),
        place: Some(partition.place.clone()),
    };
    none_of(partitions.iter().filter(lacks).map(trip).collect(), "every partition has a default of memory")
}

fn real_memory(evidence: &Evidence) -> Judged {
    memory_counts(evidence)?;
    let nodes = evidence.nodes()?;
    let has = |node: &Record| {
        node.get("RealMemory").and_then(|amount| amount.parse::<u64>().ok()).is_some_and(|amount| amount > 1)
    };
    let without: Vec<&Record> = nodes.iter().filter(|node| !has(node)).collect();
    let trip = without.first().map(|first| Trip {
        key: "realmemory".to_owned(),
        says: format!(
            "{} of {} nodes have no RealMemory, such as {}",
            without.len(),
            nodes.len(),
            first.name
        ),
        place: Some(first.place.clone()),
    });
    none_of(trip.into_iter().collect(), format!("{} nodes have RealMemory", nodes.len()))
}

/// A node is the same when its first name is: Kubernetes often has the domain, too.
fn in_kubernetes(evidence: &Evidence) -> Judged {
    let nodes = evidence.nodes()?;
    let Some(kubernetes) = &evidence.kubernetes else {
        return untested("--kubernetes-nodes with the nodes of Kubernetes, where there is one");
    };
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let theirs: Vec<String> = kubernetes.iter().map(|name| short(name)).collect();
    let is_theirs = |name: &str| theirs.contains(&short(name));
    let trip = |node: &Record| {
        let inside: Vec<&str> = evidence
            .partitions
            .iter()
            .filter(|partition| evidence.nodes_of(partition).is_some_and(|names| names.contains(&node.name)))
            .map(|partition| partition.name.as_str())
            .collect();
        let inside = if inside.is_empty() {
            "in no partition".to_owned()
        } else {
            format!("in {}", inside.join(", "))
        };
        Trip {
            key: node.name.clone(),
            says: format!("node {} ({inside}) is a node of Kubernetes", node.name),
            place: Some(node.place.clone()),
        }
    };
    let shared = |node: &&Record| is_theirs(&node.name) || node.get("NodeHostname").is_some_and(is_theirs);
    let pass = format!("{} nodes here, {} there, none in common", nodes.len(), kubernetes.len());
    none_of(nodes.iter().filter(shared).map(trip).collect(), pass)
}
