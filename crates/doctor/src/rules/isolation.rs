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
        id: "processors-do-not-match",
        severity: Medium,
        title: "a node's processors do not add up",
        meaning: "slurmctld replaces CPUs by what sockets, cores and threads come to, or the other way round, and the node has more or fewer than it says",
        cure: "CPUs as sockets × cores × threads, or as sockets × cores where a thread is not a processor, as `slurmd -C` prints them",
        page: Page::Man("slurm.conf", "CPUs"),
        check: processors,
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
        id: "cores-shared-by-force",
        severity: Medium,
        title: "a partition gives each core to several jobs",
        meaning: "with OverSubscribe=FORCE a core is given away again while its job runs, four times where no number stands behind it, and every job is slower by that",
        cure: "OverSubscribe=NO, or FORCE:1, which lets jobs share a node and not a core",
        page: Page::Man("slurm.conf", "OverSubscribe"),
        check: forced,
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
    none_of(
        partitions.iter().filter(lacks).map(trip).collect(),
        "every partition has a default of memory",
    )
}

fn real_memory(evidence: &Evidence) -> Judged {
    memory_counts(evidence)?;
    let nodes = evidence.nodes()?;
    let has = |node: &Record| {
        node.get("RealMemory")
            .and_then(|amount| amount.parse::<u64>().ok())
            .is_some_and(|amount| amount > 1)
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

/// CPUs may be all threads, all cores or all sockets of a node.
fn processors(evidence: &Evidence) -> Judged {
    let nodes = evidence.nodes()?;
    let number = |node: &Record, key: &str| node.get(key).and_then(|text| text.parse::<u64>().ok());
    let mut said = 0;
    let mut wrong: Vec<(&Record, String)> = Vec::new();
    for node in nodes {
        let Some(cpus) = number(node, "CPUs").or(number(node, "CPUTot")) else { continue };
        let [cores, threads] = ["CoresPerSocket", "ThreadsPerCore"].map(|key| number(node, key));
        let sockets = number(node, "Sockets").or_else(|| {
            Some(number(node, "SocketsPerBoard")? * number(node, "Boards").unwrap_or(1))
        });
        if sockets.or(cores).or(threads).is_none() {
            continue;
        }
        said += 1;
        let (cores, threads) = (cores.unwrap_or(1).max(1), threads.unwrap_or(1).max(1));
        let all = cores.saturating_mul(threads);
        // Sockets that are not said follow from the others.
        let fits = match sockets {
            Some(sockets) => [sockets, sockets.saturating_mul(cores), sockets.saturating_mul(all)]
                .contains(&cpus),
            None => cpus > 0 && cpus % all == 0,
        };
        if !fits {
            let sockets = sockets.map_or("?".to_owned(), |count| count.to_string());
            wrong.push((
                node,
                format!("CPUs={cpus}, and {sockets} sockets × {cores} cores × {threads} threads"),
            ));
        }
    }
    if said == 0 {
        return untested("a node with CPUs beside Sockets, CoresPerSocket or ThreadsPerCore");
    }
    let trip = wrong.first().map(|(node, what)| Trip {
        key: "cpus".to_owned(),
        says: format!("{} of {said} nodes, such as {}: {what}", wrong.len(), node.name),
        place: Some(node.place.clone()),
    });
    none_of(trip.into_iter().collect(), format!("{said} nodes add up"))
}

/// `FORCE` without a number is four.
fn forced(evidence: &Evidence) -> Judged {
    let partitions = evidence.partitions()?;
    let shared = |partition: &Record| {
        let value = partition.get("OverSubscribe").or(partition.get("Shared"))?;
        let (word, count) = value.split_once(':').unwrap_or((value, "4"));
        let is_shared = word.eq_ignore_ascii_case("force") && count.parse() != Ok(1u32);
        is_shared.then(|| Trip {
            key: partition.name.clone(),
            says: format!("partition {} has OverSubscribe={value}", partition.name),
            place: Some(partition.place.clone()),
        })
    };
    none_of(
        partitions.iter().filter_map(shared).collect(),
        format!("{} partitions give a core to one job", partitions.len()),
    )
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
            .filter(|partition| {
                evidence.nodes_of(partition).is_some_and(|names| names.contains(&node.name))
            })
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
    let shared =
        |node: &&Record| is_theirs(&node.name) || node.get("NodeHostname").is_some_and(is_theirs);
    let pass = format!("{} nodes here, {} there, none in common", nodes.len(), kubernetes.len());
    none_of(nodes.iter().filter(shared).map(trip).collect(), pass)
}
