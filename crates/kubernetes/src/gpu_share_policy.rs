//! Admission policy of the API server that tells the containers of pods with shares of GPUs which GPU they
//! have: by a variable that the kubelet fills from an annotation, which the scheduler sets with the binding.

use crate::mutating_policy::MutatingPolicy;
use crate::names::{self, VISIBLE_GPUS};

/// Returns the policy and its binding as YAML documents. `Ignore`: without its variable a pod waits, and says so.
pub(crate) fn render() -> [String; 2] {
    let named = |key: &str| {
        let holds = |map: &str| format!("(has({map}) && \"{key}\" in {map})");
        format!("{} || {}", holds("object.metadata.annotations"), holds("object.metadata.labels"))
    };
    let asks = [names::GPU_SHARE, names::KAI_FRACTION].map(named).join(" || ");
    let is_ours = format!(
        "has(object.spec.schedulerName) && object.spec.schedulerName == \"{}\"",
        names::SCHEDULER
    );
    let policy = MutatingPolicy {
        name: "muster-gpu-share",
        failure_policy: "Ignore",
        api: ["", "v1", "pods"],
        conditions: &[("scheduler", &is_ours), ("share", &asks)],
        variables: &[],
        patches: &patches(),
        namespace_label: None,
    };
    policy.render()
}

/// Returns an expression for the patches: each container gets the variable unless it has one of that name.
fn patches() -> String {
    let variable = format!(
        "Object.spec.containers.env{{name: \"{VISIBLE_GPUS}\", valueFrom: Object.spec.containers.env.valueFrom{{fieldRef: Object.spec.containers.env.valueFrom.fieldRef{{fieldPath: \"metadata.annotations['{}']\"}}}}}}",
        names::GPU_IDS
    );
    let at = "object.spec.containers[at]";
    let path = "\"/spec/containers/\" + string(at) + \"/env\"";
    format!(
        "lists.range(size(object.spec.containers)).filter(at, !has({at}.env) || {at}.env.all(one, one.name != \"{VISIBLE_GPUS}\")).map(at, has({at}.env) ? JSONPatch{{op: \"add\", path: {path} + \"/-\", value: {variable}}} : JSONPatch{{op: \"add\", path: {path}, value: [{variable}]}})"
    )
}
