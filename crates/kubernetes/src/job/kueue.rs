//! Kueue's reason for a pending job: a condition of the Workload that it creates for each job.

use muster_model::Reason;
use serde_json::Value;

use super::{JobObject, native};
use crate::group::workload;
use crate::names;

/// API group of Kueue's objects.
pub const GROUP: &str = "kueue.x-k8s.io";

/// Resource name of the objects that Kueue makes for jobs.
pub const WORKLOADS: &str = "workloads";

/// Conditions that keep a Workload from starting while they are false, in the order in which Kueue
/// meets them.
const STEPS: [&str; 2] = ["QuotaReserved", "Admitted"];

/// Meaning of the reason of a job that asks for more than the quota of its queue.
const NEVER: &str = ": it never starts while this is the quota";

/// Returns true for a job that Kueue starts, and has not started.
#[must_use]
pub fn is_waiting(job: JobObject<'_>) -> bool {
    job.is_suspended()
        && job.label(names::KUEUE_QUEUE).is_some()
        && job.label(names::QUEUE).is_none()
        // Muster reads Kueue's queues.
        && workload::admission(job.object).is_none()
}

/// Returns the reason of a job for which Kueue has said nothing yet.
#[must_use]
pub fn not_admitted(queue: &str) -> Reason {
    let text = format!(
        "Kueue has not admitted it to its queue {queue}; `kubectl get workloads` shows why"
    );
    native("Suspended", &text)
}

/// Returns the id of the job of a Workload, and Kueue's reason for not admitting it; `None` for one that it has
/// admitted, and while it has said nothing.
#[must_use]
pub fn waiting_reason(workload: &Value) -> Option<(String, Reason)> {
    let owners = workload["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()?;
    let conditions = workload["status"]["conditions"].as_array()?;
    let step = |kind: &&str| conditions.iter().find(|one| one["type"] == **kind);
    let said = STEPS.iter().filter_map(step).find(|one| one["status"] == "False")?;
    let word = said["reason"].as_str().unwrap_or_default();
    let message = said["message"].as_str()?;
    let never = if is_beyond_all_quotas(message) { NEVER } else { "" };
    Some((owner.to_owned(), native(word, &format!("{message}{never}"))))
}

/// Returns true if a message compares the request with quotas that are smaller, and names no flavor in which it could fit
/// later (Kueue 0.19).
fn is_beyond_all_quotas(message: &str) -> bool {
    message.contains("> maximum capacity") && !message.contains("insufficient unused quota")
}
