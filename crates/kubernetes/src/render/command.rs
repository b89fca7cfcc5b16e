//! The command of a container: sets the task's place in its gang, then runs the program in place of
//! the shell. Programs find the variables of their gang and array as on one machine.

use std::fmt::Write as _;

use muster_model::payload::{TaskCommand, shell_word};
use muster_model::{Array, IndexRange};

use super::{FROM_FILE, JobKind, JobShape, Role, sweep};
use crate::checkpoint;

/// Port of rank 0; each role has its own, counted from here. Pods have addresses of their own.
const PORT: u32 = 29_500;

/// Returns the command of a container: the `task`-th of its pod.
pub(super) fn command(job: &JobShape<'_>, role: &Role<'_>, task: u32) -> Vec<String> {
    words(job, role, task).iter().map(|word| literal(word)).collect()
}

/// Returns the command as the container gets it, after Kubernetes has expanded its texts.
pub(super) fn words(job: &JobShape<'_>, role: &Role<'_>, task: u32) -> Vec<String> {
    let mut text = variables(job, role, task);
    let mut words = Vec::new();
    match &*muster_ray::program(&job.input.commands[&role.group.name], false) {
        program if let Some(sweep) = job.input.sweep => {
            text.push_str(&sweep::program(sweep, program, task));
            words.extend(sweep::as_written(program));
        }
        TaskCommand::Argv(argv) => {
            text.push_str(EXEC);
            words.push("muster".to_owned());
            words.extend(argv.iter().cloned());
        }
        TaskCommand::Script(script) if script.starts_with("#!") => {
            text.push_str(FROM_FILE);
            words.extend(["muster".to_owned(), script.clone()]);
        }
        TaskCommand::Script(script) => {
            let _ = writeln!(text, "{}", script.trim_end());
        }
        TaskCommand::Ray(_) => unreachable!("the launcher is a script"),
    }
    let shell = ["/bin/sh".to_owned(), "-c".to_owned(), text];
    shell.into_iter().chain(words).collect()
}

/// First word of the command's text, and the end of its variables, which tell such a command from others.
const FIRST_VARIABLE: &str = "export RANK=";
/// Variable with the file to which programs acknowledge checkpoints.
const LAST_VARIABLE: &str = "export MUSTER_CHECKPOINT_FILE=";
/// Replaces the shell with the program in its arguments.
const EXEC: &str = "exec \"$@\"\n";

/// Program of a container whose command was written here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnProgram {
    /// Name of the job in its job file.
    pub(crate) job: String,
    /// Name of the task group.
    pub(crate) group: String,
    pub(crate) command: TaskCommand,
}

/// Reads back a command, whose `$$` and `$(…)` are expanded; `None` for commands of other origin.
pub(crate) fn own_program(words: &[String]) -> Option<OwnProgram> {
    let [shell, flag, text, arguments @ ..] = words else { return None };
    if shell != "/bin/sh" || flag != "-c" || !text.starts_with(FIRST_VARIABLE) {
        return None;
    }
    let (variables, rest) = text.split_once(LAST_VARIABLE)?;
    let (_, program) = rest.split_once('\n')?;
    let named = |name: &str| {
        let (_, rest) = variables.split_once(&format!("{name}="))?;
        Some(rest.split_whitespace().next()?.to_owned())
    };
    let command = match (program, arguments) {
        (program, written) if sweep::is_program(program) => sweep::read_program(written)?,
        (EXEC, [_, argv @ ..]) => TaskCommand::Argv(argv.to_vec()),
        (FROM_FILE, [_, script]) => match muster_ray::read_program(script) {
            Some(task) => TaskCommand::Ray(Box::new(task)),
            None => TaskCommand::Script(script.clone()),
        },
        (script, _) => TaskCommand::Script(script.to_owned()),
    };
    Some(OwnProgram { job: named("MUSTER_JOB_NAME")?, group: named("MUSTER_GROUP")?, command })
}

/// Returns a text of which Kubernetes makes the given one: it reads `$$` as `$`, and `$(…)` as a variable
/// of the container. An unknown `$(…)` is copied as it is, with every `$` inside, so none may stay.
pub(super) fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        literal.push(letter);
        let rest = &text[at + letter.len_utf8()..];
        if letter == '$' && rest.starts_with(['$', '(']) {
            literal.push('$');
        }
    }
    literal
}

/// Returns the commands that export the task's variables.
fn variables(job: &JobShape<'_>, role: &Role<'_>, task: u32) -> String {
    let per_pod = role.tasks_per_pod;
    let name = &job.name;
    let index = match job.kind {
        _ if job.pods() == 1 => "0",
        JobKind::Job
        | JobKind::JobSet
        | JobKind::TrainJob
        | JobKind::Deployment
        | JobKind::InferenceService
        | JobKind::RayJob => "JOB_COMPLETION_INDEX",
        JobKind::Volcano => "VC_TASK_INDEX",
    };
    let sum = |terms: &[String]| {
        let terms: Vec<&str> = terms.iter().map(String::as_str).filter(|one| *one != "0").collect();
        match terms[..] {
            [] => "0".to_owned(),
            [one] if one.bytes().all(|byte| byte.is_ascii_digit()) => one.to_owned(),
            _ => format!("$(({}))", terms.join(" + ")),
        }
    };
    let times = if per_pod == 1 || index == "0" {
        index.to_owned()
    } else {
        format!("{index} * {per_pod}")
    };
    let in_role = sum(&[times.clone(), task.to_string()]);
    let rank = sum(&[times, (role.first_rank + task).to_string()]);
    let node = sum(&[index.to_owned(), role.first_pod.to_string()]);
    let nth = job.roles.iter().position(|one| one.first_rank == role.first_rank).unwrap_or(0);
    let host = |role: &Role<'_>| match job.pods() {
        1 => "127.0.0.1".to_owned(),
        _ => job.address(role),
    };
    let master = job.roles.first().map(host).unwrap_or_default();
    let own = host(role);
    let port = PORT + nth as u32;
    let workers = role.group.task.gpu.devices.max(1);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{FIRST_VARIABLE}{rank} WORLD_SIZE={} LOCAL_RANK={task} LOCAL_WORLD_SIZE={per_pod} NODE_RANK={node}",
        job.tasks()
    );
    let _ = writeln!(text, "export MASTER_ADDR={master} MASTER_PORT={PORT}");
    let _ = writeln!(
        text,
        "export PET_NNODES={} PET_NODE_RANK={in_role} PET_NPROC_PER_NODE={workers}",
        role.group.min_tasks
    );
    let _ = writeln!(
        text,
        "export PET_MASTER_ADDR={own} PET_MASTER_PORT={port} PET_RDZV_BACKEND=static PET_RDZV_ENDPOINT={own}:{port} PET_RDZV_ID={name}"
    );
    let _ = writeln!(
        text,
        "export MUSTER_JOB_NAME={} MUSTER_TASK=$RANK MUSTER_GROUP={}",
        shell_word(&job.input.spec.name),
        shell_word(&role.group.name)
    );
    if let Some(port) = job.service().and_then(|service| service.port) {
        let _ = writeln!(text, "export PORT={port}");
    }
    if let Some(array) = &job.input.spec.array {
        text.push_str(&array_index(array));
    }
    let _ = writeln!(text, "{LAST_VARIABLE}{}", checkpoint::file(task));
    text
}

/// Returns the commands that export the index of an element, of which Kubernetes knows the ordinal.
fn array_index(array: &Array) -> String {
    if array.more.is_empty() {
        let IndexRange { first, step, .. } = array.head;
        return format!("export MUSTER_ARRAY_INDEX=$((JOB_COMPLETION_INDEX * {step} + {first}))\n");
    }
    let indices: Vec<String> = array.indices().map(|index| index.to_string()).collect();
    format!(
        "muster_index() {{ shift \"$JOB_COMPLETION_INDEX\"; export MUSTER_ARRAY_INDEX=\"$1\"; }}\nmuster_index {}\n",
        indices.join(" ")
    )
}
