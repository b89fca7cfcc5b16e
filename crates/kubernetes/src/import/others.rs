//! Jobs of other APIs than Kubernetes' own: Volcano, and Kubeflow's training operator.

use super::found::{FoundJob, LeastPods, role};
use super::object::ImportedObject;
use super::pod::PodTemplate;

/// Restarts of a Job of Volcano that names none (batch.volcano.sh/v1alpha1).
const DEFAULT_MAX_RETRY: u64 = 3;

/// Reads a Job of Volcano: a role for each task.
pub(super) fn volcano(object: &mut ImportedObject, found: &mut FoundJob) {
    for at in object.children("/spec/tasks") {
        let name = object.text(&format!("{at}/name"), "the group's name");
        let pods = object.number(&format!("{at}/replicas"), "the number of tasks").unwrap_or(1);
        let template = format!("{at}/template");
        let name = name.unwrap_or_else(|| "main".to_owned());
        role(object, found, &PodTemplate { at: &template, role: &name, pods });
    }
    if let Some(pods) = object.number("/spec/minAvailable", "the size of the job") {
        let at = "/spec/minAvailable".to_owned();
        found.least = Some(LeastPods { object: found.object, at, pods });
    }
    if let Some(queue) = object.text("/spec/queue", "queue")
        && queue != "default"
    {
        found.draft.queue = Some(crate::queue::path(&queue));
    }
    let restarts = object.children("/spec/policies").into_iter().any(|at| {
        let is =
            |field: &str, value: &str| object.peek_text(&format!("{at}/{field}")) == Some(value);
        is("event", "PodFailed") && is("action", "RestartJob")
    });
    if restarts {
        let limit = object.peek_number("/spec/maxRetry").unwrap_or(DEFAULT_MAX_RETRY);
        found.draft.restarts = Some(limit);
    }
    object.field("/spec/maxRetry", "restart");
    object.field("/spec/policies", "restart: the whole job starts again, or ends");
    object.field("/spec/schedulerName", "the export's --scheduler");
    object.field("/spec/plugins", "the address of rank 0 is in $MASTER_ADDR");
    object.near(
        "/spec/ttlSecondsAfterFinished",
        "ended jobs are kept as their site says; those of `muster run` on Kubernetes for a week",
    );
}

/// Reads a PyTorchJob: one role if master and workers are equal, since ranks are numbered over all.
pub(super) fn pytorch_job(object: &mut ImportedObject, found: &mut FoundJob) {
    for at in object.children("/spec/pytorchReplicaSpecs") {
        let name = at.rsplit('/').next().unwrap_or_default().to_lowercase();
        let pods = object.number(&format!("{at}/replicas"), "the number of tasks").unwrap_or(1);
        object.field(&format!("{at}/restartPolicy"), "restart");
        let template = format!("{at}/template");
        role(object, found, &PodTemplate { at: &template, role: &name, pods });
    }
    let groups = &mut found.draft.groups;
    if let [master, worker] = &mut groups[..]
        && master.task == worker.task
    {
        master.pods += worker.pods;
        groups.truncate(1);
        found.templates.truncate(1);
    }
    let policy = "/spec/runPolicy";
    if let Some(secs) = object.peek_number(&format!("{policy}/activeDeadlineSeconds")) {
        let at = format!("{policy}/activeDeadlineSeconds");
        object.near(&at, "time: counted from when the processes run, not from when the job starts");
        found.draft.time_secs = Some(found.draft.time_secs.unwrap_or(u64::MAX).min(secs));
    }
    found.draft.restarts =
        object.number(&format!("{policy}/backoffLimit"), "restart").filter(|count| *count > 0);
    let least = format!("{policy}/schedulingPolicy/minAvailable");
    if let Some(pods) = object.number(&least, "the size of the job") {
        found.least = Some(LeastPods { object: found.object, at: least, pods });
    }
    if object.is_set(&format!("{policy}/suspend")) {
        object.field(&format!("{policy}/suspend"), "the scheduler starts it");
    }
    object.near(&format!("{policy}/cleanPodPolicy"), "tasks end with their job");
    let processes = "/spec/nprocPerNode";
    if let Some(count) = object.text(processes, "env: {PET_NPROC_PER_NODE}")
        && count.parse::<u64>().is_ok()
    {
        found.draft.env.push(("PET_NPROC_PER_NODE".to_owned(), count));
    }
}
