//! PyTorchJobs of Kubeflow's training operator, and what all its kinds share.

use super::found::{FoundJob, LeastPods, merge_equal, role};
use super::object::ImportedObject;
use super::pod::PodTemplate;

/// Reads a PyTorchJob: one role if master and workers are equal, since ranks are numbered over all.
pub(super) fn pytorch_job(object: &mut ImportedObject, found: &mut FoundJob) {
    for at in object.children("/spec/pytorchReplicaSpecs") {
        let name = at.rsplit('/').next().unwrap_or_default().to_lowercase();
        let pods = object.number(&format!("{at}/replicas"), "the number of tasks").unwrap_or(1);
        object.field(&format!("{at}/restartPolicy"), "restart");
        let template = format!("{at}/template");
        role(object, found, &PodTemplate { at: &template, role: &name, pods });
    }
    merge_equal(found);
    run_policy(object, found, "/spec/runPolicy");
    let processes = "/spec/nprocPerNode";
    if let Some(count) = object.text(processes, "env: {PET_NPROC_PER_NODE}")
        && count.parse::<u64>().is_ok()
    {
        found.draft.env.push(("PET_NPROC_PER_NODE".to_owned(), count));
    }
}

/// Reads how a job of Kubeflow starts and ends: the same for all its kinds.
pub(super) fn run_policy(object: &mut ImportedObject, found: &mut FoundJob, policy: &str) {
    let deadline = format!("{policy}/activeDeadlineSeconds");
    if let Some(secs) = object.peek_number(&deadline) {
        object.near(
            &deadline,
            "time: counted from when the processes run, not from when the job starts",
        );
        found.draft.time_secs = Some(found.draft.time_secs.unwrap_or(u64::MAX).min(secs));
    }
    found.draft.restarts =
        object.number(&format!("{policy}/backoffLimit"), "restart").filter(|count| *count > 0);
    let group = format!("{policy}/schedulingPolicy");
    let least = format!("{group}/minAvailable");
    if let Some(pods) = object.number(&least, "the size of the job") {
        found.least = Some(LeastPods::of_job(found, least, pods));
    }
    if let Some(queue) = object.text(&format!("{group}/queue"), "queue") {
        found.draft.queue = found.draft.queue.take().or(Some(crate::queue::path(&queue)));
    }
    object.field(&format!("{policy}/suspend"), "the scheduler starts it");
    object.near(&format!("{policy}/cleanPodPolicy"), "tasks end with their job");
    object.near(
        &format!("{policy}/ttlSecondsAfterFinished"),
        "ended jobs are kept as their site says; those of `muster run` on Kubernetes for a week",
    );
}
