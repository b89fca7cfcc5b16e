//! Objects that are jobs, by kind: which pods they have, and how they start, end and restart.

use muster_model::Array;
use muster_model::sweep::Sweep;

use super::draft::{JobDraft, job_name};
use super::found::{FoundJob, role};
use super::object::ImportedObject;
use super::pod::PodTemplate;
use super::train_job::{self, ResolvedTrainJob};
use super::{kubeflow, metadata, mpi, ray, services, volcano};
use crate::render::disruptions_ignored;

/// Kinds of objects that are jobs.
pub(super) const KINDS: [&str; 14] = [
    "Job",
    "Job of Volcano",
    "Pod",
    "JobSet",
    "PyTorchJob",
    "MPIJob",
    "TrainJob",
    "Deployment",
    "StatefulSet",
    "LeaderWorkerSet",
    "Notebook",
    "RayJob",
    "RayCluster",
    "RayService",
];

/// Restarts of a Job that names none (batch/v1).
const DEFAULT_BACKOFF_LIMIT: u64 = 6;

/// Reads an object; `None` if it is no job.
pub(super) fn read(
    index: usize,
    objects: &mut [ImportedObject],
    train_jobs: &[ResolvedTrainJob],
) -> Option<FoundJob> {
    let object = &mut objects[index];
    let mut found = FoundJob {
        object: index,
        draft: JobDraft { name: job_name(object.name()), ..JobDraft::default() },
        templates: Vec::new(),
        is_own: false,
        least: None,
        mpi: None,
        trainer: None,
        ray: None,
    };
    match (object.group(), object.kind()) {
        ("batch", "Job") => batch_job(object, &mut found),
        ("", "Pod") => {
            role(object, &mut found, &PodTemplate { at: "", role: "main", pods: 1 });
        }
        ("jobset.x-k8s.io", "JobSet") => job_set(object, &mut found),
        ("batch.volcano.sh", "Job") => volcano::job(object, &mut found),
        ("kubeflow.org", "PyTorchJob") => kubeflow::pytorch_job(object, &mut found),
        ("kubeflow.org", "MPIJob") => mpi::mpi_job(object, &mut found),
        ("apps", "Deployment" | "StatefulSet") => services::replicated(object, &mut found),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet") => {
            services::leader_worker_set(object, &mut found);
        }
        ("kubeflow.org", "Notebook") => services::notebook(object, &mut found),
        ("trainer.kubeflow.org", "TrainJob") => {
            train_job::read(index, objects, &mut found, train_jobs);
        }
        ("ray.io", "RayJob") => ray::ray_job(object, &mut found),
        ("ray.io", "RayCluster") => ray::ray_cluster(object, &mut found),
        ("ray.io", "RayService") => ray::ray_service(object, &mut found),
        _ => return None,
    }
    if found.templates.is_empty() {
        return None;
    }
    ray::leave_out_defaults(&mut found.draft);
    metadata::read(&mut objects[index], &mut found.draft);
    Some(found)
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
    let own_sweep =
        object.peek_text("/metadata/annotations/muster.run~1sweep").and_then(crate::job::sweep);
    if let Some(array) = own_array {
        sweep_or_array(array, own_sweep, &mut found.draft);
    } else if !is_gang && completions > 1 {
        let cap = if parallelism < completions { format!("%{parallelism}") } else { String::new() };
        found.draft.array = Some(format!("0-{}{cap}", completions - 1));
    }
    let is_array = found.draft.array.is_some() || found.draft.sweep.is_some();
    let target = if is_array { "array" } else { "the number of tasks" };
    for field in ["completionMode", "completions", "parallelism"] {
        object.field(&format!("/spec/{field}"), target);
    }
    role(object, found, &PodTemplate { at, role: "main", pods });
    job_ending(object, "/spec", found);
}

/// Takes the indices of a job that Muster wrote; of a sweep, they are named if they are not all points.
fn sweep_or_array(array: Array, sweep: Option<Sweep>, draft: &mut JobDraft) {
    let Some(sweep) = sweep else {
        draft.array = Some(array.to_string());
        return;
    };
    draft.max_running = array.max_running;
    let points = sweep.count().unwrap_or(u32::MAX);
    let indices = Array { max_running: None, ..array };
    let is_all = indices == Array::range(0, points - 1, 1, None);
    draft.array = (!is_all).then(|| indices.to_string());
    draft.sweep = Some(sweep);
}

/// Reads a JobSet: a role for each of its Jobs, all in one gang.
fn job_set(object: &mut ImportedObject, found: &mut FoundJob) {
    for at in object.children("/spec/replicatedJobs") {
        let name = object.text(&format!("{at}/name"), "the group's name").unwrap_or_default();
        let copies = object.peek_number(&format!("{at}/replicas")).unwrap_or(1);
        let spec = format!("{at}/template/spec");
        let each = object.peek_number(&format!("{spec}/parallelism")).unwrap_or(1);
        object.field(&format!("{at}/replicas"), "the number of tasks");
        object.field(&format!("{at}/groupName"), "all tasks of a job start together");
        for field in ["completionMode", "completions", "parallelism"] {
            object.field(&format!("{spec}/{field}"), "the number of tasks");
        }
        let template = format!("{spec}/template");
        role(object, found, &PodTemplate { at: &template, role: &name, pods: copies * each });
        job_ending(object, &spec, found);
    }
    let restarts = object.number("/spec/failurePolicy/maxRestarts", "restart");
    found.draft.restarts = restarts.filter(|count| *count > 0);
    object.near(
        "/spec/failurePolicy/restartStrategy",
        "restart: all tasks end before they start again",
    );
    if object.peek_text("/spec/successPolicy/operator") == Some("All")
        && object.children("/spec/successPolicy/targetReplicatedJobs").is_empty()
    {
        object.field("/spec/successPolicy", "a job has succeeded when all its tasks have");
    }
    for field in ["network", "coordinator"] {
        object.field(&format!("/spec/{field}"), "the address of rank 0 is in $MASTER_ADDR");
    }
    object.near("/spec/startupPolicy", "all tasks of a job start together");
    object.near(
        "/spec/ttlSecondsAfterFinished",
        "ended jobs are kept as their site says; those of `muster run` on Kubernetes for a week",
    );
}

/// Reads how a Job ends: restarts, deadline, and what remains.
fn job_ending(object: &mut ImportedObject, spec: &str, found: &mut FoundJob) {
    let is_array = found.draft.array.is_some() || found.draft.sweep.is_some();
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
    let policy = format!("{spec}/podFailurePolicy");
    if found.draft.pods() == 1 && object.get(&policy) == Some(&disruptions_ignored()) {
        object.field(&policy, "a task that the cluster ends starts again");
    }
    object.near(&format!("{spec}/podReplacementPolicy"), "a task starts again when it has ended");
    for field in ["selector", "manualSelector"] {
        object.field(&format!("{spec}/{field}"), "set by the cluster");
    }
}
