//! Admission policy of the API server that tells the containers of pods with shares of GPUs which GPU they
//! have: by a variable that the kubelet fills from an annotation, which the scheduler sets with the binding.

use serde_json::json;

use crate::names::{self, VISIBLE_GPUS};

/// Name of the policy and its binding.
const NAME: &str = "muster-gpu-share";

/// Returns the policy as YAML documents. `Ignore`: without its variable a pod waits, and says so.
pub(crate) fn render() -> Vec<String> {
    let named = |key: &str| {
        let holds = |map: &str| format!("(has({map}) && \"{key}\" in {map})");
        format!("{} || {}", holds("object.metadata.annotations"), holds("object.metadata.labels"))
    };
    let asks = [names::GPU_SHARE, names::KAI_FRACTION].map(named).join(" || ");
    let is_ours = format!(
        "has(object.spec.schedulerName) && object.spec.schedulerName == \"{}\"",
        names::SCHEDULER
    );
    let policy = format!(
        "\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: {NAME}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - apiGroups: [\"\"]
      apiVersions: [\"v1\"]
      operations: [\"CREATE\"]
      resources: [\"pods\"]
  matchConditions:
  - name: scheduler
    expression: {is_ours}
  - name: share
    expression: {asks}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: {patches}
",
        is_ours = json!(is_ours),
        asks = json!(asks),
        patches = json!(patches()),
    );
    let binding = format!(
        "\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {NAME}
spec:
  policyName: {NAME}
"
    );
    vec![policy, binding]
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
