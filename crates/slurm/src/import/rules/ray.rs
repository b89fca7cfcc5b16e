//! Rules on scripts that start a Ray cluster. A job of kind `ray`, which many of them become, has none of
//! these problems; they say what is wrong with the script.

use muster_model::check::Severity;
use muster_model::imported::LaunchMode;

use super::super::body::is_repeatable;
use super::super::finding::{ImportRule, RuleHit, ScriptFacts};
use super::super::ray::{RayCommand, ray_commands};
use super::super::shell::{ShellCommand, ShellWord, Then};
use super::super::sizes::Memory;
use super::shape::is_set;

/// Port of a head that is given none.
const DEFAULT_PORT: &str = "6379";

/// Commands that tell which nodes have joined.
const ASKS: [&str; 3] = ["ray status", "ray health-check", "ray list nodes"];

pub(in super::super) const RULES: &[ImportRule] = &[
    ImportRule {
        id: "ray-symmetric-hides-failure",
        severity: Severity::High,
        title: "`ray symmetric-run` on several nodes ends with 0 when the program fails",
        cure: "use the imported job, of `kind: ray`, whose exit code is that of the program",
        find: symmetric,
    },
    ImportRule {
        id: "ray-nodes-not-awaited",
        severity: Severity::Medium,
        title: "the program starts whether the Ray nodes have joined or not",
        cure: "use the imported job, of `kind: ray`, which waits for its nodes; or wait until `ray status` lists them all",
        find: not_awaited,
    },
    ImportRule {
        id: "ray-exit-lost",
        severity: Severity::Medium,
        title: "the exit code of the Ray program is lost",
        cure: "use the imported job, of `kind: ray`; or end the script with the program, or with `wait PID`",
        find: exit_lost,
    },
    ImportRule {
        id: "ray-size-not-told",
        severity: Severity::Medium,
        title: "Ray is not told what the job has, and offers what the node has",
        cure: "write `--num-cpus=$SLURM_CPUS_PER_TASK --num-gpus=$SLURM_GPUS_ON_NODE` and, with --mem, `--object-store-memory` and `--memory`",
        find: size_not_told,
    },
    ImportRule {
        id: "ray-dashboard-open",
        severity: Severity::Medium,
        title: "the dashboard of Ray runs programs for everybody on the network",
        cure: "leave out --dashboard-host, or export RAY_AUTH_MODE=token and a RAY_AUTH_TOKEN (Ray 2.52 or later)",
        find: dashboard_open,
    },
    ImportRule {
        id: "ray-fixed-port",
        severity: Severity::Low,
        title: "the port of the Ray head is fixed",
        cure: "derive it from the job number, `--port=$((20000 + SLURM_JOB_ID % 12000))`: a second job on the node does not start, or joins the first",
        find: fixed_port,
    },
    ImportRule {
        id: "ray-directory-shared",
        severity: Severity::Low,
        title: "the Ray cluster uses /tmp/ray, as every other one on the node",
        cure: "write `--temp-dir=/tmp/ray-$SLURM_JOB_ID`: programs without an address join the cluster that started last; the path must be short, since sockets are below it",
        find: directory_shared,
    },
    ImportRule {
        id: "ray-stop-ends-others",
        severity: Severity::Low,
        title: "`ray stop` ends all Ray processes of the user on the node",
        cure: "leave it out: Slurm ends the processes of the job, and clusters of other jobs go on",
        find: stop,
    },
];

fn rays(facts: &ScriptFacts<'_>) -> Vec<RayCommand> {
    ray_commands(facts.commands, facts.steps.iter().map(|(step, _)| step))
}

fn starts(facts: &ScriptFacts<'_>) -> Vec<RayCommand> {
    let mut all = rays(facts);
    all.retain(|ray| ray.verb == "start");
    all
}

fn symmetric(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let found = rays(facts).into_iter().find(|ray| ray.verb == "symmetric-run");
    let hit = found.filter(|_| facts.is_multi_node());
    hit.map(|ray| (Some(facts.line(ray.line)), "ray symmetric-run".to_owned()))
        .into_iter()
        .collect()
}

fn not_awaited(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let starts = starts(facts);
    let Some(worker) = starts.iter().rfind(|ray| ray.is_start(false)) else { return Vec::new() };
    let asks = facts.commands.iter().any(|command| {
        let words: Vec<&str> = command.words.iter().map(|word| word.raw.as_str()).collect();
        let line = words.join(" ");
        ASKS.iter().any(|ask| line.contains(ask))
    });
    if asks || !starts.iter().any(|ray| ray.is_start(true)) {
        return Vec::new();
    }
    let later = facts.commands.get(worker.command + 1..).unwrap_or_default();
    let sleep = later.iter().rfind(|command| command.program().as_deref() == Some("sleep"));
    let says = match sleep {
        Some(sleep) => format!(
            "`{}` in place of a wait for them",
            sleep.words.iter().map(ShellWord::shown).collect::<Vec<_>>().join(" ")
        ),
        None => "nothing waits for them".to_owned(),
    };
    vec![(Some(facts.line(sleep.map_or(worker.line, |sleep| sleep.line))), says)]
}

/// Returns the last command that runs a program, which is none of Ray's.
fn program<'a>(facts: &'a ScriptFacts<'_>) -> Option<(usize, &'a ShellCommand)> {
    let rays = rays(facts);
    let mut commands = facts.commands.iter().enumerate();
    commands.rfind(|(index, command)| {
        command.depth == 0
            && !is_repeatable(command)
            && !rays.iter().any(|ray| ray.command == *index && ray.verb != "job")
    })
}

fn exit_lost(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some((index, command)) = program(facts).filter(|_| facts.how == LaunchMode::Ray) else {
        return Vec::new();
    };
    let rest = facts.commands.get(index + 1..).unwrap_or_default();
    let is_kept = rest
        .iter()
        .any(|later| later.words.iter().any(|word| word.variables().any(|name| name == "?")));
    if is_kept || is_set(facts, 'e', "errexit", index) {
        return Vec::new();
    }
    let shown = |later: &ShellCommand| {
        let words: Vec<String> = later.words.iter().take(3).map(ShellWord::shown).collect();
        format!("`{}` follows on line {}", words.join(" "), facts.line(later.line))
    };
    let is_step = facts.steps.iter().any(|(step, _)| step.command == index);
    let says = if command.then == Then::Background {
        // `wait` alone returns 0, and so does what follows it.
        match rest.iter().position(|later| later.program().as_deref() == Some("wait")) {
            Some(at) if rest[at].words.len() > 1 => rest.get(at + 1).map(shown),
            Some(at) => Some(format!("`wait` on line {} returns 0", facts.line(rest[at].line))),
            None => None,
        }
    } else {
        // Of programs that srun starts, `failure-unseen` says so.
        rest.first().filter(|_| !is_step).map(shown)
    };
    says.map(|says| (Some(facts.line(command.line)), says)).into_iter().collect()
}

fn size_not_told(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let has_memory =
        matches!(facts.sizes.memory, Some(Memory::Node(_) | Memory::Cpu(_) | Memory::Gpu(_)));
    let all = rays(facts);
    let nodes = all.iter().filter(|ray| ["start", "symmetric-run"].contains(&ray.verb.as_str()));
    let missing = |ray: &RayCommand| {
        let options = [
            ("num-cpus", true),
            ("num-gpus", facts.sizes.has_gpus()),
            ("object-store-memory", has_memory),
        ];
        let missing = options.into_iter().filter(|(name, is_needed)| *is_needed && !ray.has(name));
        let missing: Vec<String> = missing.map(|(name, _)| format!("--{name}")).collect();
        let says = format!("`ray {}` without {}", ray.verb, missing.join(", "));
        (!missing.is_empty()).then(|| (Some(facts.line(ray.line)), says))
    };
    nodes.filter_map(missing).take(1).collect()
}

fn dashboard_open(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let has_token = facts.settings().any(|(name, ..)| name == "RAY_AUTH_MODE");
    let open = |ray: &RayCommand| {
        let host = ray
            .value("dashboard-host")
            .filter(|host| ["0.0.0.0", "::"].contains(&host.as_str()))?;
        Some((Some(facts.line(ray.line)), format!("--dashboard-host={host}")))
    };
    if has_token { Vec::new() } else { starts(facts).iter().filter_map(open).collect() }
}

fn fixed_port(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let fixed = |ray: &RayCommand| {
        let line = Some(facts.line(ray.line));
        if ray.verb == "symmetric-run" {
            let address = ray.value("address")?;
            let (_, port) = address.rsplit_once(':')?;
            let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
            return is_number.then(|| (line, format!("--address={address}")));
        }
        if !ray.is_start(true) {
            return None;
        }
        match ray.word("port") {
            None => Some((line, format!("{DEFAULT_PORT}, the default"))),
            Some(word) => {
                let port = facts.variables.resolve(&word)?;
                (port != "0").then(|| (line, format!("--port={port}")))
            }
        }
    };
    rays(facts).iter().filter_map(fixed).collect()
}

fn directory_shared(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let heads = starts(facts).into_iter().filter(|ray| ray.is_start(true) && !ray.has("temp-dir"));
    heads
        .map(|ray| (Some(facts.line(ray.line)), "`ray start --head` without --temp-dir".to_owned()))
        .collect()
}

fn stop(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let found = rays(facts).into_iter().filter(|ray| ray.verb == "stop").take(1);
    found.map(|ray| (Some(facts.line(ray.line)), "ray stop".to_owned())).collect()
}
