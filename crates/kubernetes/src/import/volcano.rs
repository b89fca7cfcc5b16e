//! Jobs of Volcano: a role for each task, and how many pods start together.

use super::found::{FoundJob, LeastPods, role};
use super::object::ImportedObject;
use super::pod::PodTemplate;

/// Starts of a Job of Volcano that names none, or 0 (batch.volcano.sh/v1alpha1).
const DEFAULT_MAX_RETRY: u64 = 3;

/// Reads a Job of Volcano: a role for each task.
pub(super) fn job(object: &mut ImportedObject, found: &mut FoundJob) {
    for at in object.children("/spec/tasks") {
        let name = object.text(&format!("{at}/name"), "the group's name");
        let pods = object.number(&format!("{at}/replicas"), "the number of tasks").unwrap_or(1);
        let template = format!("{at}/template");
        let name = name.unwrap_or_else(|| "main".to_owned());
        role(object, found, &PodTemplate { at: &template, role: &name, pods });
    }
    if let Some(pods) = object.number("/spec/minAvailable", "the size of the job") {
        let at = "/spec/minAvailable".to_owned();
        found.least = Some(LeastPods::of_job(found, at, pods));
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
        // The first start counts.
        let named = object.peek_number("/spec/maxRetry").filter(|starts| *starts > 0);
        let starts = named.unwrap_or(DEFAULT_MAX_RETRY);
        found.draft.restarts = Some(starts.saturating_sub(1)).filter(|count| *count > 0);
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
