//! Rules on isolation of jobs other than by GPU: memory, cores, users, Kubernetes nodes.

use muster_model::check::Severity::{High, Low, Medium};

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::evidence::{ConfRecord, Evidence, MissingInput, needs_input};

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "memory-not-constrained",
        severity: Medium,
        title: "a job can use the memory of other jobs",
        meaning: "memory is counted for placement but not enforced: one job can make the node fail for all",
        cure: "ConstrainRAMSpace=yes in cgroup.conf",
        page: DocPage::Man("cgroup.conf", "ConstrainRAMSpace"),
        check: |evidence| {
            memory_counts(evidence)?;
            let constrains = evidence.cgroup("ConstrainRAMSpace", "no")?;
            check_setting(&constrains, constrains.is_yes())
        },
    },
    CheckRule {
        id: "cores-not-constrained",
        severity: Low,
        title: "a job can use the cores of other jobs",
        meaning: "data loaders of one job slow down the training of another",
        cure: "ConstrainCores=yes in cgroup.conf",
        page: DocPage::Man("cgroup.conf", "ConstrainCores"),
        check: |evidence| {
            let constrains = evidence.cgroup("ConstrainCores", "no")?;
            check_setting(&constrains, constrains.is_yes())
        },
    },
    CheckRule {
        id: "no-affinity",
        severity: Low,
        title: "tasks are not bound to cores",
        meaning: "tasks migrate between sockets, away from their GPU and their memory",
        cure: "TaskPlugin=task/affinity,task/cgroup",
        page: DocPage::Man("slurm.conf", "TaskPlugin"),
        check: |evidence| {
            let plugin = evidence.conf_setting("TaskPlugin", Some("task/none"))?;
            check_setting(&plugin, plugin.lists("task/affinity") || plugin.lists("affinity"))
        },
    },
    CheckRule {
        id: "no-memory-default",
        severity: Medium,
        title: "a job without --mem gets all of a node's memory",
        meaning: "memory is counted and has no default, so that no other job fits on the node of a job without --mem",
        cure: "DefMemPerGPU or DefMemPerCPU, for the cluster or on every partition",
        page: DocPage::Man("slurm.conf", "DefMemPerCPU"),
        check: memory_default,
    },
    CheckRule {
        id: "node-without-memory",
        severity: High,
        title: "nodes have no memory configured",
        meaning: "RealMemory defaults to 1 MB, and memory is counted: hardly any job fits",
        cure: "RealMemory as `slurmd -C` prints it, minus what the system needs",
        page: DocPage::Man("slurm.conf", "RealMemory"),
        check: real_memory,
    },
    CheckRule {
        id: "processors-do-not-match",
        severity: Medium,
        title: "a node's CPUs contradict its sockets, cores and threads",
        meaning: "slurmctld computes CPUs from sockets, cores and threads, or the other way round, and the node has more or fewer than configured",
        cure: "CPUs as sockets × cores × threads, or as sockets × cores where a thread is not a processor, as `slurmd -C` prints them",
        page: DocPage::Man("slurm.conf", "CPUs"),
        check: processors,
    },
    CheckRule {
        id: "authentication-off",
        severity: High,
        title: "messages are not authenticated",
        meaning: "every client that reaches the port can act as any user",
        cure: "AuthType=auth/munge, or auth/slurm where the version has it",
        page: DocPage::Man("slurm.conf", "AuthType"),
        check: |evidence| {
            let kind = evidence.conf_setting("AuthType", Some("auth/munge"))?;
            check_setting(&kind, kind.is("auth/munge") || kind.is("auth/slurm"))
        },
    },
    CheckRule {
        id: "controller-is-root",
        severity: Medium,
        title: "slurmctld runs as root",
        meaning: "a vulnerability in the controller gives root access, which it does not need",
        cure: "SlurmUser=slurm, a user that exists on all nodes and owns StateSaveLocation",
        page: DocPage::Man("slurm.conf", "SlurmUser"),
        check: |evidence| {
            let user = evidence.conf_setting("SlurmUser", Some("root"))?;
            check_setting(&user, user.value.split('(').next() != Some("root"))
        },
    },
    CheckRule {
        id: "ssh-not-contained",
        severity: Low,
        title: "ssh sessions on nodes are not part of a job",
        meaning: "without a container per job pam_slurm_adopt cannot confine an ssh session to a job, and it sees all GPUs",
        cure: "PrologFlags=Contain, and pam_slurm_adopt on the nodes",
        page: DocPage::Man("slurm.conf", "PrologFlags"),
        check: |evidence| {
            let flags = evidence.conf_setting("PrologFlags", Some(""))?;
            check_setting(&flags, flags.lists("contain") || flags.lists("x11"))
        },
    },
    CheckRule {
        id: "cores-shared-by-force",
        severity: Medium,
        title: "a partition allocates each core to several jobs",
        meaning: "OverSubscribe=FORCE allocates a core to several jobs at once, four by default, and each of them runs slower",
        cure: "OverSubscribe=NO, or FORCE:1, which lets jobs share a node but not a core",
        page: DocPage::Man("slurm.conf", "OverSubscribe"),
        check: forced,
    },
    CheckRule {
        id: "nodes-also-in-kubernetes",
        severity: High,
        title: "Kubernetes starts pods on the same nodes",
        meaning: "neither system sees the other's jobs: GPUs, memory and cores are allocated twice",
        cure: "assign each node to one of them: drain it in Slurm, or taint it in Kubernetes",
        page: DocPage::Man("slurm.conf", "NodeName"),
        check: in_kubernetes,
    },
];

/// Returns whether memory is a consumable resource.
fn memory_counts(evidence: &Evidence) -> Result<(), MissingInput> {
    let select = evidence.conf_setting("SelectTypeParameters", None)?;
    let counts = select.value.split(',').any(|word| word.to_ascii_lowercase().ends_with("memory"));
    if counts {
        Ok(())
    } else {
        needs_input(format!("memory to be counted (CR_..._Memory): {}", select.text()))
    }
}

/// The cluster's default applies where a partition has none.
fn memory_default(evidence: &Evidence) -> RuleResult {
    memory_counts(evidence)?;
    const KEYS: [&str; 3] = ["DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode"];
    for key in KEYS {
        let said = evidence.conf_setting(key, Some("0"))?;
        if said.number() > Some(0) {
            return check_setting(&said, true);
        }
    }
    let jobs = evidence.conf_setting("JobDefaults", Some(""))?;
    if jobs.option("DefMemPerGPU").is_some() {
        return check_setting(&jobs, true);
    }
    let amount = |text: &str| text.parse().is_ok_and(|amount: u64| amount > 0);
    let partitions = evidence.partitions()?;
    let lacks = |partition: &&ConfRecord| {
        let of_jobs = partition
            .get("JobDefaults")
            .is_some_and(|jobs| jobs.to_ascii_lowercase().contains("defmempergpu="));
        !of_jobs && !KEYS.iter().any(|key| partition.get(key).is_some_and(amount))
    };
    let finding = |partition: &ConfRecord| RuleFinding {
        key: partition.name.clone(),
        says: format!("neither partition {} nor the cluster has a memory default", partition.name),
        place: Some(partition.place.clone()),
    };
    fail_if_any(
        partitions.iter().filter(lacks).map(finding).collect(),
        "every partition has a memory default",
    )
}

fn real_memory(evidence: &Evidence) -> RuleResult {
    memory_counts(evidence)?;
    let nodes = evidence.nodes()?;
    let has = |node: &ConfRecord| {
        node.get("RealMemory")
            .and_then(|amount| amount.parse::<u64>().ok())
            .is_some_and(|amount| amount > 1)
    };
    let without: Vec<&ConfRecord> = nodes.iter().filter(|node| !has(node)).collect();
    let finding = without.first().map(|first| RuleFinding {
        key: "realmemory".to_owned(),
        says: format!(
            "{} of {} nodes have no RealMemory, such as {}",
            without.len(),
            nodes.len(),
            first.name
        ),
        place: Some(first.place.clone()),
    });
    fail_if_any(finding.into_iter().collect(), format!("{} nodes have RealMemory", nodes.len()))
}

/// CPUs may be all threads, all cores or all sockets of a node.
fn processors(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.nodes()?;
    let number =
        |node: &ConfRecord, key: &str| node.get(key).and_then(|text| text.parse::<u64>().ok());
    let mut said = 0;
    let mut wrong: Vec<(&ConfRecord, String)> = Vec::new();
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
        let cores = cores.unwrap_or(1).max(1);
        let threads = threads.unwrap_or(1).max(1);
        let all = cores.saturating_mul(threads);
        // An unset number of sockets follows from the others.
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
        return needs_input(
            "a node with CPUs and one of Sockets, CoresPerSocket or ThreadsPerCore",
        );
    }
    let finding = wrong.first().map(|(node, what)| RuleFinding {
        key: "cpus".to_owned(),
        says: format!("{} of {said} nodes, such as {}: {what}", wrong.len(), node.name),
        place: Some(node.place.clone()),
    });
    fail_if_any(
        finding.into_iter().collect(),
        format!("CPUs match sockets, cores and threads on {said} nodes"),
    )
}

/// `FORCE` without a number means four jobs.
fn forced(evidence: &Evidence) -> RuleResult {
    let partitions = evidence.partitions()?;
    let shared = |partition: &ConfRecord| {
        let value = partition.get("OverSubscribe").or(partition.get("Shared"))?;
        let (word, count) = value.split_once(':').unwrap_or((value, "4"));
        let is_shared = word.eq_ignore_ascii_case("force") && count.parse() != Ok(1u32);
        is_shared.then(|| RuleFinding {
            key: partition.name.clone(),
            says: format!("partition {} has OverSubscribe={value}", partition.name),
            place: Some(partition.place.clone()),
        })
    };
    fail_if_any(
        partitions.iter().filter_map(shared).collect(),
        format!("{} partitions allocate a core to one job only", partitions.len()),
    )
}

/// Nodes are compared by the first part of their names: Kubernetes often adds the domain.
fn in_kubernetes(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.nodes()?;
    let Some(kubernetes) = &evidence.kubernetes else {
        return needs_input(
            "--kubernetes-nodes with the nodes of the Kubernetes cluster, if there is one",
        );
    };
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let theirs: Vec<String> = kubernetes.iter().map(|name| short(name)).collect();
    let is_theirs = |name: &str| theirs.contains(&short(name));
    let finding = |node: &ConfRecord| {
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
        RuleFinding {
            key: node.name.clone(),
            says: format!("node {} ({inside}) is also a Kubernetes node", node.name),
            place: Some(node.place.clone()),
        }
    };
    let shared = |node: &&ConfRecord| {
        is_theirs(&node.name) || node.get("NodeHostname").is_some_and(is_theirs)
    };
    let pass =
        format!("{} nodes in Slurm, {} in Kubernetes, none in both", nodes.len(), kubernetes.len());
    fail_if_any(nodes.iter().filter(shared).map(finding).collect(), pass)
}
