//! Reads back a script that `muster export slurm` wrote, whose parts are known. The marks of the
//! parts are constants in `script`.

use muster_model::imported::{ImportOutcome, ImportedOption};
use muster_model::payload::{RayTask, TaskCommand};

use super::super::script::{
    ALL_SAVE, ASKS, MADE, PASSES_ON, PROGRAM, SETUP, VARIABLES, signal_named,
};
use super::draft::{DraftGroup, DraftProgram, DraftService, ImportedJob, scalar};
use super::shell::{ShellCommand, ShellWord, assignment, commands};

/// Role of a component.
struct ExportedRole {
    name: String,
    tasks: Option<u64>,
    program: DraftProgram,
}

/// Returns whether the script was exported.
pub(super) fn is_exported(body: &str) -> bool {
    body.contains(MADE)
}

/// Adds the body's content to the job; `None` when the script was edited beyond recognition.
pub(super) fn read(
    text: &str,
    draft: &mut ImportedJob,
    options: &mut [ImportedOption],
) -> Option<()> {
    // 1. Split off the scripts of the ranks, which are here-documents.
    let (rest, ranks) = parts(text)?;
    let around = commands(&rest);
    // 2. Read what all ranks share.
    if let Some((_, variables)) = rest.split_once(VARIABLES) {
        for command in
            commands(variables).iter().take_while(|one| one.program().as_deref() == Some("export"))
        {
            let (name, value) = command.words.get(1).and_then(assignment)?;
            draft.env.retain(|(known, _)| *known != name);
            draft.env.push((name, value.literal()?));
        }
    }
    checkpoint(&rest, &ranks, draft, options);
    draft.service = service(&rest, draft);
    if draft.service.is_some() {
        draft.array = None;
    }
    for option in options.iter_mut().filter(|option| option.option == "open-mode") {
        (option.becomes, option.text) =
            (ImportOutcome::Field, "output is always appended".to_owned());
    }
    surroundings(&around, draft);
    let count = "[ \"$MUSTER_RESTART_COUNT\" -lt ";
    if let Some((_, rest)) = rest.split_once(count) {
        let most = rest.split(' ').next().and_then(|count| count.parse().ok());
        // The maximum count means a service without limit on restarts, which is the default.
        draft.restart = most.filter(|most| *most < u64::from(u32::MAX));
        // Restarts set this option, too.
        draft.slurm.requeue = draft.slurm.requeue.filter(|requeue| !requeue);
    }
    // 3. Read the program of each role.
    let mut groups = Vec::new();
    for (index, text) in ranks.iter().enumerate() {
        let (setup, program) = text.split_once(PROGRAM)?;
        if let Some((_, setup)) = setup.split_once(SETUP) {
            draft.slurm.setup = Some(setup.to_owned());
        }
        let sizes = draft.groups.get(index)?;
        let roles = roles(program)?;
        let is_one = roles.len() == 1;
        groups.extend(roles.into_iter().map(|role| group(sizes, role, is_one)));
    }
    if let [only] = groups.as_mut_slice() {
        only.name = None;
    }
    draft.groups = groups;
    ray(draft);
    Some(())
}

/// Reads back the nodes of a Ray cluster, whose program is the launcher.
fn ray(draft: &mut ImportedJob) {
    let node = |group: &DraftGroup| match &group.run {
        DraftProgram::Text(text) => muster_ray::read_program(text),
        DraftProgram::Words(_) => None,
    };
    let nodes: Option<Vec<RayTask>> = draft.groups.iter().map(node).collect();
    let Some([head, ..]) = nodes.as_deref() else { return };
    // A cluster without a program stays a script.
    let program = match &head.driver {
        None => return,
        Some(TaskCommand::Argv(words)) => DraftProgram::Words(words.clone()),
        Some(other) => DraftProgram::Text(other.text()),
    };
    for group in &mut draft.groups {
        group.run = program.clone();
    }
    draft.is_ray = true;
    let all: u64 = draft.groups.iter().map(tasks).sum();
    let mut set = |name, value: String, is_default: bool| {
        draft.ray.extend((!is_default).then_some((name, value)));
    };
    set("python", scalar(&head.python), head.python == "python3");
    let version = head.version.as_deref();
    set("version", version.map(scalar).unwrap_or_default(), version.is_none());
    set("wait", head.nodes.to_string(), u64::from(head.nodes) == all);
    let percent = head.object_store_percent;
    set("object-store-percent", percent.to_string(), percent == OBJECT_STORE_PERCENT);
    set("dashboard", head.has_dashboard.to_string(), head.has_dashboard);
    // JSON is YAML.
    set("runtime-env", head.runtime_env.clone().unwrap_or_default(), head.runtime_env.is_none());
}

/// Returns the fewest tasks of a group.
fn tasks(group: &DraftGroup) -> u64 {
    let nodes =
        group.min_nodes.or(group.nodes).map(|nodes| nodes * group.tasks_per_node.unwrap_or(1));
    nodes.or(group.tasks).unwrap_or(1)
}

/// Share of a node's memory for its object store, in percent: the default of a job.
const OBJECT_STORE_PERCENT: u32 = 30;

/// Reads the set-up before the ranks start: container, modules and environments, and files of each
/// rank.
/// each rank.
fn surroundings(around: &[ShellCommand], draft: &mut ImportedJob) {
    let words = |command: &ShellCommand| -> Vec<String> {
        command.words.iter().map(ShellWord::shown).collect()
    };
    for command in around {
        // The options of a container are a shell list, parsed as words of a command.
        let list = command.words.first().and_then(|word| word.raw.strip_prefix("muster_srun="));
        for elements in list.map(commands).unwrap_or_default() {
            container(&words(&elements), draft);
        }
        match words(command).iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            // srun opens the file of each rank.
            ["srun", options @ ..] => {
                let value = |name: &str| {
                    options
                        .iter()
                        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
                        .map(str::to_owned)
                };
                draft.files.output = draft.files.output.take().or(value("--output"));
                draft.files.error = draft.files.error.take().or(value("--error"));
            }
            ["module", "load", module] => draft.slurm.modules.push((*module).to_owned()),
            ["conda", "activate", conda] => draft.slurm.conda = Some(written_path(conda)),
            ["muster_secret", name, file] => {
                draft.secrets.push(((*name).to_owned(), written_path(file)));
            }
            [".", path] => {
                if let Some(venv) = path.strip_suffix("/bin/activate") {
                    draft.slurm.venv = Some(written_path(venv));
                }
            }
            _ => {}
        }
    }
}

/// Returns a path as a job file has it, of one as `quote::path_word` writes it.
fn written_path(shown: &str) -> String {
    match shown.strip_prefix("$HOME") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        Some(_) | None => shown.to_owned(),
    }
}

/// Reads which ranks save, and whether the job is requeued: a script with time slices receives the
/// signal itself, and requests checkpoints with the job's own signal.
fn checkpoint(
    rest: &str,
    ranks: &[String],
    draft: &mut ImportedJob,
    options: &mut [ImportedOption],
) {
    let Some(checkpoint) = &mut draft.checkpoint else { return };
    checkpoint.by_all = rest.contains(ALL_SAVE);
    let listener = ranks.first().and_then(|rank| Some(rank.split_once(PASSES_ON)?.1));
    let Some((number, reported)) = listener.and_then(|text| text.split_once(" muster_to=")) else {
        return;
    };
    if let Some(signal) = number.parse().ok().and_then(signal_named) {
        signal.clone_into(&mut checkpoint.signal);
    }
    let to = reported.split(' ').next().filter(|to| *to != "handlers");
    checkpoint.to = to.map(str::to_owned);
    if rest.contains(ASKS) {
        checkpoint.then_requeue = true;
        // Time slices set this option, too.
        draft.slurm.requeue = draft.slurm.requeue.filter(|requeue| !requeue);
        for option in options.iter_mut().filter(|option| option.option == "signal") {
            (option.becomes, option.text) = (ImportOutcome::Field, "checkpoint".to_owned());
        }
    }
}

/// Returns the service whose replicas are the elements of the array.
fn service(rest: &str, draft: &ImportedJob) -> Option<DraftService> {
    rest.contains("\nexport MUSTER_REPLICA=$SLURM_ARRAY_TASK_ID\n").then_some(())?;
    let last: u64 = draft.array.as_deref()?.strip_prefix("0-")?.parse().ok()?;
    let port = rest
        .split_once("\nexport PORT=$((")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    Some(DraftService { replicas: last + 1, port })
}

/// Reads the words for Pyxis; the first mount is the job's own directory.
fn container(words: &[String], draft: &mut ImportedJob) {
    let Some(image) = words.first().and_then(|word| word.strip_prefix("--container-image=")) else {
        return;
    };
    draft.slurm.container = Some(written_path(&image.replacen('#', "/", 1)));
    let mounts = words.get(1).and_then(|word| word.strip_prefix("--container-mounts="));
    draft.slurm.container_mounts =
        mounts.into_iter().flat_map(|mounts| mounts.split(',').skip(1)).map(written_path).collect();
}

/// Splits the text into the scripts of the ranks and the rest.
fn parts(text: &str) -> Option<(String, Vec<String>)> {
    let mut rest = String::new();
    let mut ranks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let start = format!("ranks_{}=$(cat <<'", ranks.len());
        match line.strip_prefix(&start).and_then(|mark| mark.strip_suffix('\'')) {
            Some(mark) => {
                let mut rank = String::new();
                loop {
                    let line = lines.next()?;
                    if line == mark {
                        break;
                    }
                    rank.push_str(line);
                    rank.push('\n');
                }
                lines.next().filter(|line| *line == ")")?;
                ranks.push(rank);
            }
            None => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    (!ranks.is_empty()).then_some((rest, ranks))
}

fn roles(text: &str) -> Option<Vec<ExportedRole>> {
    let mut roles = Vec::new();
    let mut name = None;
    let mut tasks = None;
    let mut kept = None;
    for command in commands(text) {
        match command.program().as_deref() {
            Some("export") => {
                for (variable, value) in command.words.iter().filter_map(assignment) {
                    match variable.as_str() {
                        "MUSTER_GROUP" => name = value.literal(),
                        "PET_NNODES" => {
                            tasks = value.literal().and_then(|count| count.parse().ok())
                        }
                        _ => {}
                    }
                }
            }
            Some("printf") if command.words.len() == 3 => kept = command.words[2].literal(),
            Some("exec") => {
                // Words before the program where Apptainer runs the container.
                let is_inside =
                    |word: &&ShellWord| word.variables().any(|name| name == "MUSTER_APPTAINER");
                let before = 1 + usize::from(command.words.get(1).filter(is_inside).is_some());
                let program = program(command.words.get(before..)?, kept.take())?;
                roles.push(ExportedRole { name: name.take()?, tasks: tasks.take(), program });
            }
            _ => {}
        }
    }
    (!roles.is_empty()).then_some(roles)
}

fn program(words: &[ShellWord], kept: Option<String>) -> Option<DraftProgram> {
    if let Some(text) = kept {
        return Some(DraftProgram::Text(text));
    }
    let words: Vec<String> = words.iter().map(ShellWord::literal).collect::<Option<_>>()?;
    match words.as_slice() {
        [.., flag, text] if flag == "-c" && text.starts_with("#!") => {
            Some(DraftProgram::Text(text.clone()))
        }
        [shell, flag, text] if shell == "/bin/sh" && flag == "-c" => {
            Some(DraftProgram::Text(text.clone()))
        }
        _ => Some(DraftProgram::Words(words)),
    }
}

/// Builds the group of a role: the whole component, or a part of it by number of tasks.
fn group(sizes: &DraftGroup, role: ExportedRole, is_one: bool) -> DraftGroup {
    let mut group = DraftGroup { name: Some(role.name), run: role.program, ..sizes.clone() };
    if let (false, Some(tasks)) = (is_one, role.tasks) {
        match group.nodes {
            Some(_) => group.nodes = Some(tasks / group.tasks_per_node.unwrap_or(1)),
            None => group.tasks = (tasks > 1).then_some(tasks),
        }
    }
    group
}
