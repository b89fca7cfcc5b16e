//! Rules on the rendezvous of processes on several nodes, and on their rank variables.

use muster_model::check::Severity;

use super::super::finding::{ImportRule, RuleHit, ScriptFacts};
use super::super::launch::LaunchCommand;
use super::super::shell::{Quote, ShellWord, WordPart, commands};

/// Variables that differ between the tasks of a step; the batch script has those of its first node.
const OF_A_TASK: &[&str] = &["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURMD_NODENAME"];

pub(in super::super) const RULES: &[ImportRule] = &[
    ImportRule {
        id: "meeting-on-localhost",
        severity: Severity::High,
        title: "the rendezvous of several nodes is on localhost",
        cure: "use the first node: `$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)`",
        find: localhost,
    },
    ImportRule {
        id: "meeting-on-a-list",
        severity: Severity::High,
        title: "a list of nodes is used as a host name",
        cure: "use its first name: `$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)`",
        find: list,
    },
    ImportRule {
        id: "meeting-at-each-node",
        severity: Severity::High,
        title: "every task uses its own node as the rendezvous",
        cure: "set MASTER_ADDR in the script before srun, not in what srun starts",
        find: own_host,
    },
    ImportRule {
        id: "fixed-port",
        severity: Severity::Low,
        title: "the rendezvous port is fixed",
        cure: "derive it from the job number, `$((20000 + SLURM_JOB_ID % 12000))`: a second job on the node joins the first, or finds the port in use",
        find: fixed_port,
    },
    ImportRule {
        id: "meeting-without-id",
        severity: Severity::Low,
        title: "torchrun has no rendezvous id",
        cure: "add `--rdzv-id=$SLURM_JOB_ID`: without it workers of another job at the same address join this one",
        find: no_id,
    },
    ImportRule {
        id: "rank-expanded-early",
        severity: Severity::High,
        title: "a task's rank is expanded before the task starts",
        cure: "put it in single quotes after `srun bash -c`, where every task expands its own: the batch script is task 0 of node 0",
        find: expanded_early,
    },
    ImportRule {
        id: "document-expanded-early",
        severity: Severity::High,
        title: "an unquoted here-document is expanded before the tasks start",
        cure: "quote its mark, `<<'EOF'`: otherwise every task gets the rank of the first",
        find: document,
    },
    ImportRule {
        id: "nccl-on-loopback",
        severity: Severity::High,
        title: "several nodes are to communicate over the loopback interface",
        cure: "remove it, or set the interface that connects the nodes",
        find: loopback,
    },
];

/// Returns the rendezvous hosts that are set for processes, with their lines.
fn hosts(facts: &ScriptFacts<'_>) -> Vec<(String, u32)> {
    let mut hosts = Vec::new();
    for (step, _) in facts.steps {
        let endpoint = step.started.as_ref().and_then(super::super::launch::Started::endpoint);
        hosts.extend(endpoint.map(|(host, _)| (host, facts.line(step.line))));
    }
    for (name, value, line) in facts.settings() {
        if matches!(name.as_str(), "MASTER_ADDR" | "MAIN_PROCESS_IP") {
            hosts.push((value.shown(), line));
        }
    }
    hosts
}

fn localhost(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    if !facts.is_multi_node() {
        return Vec::new();
    }
    let mut seen: Vec<RuleHit> = hosts(facts)
        .into_iter()
        .filter(|(host, _)| matches!(host.as_str(), "localhost" | "127.0.0.1" | "0.0.0.0" | "::1"))
        .map(|(host, line)| (Some(line), host))
        .collect();
    for (step, _) in facts.steps {
        let is_alone = step.started.as_ref().is_some_and(|started| started.has(&["standalone"]));
        if is_alone && step.srun.is_some() {
            seen.push((Some(facts.line(step.line)), "--standalone".to_owned()));
        }
    }
    seen
}

fn list(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    if !facts.is_multi_node() {
        return Vec::new();
    }
    let is_list = |host: &str| {
        ["SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST"].iter().any(|name| {
            host.starts_with(&format!("${name}")) || host.starts_with(&format!("$(echo ${name}"))
        })
    };
    let hosts = hosts(facts)
        .into_iter()
        .filter(|(host, _)| is_list(host.replace(['"', '{', '}'], "").as_str()));
    hosts.map(|(host, line)| (Some(line), host)).collect()
}

fn own_host(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    if !facts.is_multi_node() {
        return Vec::new();
    }
    let is_own = |text: &str| {
        text.contains("$(hostname")
            || text.starts_with("$HOSTNAME")
            || text.starts_with("$SLURMD_NODENAME")
    };
    let mut seen = Vec::new();
    for (step, _) in facts.steps.iter().filter(|(step, _)| step.srun.is_some()) {
        let Some(inner) = &step.inner else { continue };
        let set =
            commands(inner).into_iter().flat_map(|command| command.words).filter_map(|word| {
                let (name, value) = super::super::shell::assignment(&word)?;
                (name == "MASTER_ADDR").then(|| value.shown())
            });
        let reported = step
            .started
            .as_ref()
            .and_then(super::super::launch::Started::endpoint)
            .map(|(host, _)| host);
        let own = set.chain(reported).find(|host| is_own(host));
        seen.extend(own.map(|host| (Some(facts.line(step.line)), host)));
    }
    seen
}

fn fixed_port(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    if !facts.is_multi_node() {
        return Vec::new();
    }
    let is_number = |text: &str| text.parse::<u16>().is_ok();
    let mut seen: Vec<RuleHit> = facts
        .settings()
        .filter(|(name, value, _)| {
            name == "MASTER_PORT" && value.literal().is_some_and(|text| is_number(&text))
        })
        .map(|(_, value, line)| (Some(line), format!("MASTER_PORT={}", value.shown())))
        .collect();
    for (step, _) in facts.steps {
        let Some(started) = &step.started else { continue };
        // As written: the value of a variable is covered by the rule above.
        let written = started
            .value(&["rdzv-endpoint", "master-port", "main-process-port"])
            .map(|value| value.shown.clone());
        let port = written
            .as_deref()
            .and_then(|text| text.rsplit(':').next())
            .filter(|port| is_number(port));
        seen.extend(port.map(|port| (Some(facts.line(step.line)), format!("port {port}"))));
    }
    seen
}

fn no_id(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    facts
        .steps
        .iter()
        .filter(|_| facts.is_multi_node())
        .filter_map(|(step, _)| {
            let started = step.started.as_ref()?;
            let backend = started.value(&["rdzv-backend"])?;
            let meets = matches!(backend.known.as_deref(), Some("c10d" | "etcd" | "etcd-v2"));
            (meets && !started.has(&["rdzv-id"]))
                .then(|| (Some(facts.line(step.line)), format!("--rdzv-backend={}", backend.shown)))
        })
        .collect()
}

/// Returns the variable of a task that the batch script's shell expands in a word, directly or
/// through another variable.
fn of_a_task<'a>(word: &'a ShellWord, tainted: &'a [String]) -> Option<&'a str> {
    word.variables()
        .find(|name| OF_A_TASK.contains(name) || tainted.iter().any(|known| known == name))
}

fn expanded_early(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let is_several = |step: &LaunchCommand| {
        step.srun.is_some() && (facts.sizes.task_count() != Some(1)) && !step.launchers.is_empty()
    };
    if !facts.steps.iter().any(|(step, _)| is_several(step)) {
        return Vec::new();
    }
    // 1. Find variables that the batch script sets from its own.
    let mut tainted: Vec<String> = Vec::new();
    let mut seen = Vec::new();
    for (name, value, line) in facts.settings() {
        let Some(from) = of_a_task(&value, &tainted) else { continue };
        let is_read = matches!(
            name.as_str(),
            "RANK" | "LOCAL_RANK" | "NODE_RANK" | "GROUP_RANK" | "PET_NODE_RANK"
        );
        if is_read {
            seen.push((Some(line), format!("{name}=${from} before srun")));
        }
        tainted.push(name);
    }
    // 2. Check the words of the programs that srun starts.
    for (step, _) in facts.steps.iter().filter(|(step, _)| is_several(step)) {
        let words = step.srun.iter().flat_map(|srun| &srun.program);
        let early = words.filter_map(|word| of_a_task(word, &tainted)).next();
        seen.extend(
            early.map(|name| (Some(facts.line(step.line)), format!("${name} on the line of srun"))),
        );
    }
    seen
}

fn document(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let mut seen = Vec::new();
    for (step, _) in facts.steps.iter().filter(|(step, _)| step.srun.is_some()) {
        let Some(document) =
            facts.commands.get(step.command).and_then(|command| command.document.as_ref())
        else {
            continue;
        };
        if document.is_quoted {
            continue;
        }
        let name = OF_A_TASK.iter().find(|name| {
            [format!("${name}"), format!("${{{name}}}")].iter().any(|use_of| {
                document
                    .text
                    .match_indices(use_of.as_str())
                    .any(|(at, _)| !document.text[..at].ends_with('\\'))
            })
        });
        seen.extend(name.map(|name| (Some(facts.line(step.line)), format!("${name} in `<<`"))));
    }
    seen
}

fn loopback(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    if !facts.is_multi_node() {
        return Vec::new();
    }
    let is_lo = |value: &ShellWord| {
        value.parts.iter().all(|part| matches!(part, WordPart::Text(text, Quote::None | Quote::Single | Quote::Double) if matches!(text.as_str(), "lo" | "=lo" | "")))
    };
    facts
        .settings()
        .filter(|(name, value, _)| {
            matches!(name.as_str(), "NCCL_SOCKET_IFNAME" | "GLOO_SOCKET_IFNAME")
                && is_lo(value)
                && !value.raw.is_empty()
        })
        .map(|(name, value, line)| (Some(line), format!("{name}={}", value.shown())))
        .collect()
}
