//! Defects of Kueue's queues that their objects show: why a queue admits nothing, what it lends, and the
//! most that a workload can have from it. Objects are those of the API server, or of a file.

use serde_json::Value;

use crate::node::is_gpu;
use crate::quantity::units;

/// Returns why a ClusterQueue admits nothing; `None` if its object shows no reason.
#[must_use]
pub fn of_cluster_queue(queue: &Value) -> Option<String> {
    let conditions = queue["status"]["conditions"].as_array().into_iter().flatten();
    let inactive = |one: &&Value| one["type"] == "Active" && one["status"] == "False";
    if let Some(defect) = stopped(queue) {
        return Some(defect);
    }
    if let Some(condition) = conditions.into_iter().find(inactive) {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        return Some(format!("is not active: {} ({})", text("message"), text("reason")));
    }
    if queue["spec"]["namespaceSelector"].is_null() {
        return Some("has no namespaceSelector, so that it serves no namespace".to_owned());
    }
    let quotas = gpu_quotas(queue);
    let is_empty =
        !quotas.is_empty() && quotas.iter().all(|quota| units(&quota["nominalQuota"]) == 0);
    (is_empty && cohort(queue).is_empty()).then(|| {
        "admits no job with GPUs: their quota is 0, and there is no cohort to borrow from"
            .to_owned()
    })
}

/// Returns the policy by which an administrator has stopped a ClusterQueue or LocalQueue.
#[must_use]
pub fn stopped(queue: &Value) -> Option<String> {
    let policy = queue["spec"]["stopPolicy"].as_str()?;
    (policy != "None").then(|| format!("is stopped: stopPolicy is {policy}"))
}

/// Returns the cohort of a ClusterQueue, empty for none; `cohort` is its name in `v1beta1`.
#[must_use]
pub fn cohort(queue: &Value) -> &str {
    let spec = &queue["spec"];
    spec["cohortName"].as_str().or(spec["cohort"].as_str()).unwrap_or_default()
}

/// Returns the GPUs that a ClusterQueue lends to its cohort for as long as the others run; 0 if it
/// reclaims them, or lends none.
#[must_use]
pub fn lent_for_ever(queue: &Value) -> u64 {
    let reclaims = queue["spec"]["preemption"]["reclaimWithinCohort"].as_str().unwrap_or("Never");
    if cohort(queue).is_empty() || reclaims != "Never" {
        return 0;
    }
    let lent = gpu_quotas(queue).into_iter().map(|quota| match &quota["lendingLimit"] {
        Value::Null => units(&quota["nominalQuota"]),
        limit => units(limit),
    });
    lent.sum()
}

/// Returns true if a ClusterQueue has a quota of a resource; others are never admitted.
#[must_use]
pub fn covers(queue: &Value, resource: &str) -> bool {
    quotas(queue).any(|quota| quota["name"] == resource)
}

/// Returns the nominal quota of a resource in all flavors of a ClusterQueue.
#[must_use]
pub fn nominal(queue: &Value, resource: &str) -> u64 {
    let quotas = quotas(queue).filter(|quota| quota["name"] == resource);
    quotas.map(|quota| units(&quota["nominalQuota"])).fold(0, u64::saturating_add)
}

fn gpu_quotas(queue: &Value) -> Vec<&Value> {
    quotas(queue).filter(|one| one["name"].as_str().is_some_and(is_gpu)).collect()
}

/// Returns the quotas of a ClusterQueue, one for each flavor and resource.
fn quotas(queue: &Value) -> impl Iterator<Item = &Value> {
    let groups = queue["spec"]["resourceGroups"].as_array().into_iter().flatten();
    groups
        .flat_map(|group| group["flavors"].as_array().into_iter().flatten())
        .flat_map(|flavor| flavor["resources"].as_array().into_iter().flatten())
}
