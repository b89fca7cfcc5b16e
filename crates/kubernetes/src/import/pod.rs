//! Pod template of an object: resources and program of its tasks, and the options that all pods of a
//! job share. A value that differs between the roles of a job is noted as not converted.

use muster_document::child;
use serde_json::Value;

use super::command::{self, OwnNames};
use super::container;
use super::draft::{GroupDraft, JobDraft};
use super::files;
use super::object::ImportedObject;
use super::reasons::{DIFFERS, TOPOLOGY};
use crate::group::is_gang_key;
use crate::names;
use crate::node::is_gpu;
use crate::span;

/// A role's pods, as the object describes them.
pub(super) struct PodTemplate<'a> {
    /// Pointer of the template, which holds `metadata` and `spec`; empty for a pod.
    pub(super) at: &'a str,
    /// Name of the role.
    pub(super) role: &'a str,
    pub(super) pods: u64,
}

/// Reads a template; adds its group to the job, and returns the names of a job that was exported.
pub(super) fn read(
    object: &mut ImportedObject,
    template: &PodTemplate<'_>,
    job: &mut JobDraft,
) -> Option<OwnNames> {
    let PodTemplate { at, role, pods } = *template;
    let spec = format!("{at}/spec");
    let is_first = job.groups.is_empty();
    // 1. The containers that are tasks: the first, or equal ones that were exported.
    let containers = object.children(&format!("{spec}/containers"));
    let programs: Vec<_> = containers.iter().map(|at| command::program(object, at)).collect();
    let is_own =
        programs.iter().all(|program| program.as_ref().is_some_and(|one| one.own.is_some()));
    let tasks = if is_own { containers.len() } else { containers.len().min(1) };
    let mut group = GroupDraft {
        name: role.to_owned(),
        pods,
        tasks_per_pod: tasks.max(1) as u64,
        ..GroupDraft::default()
    };
    for (index, at) in containers.iter().enumerate().take(tasks).rev() {
        let options = job.kubernetes.clone();
        let task = container::read(object, at, &spec, job);
        // Equal containers have equal options.
        if index > 0 {
            job.kubernetes = options;
        }
        group.task = task;
    }
    if is_own {
        files::read(object, &spec, &containers, job);
    }
    for at in containers.iter().skip(tasks) {
        object.lost(at, super::reasons::CONTAINER);
    }
    let mut own = None;
    if let Some(Some(program)) = programs.into_iter().next() {
        group.task.run = program.run;
        own = program.own;
        job.ray = job.ray.take().or(program.ray);
    }
    if let Some(own) = &own {
        group.name.clone_from(&own.group);
    }
    // 2. Which nodes.
    nodes(object, &spec, job, &mut group, is_first);
    // 3. Everything else.
    metadata(object, at, job);
    ending(object, &spec, job);
    options(object, &spec, job, is_first);
    job.groups.push(group);
    own
}

/// Reads labels and annotations of the pods.
fn metadata(object: &mut ImportedObject, at: &str, job: &mut JobDraft) {
    let labels = format!("{at}/metadata/labels");
    for (key, _) in object.texts(&labels) {
        let at = child(&labels, &key);
        match key.as_str() {
            names::JOB | names::ROLE => object.field(&at, "written by the export"),
            names::QUEUE | names::KUEUE_QUEUE | names::KAI_QUEUE => queue(object, &at, &key, job),
            _ => object.near(&at, "labels of pods choose nothing in Muster"),
        }
    }
    let annotations = format!("{at}/metadata/annotations");
    for (key, value) in object.texts(&annotations) {
        let at = child(&annotations, &key);
        if object.is_noted(&at) {
            continue;
        }
        match key.as_str() {
            names::TIME_LIMIT => {
                job.time_secs = job.time_secs.or(span::parse(&value).map(|span| span.0 / 1000));
                object.field(&at, "time");
            }
            names::VOLCANO_QUEUE => queue(object, &at, &key, job),
            names::RESERVATION => {
                job.reservation = Some(value);
                object.field(&at, "reservation");
            }
            names::GANG_SIZE => object.field(&at, "the size of the job"),
            names::REQUIRED_TOPOLOGY | names::PREFERRED_TOPOLOGY => {
                let rule = if key == names::REQUIRED_TOPOLOGY { "required" } else { "preferred" };
                job.topology = Some((rule, value));
                object.field(&at, "topology");
            }
            names::KUEUE_REQUIRED_TOPOLOGY
            | names::KUEUE_PREFERRED_TOPOLOGY
            | names::KUEUE_SLICE_TOPOLOGY => {
                object.lost(&at, TOPOLOGY);
            }
            names::GPU_SHARE | names::KAI_FRACTION | "gpu-memory" | "gpu-fraction-num-devices" => {
                object.lost(&at, "a share of a GPU: write it as `gpus: 0.5` in the job file");
            }
            // How the PodGroup is named by its pods.
            _ if is_gang_key(&key) => {
                object.field(&at, "the size of the job");
            }
            _ if job.kubernetes.annotations.iter().any(|(known, _)| *known == key) => {
                object.field(&at, "kubernetes: {annotations}");
            }
            _ => {
                job.kubernetes.annotations.push((key, value));
                object.field(&at, "kubernetes: {annotations}");
            }
        }
    }
    object.field(&format!("{at}/metadata/creationTimestamp"), "set by the cluster");
    if !at.is_empty() {
        object.near(&format!("{at}/metadata/name"), "tasks are named by their rank");
    }
}

/// Reads the label of a queue.
pub(super) fn queue(object: &mut ImportedObject, at: &str, key: &str, job: &mut JobDraft) {
    let Some(name) = object.text(at, "queue") else { return };
    if name.is_empty() {
        return;
    }
    if matches!(key, names::QUEUE | names::VOLCANO_QUEUE | names::VOLCANO_QUEUE_LABEL) {
        job.queue = Some(crate::queue::path(&name));
    } else if key == names::KAI_QUEUE {
        object.near(at, "queue: KAI's queue; Muster's queue may have a path");
        job.queue = job.queue.take().or(Some(crate::queue::path(&name)));
    } else {
        object.near(at, "queue: the LocalQueue's name; Muster's queue may have a path");
        job.queue = job.queue.take().or(Some(name));
    }
}

/// Reads the time limit, and the time that a pod has to end.
fn ending(object: &mut ImportedObject, spec: &str, job: &mut JobDraft) {
    let deadline = format!("{spec}/activeDeadlineSeconds");
    if let Some(secs) = object.number(&deadline, "time") {
        job.time_secs = Some(secs);
    }
    let grace = format!("{spec}/terminationGracePeriodSeconds");
    if let Some(secs) = object.number(&grace, "grace") {
        job.grace_secs = Some(secs);
    }
    object.field(&format!("{spec}/restartPolicy"), "restart");
}

/// Reads the options of the pods that Kubernetes alone has.
fn options(object: &mut ImportedObject, spec: &str, job: &mut JobDraft, is_first: bool) {
    let mut one = |field: &str, target: &str, slot: &mut Option<String>| {
        let at = format!("{spec}/{field}");
        let Some(text) = object.text(&at, target) else { return };
        if is_first || slot.as_ref() == Some(&text) {
            *slot = Some(text);
        } else {
            object.lost(&at, DIFFERS);
        }
    };
    let options = &mut job.kubernetes;
    one("serviceAccountName", "kubernetes: {service-account}", &mut options.service_account);
    // The account that pods have without a name.
    options.service_account = options.service_account.take().filter(|name| name != "default");
    one("priorityClassName", "kubernetes: {priority-class}", &mut options.priority_class);
    one("runtimeClassName", "kubernetes: {runtime-class}", &mut options.runtime_class);
    for at in object.children(&format!("{spec}/imagePullSecrets")) {
        if let Some(name) = object.text(&format!("{at}/name"), "kubernetes: {pull-secrets}")
            && !options.pull_secrets.contains(&name)
        {
            options.pull_secrets.push(name);
        }
    }
    let host_network = format!("{spec}/hostNetwork");
    if object.is_set(&host_network) {
        options.is_host_network = true;
        object.field(&host_network, "kubernetes: {host-network}");
    }
    for (field, says) in [
        ("schedulerName", "the export's --scheduler"),
        ("schedulingGroup", "the size of the job"),
        ("subdomain", "the address of rank 0 is in $MASTER_ADDR"),
        ("hostname", "the address of rank 0 is in $MASTER_ADDR"),
        ("setHostnameAsFQDN", "the address of rank 0 is in $MASTER_ADDR"),
        ("serviceAccount", "kubernetes: {service-account}"),
    ] {
        object.field(&format!("{spec}/{field}"), says);
    }
    set_by_cluster(object, spec);
    // What is the default, or what the export writes.
    for (field, usual) in [
        ("shareProcessNamespace", Value::Bool(true)),
        ("dnsPolicy", "ClusterFirst".into()),
        ("dnsPolicy", "ClusterFirstWithHostNet".into()),
        ("hostNetwork", Value::Bool(false)),
        ("enableServiceLinks", Value::Bool(true)),
        ("preemptionPolicy", "PreemptLowerPriority".into()),
        ("priority", 0.into()),
        ("serviceAccountName", "default".into()),
    ] {
        let at = format!("{spec}/{field}");
        if object.get(&at) == Some(&usual) {
            object.field(&at, "as by default");
        }
    }
    if object
        .get(&format!("{spec}/securityContext"))
        .is_some_and(|value| *value == serde_json::json!({}))
    {
        object.field(&format!("{spec}/securityContext"), "as by default");
    }
}

/// Notes what the API server, its admission and the scheduler write into a pod.
fn set_by_cluster(object: &mut ImportedObject, spec: &str) {
    let says = "set by the cluster";
    for at in object.children(&format!("{spec}/tolerations")) {
        let key = object.peek_text(&format!("{at}/key")).unwrap_or_default();
        let is_usual = object.peek_number(&format!("{at}/tolerationSeconds")) == Some(300);
        if is_usual && EVICTIONS.contains(&key) {
            object.field(&at, says);
        }
    }
    for at in object.children(&format!("{spec}/volumes")) {
        let is_account =
            object.peek_text(&format!("{at}/name")).is_some_and(|name| name.starts_with(ACCOUNT));
        if is_account && object.get(&format!("{at}/projected")).is_some() {
            object.field(&at, says);
        }
    }
    for at in object.children(&format!("{spec}/containers/0/volumeMounts")) {
        if object.peek_text(&format!("{at}/name")).is_some_and(|name| name.starts_with(ACCOUNT)) {
            object.field(&at, says);
        }
    }
    if object.get("/metadata/uid").is_some() {
        object.field(&format!("{spec}/nodeName"), says);
    }
}

/// Taints that pods tolerate for five minutes without asking (admission plugin DefaultTolerationSeconds).
const EVICTIONS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// Start of the name of the volume with the credentials of a pod's service account.
const ACCOUNT: &str = "kube-api-access-";

/// Reads rules for nodes: labels, excluded nodes, and pods that avoid each other.
fn nodes(
    object: &mut ImportedObject,
    spec: &str,
    job: &mut JobDraft,
    group: &mut GroupDraft,
    is_first: bool,
) {
    let selector = format!("{spec}/nodeSelector");
    for (key, value) in object.texts(&selector) {
        let at = child(&selector, &key);
        label(object, &at, job, (key, value), is_first);
    }
    // The export tolerates the taint of the GPUs' resource; the cluster may have added the same.
    for toleration in object.children(&format!("{spec}/tolerations")) {
        let key = object.peek_text(&format!("{toleration}/key"));
        if key.is_some_and(|key| is_gpu(key) || job.kubernetes.gpu_resource.as_deref() == Some(key))
        {
            object.field(&toleration, "gpus");
        }
    }
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms =
        object.children(&format!("{spec}/affinity/nodeAffinity/{required}/nodeSelectorTerms"));
    // Several terms are alternatives, of which a job has none.
    if let [term] = &terms[..] {
        for rule in object.children(&format!("{term}/matchExpressions")) {
            rule_of_node(object, &rule, job, is_first);
        }
    }
    for term in object.children(&format!("{spec}/affinity/podAntiAffinity/{required}")) {
        let is_host = object.peek_text(&format!("{term}/topologyKey")) == Some(names::HOSTNAME);
        if is_host && selects_own(object, spec, &term) {
            group.is_spread = true;
            object.field(&term, "nodes");
        }
    }
}

fn label(
    object: &mut ImportedObject,
    at: &str,
    job: &mut JobDraft,
    label: (String, String),
    is_first: bool,
) {
    if !is_first && !job.labels.contains(&label) {
        return object.lost(at, DIFFERS);
    }
    object.field(at, "labels");
    if !job.labels.contains(&label) {
        job.labels.push(label);
    }
}

fn rule_of_node(object: &mut ImportedObject, rule: &str, job: &mut JobDraft, is_first: bool) {
    let text = |field: &str| object.peek_text(&format!("{rule}/{field}")).unwrap_or_default();
    let values: Vec<String> = object
        .children(&format!("{rule}/values"))
        .iter()
        .filter_map(|at| object.peek_text(at))
        .map(str::to_owned)
        .collect();
    match (text("operator"), text("key"), &values[..]) {
        ("NotIn", names::HOSTNAME, nodes) => {
            let new = nodes.iter().filter(|node| !job.exclude.contains(node)).cloned();
            job.exclude.extend(new.collect::<Vec<_>>());
            object.field(rule, "exclude");
        }
        ("In", key, [value]) => {
            let pair = (key.to_owned(), value.clone());
            label(object, rule, job, pair, is_first);
        }
        _ => object.lost(rule, "a job requires equal `labels`, or excludes nodes by name"),
    }
}

/// Returns true if a rule about other pods means those of the same template.
fn selects_own(object: &ImportedObject, spec: &str, term: &str) -> bool {
    let own = object.texts(&format!("{}/metadata/labels", spec.trim_end_matches("/spec")));
    let selected = object.texts(&format!("{term}/labelSelector/matchLabels"));
    let has_more = object.get(&format!("{term}/labelSelector/matchExpressions")).is_some();
    !selected.is_empty() && !has_more && selected.iter().all(|label| own.contains(label))
}
