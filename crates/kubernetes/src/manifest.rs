//! Manifests that install the scheduler: definitions of the queue objects, namespace, service account,
//! least rights, two replicas, a disruption budget, and policies for new workloads. JSON strings are
//! valid YAML, so every given text is written as one.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::admission_policy;
use crate::group::{APIS, workload};
use crate::names::USAGE;
use crate::queue;

/// Terms of an installation.
#[derive(Clone, Debug)]
pub struct Install {
    /// Image with the program.
    pub image: String,
    /// Namespace that is made for it.
    pub namespace: String,
    /// Topology levels, as `LEVEL=LABEL`.
    pub levels: Vec<String>,
    /// JSON Schema of the queue file, of which the definitions of queue objects are made.
    pub queue_schema: Value,
}

/// Name of all objects.
const NAME: &str = "muster-scheduler";

/// Rights in the whole cluster: API group, resources, verbs. Each is used by a request of
/// `muster-operator`; the tests on a real API server run with exactly these.
fn rules() -> Vec<(String, Vec<String>, Vec<&'static str>)> {
    let read = vec!["list", "watch"];
    let own = [
        ("", &["nodes", "persistentvolumeclaims", "persistentvolumes"][..], read.clone()),
        ("", &["pods"], vec!["get", "list", "watch", "delete"]),
        ("", &["pods/binding"], vec!["create"]),
        ("", &["pods/status"], vec!["patch"]),
        ("scheduling.k8s.io", &["priorityclasses"], read.clone()),
        ("events.k8s.io", &["events"], vec!["create"]),
    ];
    let mut rules: Vec<(String, Vec<String>, Vec<&'static str>)> = own
        .into_iter()
        .map(|(group, resources, verbs)| {
            (group.to_owned(), resources.iter().map(|&name| name.to_owned()).collect(), verbs)
        })
        .collect();
    for api in &APIS {
        let changes = workload::KINDS.contains(&api.kind);
        let verbs = if changes { vec!["get", "list", "watch", "patch"] } else { read.clone() };
        rules.push((api.group.to_owned(), vec![api.plural.to_owned()], verbs));
        if changes {
            rules.push((
                api.group.to_owned(),
                vec![format!("{}/status", api.plural)],
                vec!["patch"],
            ));
        }
    }
    let own = |plural: &str| plural.to_owned();
    rules.push((own(queue::GROUP), vec![own(queue::QUEUES), own(queue::POLICIES)], read));
    let statuses = [queue::QUEUES, queue::POLICIES].map(|plural| format!("{plural}/status"));
    rules.push((own(queue::GROUP), statuses.to_vec(), vec!["patch"]));
    rules
}

/// Returns the manifests as YAML.
#[must_use]
pub fn render(install: &Install) -> String {
    let namespace = json!(install.namespace);
    let account = format!(
        "\
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {NAME}
  namespace: {namespace}
"
    );
    let own = [("coordination.k8s.io", "leases", NAME), ("", "configmaps", USAGE)];
    let own: String = own
        .iter()
        .map(|(group, resource, name)| {
            format!(
                "\
- apiGroups: [{group:?}]
  resources: [{resource:?}]
  verbs: [\"create\"]
- apiGroups: [{group:?}]
  resources: [{resource:?}]
  resourceNames: [{name:?}]
  verbs: [\"get\", \"update\"]
"
            )
        })
        .collect();
    let mut cluster = String::new();
    for (group, resources, verbs) in rules() {
        let _ = writeln!(
            cluster,
            "- apiGroups: [{}]\n  resources: {}\n  verbs: {}",
            json!(group),
            json!(resources),
            json!(verbs)
        );
    }
    let definitions = queue::definitions(&install.queue_schema);
    let definitions = definitions.iter().map(|one| format!("{one:#}\n")).collect::<Vec<_>>();
    let documents = [
        definitions.join("---\n"),
        account,
        role("ClusterRole", "", &cluster),
        binding("ClusterRole", "", &install.namespace),
        role("Role", &format!("  namespace: {namespace}\n"), &own),
        binding("Role", &format!("  namespace: {namespace}\n"), &install.namespace),
        deployment(install),
    ];
    documents.into_iter().chain(admission_policy::render()).collect::<Vec<_>>().join("---\n")
}

fn role(kind: &str, namespace: &str, rules: &str) -> String {
    format!(
        "\
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata:
  name: {NAME}
{namespace}rules:
{rules}"
    )
}

/// Returns the binding of a role to the service account.
fn binding(role: &str, namespace: &str, account_namespace: &str) -> String {
    let account_namespace = json!(account_namespace);
    format!(
        "\
apiVersion: rbac.authorization.k8s.io/v1
kind: {role}Binding
metadata:
  name: {NAME}
{namespace}roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {role}
  name: {NAME}
subjects:
- kind: ServiceAccount
  name: {NAME}
  namespace: {account_namespace}
"
    )
}

fn deployment(install: &Install) -> String {
    let namespace = json!(install.namespace);
    let lease = format!("{}/{NAME}", install.namespace);
    let mut words = vec![
        "muster".to_owned(),
        "scheduler".to_owned(),
        "--listen=0.0.0.0:8080".to_owned(),
        format!("--lease={lease}"),
    ];
    words.extend(install.levels.iter().map(|level| format!("--level={level}")));
    let image = json!(install.image);
    format!(
        "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {NAME}
  namespace: {namespace}
spec:
  replicas: 2
  selector:
    matchLabels: {{app: {NAME}}}
  template:
    metadata:
      labels: {{app: {NAME}}}
    spec:
      serviceAccountName: {NAME}
      priorityClassName: system-cluster-critical
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm:
              topologyKey: kubernetes.io/hostname
              labelSelector:
                matchLabels: {{app: {NAME}}}
      containers:
      - name: scheduler
        image: {image}
        command: {}
        ports:
        - {{name: http, containerPort: 8080}}
        livenessProbe:
          httpGet: {{path: /healthz, port: http}}
          periodSeconds: 20
        readinessProbe:
          httpGet: {{path: /readyz, port: http}}
        resources:
          requests: {{cpu: 500m, memory: 512Mi}}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          runAsNonRoot: true
          runAsUser: 65532
          capabilities: {{drop: [ALL]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {NAME}
  namespace: {namespace}
spec:
  minAvailable: 1
  selector:
    matchLabels: {{app: {NAME}}}
",
        json!(words)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_texts_cannot_break_out() {
        let install = Install {
            image: "x\"\n  evil: true".to_owned(),
            namespace: "muster-system".to_owned(),
            levels: vec!["rack=example.com/rack".to_owned()],
            queue_schema: json!({"$defs": {"queue": {"type": "object"}}, "type": "object"}),
        };
        let text = render(&install);
        assert!(text.contains(r#"image: "x\"\n  evil: true""#), "{text}");
        assert!(text.contains(r#""--level=rack=example.com/rack""#));
    }
}
