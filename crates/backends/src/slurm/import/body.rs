//! What the tasks of the job run, made of the body of a script. Slurm runs a body once, on the
//! first node; a job of Muster runs its program in every task. Where both come to the same the one
//! `srun` is taken away; else the first task alone runs the body as it is.

use muster_model::imported::{Becomes, ImportedOption, LaunchMode};
use muster_model::{OutputFiles, output};

use super::draft::Program;
use super::geometry::Geometry;
use super::launch::{Srun, Starter, Step};
use super::option::{Given, PYXIS, SBATCH, SRUN, options};
use super::own_node;
use super::program::text;
use super::read::Script;
use super::shell::{Command, Part, Then, Word, assignment, commands};
use super::sizes::{Memory, Shape, Sizes};
use super::value;

/// Commands that every task may repeat: they look, or change nothing beyond their own process.
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

/// Options of srun that say again what the job says, or what Muster's own does.
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

/// Options of srun that it also takes from its environment (srun(1), INPUT ENVIRONMENT VARIABLES).
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

/// Commands in `$( … )` that say the same on every node.
const SAME_EVERYWHERE: &[&str] = &[
    "awk", "basename", "cat", "cut", "dirname", "echo", "expr", "grep", "head", "paste", "printf",
    "pwd", "readlink", "realpath", "scontrol", "sed", "seq", "sort", "tail", "tr", "uniq", "wc",
    "which",
];

/// Variables that differ from node to node, or from one time to the next.
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

/// Makes the job's own step overlap those that the script starts: a step that overlaps holds
/// nothing, so that each `srun` gets nodes, GPUs and memory of its own, as from a batch script.
/// Were it the script's steps that overlap, all would land on the first node and GPU (both tried on
/// 22.05).
const OVERLAP: (&str, &str) = ("SLURM_OVERLAP", "1");

/// Makes the first task alone go on, as if Slurm had started it as a batch script. GPUs of a node
/// are the job's way to ask; a step that inherited them would take all of them in place of what its
/// own options say. Masks of CPUs and memory are those of the job's own step, to which each `srun`
/// of the script would be bound.
const FIRST_TASK: &str = r#"# Slurm runs this script once, on the first node: so does the first task alone. Its `srun`s get their share of the job.
[ "${RANK:-0}" = 0 ] || exit 0
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT
unset PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE PET_RDZV_BACKEND PET_RDZV_ENDPOINT PET_RDZV_ID PET_MASTER_ADDR PET_MASTER_PORT
unset SLURM_OVERLAP SLURM_GPUS_PER_NODE SLURM_GRES
unset SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE
unset SLURM_MEM_BIND SLURM_MEM_BIND_LIST SLURM_MEM_BIND_PREFER SLURM_MEM_BIND_SORT SLURM_MEM_BIND_TYPE SLURM_MEM_BIND_VERBOSE
"#;

/// Gives the script's `srun`s the shares that sbatch would hand on to them: the job asks for the
/// same by other options, of which a step that says nothing itself would take all.
fn shares(sizes: &[Sizes]) -> String {
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

/// Said of a script whose own `srun`s remain.
const NEEDS_SLURM: &str = "; its `srun`s need Slurm (`--on slurm`)";

/// What the body became.
pub(super) struct Understood {
    pub(super) how: LaunchMode,
    pub(super) says: String,
    /// One for each group.
    pub(super) programs: Vec<Program>,
    pub(super) env: Vec<(String, String)>,
    /// Files that its `srun` names for the output.
    pub(super) files: OutputFiles,
    /// Options of `srun`, and where they went.
    pub(super) options: Vec<ImportedOption>,
    /// One task has what all tasks of its node would have.
    pub(super) is_merged: bool,
}

impl Understood {
    fn new(how: LaunchMode, says: impl Into<String>, programs: Vec<Program>) -> Self {
        let env = match how {
            LaunchMode::FirstTask => vec![(OVERLAP.0.to_owned(), OVERLAP.1.to_owned())],
            LaunchMode::EachTask | LaunchMode::Roles | LaunchMode::Exported => Vec::new(),
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

/// Understands the body.
pub(super) fn understand(
    script: &Script<'_>,
    all: &[Command],
    steps: &[(Step, Geometry)],
    sizes: &[Sizes],
) -> Understood {
    let body = script.body();
    let groups = script.components.len();
    let first = &sizes[0];
    // 1. What cannot be read here.
    if !script.is_shell() {
        return foreign(script, &body, first);
    }
    // 2. Components, each with a step of its own.
    if groups > 1
        && let Some(programs) = roles(script, all, steps, groups)
    {
        let says = "every component runs what `srun --het-group` starts in it";
        return Understood::new(LaunchMode::Roles, says, programs);
    }
    // 3. One task runs everything, and srun would only start it once more.
    let is_one = groups == 1 && first.task_count() == Some(1);
    let are_single = steps.iter().all(|(step, geometry)| {
        step.srun.as_ref().is_none_or(|srun| geometry.tasks == Some(1) && is_removable(srun))
    });
    let is_elsewhere = starts_srun_elsewhere(all, steps);
    let is_farm = is_farm(all, steps) || is_elsewhere;
    if is_one && are_single && !is_farm {
        let sruns: Vec<(&Srun, u32)> =
            steps.iter().filter_map(|(step, _)| Some((step.srun.as_ref()?, step.line))).collect();
        return without(script, first, &sruns, "the one task runs the script");
    }
    // 4. Nothing starts tasks: one task of each node can have what all of them would have there.
    if groups == 1 && own_node::is_for_one_task(first, &code(all), steps) {
        return merged(script, &body, first);
    }
    // 5. One srun over all tasks, and nothing beside it that must not be repeated.
    let obstacle = obstacle(all, steps, first, groups);
    match (obstacle, steps) {
        (None, [(step, _)]) => {
            let sruns: Vec<(&Srun, u32)> = step.srun.iter().map(|srun| (srun, step.line)).collect();
            let says = match step.srun {
                Some(_) => "every task runs the script without its `srun`: Muster starts the tasks",
                None => {
                    "a task on every node runs the script, as it needs; Slurm would run it on the first node only"
                }
            };
            without(script, first, &sruns, says)
        }
        (obstacle, _) => {
            let farm = || {
                "it starts steps with a share of the job each, perhaps several at once".to_owned()
            };
            let why = is_farm.then(farm).or(obstacle);
            let why = why.unwrap_or_else(|| "it starts nothing with srun".to_owned());
            let before = format!("{FIRST_TASK}{}", shares(sizes));
            let has_steps = is_elsewhere || steps.iter().any(|(step, _)| step.srun.is_some());
            let needs = if has_steps { NEEDS_SLURM } else { "" };
            let says = format!("the first task alone runs the script, as Slurm does: {why}{needs}");
            Understood::new(LaunchMode::FirstTask, says, vec![text(script, &before, &body); groups])
        }
    }
}

/// Returns true where steps run beside each other: without their `srun` all of them would find the
/// same GPUs and CPUs.
fn is_farm(all: &[Command], steps: &[(Step, Geometry)]) -> bool {
    let has_background = all.iter().any(|command| command.then == Then::Background);
    let is_beside = |step: &Step| {
        let Some(command) = all.get(step.command) else { return false };
        command.then == Then::Background || command.is_in_function && has_background
    };
    let beside = steps.iter().filter(|(step, _)| step.srun.is_some() && is_beside(step));
    let several = beside.map(|(step, _)| if step.is_repeated { 2 } else { 1 }).sum::<usize>();
    several > 1
}

/// Returns true where another program starts `srun`, such as `parallel`, `xargs` or `$( … )`.
fn starts_srun_elsewhere(all: &[Command], steps: &[(Step, Geometry)]) -> bool {
    let is_step = |index: usize| steps.iter().any(|(step, _)| step.command == index);
    let in_substitution = |word: &Word| {
        word.parts
            .iter()
            .any(|part| matches!(part, Part::Substitution(text) if text.contains("srun")))
    };
    all.iter().enumerate().filter(|(index, _)| !is_step(*index)).any(|(_, command)| {
        let is_quiet = command.program().is_some_and(|name| REPEATABLE.contains(&name.as_str()));
        command
            .words
            .iter()
            .any(|word| in_substitution(word) || !is_quiet && word.raw.contains("srun"))
    })
}

/// What a shell runs of a script, without comments.
fn code(all: &[Command]) -> String {
    let words = all.iter().flat_map(|command| &command.words).map(|word| word.raw.as_str());
    let documents = all.iter().filter_map(|command| Some(command.document.as_ref()?.text.as_str()));
    words.chain(documents).collect::<Vec<_>>().join("\n")
}

/// A script that starts no tasks, with all that the job has on its node. On several nodes the first
/// alone runs it, as Slurm does.
fn merged(script: &Script<'_>, body: &str, sizes: &Sizes) -> Understood {
    let variables = own_node::variables(sizes, body);
    let (how, before, says) = match sizes.node_count() == Some(1)
        || matches!(sizes.shape(), Shape::Anywhere { .. })
    {
        true => (
            LaunchMode::EachTask,
            variables,
            "one task with all that the job has on its node runs the script, which starts its processes itself",
        ),
        false => (
            LaunchMode::FirstTask,
            format!("{FIRST_TASK}{variables}"),
            "the first task alone runs the script, as Slurm does, with all that the job has on the first node: it starts nothing with srun",
        ),
    };
    let program = text(script, &before, body);
    // It starts nothing with srun.
    Understood { is_merged: true, env: Vec::new(), ..Understood::new(how, says, vec![program]) }
}

/// A script for another interpreter than a shell, of which is known only what it names.
fn foreign(script: &Script<'_>, body: &str, sizes: &Sizes) -> Understood {
    let groups = script.components.len();
    let has_launcher = own_node::names_launcher(body);
    if groups == 1 && own_node::is_for_one_task(sizes, body, &[]) {
        return merged(script, body, sizes);
    }
    if groups == 1 && sizes.task_count() == Some(1) && !has_launcher {
        let says = "the one task runs the script";
        return Understood::new(LaunchMode::EachTask, says, vec![text(script, "", body)]);
    }
    let says = format!(
        "the first task alone runs the script, as Slurm does: it is for {}, and what it starts is not known",
        script.interpreter()
    );
    let before = format!(
        "{FIRST_TASK}{}",
        if groups == 1 { shares(std::slice::from_ref(sizes)) } else { String::new() }
    );
    Understood::new(LaunchMode::FirstTask, says, vec![text(script, &before, body); groups])
}

/// Why not every task can run the body; `None`: it can.
fn obstacle(
    all: &[Command],
    steps: &[(Step, Geometry)],
    sizes: &Sizes,
    groups: usize,
) -> Option<String> {
    if groups > 1 {
        return Some("which component runs what is not certain".to_owned());
    }
    let (step, geometry) = match steps {
        [] => return Some("no srun is seen that starts a program".to_owned()),
        [one] => one,
        several => {
            let lines: Vec<String> =
                several.iter().map(|(step, _)| step.line.to_string()).collect();
            return Some(format!(
                "it starts {} programs, one after or beside the other",
                lines.len()
            ));
        }
    };
    let command = all.get(step.command)?;
    match &step.srun {
        None if step.mpirun.is_some() => {
            return Some("mpirun starts the processes itself".to_owned());
        }
        None if !step.started.as_ref().is_some_and(|started| started.by != Starter::Deepspeed)
            || sizes.per_node() != Some(1) =>
        {
            return Some("what it starts is not started by srun".to_owned());
        }
        None => {}
        Some(srun) if !srun.unknown.is_empty() => {
            return Some(format!(
                "srun has `{}`, which nobody can tell before it runs",
                srun.unknown.join(" ")
            ));
        }
        Some(srun) if !is_removable(srun) => {
            let name =
                srun.given.iter().find(|one| !is_known(one)).map_or("", |one| one.written.as_str());
            return Some(format!("`srun {name}` has no counterpart in a job"));
        }
        Some(_) if geometry.tasks != sizes.task_count() => {
            return Some("srun starts another number of tasks than the job asks for".to_owned());
        }
        Some(srun) if srun.program.is_empty() => return Some("srun has no program".to_owned()),
        Some(_) => {}
    }
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
    if let Some(word) = all.iter().flat_map(|command| &command.words).find_map(of_the_node) {
        return Some(format!(
            "`{word}` is filled in on the first node, and would be another thing on every node"
        ));
    }
    let not_repeatable = all
        .iter()
        .enumerate()
        .find(|(index, command)| *index != step.command && !is_repeatable(command));
    not_repeatable.map(|(_, command)| {
        let shown: String =
            command.words.iter().take(3).map(Word::shown).collect::<Vec<_>>().join(" ");
        format!("`{shown}` must not run once for every task")
    })
}

/// What the shell fills into a word that is not the same everywhere.
fn of_the_node(word: &Word) -> Option<String> {
    word.parts.iter().find_map(|part| match part {
        Part::Variable { name, .. } if OF_THE_NODE.contains(&name.as_str()) => {
            Some(format!("${name}"))
        }
        Part::Substitution(text) => {
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

/// Whether its output goes to a file: `> x`, `2>> x`, `&> x`, `>& x`; not `2>&1` and not `>
/// /dev/null`.
fn writes_file(command: &Command) -> bool {
    command.redirects.iter().any(|(sign, target)| {
        let target = target.shown();
        let is_descriptor = sign.ends_with('&')
            && target.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        sign.contains('>') && !is_descriptor && !target.starts_with("/dev/")
    })
}

/// Whether every task may run it, since it changes nothing beyond its own process.
pub(super) fn is_repeatable(command: &Command) -> bool {
    let name = command.program();
    let is_quiet = match name.as_deref() {
        None => true,
        Some("sed") => !command.words.iter().any(|word| word.raw.starts_with("-i")),
        Some(name) => REPEATABLE.contains(&name),
    };
    is_quiet && !writes_file(command)
}

fn is_known(one: &Given) -> bool {
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

/// The body without `srun` and its options, which are answered for one by one.
fn without(script: &Script<'_>, sizes: &Sizes, sruns: &[(&Srun, u32)], says: &str) -> Understood {
    let mut kept = script.body();
    for (srun, _) in sruns.iter().rev() {
        kept.replace_range(srun.cut.clone(), "");
    }
    let mut understood = Understood::new(LaunchMode::EachTask, says, vec![text(script, "", &kept)]);
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
                says,
            });
        }
    }
    understood
}

/// Variables that the script sets for an srun that is taken away: Muster's own is to read them, and
/// starts before the script does.
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

/// A file that the step writes into is the job's where that names none itself.
fn file_of_srun(
    script: &Script<'_>,
    one: &Given,
    name: &str,
    files: &mut OutputFiles,
) -> (Becomes, String) {
    let text = one.value.clone().unwrap_or_default();
    match (script.last(name), output::parts(&text)) {
        (Some(own), _) => (
            Becomes::NotMapped,
            format!("the output of its tasks goes with the rest: {}", own.written),
        ),
        (None, Err(why)) => {
            (Becomes::NotMapped, format!("{why}; Muster keeps the output (`muster logs`)"))
        }
        (None, Ok(_)) => {
            match name {
                "output" => files.output = Some(text),
                _ => files.error = Some(text),
            }
            (Becomes::Near, format!("{name} of the job, with what else the script says"))
        }
    }
}

fn of_srun(one: &Given, sizes: &Sizes, env: &mut Vec<(String, String)>) -> (Becomes, String) {
    let name = one.name.unwrap_or_default();
    if let Some((_, variable)) = VARIABLES.iter().find(|(known, _)| *known == name) {
        let value = one.value.clone().unwrap_or_else(|| "1".to_owned());
        env.retain(|(known, _)| known != variable);
        env.push(((*variable).to_owned(), value));
        return (Becomes::Field, format!("env: {variable}, which srun reads"));
    }
    match of_job(name, one.value.as_deref().unwrap_or_default(), sizes) {
        Some((wants, has)) if wants != has => (
            Becomes::NotMapped,
            format!(
                "the job's own counts, and is another: {}",
                has.map_or("none".to_owned(), |has| has.to_string())
            ),
        ),
        _ => (Becomes::Field, "as the job itself has it".to_owned()),
    }
}

/// What srun asks for and what the job has of it, for options that can be compared.
fn of_job(name: &str, text: &str, sizes: &Sizes) -> Option<(Option<u64>, Option<u64>)> {
    let gpus = || value::gpus(text).map(|gpus| gpus.count);
    Some(match name {
        "gpus-per-task" => (gpus(), sizes.gpus_of_task()),
        "gpus-per-node" => (gpus(), sizes.gpus_on_node()),
        "gpus" => (gpus(), sizes.gpu_count()),
        "cpus-per-task" => (value::count(text), Some(sizes.cpus_per_task.unwrap_or(1))),
        _ => return None,
    })
}

/// The program of each component, behind what all of them prepare.
fn roles(
    script: &Script<'_>,
    all: &[Command],
    steps: &[(Step, Geometry)],
    groups: usize,
) -> Option<Vec<Program>> {
    let mut programs: Vec<Option<String>> = vec![None; groups];
    // 1. What is started where: a step each, or one step with `:` between its parts.
    for (step, _) in steps {
        let srun = step.srun.as_ref().filter(|srun| is_removable_in_group(srun))?;
        // What is behind the program's words would be lost.
        let command = all.get(step.command)?;
        if writes_file(command) || command.then == Then::Pipe || command.is_piped {
            return None;
        }
        let mut group =
            srun.value("het-group").map_or(Some(0), |text| text.parse::<usize>().ok())?;
        for (nth, part) in srun.program.split(|word| word.raw == ":").enumerate() {
            let mut words = part;
            if nth > 0 {
                let texts: Vec<String> = part.iter().map(Word::shown).collect();
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
    // 2. What stands before them, if every task may repeat it.
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
