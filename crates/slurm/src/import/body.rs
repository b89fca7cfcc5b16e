//! Converts the body of a script to the program of the tasks. Slurm runs a body once, on the first
//! node; Muster runs a program in every task. Where both are equivalent the only `srun` is removed,
//! else the first task alone runs the unchanged body.

use muster_model::imported::{ImportOutcome, ImportedOption, LaunchMode};
use muster_model::{OutputFiles, output};

use super::draft::DraftProgram;
use super::geometry::Geometry;
use super::launch::{LaunchCommand, Srun, Starter};
use super::option::{GivenOption, PYXIS, SBATCH, SRUN, options};
use super::own_node;
use super::program::text;
use super::read::BatchScript;
use super::shell::{ShellCommand, ShellWord, Then, WordPart, assignment, commands};
use super::sizes::{Memory, RequestedSizes, TaskLayout};
use super::value;

/// Commands that every task may repeat: they only read, or change only their own process.
const REPEATABLE: &[&str] = &[
    ".",
    ":",
    "[",
    "[[",
    "cat",
    "cd",
    "conda",
    "date",
    "declare",
    "df",
    "echo",
    "env",
    "eval",
    "exit",
    "export",
    "false",
    "for",
    "free",
    "head",
    "hostname",
    "id",
    "kill",
    "let",
    "local",
    "ls",
    "lscpu",
    "mamba",
    "micromamba",
    "mkdir",
    "ml",
    "module",
    "nvcc",
    "nvidia-smi",
    "popd",
    "printenv",
    "printf",
    "pushd",
    "pwd",
    "python-config",
    "read",
    "readonly",
    "rocm-smi",
    "scontrol",
    "set",
    "shift",
    "shopt",
    "sleep",
    "source",
    "spack",
    "test",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "uname",
    "unset",
    "wait",
    "which",
    "whoami",
    "nproc",
    "grep",
    "awk",
    "sed",
    "tail",
    "wc",
    "sort",
    "tr",
    "cut",
    "squeue",
    "sinfo",
];

/// Options of srun that repeat the job's or are Muster's defaults.
const SAME: &[&str] = &[
    "cpus-per-task",
    "exact",
    "exclusive",
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gres",
    "job-name",
    "kill-on-bad-exit",
    "mem",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "overlap",
    "whole",
    "mem-per-cpu",
    "mem-per-gpu",
    "verbose",
    "quiet",
];

/// Options of srun that it also reads from its environment (srun(1), INPUT ENVIRONMENT VARIABLES).
const VARIABLES: &[(&str, &str)] = &[
    ("cpu-bind", "SLURM_CPU_BIND"),
    ("distribution", "SLURM_DISTRIBUTION"),
    ("gpu-bind", "SLURM_GPU_BIND"),
    ("hint", "SLURM_HINT"),
    ("label", "SLURM_LABELIO"),
    ("mem-bind", "SLURM_MEM_BIND"),
    ("mpi", "SLURM_MPI_TYPE"),
    ("unbuffered", "SLURM_UNBUFFEREDIO"),
    ("wait", "SLURM_WAIT"),
];

/// Commands in `$( … )` that print the same on every node.
const SAME_EVERYWHERE: &[&str] = &[
    "awk", "basename", "cat", "cut", "dirname", "echo", "expr", "grep", "head", "paste", "printf",
    "pwd", "readlink", "realpath", "scontrol", "sed", "seq", "sort", "tail", "tr", "uniq", "wc",
    "which",
];

/// Variables that differ between nodes, or between calls.
const OF_THE_NODE: &[&str] = &[
    "$",
    "BASHPID",
    "EPOCHSECONDS",
    "HOSTNAME",
    "RANDOM",
    "SECONDS",
    "SLURMD_NODENAME",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
];

/// Variable that makes the job's own step overlap those that the script starts: an overlapping step
/// holds no resources, so that each `srun` gets nodes, GPUs and memory as from a batch script. If
/// the script's steps overlapped instead, all would run on the first node and GPU (both tested on
/// 22.05).
const OVERLAP: (&str, &str) = ("SLURM_OVERLAP", "1");

/// Shell code that lets only the first task continue, in the environment of a batch script. The
/// job's variables for GPUs per node and for CPU and memory masks are unset: an inherited one would
/// override or restrict each `srun` of the script.
const FIRST_TASK: &str = r#"# Slurm runs this script once, on the first node; here only the first task runs it. Its `srun`s get their share of the job.
[ "${RANK:-0}" = 0 ] || exit 0
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT
unset PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE PET_RDZV_BACKEND PET_RDZV_ENDPOINT PET_RDZV_ID PET_MASTER_ADDR PET_MASTER_PORT
unset SLURM_OVERLAP SLURM_GPUS_PER_NODE SLURM_GRES
unset SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE
unset SLURM_MEM_BIND SLURM_MEM_BIND_LIST SLURM_MEM_BIND_PREFER SLURM_MEM_BIND_SORT SLURM_MEM_BIND_TYPE SLURM_MEM_BIND_VERBOSE
"#;

/// Sets the variables by which sbatch passes sizes on to the script's `srun`s: the job requests the
/// same by other options, and a step without options would take all of it.
fn shares(sizes: &[RequestedSizes]) -> String {
    let [sizes] = sizes else { return String::new() };
    let mut lines = String::new();
    let (all, own) = match sizes.memory {
        Some(Memory::Node(each)) => ("SLURM_MEM_PER_CPU", format!("SLURM_MEM_PER_NODE={each}")),
        Some(Memory::Cpu(each)) => ("SLURM_MEM_PER_NODE", format!("SLURM_MEM_PER_CPU={each}")),
        Some(Memory::Gpu(each)) => {
            ("SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU", format!("SLURM_MEM_PER_GPU={each}"))
        }
        Some(Memory::WholeNode) | None => ("", String::new()),
    };
    if !all.is_empty() {
        lines.push_str(&format!("unset {all}\nexport {own}\n"));
    }
    if let Some(gpus) = &sizes.gpus_per_task {
        let kind = gpus.model.as_ref().map_or_else(String::new, |model| format!("{model}:"));
        lines.push_str(&format!("export SLURM_GPUS_PER_TASK={kind}{}\n", gpus.count));
    }
    lines
}

/// Added for a script whose own `srun`s remain.
const NEEDS_SLURM: &str = "; its `srun`s need Slurm (`--on slurm`)";

/// Result of the conversion.
pub(super) struct BodyTranslation {
    pub(super) how: LaunchMode,
    pub(super) says: String,
    /// Program of each group.
    pub(super) programs: Vec<DraftProgram>,
    pub(super) env: Vec<(String, String)>,
    /// Output files that its `srun` names.
    pub(super) files: OutputFiles,
    /// Options of `srun`, with what they became.
    pub(super) options: Vec<ImportedOption>,
    /// Set when one task gets the resources of all tasks on its node.
    pub(super) is_merged: bool,
}

impl BodyTranslation {
    pub(super) fn new(
        how: LaunchMode,
        says: impl Into<String>,
        programs: Vec<DraftProgram>,
    ) -> Self {
        let env = match how {
            LaunchMode::FirstTask => vec![(OVERLAP.0.to_owned(), OVERLAP.1.to_owned())],
            LaunchMode::EachTask
            | LaunchMode::Roles
            | LaunchMode::Exported
            | LaunchMode::Ray
            | LaunchMode::Containers
            | LaunchMode::Trials => Vec::new(),
        };
        Self {
            how,
            says: says.into(),
            programs,
            env,
            files: OutputFiles::default(),
            options: Vec::new(),
            is_merged: false,
        }
    }
}

/// Converts the body to the programs of the groups.
pub(super) fn translate_body(
    script: &BatchScript<'_>,
    all: &[ShellCommand],
    steps: &[(LaunchCommand, Geometry)],
    sizes: &[RequestedSizes],
) -> BodyTranslation {
    let body = script.body();
    let groups = script.components.len();
    let first = &sizes[0];
    // 1. Bodies in another language.
    if !script.is_shell() {
        return foreign(script, &body, first);
    }
    // 2. Components with one step each.
    if groups > 1
        && let Some(programs) = roles(script, all, steps, groups)
    {
        let says = "every component runs the program that `srun --het-group` starts in it";
        return BodyTranslation::new(LaunchMode::Roles, says, programs);
    }
    // 3. A single task runs everything, and its srun is not needed.
    let is_one = groups == 1 && first.task_count() == Some(1);
    let are_single = steps.iter().all(|(step, geometry)| {
        step.srun.as_ref().is_none_or(|srun| geometry.tasks == Some(1) && is_removable(srun))
    });
    let is_elsewhere = starts_srun_elsewhere(all, steps);
    let is_farm = is_farm(all, steps) || is_elsewhere;
    if is_one && are_single && !is_farm {
        let sruns: Vec<(&Srun, u32)> =
            steps.iter().filter_map(|(step, _)| Some((step.srun.as_ref()?, step.line))).collect();
        return without(script, first, &sruns, "the only task runs the script");
    }
    // 4. Nothing starts tasks: one task per node gets the resources of all of them.
    if groups == 1 && own_node::is_for_one_task(first, &code(all), steps) {
        return merged(script, &body, first);
    }
    // 5. One srun over all tasks, and no other command that must not be repeated.
    let obstacle = obstacle(all, steps, first, groups);
    match (obstacle, steps) {
        (None, [(step, _)]) => {
            let sruns: Vec<(&Srun, u32)> = step.srun.iter().map(|srun| (srun, step.line)).collect();
            let says = match step.srun {
                Some(_) => "every task runs the script without its `srun`: Muster starts the tasks",
                None => {
                    "one task per node runs the script, as its launcher requires; Slurm would run it on the first node only"
                }
            };
            without(script, first, &sruns, says)
        }
        (obstacle, _) => {
            let farm =
                || "it starts steps on parts of the job, possibly several at once".to_owned();
            let why = is_farm.then(farm).or(obstacle);
            let why = why.unwrap_or_else(|| "it starts nothing with srun".to_owned());
            let before = format!("{FIRST_TASK}{}", shares(sizes));
            let has_steps = is_elsewhere || steps.iter().any(|(step, _)| step.srun.is_some());
            let needs = if has_steps { NEEDS_SLURM } else { "" };
            let says = format!("the first task alone runs the script, as in Slurm: {why}{needs}");
            BodyTranslation::new(
                LaunchMode::FirstTask,
                says,
                vec![text(script, &before, &body); groups],
            )
        }
    }
}

/// Returns whether steps run concurrently: without their `srun` all of them would use the same GPUs
/// and CPUs.
fn is_farm(all: &[ShellCommand], steps: &[(LaunchCommand, Geometry)]) -> bool {
    let has_background = all.iter().any(|command| command.then == Then::Background);
    let is_beside = |step: &LaunchCommand| {
        let Some(command) = all.get(step.command) else { return false };
        command.then == Then::Background || command.is_in_function && has_background
    };
    let beside = steps.iter().filter(|(step, _)| step.srun.is_some() && is_beside(step));
    let several = beside.map(|(step, _)| if step.is_repeated { 2 } else { 1 }).sum::<usize>();
    several > 1
}

/// Returns whether another program starts `srun`, such as `parallel`, `xargs` or `$( … )`.
fn starts_srun_elsewhere(all: &[ShellCommand], steps: &[(LaunchCommand, Geometry)]) -> bool {
    let is_step = |index: usize| steps.iter().any(|(step, _)| step.command == index);
    let in_substitution = |word: &ShellWord| {
        word.parts
            .iter()
            .any(|part| matches!(part, WordPart::Substitution(text) if text.contains("srun")))
    };
    all.iter().enumerate().filter(|(index, _)| !is_step(*index)).any(|(_, command)| {
        let is_quiet = command.program().is_some_and(|name| REPEATABLE.contains(&name.as_str()));
        command
            .words
            .iter()
            .any(|word| in_substitution(word) || !is_quiet && word.raw.contains("srun"))
    })
}

/// Returns a script without comments.
fn code(all: &[ShellCommand]) -> String {
    let words = all.iter().flat_map(|command| &command.words).map(|word| word.raw.as_str());
    let documents = all.iter().filter_map(|command| Some(command.document.as_ref()?.text.as_str()));
    words.chain(documents).collect::<Vec<_>>().join("\n")
}

/// Converts a script that starts no tasks: one task gets all resources of its node. With several
/// nodes only the first task runs the script, as in Slurm.
fn merged(script: &BatchScript<'_>, body: &str, sizes: &RequestedSizes) -> BodyTranslation {
    let variables = own_node::variables(sizes, body);
    let is_on_one_node =
        sizes.node_count() == Some(1) || matches!(sizes.shape(), TaskLayout::Anywhere { .. });
    let (how, before, says) = if is_on_one_node {
        (
            LaunchMode::EachTask,
            variables,
            "one task with all of the job's resources on its node runs the script, which starts its processes itself",
        )
    } else {
        (
            LaunchMode::FirstTask,
            format!("{FIRST_TASK}{variables}"),
            "the first task alone runs the script, as in Slurm, with all of the job's resources on the first node: it starts nothing with srun",
        )
    };
    let program = text(script, &before, body);
    // Without srun no variables need to be set for it.
    BodyTranslation {
        is_merged: true,
        env: Vec::new(),
        ..BodyTranslation::new(how, says, vec![program])
    }
}

/// Converts a script in another language than shell, whose commands are unknown.
fn foreign(script: &BatchScript<'_>, body: &str, sizes: &RequestedSizes) -> BodyTranslation {
    let groups = script.components.len();
    let has_launcher = own_node::names_launcher(body);
    if groups == 1 && own_node::is_for_one_task(sizes, body, &[]) {
        return merged(script, body, sizes);
    }
    if groups == 1 && sizes.task_count() == Some(1) && !has_launcher {
        let says = "the only task runs the script";
        return BodyTranslation::new(LaunchMode::EachTask, says, vec![text(script, "", body)]);
    }
    let says = format!(
        "the first task alone runs the script, as in Slurm: it is for {}, and the programs that it starts are unknown",
        script.interpreter()
    );
    let before = format!(
        "{FIRST_TASK}{}",
        if groups == 1 { shares(std::slice::from_ref(sizes)) } else { String::new() }
    );
    BodyTranslation::new(LaunchMode::FirstTask, says, vec![text(script, &before, body); groups])
}

/// Returns why not every task can run the body; `None` where all of them can.
fn obstacle(
    all: &[ShellCommand],
    steps: &[(LaunchCommand, Geometry)],
    sizes: &RequestedSizes,
    groups: usize,
) -> Option<String> {
    if groups > 1 {
        return Some("the program of each component is uncertain".to_owned());
    }
    let (step, geometry) = match steps {
        [] => return Some("no srun that starts a program was found".to_owned()),
        [one] => one,
        several => {
            return Some(format!(
                "it starts {} programs, in sequence or concurrently",
                several.len()
            ));
        }
    };
    let command = all.get(step.command)?;
    obstacle_in_launch(step, geometry, sizes)
        .or_else(|| obstacle_in_command(command))
        .or_else(|| obstacle_in_body(all, step))
}

/// Returns why the launch of the program cannot be left to Muster.
fn obstacle_in_launch(
    step: &LaunchCommand,
    geometry: &Geometry,
    sizes: &RequestedSizes,
) -> Option<String> {
    match &step.srun {
        None if step.mpirun.is_some() => Some("mpirun starts the processes itself".to_owned()),
        None if !step.started.as_ref().is_some_and(|started| started.by != Starter::Deepspeed)
            || sizes.per_node() != Some(1) =>
        {
            Some("srun does not start its program".to_owned())
        }
        None => None,
        Some(srun) if !srun.unknown.is_empty() => Some(format!(
            "srun has `{}`, whose value is unknown before it runs",
            srun.unknown.join(" ")
        )),
        Some(srun) if !is_removable(srun) => {
            let name =
                srun.given.iter().find(|one| !is_known(one)).map_or("", |one| one.written.as_str());
            Some(format!("`srun {name}` has no counterpart in a job"))
        }
        Some(_) if geometry.tasks != sizes.task_count() => {
            Some("srun starts another number of tasks than the job requests".to_owned())
        }
        Some(srun) if srun.program.is_empty() => Some("srun has no program".to_owned()),
        Some(_) => None,
    }
}

/// Returns why the command with the program must run once for all tasks.
fn obstacle_in_command(command: &ShellCommand) -> Option<String> {
    if command.depth > 0 {
        return Some("the program is started in a loop, a condition or a function".to_owned());
    }
    if command.then == Then::Pipe || command.is_piped {
        return Some("its output goes through a pipe, once for all tasks".to_owned());
    }
    if writes_file(command) {
        return Some("its output goes to one file, which the script's shell opens once".to_owned());
    }
    if command.document.as_ref().is_some_and(|document| !document.is_quoted) {
        return Some("its here-document is expanded once, on the first node".to_owned());
    }
    None
}

/// Returns which other command or expansion of the body must not be repeated in every task.
fn obstacle_in_body(all: &[ShellCommand], step: &LaunchCommand) -> Option<String> {
    if let Some(word) = all.iter().flat_map(|command| &command.words).find_map(of_the_node) {
        return Some(format!(
            "`{word}` is expanded on the first node, and differs on every other node"
        ));
    }
    let not_repeatable = all
        .iter()
        .enumerate()
        .find(|(index, command)| *index != step.command && !is_repeatable(command));
    not_repeatable.map(|(_, command)| {
        let shown: String =
            command.words.iter().take(3).map(ShellWord::shown).collect::<Vec<_>>().join(" ");
        format!("`{shown}` must not run once for every task")
    })
}

/// Returns the first expansion in a word that differs between nodes.
pub(super) fn of_the_node(word: &ShellWord) -> Option<String> {
    word.parts.iter().find_map(|part| match part {
        WordPart::Variable { name, .. } if OF_THE_NODE.contains(&name.as_str()) => {
            Some(format!("${name}"))
        }
        WordPart::Substitution(text) => {
            let differs = commands(text).iter().any(|command| {
                let name = command.program();
                name.is_none_or(|name| !SAME_EVERYWHERE.contains(&name.as_str()))
                    || command.words.iter().any(|word| of_the_node(word).is_some())
            });
            differs.then(|| format!("$({text})"))
        }
        _ => None,
    })
}

/// Returns whether the output goes to a file: `> x`, `2>> x`, `&> x`, `>& x`; not `2>&1` and not `>
/// /dev/null`.
fn writes_file(command: &ShellCommand) -> bool {
    command.redirects.iter().any(|(sign, target)| {
        let target = target.shown();
        let is_descriptor = sign.ends_with('&')
            && target.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        sign.contains('>') && !is_descriptor && !target.starts_with("/dev/")
    })
}

/// Returns whether every task may run the command, since it changes only its own process.
pub(super) fn is_repeatable(command: &ShellCommand) -> bool {
    let name = command.program();
    let is_quiet = match name.as_deref() {
        None => true,
        Some("sed") => !command.words.iter().any(|word| word.raw.starts_with("-i")),
        Some(name) => REPEATABLE.contains(&name),
    };
    is_quiet && !writes_file(command)
}

fn is_known(one: &GivenOption) -> bool {
    one.name.is_some_and(|name| {
        SAME.contains(&name)
            || VARIABLES.iter().any(|(known, _)| *known == name)
            || matches!(name, "output" | "error")
            || name == "export" && one.value.as_deref() == Some("ALL")
    })
}

fn is_removable(srun: &Srun) -> bool {
    srun.given.iter().all(is_known)
}

/// Returns the body without `srun` and its options, each of which is reported.
fn without(
    script: &BatchScript<'_>,
    sizes: &RequestedSizes,
    sruns: &[(&Srun, u32)],
    says: &str,
) -> BodyTranslation {
    let mut kept = script.body();
    for (srun, _) in sruns.iter().rev() {
        kept.replace_range(srun.cut.clone(), "");
    }
    let mut understood =
        BodyTranslation::new(LaunchMode::EachTask, says, vec![text(script, "", &kept)]);
    let first_line = u32::try_from(script.body).unwrap_or(u32::MAX);
    understood.env = for_srun(&script.body(), sruns);
    for (srun, line) in sruns {
        for one in &srun.given {
            let name = one.name.unwrap_or_default();
            let (becomes, says) = match name {
                "output" | "error" => file_of_srun(script, one, name, &mut understood.files),
                _ => of_srun(one, sizes, &mut understood.env),
            };
            understood.options.push(ImportedOption {
                line: first_line + line,
                written: format!("srun {}", one.written),
                option: format!("srun --{name}"),
                becomes,
                text: says,
            });
        }
    }
    understood
}

/// Returns the variables that the script sets for a removed srun: they must be set for Muster's
/// srun, which starts before the script.
fn for_srun(body: &str, sruns: &[(&Srun, u32)]) -> Vec<(String, String)> {
    let first = sruns.iter().map(|(_, line)| *line).min().unwrap_or(0);
    let mut env: Vec<(String, String)> = Vec::new();
    let before = commands(body);
    for command in before.iter().filter(|command| command.line < first && command.depth == 0) {
        let is_export = command.program().as_deref() == Some("export");
        for (name, value) in command.words.iter().filter(|_| is_export).filter_map(assignment) {
            let is_read = VARIABLES.iter().any(|(_, variable)| *variable == name);
            if let Some(value) = value.literal().filter(|_| is_read) {
                env.retain(|(known, _)| *known != name);
                env.push((name, value));
            }
        }
    }
    env
}

/// Makes an output file of the step the job's, unless the job has one.
fn file_of_srun(
    script: &BatchScript<'_>,
    one: &GivenOption,
    name: &str,
    files: &mut OutputFiles,
) -> (ImportOutcome, String) {
    let text = one.value.clone().unwrap_or_default();
    match (script.last(name), output::parts(&text)) {
        (Some(own), _) => (
            ImportOutcome::NotMapped,
            format!("the output of its tasks goes with the rest: {}", own.written),
        ),
        (None, Err(why)) => {
            (ImportOutcome::NotMapped, format!("{why}; Muster stores the output (`muster logs`)"))
        }
        (None, Ok(_)) => {
            match name {
                "output" => files.output = Some(text),
                _ => files.error = Some(text),
            }
            (ImportOutcome::Near, format!("{name} of the job, with the other output of the script"))
        }
    }
}

fn of_srun(
    one: &GivenOption,
    sizes: &RequestedSizes,
    env: &mut Vec<(String, String)>,
) -> (ImportOutcome, String) {
    let name = one.name.unwrap_or_default();
    if let Some((_, variable)) = VARIABLES.iter().find(|(known, _)| *known == name) {
        let value = one.value.clone().unwrap_or_else(|| "1".to_owned());
        env.retain(|(known, _)| known != variable);
        env.push(((*variable).to_owned(), value));
        return (ImportOutcome::Field, format!("env: {variable}, which srun reads"));
    }
    match of_job(name, one.value.as_deref().unwrap_or_default(), sizes) {
        Some((wants, has)) if wants != has => (
            ImportOutcome::NotMapped,
            format!(
                "the job's own value applies, and differs: {}",
                has.map_or("none".to_owned(), |has| has.to_string())
            ),
        ),
        _ => (ImportOutcome::Field, "same as the job's".to_owned()),
    }
}

/// Returns srun's value and the job's, for options that can be compared.
fn of_job(name: &str, text: &str, sizes: &RequestedSizes) -> Option<(Option<u64>, Option<u64>)> {
    let gpus = || value::gpus(text).map(|gpus| gpus.count);
    Some(match name {
        "gpus-per-task" => (gpus(), sizes.gpus_of_task()),
        "gpus-per-node" => (gpus(), sizes.gpus_on_node()),
        "gpus" => (gpus(), sizes.gpu_count()),
        "cpus-per-task" => (value::count(text), Some(sizes.cpus_per_task.unwrap_or(1))),
        _ => return None,
    })
}

/// Returns the program of each component, after the commands that all of them run.
fn roles(
    script: &BatchScript<'_>,
    all: &[ShellCommand],
    steps: &[(LaunchCommand, Geometry)],
    groups: usize,
) -> Option<Vec<DraftProgram>> {
    let mut programs: Vec<Option<String>> = vec![None; groups];
    // 1. Find the program of each component: one step each, or one step with `:` between its parts.
    for (step, _) in steps {
        let srun = step.srun.as_ref().filter(|srun| is_removable_in_group(srun))?;
        // Redirections and pipes after the program would be lost.
        let command = all.get(step.command)?;
        if writes_file(command) || command.then == Then::Pipe || command.is_piped {
            return None;
        }
        let mut group =
            srun.value("het-group").map_or(Some(0), |text| text.parse::<usize>().ok())?;
        for (nth, part) in srun.program.split(|word| word.raw == ":").enumerate() {
            let mut words = part;
            if nth > 0 {
                let texts: Vec<String> = part.iter().map(ShellWord::shown).collect();
                let (given, rest) = options(&[SRUN, SBATCH, PYXIS], &texts, step.line, false);
                let named = given
                    .iter()
                    .find(|one| one.name == Some("het-group"))
                    .and_then(|one| one.value.as_ref());
                group = named.map_or(Some(nth), |text| text.parse::<usize>().ok())?;
                words = &part[part.len() - rest.len()..];
            }
            let line: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
            let slot = programs.get_mut(group)?;
            if slot.is_some() || line.is_empty() {
                return None;
            }
            *slot = Some(line.join(" "));
        }
    }
    // 2. Add the commands before it, if every task may repeat them.
    let first = steps.iter().map(|(step, _)| step.command).min()?;
    let is_step = |index: usize| steps.iter().any(|(step, _)| step.command == index);
    if all.iter().flat_map(|command| &command.words).any(|word| of_the_node(word).is_some()) {
        return None;
    }
    let are_repeatable = all
        .iter()
        .enumerate()
        .all(|(index, command)| is_step(index) && command.depth == 0 || is_repeatable(command));
    if !are_repeatable {
        return None;
    }
    let line = usize::try_from(all.get(first)?.line).unwrap_or(usize::MAX);
    let before = script.lines.get(script.body..script.body + line - 1)?.join("\n");
    let before = if before.is_empty() { before } else { format!("{before}\n") };
    programs.into_iter().map(|program| Some(text(script, &before, &program?))).collect()
}

fn is_removable_in_group(srun: &Srun) -> bool {
    srun.given.iter().all(|one| is_known(one) || one.name == Some("het-group"))
}
