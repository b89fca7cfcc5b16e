//! Admission policy that the API server evaluates itself: new objects that meet all conditions are patched.
//! Nothing of ours must run for that.

use serde_json::json;

/// Policy for new objects of one kind.
pub(crate) struct MutatingPolicy<'a> {
    /// Name of the policy and its binding.
    pub(crate) name: &'a str,
    /// Answer where an expression fails: `Fail` refuses the object, `Ignore` leaves it as it is.
    pub(crate) failure_policy: &'a str,
    /// API group, versions and resource of the objects.
    pub(crate) api: [&'a str; 3],
    /// Conditions by name, as CEL expressions.
    pub(crate) conditions: &'a [(&'a str, &'a str)],
    /// Values by name that the patches use, as CEL expressions without apostrophes.
    pub(crate) variables: &'a [(&'a str, &'a str)],
    /// CEL expression for a list of JSON patches.
    pub(crate) patches: &'a str,
    /// Label of the namespaces that it is for; `None` for all.
    pub(crate) namespace_label: Option<&'a str>,
}

impl MutatingPolicy<'_> {
    /// Returns the policy and its binding as YAML documents.
    pub(crate) fn render(&self) -> [String; 2] {
        [self.policy(), self.binding()]
    }

    fn policy(&self) -> String {
        let [group, versions, resource] = self.api;
        let condition = |(name, expression): &(&str, &str)| {
            format!("  - name: {name}\n    expression: {}\n", json!(expression))
        };
        let conditions: String = self.conditions.iter().map(condition).collect();
        let variable = |(name, expression): &(&str, &str)| {
            format!("  - name: {name}\n    expression: '{expression}'\n")
        };
        let mut variables: String = self.variables.iter().map(variable).collect();
        if !variables.is_empty() {
            variables.insert_str(0, "  variables:\n");
        }
        format!(
            "\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: {name}
spec:
  failurePolicy: {failure_policy}
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - apiGroups: [\"{group}\"]
      apiVersions: [\"{versions}\"]
      operations: [\"CREATE\"]
      resources: [\"{resource}\"]
  matchConditions:
{conditions}{variables}  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: {patches}
",
            name = self.name,
            failure_policy = self.failure_policy,
            patches = json!(self.patches),
        )
    }

    fn binding(&self) -> String {
        let namespaces = self.namespace_label.map_or(String::new(), |label| {
            format!(
                "  matchResources:\n    namespaceSelector:\n      matchExpressions:\n      - {{key: {label}, operator: Exists}}\n"
            )
        });
        format!(
            "\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {name}
spec:
  policyName: {name}
{namespaces}",
            name = self.name,
        )
    }
}
