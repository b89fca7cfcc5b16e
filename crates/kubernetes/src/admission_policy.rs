//! Admission policies of the API server that suspend new workloads in namespaces that opt in, and
//! have their pods ask for Muster's scheduler. The API server evaluates them itself: nothing of ours
//! must run for a Job to be created.

use serde_json::json;

use crate::names;

/// Name of all objects.
const NAME: &str = "muster-admission";

/// Workload that is not made by another object, which would undo a change.
const IS_ON_TOP: &str = "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(owner, !has(owner.controller) || !owner.controller || owner.kind == \"CronJob\")";

/// Kind of workload whose new objects are suspended.
struct Kind {
    /// API group, version and resource.
    api: (&'static str, &'static str, &'static str),
    /// Expression that is true if no pod asks for a scheduler other than the default or Muster.
    is_unclaimed: String,
    /// Expression for the patches that make all pods ask for Muster's scheduler.
    scheduler_patches: String,
}

fn kinds() -> Vec<Kind> {
    let schedulers = json!(["default-scheduler", names::SCHEDULER]);
    vec![Kind {
        api: ("batch", "v1", "jobs"),
        is_unclaimed: format!(
            "!has(object.spec.template.spec.schedulerName) || object.spec.template.spec.schedulerName in {schedulers}"
        ),
        scheduler_patches: format!(
            "[JSONPatch{{op: \"add\", path: \"/spec/template/spec/schedulerName\", value: \"{}\"}}]",
            names::SCHEDULER
        ),
    }]
}

/// Returns the policies as YAML documents.
pub(crate) fn render() -> Vec<String> {
    kinds().iter().flat_map(|kind| [kind.policy(), kind.binding()]).collect()
}

impl Kind {
    fn name(&self) -> String {
        format!("{NAME}-{}", self.api.2)
    }

    /// Returns the policy. `Fail`: a Job that is created although it cannot be suspended would pass
    /// the queue.
    fn policy(&self) -> String {
        let (group, version, resource) = self.api;
        let label = names::QUEUE;
        let escaped = label.replace('/', "~1");
        format!(
            "\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: {name}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - apiGroups: [\"{group}\"]
      apiVersions: [\"{version}\"]
      operations: [\"CREATE\"]
      resources: [\"{resource}\"]
  matchConditions:
  - name: on-top
    expression: {on_top}
  - name: unclaimed
    expression: {unclaimed}
  variables:
  - name: labels
    expression: 'has(object.metadata.labels) ? object.metadata.labels : {{}}'
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{{op: \"add\", path: \"/spec/suspend\", value: true}}]
        + {scheduler_patches}
        + (has(object.metadata.labels) ? [] :
        [JSONPatch{{op: \"add\", path: \"/metadata/labels\", value: Object.metadata.labels{{}}}}])
        + (\"{label}\" in variables.labels ? [] :
        [JSONPatch{{op: \"add\", path: \"/metadata/labels/{escaped}\",
        value: namespaceObject.metadata.labels[\"{label}\"]}}])
",
            name = self.name(),
            on_top = json!(IS_ON_TOP),
            unclaimed = json!(self.is_unclaimed),
            scheduler_patches = self.scheduler_patches,
        )
    }

    /// Returns the binding, which restricts the policy to namespaces with a queue label.
    fn binding(&self) -> String {
        format!(
            "\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {name}
spec:
  policyName: {name}
  matchResources:
    namespaceSelector:
      matchExpressions:
      - {{key: {label}, operator: Exists}}
",
            name = self.name(),
            label = names::QUEUE,
        )
    }
}
