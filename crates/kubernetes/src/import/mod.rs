//! Import of Kubernetes objects: a job file, and the problems of the objects. Pure: text in, one report
//! out, which covers every field of every object. The caller validates the job file.

mod around;
mod command;
mod container;
mod draft;
mod files;
mod finding;
mod found;
mod job;
mod kubeflow;
mod launch;
mod metadata;
mod mpi;
mod object;
mod owned;
mod pod;
mod pod_group;
mod ray;
mod reasons;
mod rules;
mod services;
mod train_job;
mod volcano;

use std::fmt;

use muster_model::NodeSpec;
use muster_model::imported::{
    ImportOutcome, ImportReport, ImportSource, ImportedLaunch, LaunchMode, LaunchStep,
};
use serde_json::Value;

pub use rules::ids;

use draft::JobDraft;
use finding::ObjectFacts;
use found::FoundJob;
use muster_document::Document;
use object::ImportedObject;

/// Error of importing objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotImported {
    /// The text is neither YAML nor JSON.
    NotYaml(String),
    /// None of the objects is a job; with the objects that there are.
    NoJob(Vec<String>),
}

impl fmt::Display for NotImported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYaml(why) => write!(f, "it is neither YAML nor JSON: {why}"),
            Self::NoJob(found) => write!(f, "no object is a job: {}", found.join(", ")),
        }
    }
}

impl NotImported {
    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotYaml(_) => "`kubectl apply --dry-run=client -f FILE` checks it".to_owned(),
            Self::NoJob(_) => format!("jobs are {}", job::KINDS.join(", ")),
        }
    }
}

/// Returns true if a text looks like objects of Kubernetes.
#[must_use]
pub fn is_objects(text: &str) -> bool {
    let is_key = |line: &str| line.starts_with("apiVersion:") || line.contains("\"apiVersion\"");
    !text.starts_with("#!") && text.lines().any(is_key)
}

/// Imports the objects of a text. `file` is its name; `nodes` are those of the cluster, where they are
/// known.
///
/// # Errors
///
/// When the text holds no job.
pub fn import(
    text: &str,
    file: &str,
    nodes: Option<&[NodeSpec]>,
) -> Result<ImportReport, NotImported> {
    // 1. Read the objects, and those of lists.
    let documents = muster_document::documents(text).map_err(NotImported::NotYaml)?;
    let mut documents: Vec<Document> = documents.into_iter().flat_map(items).collect();
    let train_jobs = train_job::resolve(&mut documents);
    let mut objects: Vec<ImportedObject> = documents.into_iter().map(ImportedObject::new).collect();
    // 2. Convert those that are jobs.
    let parts = owned::parts(&mut objects);
    let mut jobs: Vec<FoundJob> = (0..objects.len())
        .filter(|index| !parts[*index])
        .filter_map(|index| job::read(index, &mut objects, &train_jobs))
        .collect();
    if jobs.is_empty() {
        return Err(NotImported::NoJob(objects.iter().map(ImportedObject::title).collect()));
    }
    pod_group::join_pods(&mut objects, &mut jobs);
    // 3. Read the objects around them.
    around::read(&mut objects, &mut jobs);
    train_jobs.iter().for_each(|one| one.note(&mut objects));
    // 4. Check the rules.
    let options: Vec<_> = objects.iter().map(ImportedObject::options).collect();
    let facts = ObjectFacts { objects: &objects, jobs: &jobs, options: &options, nodes };
    let findings = rules::findings(&facts);
    let files: Vec<String> = jobs.iter().map(|job| job.draft.yaml()).collect();
    Ok(ImportReport {
        script: file.to_owned(),
        source: ImportSource::Kubernetes,
        job: files.join("---\n"),
        asks: jobs.iter().flat_map(|job| asks(&job.draft, jobs.len() > 1)).collect(),
        launch: launch(&objects, &jobs),
        options: options.into_iter().flatten().collect(),
        findings,
    })
}

/// Returns the objects of a list, as kubectl prints several, or the one object.
fn items(document: Document) -> Vec<Document> {
    let is_list = document.value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let Some(Value::Array(items)) = document.value.get("items").filter(|_| is_list) else {
        return vec![document];
    };
    let items = items.iter().enumerate().map(|(index, value)| {
        let prefix = format!("/items/{index}");
        let lines = document.lines.range(prefix.clone()..).filter_map(|(at, line)| {
            let rest = at.strip_prefix(&prefix)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (rest.to_owned(), *line))
        });
        Document { value: value.clone(), lines: lines.collect() }
    });
    items.collect()
}

/// Returns the sizes that a job asks for, by name; with the name of the job where there are several.
fn asks(job: &JobDraft, has_others: bool) -> Vec<(String, String)> {
    let prefix = if has_others { format!("{}:", job.name) } else { String::new() };
    let replicas = job.service.as_ref().map_or(1, |service| service.guaranteed);
    let gpus: u64 = replicas * job.gpus();
    let time = job.time_secs.map(|secs| ("time", format!("{secs}s")));
    let pods = replicas * job.pods();
    let sizes = [("pods", pods.to_string()), ("gpus", gpus.to_string())];
    sizes.into_iter().chain(time).map(|(name, value)| (format!("{prefix}{name}"), value)).collect()
}

/// Returns the programs that the jobs start.
fn launch(objects: &[ImportedObject], jobs: &[FoundJob]) -> ImportedLaunch {
    let is_own = jobs.iter().all(|job| job.is_own);
    let is_ray = jobs.iter().all(|job| job.draft.ray.is_some());
    let text = if is_own {
        "exported by `muster export kubernetes`; it becomes the original job".to_owned()
    } else if is_ray {
        "rank 0 runs the program; every task is a node of its Ray cluster".to_owned()
    } else {
        "every task runs the command of its container".to_owned()
    };
    let steps = jobs.iter().filter(|job| job.draft.ray.is_none()).flat_map(|job| {
        job.draft.groups.iter().zip(&job.templates).filter_map(|(group, at)| {
            let launcher = launch::launcher(&group.task.run)?;
            let tasks = group.pods * group.tasks_per_pod;
            let per_task = job.processes(group, &launcher);
            let unknown = per_task.is_none().then(|| format!("what {} starts", launcher.name));
            Some(LaunchStep {
                line: objects[job.object]
                    .line(&format!("{at}/spec/containers/0/command"))
                    .unwrap_or(1),
                launchers: vec![launcher.name.to_owned()],
                tasks: Some(tasks),
                per_task,
                processes: per_task.and_then(|each| each.checked_mul(tasks)),
                unknown: unknown.into_iter().collect(),
            })
        })
    });
    let how = if is_own { LaunchMode::Exported } else { LaunchMode::Containers };
    ImportedLaunch { how, text, steps: steps.collect() }
}

/// Returns true if a field of an object is not in the job.
fn is_lost(becomes: ImportOutcome) -> bool {
    becomes == ImportOutcome::NotMapped
}

#[cfg(test)]
mod tests;
