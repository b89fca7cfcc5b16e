//! A script that `muster export slurm` made, read back: it is known what each of its parts is for.
//! The marks that both sides share stand in `script`.

use muster_model::imported::{Becomes, ImportedOption};

use super::super::script::{
    ALL_SAVE, ASKS, MADE, PASSES_ON, PROGRAM, SETUP, VARIABLES, signal_named,
};
use super::draft::{Draft, Group, Program, Service};
use super::shell::{Command, Word, assignment, commands};

/// One role of a component.
struct Role {
    name: String,
    tasks: Option<u64>,
    program: Program,
}

/// Whether it was exported.
pub(super) fn is_exported(body: &str) -> bool {
    body.contains(MADE)
}

/// Puts what the body says into the job; `None` when it was changed into something else.
pub(super) fn read(text: &str, draft: &mut Draft, options: &mut [ImportedOption]) -> Option<()> {
    // 1. The scripts of the ranks, which are documents of their own, and the rest.
    let (rest, ranks) = parts(text)?;
    let around = commands(&rest);
    // 2. What all ranks share.
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
        (option.becomes, option.says) = (Becomes::Field, "output is always appended to".to_owned());
    }
    surroundings(&around, draft);
    let count = "[ \"$MUSTER_RESTART_COUNT\" -lt ";
    if let Some((_, rest)) = rest.split_once(count) {
        let most = rest.split(' ').next().and_then(|count| count.parse().ok());
        // As often as can be counted is a service that is always started again, as all are where
        // nothing is said.
        draft.restart = most.filter(|most| *most < u64::from(u32::MAX));
        // Restarts set it, too.
        draft.slurm.requeue = draft.slurm.requeue.filter(|requeue| !requeue);
    }
    // 3. What each role runs.
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
    Some(())
}

/// What is set up before the ranks start: the container, modules and environments, and files of
/// each rank.
fn surroundings(around: &[Command], draft: &mut Draft) {
    let words =
        |command: &Command| -> Vec<String> { command.words.iter().map(Word::shown).collect() };
    for command in around {
        // The options of a container are a list: its elements are read as words of a command.
        let list = command.words.first().and_then(|word| word.raw.strip_prefix("muster_srun="));
        for elements in list.map(commands).unwrap_or_default() {
            container(&words(&elements), draft);
        }
        match words(command).iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            // A file of each rank is srun's to open.
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
            ["conda", "activate", conda] => draft.slurm.conda = Some((*conda).to_owned()),
            [".", path] => {
                if let Some(venv) = path.strip_suffix("/bin/activate") {
                    draft.slurm.venv = Some(venv.to_owned());
                }
            }
            _ => {}
        }
    }
}

/// Who saves, and what follows: the script that takes turns is warned itself, and asks its ranks by
/// the job's own signal.
fn checkpoint(rest: &str, ranks: &[String], draft: &mut Draft, options: &mut [ImportedOption]) {
    let Some(checkpoint) = &mut draft.checkpoint else { return };
    checkpoint.by_all = rest.contains(ALL_SAVE);
    let listener = ranks.first().and_then(|rank| Some(rank.split_once(PASSES_ON)?.1));
    let Some((number, told)) = listener.and_then(|text| text.split_once(" muster_to=")) else {
        return;
    };
    if let Some(signal) = number.parse().ok().and_then(signal_named) {
        signal.clone_into(&mut checkpoint.signal);
    }
    let to = told.split(' ').next().filter(|to| *to != "handlers");
    checkpoint.to = to.map(str::to_owned);
    if rest.contains(ASKS) {
        checkpoint.takes_turns = true;
        // Turns set it, too.
        draft.slurm.requeue = draft.slurm.requeue.filter(|requeue| !requeue);
        for option in options.iter_mut().filter(|option| option.option == "signal") {
            (option.becomes, option.says) = (Becomes::Field, "checkpoint".to_owned());
        }
    }
}

/// The service of which each element of the array is a replica.
fn service(rest: &str, draft: &Draft) -> Option<Service> {
    rest.contains("\nexport MUSTER_REPLICA=$SLURM_ARRAY_TASK_ID\n").then_some(())?;
    let last: u64 = draft.array.as_deref()?.strip_prefix("0-")?.parse().ok()?;
    let port = rest
        .split_once("\nexport PORT=$((")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    Some(Service { replicas: last + 1, port })
}

/// The words for Pyxis, of which the first mount is the job's own folder.
fn container(words: &[String], draft: &mut Draft) {
    let Some(image) = words.first().and_then(|word| word.strip_prefix("--container-image=")) else {
        return;
    };
    draft.slurm.container = Some(image.replacen('#', "/", 1));
    let mounts = words.get(1).and_then(|word| word.strip_prefix("--container-mounts="));
    draft.slurm.container_mounts = mounts
        .into_iter()
        .flat_map(|mounts| mounts.split(',').skip(1))
        .map(str::to_owned)
        .collect();
}

/// The text without the scripts of the ranks, and those.
fn parts(text: &str) -> Option<(String, Vec<String>)> {
    let (mut rest, mut ranks) = (String::new(), Vec::new());
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

fn roles(text: &str) -> Option<Vec<Role>> {
    let (mut roles, mut name, mut tasks, mut kept) = (Vec::new(), None, None, None);
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
                // What stands before the program where Apptainer runs the container.
                let is_inside =
                    |word: &&Word| word.variables().any(|name| name == "MUSTER_APPTAINER");
                let before = 1 + usize::from(command.words.get(1).filter(is_inside).is_some());
                let program = program(command.words.get(before..)?, kept.take())?;
                roles.push(Role { name: name.take()?, tasks: tasks.take(), program });
            }
            _ => {}
        }
    }
    (!roles.is_empty()).then_some(roles)
}

fn program(words: &[Word], kept: Option<String>) -> Option<Program> {
    if let Some(text) = kept {
        return Some(Program::Text(text));
    }
    let words: Vec<String> = words.iter().map(Word::literal).collect::<Option<_>>()?;
    match words.as_slice() {
        [.., flag, text] if flag == "-c" && text.starts_with("#!") => {
            Some(Program::Text(text.clone()))
        }
        [shell, flag, text] if shell == "/bin/sh" && flag == "-c" => {
            Some(Program::Text(text.clone()))
        }
        _ => Some(Program::Words(words)),
    }
}

/// A role of the size of its component; of several roles in one, each by the tasks that it has.
fn group(sizes: &Group, role: Role, is_one: bool) -> Group {
    let mut group = Group { name: Some(role.name), run: role.program, ..sizes.clone() };
    if let (false, Some(tasks)) = (is_one, role.tasks) {
        match group.nodes {
            Some(_) => group.nodes = Some(tasks / group.tasks_per_node.unwrap_or(1)),
            None => group.tasks = (tasks > 1).then_some(tasks),
        }
    }
    group
}
