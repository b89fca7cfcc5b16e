//! The fields of a job for the environment of its program: `venv`, `conda`, `uv`, `modules`, `env-file`,
//! `secrets`, `image`, `mounts`. Files are not looked at: that is for the machine that has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{PythonEnvironment, TaskEnvironment};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Item, Located, Named, OneOrMany, Text};
use crate::job::document::JobDocument;
use crate::job::payload::is_own;
use crate::job::shape::contradiction;
use crate::source::Place;

/// Longest path that Linux takes, in bytes (`PATH_MAX` without its zero byte).
const MAX_PATH_BYTES: usize = 4095;

/// Returns the environment of the job.
pub(super) fn of_job(job: &JobDocument, problems: &mut Problems) -> TaskEnvironment {
    contradictions(job, problems);
    let python = [
        one(&job.venv, "venv", problems).map(PythonEnvironment::Venv),
        one(&job.conda, "conda", problems).map(PythonEnvironment::Conda),
        one(&job.uv, "uv", problems).map(PythonEnvironment::Uv),
    ];
    let modules = items(job.modules.as_ref());
    let mounts = items(job.mounts.as_ref());
    TaskEnvironment {
        python: python.into_iter().flatten().next(),
        modules: modules.filter_map(|item| module(item, problems)).collect(),
        env_files: items(job.env_files.as_ref())
            .filter_map(|item| path(&item.value.0, item.place, "env-file", problems))
            .collect(),
        secrets: job
            .secrets
            .as_ref()
            .map(|named| secrets(job, named, problems))
            .unwrap_or_default(),
        image: one(&job.image, "image", problems),
        mounts: mounts.filter_map(|item| mount(item, problems)).collect(),
    }
}

/// Refuses fields that exclude each other.
fn contradictions(job: &JobDocument, problems: &mut Problems) {
    let python = [
        ("venv", job.venv.as_ref().map(|field| field.key)),
        ("conda", job.conda.as_ref().map(|field| field.key)),
        ("uv", job.uv.as_ref().map(|field| field.key)),
    ];
    let python = python.into_iter().filter_map(|(name, key)| Some((name, key?)));
    let python: Vec<(&str, Place)> = python.collect();
    if let [(first, at), (second, also), ..] = python.as_slice() {
        let hint = "a job has one Python environment; remove all but one".to_owned();
        problems.add(contradiction(first, *at, second, *also).hint(hint));
    }
    let modules = job.modules.as_ref().map(|field| ("modules", field.key));
    if let (Some(image), Some((name, key))) = (&job.image, python.first().copied().or(modules)) {
        let hint = match name {
            "modules" => "an image has programs of its own; for Slurm write `slurm: {modules: …}`",
            _ => {
                "an image has a Python of its own; to activate one in it, write `run: . DIR/bin/activate && python train.py`"
            }
        };
        problems.add(contradiction("image", image.key, name, key).hint(hint.to_owned()));
    }
    if let (None, Some(mounts)) = (&job.image, &job.mounts) {
        problems.add(
            Problem::new("`mounts` without `image`")
                .at(mounts.key, "without an image the program sees all directories")
                .hint("remove it, or add `image`".to_owned()),
        );
    }
}

fn items(field: Option<&Located<OneOrMany<Text>>>) -> impl Iterator<Item = &Item<Text>> {
    field.into_iter().flat_map(|field| &field.value.0)
}

/// Returns the path or name of a field.
pub(super) fn one(
    field: &Option<Located<Text>>,
    name: &str,
    problems: &mut Problems,
) -> Option<Arc<str>> {
    let field = field.as_ref()?;
    path(&field.value.0, field.place, name, problems)
}

/// Returns a text that can be a path or a name, or adds a problem.
fn path(text: &str, place: Place, name: &str, problems: &mut Problems) -> Option<Arc<str>> {
    let label = match text {
        "" => "this is empty",
        _ if text.len() > MAX_PATH_BYTES => "longer than any path can be (4095 bytes)",
        _ if text.contains(char::is_control) => "expected one line",
        _ if text.starts_with('-') => "a path or name does not start with `-`",
        _ if text.starts_with('~') && text != "~" && !text.starts_with("~/") => {
            "only `~/` is expanded; write the whole path"
        }
        _ => return Some(text.into()),
    };
    problems.add(Problem::new(format!("`{name}` is not a path or a name")).at(place, label));
    None
}

fn module(item: &Item<Text>, problems: &mut Problems) -> Option<Arc<str>> {
    let text = item.value.0.as_str();
    let is_name = !text.is_empty()
        && !text.starts_with('-')
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_name {
        return Some(text.into());
    }
    let problem = Problem::new(format!("{} is not the name of a module", show(text)));
    let hint = "write `modules: [gcc, cuda/12.4]`; `module avail` lists them".to_owned();
    problems.add(problem.at(item.place, "expected one word, such as `cuda/12.4`").hint(hint));
    None
}

fn mount(item: &Item<Text>, problems: &mut Problems) -> Option<Arc<str>> {
    let text = item.value.0.as_str();
    let is_mount = match text.split(':').collect::<Vec<_>>()[..] {
        [source, target] | [source, target, "ro" | "rw"] => {
            (source.starts_with('/') || source.starts_with("~/")) && target.starts_with('/')
        }
        _ => false,
    };
    let is_plain = !text.contains(|c: char| c == ',' || c.is_control());
    if is_mount && is_plain {
        return path(text, item.place, "mounts", problems);
    }
    problems.add(
        Problem::new(format!("{} is not a mount", show(text))).at(
            item.place,
            "expected `/source:/target`, with `:ro` where it must not be written to",
        ),
    );
    None
}

fn secrets(
    job: &JobDocument,
    named: &Located<Named<Text>>,
    problems: &mut Problems,
) -> BTreeMap<Arc<str>, Arc<str>> {
    let variables = job.env.iter().flat_map(|env| &env.value.0);
    let variables: BTreeMap<&str, Place> =
        variables.map(|item| (item.name.as_str(), item.name_place)).collect();
    let mut secrets = BTreeMap::new();
    for item in &named.value.0 {
        let name = item.name.as_str();
        let is_variable = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| !c.is_ascii_digit());
        if !is_variable {
            let message = format!("{} cannot name a secret", show(name));
            let label = "expected the name of a variable, such as `WANDB_API_KEY`";
            problems.add(Problem::new(message).at(item.name_place, label));
        }
        if is_own(name) {
            let message = format!("{} cannot be a secret", show(name));
            problems
                .add(Problem::new(message).at(item.name_place, "Muster sets it for every task"));
        }
        if let Some(also) = variables.get(name) {
            let hint = "the value of a secret is only in its file; remove it from `env`".to_owned();
            problems.add(contradiction("secrets", item.name_place, "env", *also).hint(hint));
        }
        let file = path(&item.value.0, item.place, "secrets", problems);
        secrets.extend(file.map(|file| (Arc::from(name), file)));
    }
    secrets
}
