//! Objects that are jobs, by kind: which pods they have, and how they start, end and restart.

use muster_model::Array;

use super::draft::{GroupDraft, JobDraft, ProgramDraft, job_name};
use super::launch::FoundLauncher;
use super::object::ImportedObject;
use super::pod::PodTemplate;
use super::{metadata, pod};

/// Kinds of objects that are jobs.
pub(super) const KINDS: [&str; 3] = ["Job", "Pod", "JobSet"];

/// Restarts of a Job that names none (batch/v1).
const DEFAULT_BACKOFF_LIMIT: u64 = 6;

/// Object that is a job, as the job file that it becomes.
pub(super) struct FoundJob {
    /// Position among the objects.
    pub(super) object: usize,
    pub(super) draft: JobDraft,
    /// Pointers of the pod templates, one for each group.
    pub(super) templates: Vec<String>,
    /// True if `muster export` wrote it.
    pub(super) is_own: bool,
    /// Pods that start together by its scheduler's object: the field, its object and the number.
    pub(super) least: Option<LeastPods>,
}

/// Number of pods that start together, as a field says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeastPods {
    pub(super) object: usize,
    pub(super) at: String,
    pub(super) pods: u64,
}

impl FoundJob {
    /// Returns the processes that a launcher starts in each task of a group; `None` if unknown.
    pub(super) fn processes(&self, group: &GroupDraft, launcher: &FoundLauncher) -> Option<u64> {
        // Muster sets PET_NPROC_PER_NODE to the GPUs of a task.
        let own = self.is_own.then_some(group.task.gpus.max(1));
        let given = self.draft.env.iter().find(|(name, _)| name == "PET_NPROC_PER_NODE");
        let given = given.and_then(|(_, count)| count.parse().ok());
        launcher.processes(group.task.gpus, given.or(own))
    }
}

/// Reads an object; `None` if it is no job.
pub(super) fn read(index: usize, object: &mut ImportedObject) -> Option<FoundJob> {
    let mut found = FoundJob {
        object: index,
        draft: JobDraft { name: job_name(object.name()), ..JobDraft::default() },
        templates: Vec::new(),
        is_own: false,
        least: None,
    };
    match (object.group(), object.kind()) {
        ("batch", "Job") => batch_job(object, &mut found),
        ("", "Pod") => {
            role(object, &mut found, &PodTemplate { at: "", role: "main", pods: 1 });
        }
        ("jobset.x-k8s.io", "JobSet") => job_set(object, &mut found),
        _ => return None,
    }
    metadata::read(object, &mut found.draft);
    Some(found)
}

/// Reads a role of a job.
fn role(object: &mut ImportedObject, found: &mut FoundJob, template: &PodTemplate<'_>) {
    let own = pod::read(object, template, &mut found.draft);
    let is_first = found.templates.is_empty();
    found.is_own = own.is_some() && (found.is_own || is_first);
    if let Some(own) = own {
        found.draft.name = own.job;
    }
    found.templates.push(template.at.to_owned());
    let group = found.draft.groups.last_mut().expect("reading a template adds a group");
    if group.task.run == ProgramDraft::default() {
        let image = found.draft.kubernetes.image.as_deref().unwrap_or("the image");
        let text = format!("echo 'write the command of {image} here' >&2\nexit 78\n");
        group.task.run = ProgramDraft::Text(text);
    }
}

/// Reads a Job of `batch/v1`: a gang if all its pods run at once with an index, else an array.
fn batch_job(object: &mut ImportedObject, found: &mut FoundJob) {
    let at = "/spec/template";
    let is_indexed = object.peek_text("/spec/completionMode") == Some("Indexed");
    let parallelism = object.peek_number("/spec/parallelism").unwrap_or(1);
    let completions = object.peek_number("/spec/completions").unwrap_or(parallelism).max(1);
    let own_array = object
        .peek_text("/metadata/annotations/muster.run~1array")
        .and_then(|text| serde_json::from_str::<Array>(text).ok());
    let is_gang = is_indexed && completions <= parallelism && own_array.is_none();
    let pods = if is_gang { completions } else { 1 };
    if let Some(array) = own_array {
        found.draft.array = Some(array.to_string());
    } else if !is_gang && completions > 1 {
        let cap = if parallelism < completions { format!("%{parallelism}") } else { String::new() };
        found.draft.array = Some(format!("0-{}{cap}", completions - 1));
    }
    let target = if found.draft.array.is_some() { "array" } else { "the number of tasks" };
    for field in ["completionMode", "completions", "parallelism"] {
        object.field(&format!("/spec/{field}"), target);
    }
    role(object, found, &PodTemplate { at, role: "main", pods });
    job_ending(object, "/spec", found);
}

/// Reads a JobSet: a role for each of its Jobs, all in one gang.
fn job_set(object: &mut ImportedObject, found: &mut FoundJob) {
    for at in object.children("/spec/replicatedJobs") {
        let name = object.text(&format!("{at}/name"), "the group's name").unwrap_or_default();
        let copies = object.peek_number(&format!("{at}/replicas")).unwrap_or(1);
        let spec = format!("{at}/template/spec");
        let each = object.peek_number(&format!("{spec}/parallelism")).unwrap_or(1);
        object.field(&format!("{at}/replicas"), "the number of tasks");
        for field in ["completionMode", "completions", "parallelism"] {
            object.field(&format!("{spec}/{field}"), "the number of tasks");
        }
        let template = format!("{spec}/template");
        role(object, found, &PodTemplate { at: &template, role: &name, pods: copies * each });
        job_ending(object, &spec, found);
    }
    let restarts = object.number("/spec/failurePolicy/maxRestarts", "restart");
    found.draft.restarts = restarts.filter(|count| *count > 0);
    object.field("/spec/network", "the address of rank 0 is in $MASTER_ADDR");
    object.near("/spec/startupPolicy", "all tasks of a job start together");
}

/// Reads how a Job ends: restarts, deadline, and what remains.
fn job_ending(object: &mut ImportedObject, spec: &str, found: &mut FoundJob) {
    let is_array = found.draft.array.is_some();
    let limit = format!("{spec}/backoffLimit");
    let per_index = format!("{spec}/backoffLimitPerIndex");
    let restarts = match object.number(&per_index, "restart") {
        Some(each) if is_array => each,
        _ => object.peek_number(&limit).unwrap_or(DEFAULT_BACKOFF_LIMIT),
    };
    found.draft.restarts = (restarts > 0).then_some(restarts);
    if restarts > 0 && found.draft.pods() > 1 {
        object.near(&limit, "restart: the whole job starts again, not one pod");
    } else if is_array {
        object.near(&limit, "restart: counted for each element, not for all together");
    } else {
        object.field(&limit, "restart");
    }
    let deadline = format!("{spec}/activeDeadlineSeconds");
    if let Some(secs) = object.peek_number(&deadline) {
        let time = found.draft.time_secs.unwrap_or(u64::MAX).min(secs);
        found.draft.time_secs = Some(time);
        object.near(
            &deadline,
            "time: counted from when the processes run, not from when the Job starts",
        );
    }
    object.near(
        &format!("{spec}/ttlSecondsAfterFinished"),
        "ended jobs are kept as their site says; those of `muster run` on Kubernetes for a week",
    );
    object.near(&format!("{spec}/podReplacementPolicy"), "a task starts again when it has ended");
    for field in ["selector", "manualSelector"] {
        object.field(&format!("{spec}/{field}"), "set by the cluster");
    }
}
