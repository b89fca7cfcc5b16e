//! Manifests that install the scheduler: definitions of its objects, namespace, service account,
//! least rights, two replicas, a disruption budget, and policies for new workloads; as YAML, and as
//! the template of a Helm chart. JSON is valid YAML, so every given text is written as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::admission_policy;
use crate::device;
use crate::gpu_share_policy;
use crate::group::{APIS, workload};
use crate::kueue;
use crate::names::USAGE;
use crate::queue;
use crate::reservation::{self, RESERVATIONS};

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
    /// True if the queues are those of Kueue.
    pub reads_kueue: bool,
}

/// Name of all objects but one.
const NAME: &str = "muster-scheduler";
/// Role of users who ask why pods wait, which administrators bind.
const VIEWER: &str = "muster-viewer";
/// Role of users who create and delete advance reservations, which administrators bind.
pub const RESERVER: &str = "muster-reserver";

/// Objects that the scheduler updates by name: API group, resource, name.
const OWN: [(&str, &str, &str); 2] =
    [("coordination.k8s.io", "leases", NAME), ("", "configmaps", USAGE)];

/// Right: API group, resources, verbs.
type Rule = (String, Vec<String>, Vec<&'static str>);

/// Returns the rights in the whole cluster. The tests on a real API server run with exactly these, and find
/// those that no request uses (`cargo xtask kubernetes test`).
fn rules(reads_kueue: bool) -> Vec<Rule> {
    let read = vec!["list", "watch"];
    let own = [
        ("", &["nodes", "persistentvolumeclaims", "persistentvolumes"][..], read.clone()),
        ("", &["pods"], vec!["get", "list", "watch", "delete"]),
        ("", &["pods/binding"], vec!["create"]),
        ("", &["pods/status"], vec!["patch"]),
        ("scheduling.k8s.io", &["priorityclasses"], read.clone()),
        ("events.k8s.io", &["events"], vec!["create"]),
        (device::GROUP, &[device::CLASSES, device::SLICES, device::TEMPLATES], read.clone()),
        (device::GROUP, &[device::CLAIMS], vec!["get", "list", "watch", "patch"]),
        // To give devices, newer versions ask for the second one too.
        (device::GROUP, &["resourceclaims/status", "resourceclaims/binding"], vec!["update"]),
        (queue::GROUP, &[RESERVATIONS], read.clone()),
        (queue::GROUP, &["advancereservations/status"], vec!["patch"]),
    ];
    let mut rules: Vec<Rule> = own
        .into_iter()
        .map(|(group, resources, verbs)| {
            (group.to_owned(), resources.iter().map(|&name| name.to_owned()).collect(), verbs)
        })
        .collect();
    for api in &APIS {
        let changes = workload::KINDS.contains(&api.kind);
        let verbs = if changes { vec!["get", "list", "watch", "patch"] } else { read.clone() };
        rules.push((api.group.to_owned(), vec![api.plural.to_owned()], verbs));
        if changes && !workload::lacks_conditions(api.kind) {
            rules.push((
                api.group.to_owned(),
                vec![format!("{}/status", api.plural)],
                vec!["patch"],
            ));
        }
    }
    let mut rule = |group: &str, resources: &[&str], verbs: Vec<&'static str>| {
        let resources = resources.iter().map(|&name| name.to_owned()).collect();
        rules.push((group.to_owned(), resources, verbs));
    };
    let queues = QueueKinds::of(reads_kueue);
    if reads_kueue {
        rule("", &["namespaces"], read.clone());
    }
    rule(queues.group, queues.all, read);
    let status = queues.with_status.map(|plural| format!("{plural}/status"));
    rule(queues.group, &status.each_ref().map(String::as_str), vec!["patch"]);
    rules
}

/// Objects that describe the queues.
struct QueueKinds {
    /// API group of all of them.
    group: &'static str,
    /// Resource names in addresses.
    all: &'static [&'static str],
    /// Those whose status the scheduler writes.
    with_status: [&'static str; 2],
}

impl QueueKinds {
    fn of(reads_kueue: bool) -> Self {
        use kueue::{CLUSTER_QUEUES, COHORTS, FLAVORS, LOCAL_QUEUES};
        use queue::{POLICIES, QUEUES};
        if reads_kueue {
            let all = &[CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, FLAVORS];
            Self { group: kueue::GROUP, all, with_status: [CLUSTER_QUEUES, LOCAL_QUEUES] }
        } else {
            let all = &[QUEUES, POLICIES];
            Self { group: queue::GROUP, all, with_status: [QUEUES, POLICIES] }
        }
    }
}

/// Returns the rights of users who ask why pods wait: to read all that a plan depends on.
fn rules_of_viewers(reads_kueue: bool) -> Vec<Rule> {
    let queues = QueueKinds::of(reads_kueue);
    let namespaces = reads_kueue.then_some(("", &["namespaces"][..]));
    let lists = [
        ("", &["nodes", "persistentvolumeclaims", "persistentvolumes"][..]),
        ("scheduling.k8s.io", &["priorityclasses"]),
        (device::GROUP, &[device::CLASSES, device::SLICES, device::CLAIMS, device::TEMPLATES]),
        (queues.group, queues.all),
        (queue::GROUP, &[RESERVATIONS]),
    ];
    let list = |(group, resources): (&str, &[&str])| {
        let resources = resources.iter().map(|&name| name.to_owned()).collect();
        (group.to_owned(), resources, vec!["list"])
    };
    // Those that a user can name are also looked up.
    let named = APIS.iter().map(|api| (api.group, api.plural)).chain([("", "pods")]);
    let look_up = |(group, plural): (&str, &str)| {
        (group.to_owned(), vec![plural.to_owned()], vec!["get", "list"])
    };
    lists.into_iter().chain(namespaces).map(list).chain(named.map(look_up)).collect()
}

/// Returns the rights of users who create and delete advance reservations: to see what becomes of them, too.
fn rules_of_reservers() -> Vec<Rule> {
    let verbs = vec!["get", "list", "watch", "create", "delete"];
    vec![(queue::GROUP.to_owned(), vec![RESERVATIONS.to_owned()], verbs)]
}

/// Returns rights as items of a YAML list.
fn rules_text(rules: &[Rule]) -> String {
    let mut text = String::new();
    for (group, resources, verbs) in rules {
        let _ = writeln!(
            text,
            "- apiGroups: [{}]\n  resources: {}\n  verbs: {}",
            json!(group),
            json!(resources),
            json!(verbs)
        );
    }
    text
}

/// Returns the right to these verbs for the lease and the recorded usage, as items of a YAML list.
fn rules_on_own(verbs: &[&str]) -> String {
    let one = |(group, resource, name): &(&str, &str, &str)| {
        let verbs = json!(verbs);
        format!(
            "\
- apiGroups: [{group:?}]
  resources: [{resource:?}]
  resourceNames: [{name:?}]
  verbs: {verbs}
"
        )
    };
    OWN.iter().map(one).collect()
}

/// Texts of the manifests that differ between installations, in JSON or as template expressions.
struct Texts {
    image: String,
    namespace: String,
    /// Command of the container.
    command: String,
    /// Further lines of the pod's specification.
    pod: &'static str,
}

impl Texts {
    fn of(install: &Install) -> Self {
        let mut command = command(&install.namespace);
        if install.reads_kueue {
            command.push("--queues-from=kueue".to_owned());
        }
        command.push(format!("{HOLDER_IMAGE}{}", install.image));
        command.extend(install.levels.iter().map(|level| format!("--level={level}")));
        Self {
            image: json!(install.image).to_string(),
            namespace: json!(install.namespace).to_string(),
            command: json!(command).to_string(),
            pod: "",
        }
    }

    /// Returns expressions for the values of the chart's `values.yaml`.
    fn of_chart() -> Self {
        const NAMESPACE: &str = "{{ .Release.Namespace }}";
        const LEVELS: &str =
            r#"{{ range .Values.levels }},{{ printf "--level=%s" . | toJson }}{{ end }}]"#;
        const HOLDERS: &str = r#"{{ printf "--gpu-holder-image=%s" .Values.image | toJson }}"#;
        let command = json!(command(NAMESPACE)).to_string();
        Self {
            image: r#"{{ required "set image: an image with the program muster in its PATH" .Values.image | toJson }}"#
                .to_owned(),
            namespace: json!(NAMESPACE).to_string(),
            command: format!("{},{HOLDERS}{LEVELS}", command.trim_end_matches(']')),
            pod: CHART_POD,
        }
    }
}

/// Settings of the pod that a chart can have beside those of `muster init kubernetes`.
const CHART_POD: &str = "\
{{- with .Values.imagePullSecrets }}
      imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
      nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
      tolerations: {{ toJson . }}
{{- end }}
";

/// Option for the image of pods that hold GPUs for others, which is that of the scheduler.
const HOLDER_IMAGE: &str = "--gpu-holder-image=";

fn command(namespace: &str) -> Vec<String> {
    let lease = format!("--lease={namespace}/{NAME}");
    ["muster", "scheduler", "--listen=0.0.0.0:8080", &lease].map(str::to_owned).to_vec()
}

/// Returns the manifests as YAML.
#[must_use]
pub fn render(install: &Install) -> String {
    let texts = Texts::of(install);
    let namespace = format!(
        "\
apiVersion: v1
kind: Namespace
metadata:
  name: {}
",
        texts.namespace
    );
    let mut documents = vec![namespace];
    let mut definitions = vec![reservation::definition()];
    if !install.reads_kueue {
        definitions.extend(queue::definitions(&install.queue_schema));
    }
    documents.insert(0, definitions_text(&definitions));
    documents.extend(namespaced(&texts));
    documents.extend(cluster_wide(install.reads_kueue));
    documents.join("---\n")
}

/// Returns the template of a Helm chart with the same objects, and with Muster's own queue objects. The
/// namespace is missing: Helm creates it (`--create-namespace`). The definitions of the queue objects,
/// and with them the queues, stay when the chart is removed.
#[must_use]
pub fn chart_template(queue_schema: &Value) -> String {
    let mut definitions = queue::definitions(queue_schema);
    definitions.push(reservation::definition());
    for definition in &mut definitions {
        definition["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    }
    let plain = std::iter::once(definitions_text(&definitions)).chain(cluster_wide(false));
    // What opens an expression in a template stands for itself in the other objects.
    let mut documents: Vec<String> =
        plain.map(|document| document.replace("{{", r#"{{ "{{" }}"#)).collect();
    documents.extend(namespaced(&Texts::of_chart()));
    documents.join("---\n")
}

fn definitions_text(definitions: &[Value]) -> String {
    definitions.iter().map(|one| format!("{one:#}\n")).collect::<Vec<_>>().join("---\n")
}

/// Returns the cluster-scoped objects that do not refer to the scheduler's namespace.
fn cluster_wide(reads_kueue: bool) -> Vec<String> {
    let of_viewers =
        format!("{}{}", rules_text(&rules_of_viewers(reads_kueue)), rules_on_own(&["get"]));
    let mut documents = vec![
        role("ClusterRole", NAME, "", &rules_text(&rules(reads_kueue))),
        role("ClusterRole", VIEWER, "", &of_viewers),
        role("ClusterRole", RESERVER, "", &rules_text(&rules_of_reservers())),
    ];
    documents.extend(admission_policy::render(reads_kueue));
    documents.extend(gpu_share_policy::render());
    documents
}

/// Returns the objects in the namespace of the scheduler, and the binding of its account.
fn namespaced(texts: &Texts) -> Vec<String> {
    let namespace = &texts.namespace;
    let account = format!(
        "\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {NAME}
  namespace: {namespace}
"
    );
    // Pods that hold GPUs for others.
    let created = OWN.iter().map(|(group, resource, _)| (*group, *resource)).chain([("", "pods")]);
    let creations: String = created
        .map(|(group, resource)| {
            format!(
                "- apiGroups: [{group:?}]\n  resources: [{resource:?}]\n  verbs: [\"create\"]\n"
            )
        })
        .collect();
    let own = format!("{creations}{}", rules_on_own(&["get", "update"]));
    let in_namespace = format!("  namespace: {namespace}\n");
    vec![
        account,
        binding("ClusterRole", "", namespace),
        role("Role", NAME, &in_namespace, &own),
        binding("Role", &in_namespace, namespace),
        deployment(texts),
    ]
}

fn role(kind: &str, name: &str, namespace: &str, rules: &str) -> String {
    format!(
        "\
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata:
  name: {name}
{namespace}rules:
{rules}"
    )
}

/// Returns the binding of a role to the service account.
fn binding(role: &str, namespace: &str, account_namespace: &str) -> String {
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

fn deployment(texts: &Texts) -> String {
    let Texts { image, namespace, command, pod } = texts;
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
      annotations: {{prometheus.io/scrape: 'true', prometheus.io/port: '8080'}}
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
        command: {command}
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
{pod}---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {NAME}
  namespace: {namespace}
spec:
  minAvailable: 1
  selector:
    matchLabels: {{app: {NAME}}}
"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn install() -> Install {
        Install {
            image: "registry.example.com/muster:1".to_owned(),
            namespace: "muster-system".to_owned(),
            levels: vec!["rack=example.com/rack".to_owned()],
            queue_schema: json!({"$defs": {"queue": {"type": "object"}}, "type": "object"}),
            reads_kueue: false,
        }
    }

    #[test]
    fn given_texts_cannot_break_out() {
        let text = render(&Install { image: "x\"\n  evil: true".to_owned(), ..install() });
        assert!(text.contains(r#"image: "x\"\n  evil: true""#), "{text}");
        assert!(text.contains(r#""--level=rack=example.com/rack""#));
    }

    #[test]
    fn rights_and_objects_are_those_of_one_kind_of_queues() {
        let own = render(&install());
        assert!(own.contains("CustomResourceDefinition") && !own.contains("clusterqueues"));
        let of_kueue = render(&Install { reads_kueue: true, ..install() });
        assert!(of_kueue.contains(r#""--queues-from=kueue""#), "{of_kueue}");
        assert!(of_kueue.contains(r#"resources: ["clusterqueues/status","localqueues/status"]"#));
        let count = |kind: &str| of_kueue.matches(&format!("\"kind\": \"{kind}\"")).count();
        assert_eq!(count("CustomResourceDefinition"), 1, "only that of advance reservations");
        assert!(!of_kueue.contains("schedulerp"));
    }

    /// Evaluates the expressions of the chart, as Helm does with the settings of `install`.
    fn evaluated(template: &str) -> String {
        let Texts { image, command, .. } = Texts::of_chart();
        let range = command.split_once("{{ range").unwrap().1.trim_end_matches(']');
        template
            .replace(&image, r#""registry.example.com/muster:1""#)
            .replace(&format!("{{{{ range{range}"), r#","--level=rack=example.com/rack""#)
            .replace(
                r#"{{ printf "--gpu-holder-image=%s" .Values.image | toJson }}"#,
                r#""--gpu-holder-image=registry.example.com/muster:1""#,
            )
            .replace(CHART_POD, "")
            .replace("{{ .Release.Namespace }}", "muster-system")
            .replace(r#"{{ "{{" }}"#, "{{")
    }

    #[test]
    fn the_chart_has_the_same_objects() {
        let documents = |text: &str| -> BTreeSet<String> {
            let is_other = |document: &&str| {
                !document.contains("kind: Namespace") && !document.contains("CustomResource")
            };
            text.split("---\n").filter(is_other).map(str::to_owned).collect()
        };
        let chart = evaluated(&chart_template(&install().queue_schema));
        let plain = render(&install());
        assert_eq!(documents(&chart), documents(&plain));
        let count = |text: &str| text.matches("\"kind\": \"CustomResourceDefinition\"").count();
        assert_eq!((count(&chart), count(&plain)), (3, 3));
    }

    /// Helm takes a misspelt value as an empty one.
    #[test]
    fn every_value_of_the_chart_has_a_default() {
        let values = include_str!("../../../packaging/helm/muster/values.yaml");
        let template = chart_template(&install().queue_schema);
        let keys: BTreeSet<String> = template
            .split(".Values.")
            .skip(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).collect())
            .collect();
        assert!(keys.contains("image") && keys.contains("levels"), "{keys:?}");
        for key in &keys {
            assert!(values.contains(&format!("\n{key}:")), "values.yaml has no {key}");
        }
        let given = values.lines().filter_map(|line| line.split_once(':')).map(|(key, _)| key);
        for key in given.filter(|key| !key.starts_with(['#', ' '])) {
            assert!(keys.contains(key), "the template does not use {key}");
        }
    }

    /// Users who explain only look up what they name.
    #[test]
    fn viewers_get_only_what_they_name() {
        for reads_kueue in [false, true] {
            let rules = rules_of_viewers(reads_kueue);
            let can_get: BTreeSet<&str> = rules
                .iter()
                .filter(|(_, _, verbs)| verbs.contains(&"get"))
                .flat_map(|(_, resources, _)| resources)
                .map(String::as_str)
                .collect();
            let named: BTreeSet<&str> = APIS.iter().map(|api| api.plural).chain(["pods"]).collect();
            assert_eq!(can_get, named);
            assert!(rules.iter().all(|(_, _, verbs)| verbs.contains(&"list")));
        }
    }

    #[test]
    fn the_chart_has_the_version_of_the_program() {
        let chart = include_str!("../../../packaging/helm/muster/Chart.yaml");
        let version = env!("CARGO_PKG_VERSION");
        assert!(chart.contains(&format!("\nversion: {version}\n")), "{chart}");
        assert!(chart.contains(&format!("\nappVersion: {version}\n")), "{chart}");
    }
}
