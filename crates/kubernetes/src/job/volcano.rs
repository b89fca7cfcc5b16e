//! Jobs of Volcano: what the phase of the Job means, and Volcano's reason for a pending one, which is in the
//! PodGroup that it makes for each.

use muster_model::Reason;
use muster_model::view::JobState;
use serde_json::Value;

use super::{JobObject, native};

/// API group of the objects that Volcano makes for jobs.
pub const GROUP: &str = "scheduling.volcano.sh";

/// Resource name of these objects.
pub const POD_GROUPS: &str = "podgroups";

/// Annotation of the pods of a Job with the name of its PodGroup.
const GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// Name of Volcano's scheduler, which is that of a Job that names none.
pub const SCHEDULER: &str = "volcano";

/// Next step for a job that a command or a policy has aborted.
pub(super) const ABORTED: &str = "Volcano aborted it, as a user or a policy of the job asked; `vcctl job resume --name NAME` starts it again";
/// Explanation of a job that a command or a policy has terminated.
pub(super) const TERMINATED: &str =
    "Volcano terminated it, as a user or a policy of the job asked; it cannot be resumed";

/// Returns true for a Job that Volcano's scheduler starts, and has not started.
#[must_use]
pub fn is_waiting(job: JobObject<'_>) -> bool {
    let scheduler = job.text("/spec/schedulerName");
    job.api.is_of_volcano()
        && matches!(scheduler, "" | SCHEDULER)
        && matches!(job.text("/status/state/phase"), "" | "Pending")
}

/// Returns the name of the PodGroup that Volcano has made for the Job of a pod.
#[must_use]
pub fn group_of_pod(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][GROUP_NAME].as_str()
}

/// Returns the id of the Job of a PodGroup, and Volcano's reason for not starting it; `None` for one that it
/// has started, and while it has said nothing.
#[must_use]
pub fn waiting_reason(pod_group: &Value) -> Option<(String, Reason)> {
    let owners = pod_group["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()?;
    let phase = pod_group.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    // The condition stays after the start.
    if matches!(phase, "Running" | "Completed") {
        return None;
    }
    let conditions = pod_group.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let said = conditions.find(|one| one["type"] == "Unschedulable" && one["status"] == "True");
    let text = |field: &str| said.and_then(|said| said[field].as_str());
    let reason = match text("message").filter(|message| !message.is_empty()) {
        Some(message) => native(text("reason").unwrap_or("Unschedulable"), message),
        None if phase == "Pending" => not_enqueued(pod_group),
        None => return None,
    };
    Some((owner.to_owned(), reason))
}

/// Returns the reason of a job that its queue has not let in; it has no pods until then.
fn not_enqueued(pod_group: &Value) -> Reason {
    let queue = pod_group.pointer("/spec/queue").and_then(Value::as_str).unwrap_or("default");
    let text = format!(
        "Volcano has not let it into its queue {queue}: that is full, closed or missing; `kubectl describe queues.scheduling.volcano.sh {queue}` shows which"
    );
    native("NotEnqueued", &text)
}

/// Returns the state of a Job between two stable phases, with a reason if it waits; `None` in all other phases.
/// `are_active` tells whether a pod still holds resources.
pub(super) fn passing(phase: &str, are_active: bool) -> Option<(JobState, Option<Reason>)> {
    match phase {
        "Aborting" | "Terminating" | "Completing" => Some((JobState::Stopping, None)),
        "Restarting" if are_active => Some((JobState::Stopping, None)),
        "Restarting" => {
            let text = "Volcano starts it again, and has not created the next pods yet";
            Some((JobState::Pending, Some(native("Restarting", text))))
        }
        _ => None,
    }
}
