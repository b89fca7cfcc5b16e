//! The payload of a job: programs, environment, working directory, and the default name derived
//! from them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use muster_model::payload::TaskCommand;
use muster_model::{OutputFiles, output};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Located, Named, Text};
use crate::job::ParsedJob;
use crate::job::document::{JobDocument, ONLY_GROUP};
use crate::job::fields::{MAX_ARGUMENT_BYTES, Program};
use crate::job::kind::KindValue;
use crate::names::name_from;

/// Variables that Muster sets for every task, after the document's.
const OWN_VARIABLES: [&str; 10] = [
    "MUSTER_REPLICA",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "NODE_RANK",
];

/// Returns the command of each group that has one; only the tasks of a Ray job need none.
pub(super) fn commands(
    document: &ParsedJob,
    word: KindValue,
    problems: &mut Problems,
) -> BTreeMap<Arc<str>, TaskCommand> {
    let job = &document.fields;
    if word == KindValue::Ray && job.run.is_none() {
        return BTreeMap::new();
    }
    let mut commands = BTreeMap::new();
    let run = |program: &Located<Program>| with_python(job, program.value.0.clone());
    match &job.groups {
        None => match &job.run {
            Some(program) => {
                commands.insert(Arc::from(ONLY_GROUP), run(program));
            }
            None => problems.add(
                Problem::new("`run` is missing")
                    .at(document.place, "this job has no program")
                    .hint("add `run: python train.py`".to_owned()),
            ),
        },
        Some(groups) => {
            for group in &groups.value.0 {
                match (group.value.run.as_ref().or(job.run.as_ref()), &group.value.name) {
                    (Some(program), Some(name)) => {
                        commands.insert(Arc::from(name.value.0.as_str()), run(program));
                    }
                    (None, _) => problems.add(
                        Problem::new("`run` is missing")
                            .at(group.place, "this group has no program")
                            .hint(
                                "add `run` to the group, or to the job for all groups".to_owned(),
                            ),
                    ),
                    (Some(_), None) => {}
                }
            }
        }
    }
    commands
}

pub(super) fn environment(
    env: &Located<Named<Text>>,
    warnings: &mut Vec<String>,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for item in &env.value.0 {
        if item.name.is_empty() || item.name.contains('=') {
            let message = format!("{} cannot name an environment variable", show(&item.name));
            problems.add(Problem::new(message).at(item.name_place, "expected a name without `=`"));
        }
        if item.name.len() + item.value.0.len() + 1 > MAX_ARGUMENT_BYTES {
            let label = "the system takes less than 128KiB in one variable";
            problems.add(Problem::new("an environment variable is too long").at(item.place, label));
        }
        if is_own(&item.name) {
            let name = show(&item.name);
            warnings.push(format!(
                "`env` sets {name}, but Muster sets it for every task; yours is not used"
            ));
        }
        variables.insert(item.name.clone(), item.value.0.clone());
    }
    variables
}

/// Returns a program with `python` before it where it is a file of Python, and an environment has the `python`.
fn with_python(job: &JobDocument, command: TaskCommand) -> TaskCommand {
    let has_python = job.venv.is_some() || job.conda.is_some() || job.uv.is_some();
    let is_file = |word: &str| {
        word.ends_with(".py") && !word.contains(|c: char| "$`\\\"'*?;&|<>(){}~=".contains(c))
    };
    match command {
        TaskCommand::Script(text)
            if has_python && text.split_whitespace().next().is_some_and(is_file) =>
        {
            TaskCommand::Script(format!("python {}", text.trim_start()))
        }
        TaskCommand::Argv(words)
            if has_python && words.first().is_some_and(|word| word.ends_with(".py")) =>
        {
            TaskCommand::Argv(std::iter::once("python".to_owned()).chain(words).collect())
        }
        other => other,
    }
}

/// Returns true for a variable that Muster sets for every task.
pub(super) fn is_own(name: &str) -> bool {
    OWN_VARIABLES.contains(&name)
        || ["PET_", "MUSTER_"].iter().any(|prefix| name.starts_with(prefix))
        || name == "LOCAL_WORLD_SIZE"
}

pub(super) fn directory(workdir: &Located<Text>, problems: &mut Problems) -> Option<PathBuf> {
    let text = workdir.value.0.as_str();
    let label = match text {
        "" => "this is empty",
        _ if text.len() > 4095 => "longer than any path can be (4095 bytes)",
        _ if text.starts_with('~') => "`~` is not expanded here; write the whole path",
        _ => return Some(PathBuf::from(text)),
    };
    problems.add(Problem::new("`workdir` is not a directory's path").at(workdir.place, label));
    None
}

/// Returns the files for the output.
pub(super) fn files(job: &JobDocument, problems: &mut Problems) -> OutputFiles {
    let mut one = |field: &Option<Located<Text>>, name: &str| {
        let field = field.as_ref()?;
        match output::parts(&field.value.0) {
            Ok(_) => Some(field.value.0.clone()),
            Err(why) => {
                problems.add(
                    Problem::new(format!("`{name}` is not a file's path")).at(field.place, why),
                );
                None
            }
        }
    };
    OutputFiles { output: one(&job.output, "output"), error: one(&job.error, "error") }
}

/// Returns the name as written, or that of the file (with the document's position if there are
/// several), or that of the program.
pub(super) fn default_name(
    document: &ParsedJob,
    commands: &BTreeMap<Arc<str>, TaskCommand>,
) -> String {
    if let Some(name) = &document.fields.name {
        return name.value.0.clone();
    }
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let file = base(document.sources.name());
    let stem = match file.rsplit_once('.') {
        Some((stem, "yaml" | "yml" | "json")) => name_from(stem),
        _ => None,
    };
    match (stem, document.position) {
        (Some(stem), (_, 1)) => return stem,
        (Some(stem), (position, _)) => {
            return name_from(&format!("{}-{position}", &stem[..stem.len().min(58)]))
                .unwrap_or(stem);
        }
        (None, _) => {}
    }
    let command = commands.values().next().and_then(|command| match command {
        TaskCommand::Ray(task) => task.driver.as_ref(),
        other => Some(other),
    });
    let program = match command {
        Some(TaskCommand::Argv(words)) => words.first().map(|word| base(word)),
        Some(TaskCommand::Script(text)) => {
            let words =
                text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
            words.into_iter().next().map(base)
        }
        Some(TaskCommand::Ray(_)) | None => None,
    };
    program.as_deref().and_then(name_from).unwrap_or_else(|| "job".to_owned())
}
