//! Template of the pods of a role: containers, devices, volumes and the choice of nodes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use muster_model::kubernetes::EnvSource;
use muster_model::{Span, TopologyRule};

use super::command::{command, literal};
use super::{GangScheduler, JobKind, JobShape, Role};
use super::{files, secret};
use crate::{checkpoint, gpu_share, names};

/// Resource of NVIDIA's device plugin.
pub const NVIDIA: &str = "nvidia.com/gpu";

/// Returns the template of a role's pods.
pub(super) fn template(job: &JobShape<'_>, role: &Role<'_>) -> Value {
    let mut metadata = json!({"labels": labels(job, role)});
    let mut annotations = annotations(job);
    if let Some(key) = share_annotation(job.input.scheduler)
        && role.group.task.gpu.share.0 > 0
    {
        annotations.insert(key.to_owned(), role.group.task.gpu.share.to_string().into());
    }
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    json!({"metadata": metadata, "spec": specification(job, role)})
}

/// Returns the annotation by which a pod asks a scheduler for a share of a GPU; `None` where it gives none.
pub(super) fn share_annotation(scheduler: GangScheduler) -> Option<&'static str> {
    match scheduler {
        GangScheduler::Muster => Some(names::GPU_SHARE),
        GangScheduler::Kai => Some(names::KAI_FRACTION),
        GangScheduler::Volcano
        | GangScheduler::Kueue
        | GangScheduler::PodGroups
        | GangScheduler::None => None,
    }
}

fn labels(job: &JobShape<'_>, role: &Role<'_>) -> Value {
    let mut labels = json!({names::JOB: job.name, names::ROLE: role.name});
    // Replicas are no gang, whose object would name the queue for all.
    if job.service().is_some()
        && job.input.scheduler == GangScheduler::Muster
        && let Some(queue) = job.queue()
    {
        labels[names::QUEUE] = queue.into();
    }
    labels
}

fn annotations(job: &JobShape<'_>) -> Map<String, Value> {
    let spec = job.input.spec;
    let given = job.input.options.annotations.iter();
    let mut annotations: Map<String, Value> =
        given.map(|(name, value)| (name.to_string(), json!(**value))).collect();
    if job.service().is_some()
        && job.input.scheduler == GangScheduler::Volcano
        && let Some(queue) = job.queue()
    {
        annotations.insert(names::VOLCANO_QUEUE.to_owned(), queue.into());
    }
    if job.input.scheduler == GangScheduler::Muster {
        let mut set = |name: &str, value: String| annotations.insert(name.to_owned(), value.into());
        if let Some(limit) = spec.time_limit {
            set(names::TIME_LIMIT, limit.0.div_ceil(1000).to_string());
        }
        if let Some(reservation) = &spec.constraint.advance_reservation {
            set(names::RESERVATION, reservation.to_string());
        }
        if spec.array.is_some() {
            set(names::GANG_SIZE, "1".to_owned());
        }
        match spec.constraint.topology.as_ref().map(|topology| &topology.rule) {
            Some(TopologyRule::Required(level)) => set(names::REQUIRED_TOPOLOGY, level.to_string()),
            Some(TopologyRule::Preferred(level)) => {
                set(names::PREFERRED_TOPOLOGY, level.to_string())
            }
            Some(TopologyRule::Anywhere | TopologyRule::Spread(_)) | None => None,
        };
    }
    annotations
}

fn specification(job: &JobShape<'_>, role: &Role<'_>) -> Value {
    let spec = job.input.spec;
    let options = job.input.options;
    let containers: Vec<Value> =
        (0..role.tasks_per_pod).map(|task| container(job, role, task)).collect();
    let mut pod = json!({
        "restartPolicy": "Never",
        // So that no program is process 1, which SIGTERM does not end unless it handles it.
        "shareProcessNamespace": true,
        "containers": containers,
        "terminationGracePeriodSeconds": grace(job).0.div_ceil(1000),
    });
    let mut set = |name: &str, value: Value| pod[name] = value;
    if job.service().is_some() {
        set("restartPolicy", json!("Always"));
    }
    match job.input.scheduler {
        GangScheduler::Muster => set("schedulerName", json!(names::SCHEDULER)),
        GangScheduler::Volcano => set("schedulerName", json!("volcano")),
        GangScheduler::Kai => set("schedulerName", json!(names::KAI_SCHEDULER)),
        GangScheduler::PodGroups if job.pods() > 1 => {
            set("schedulingGroup", json!({"podGroupName": job.name}));
        }
        GangScheduler::PodGroups | GangScheduler::Kueue | GangScheduler::None => {}
    }
    if job.kind == JobKind::Job && job.pods() > 1 {
        set("subdomain", json!(job.name));
    }
    if let Some(limit) = spec.time_limit.filter(|_| job.service().is_none()) {
        set("activeDeadlineSeconds", json!(limit.0.div_ceil(1000)));
    }
    if let Some(copier) = files::files_container(job, resources(job, role)) {
        set("initContainers", json!([copier]));
    }
    let volumes = volumes(job, role);
    if !volumes.is_empty() {
        set("volumes", volumes.into());
    }
    if !spec.constraint.labels.is_empty() {
        let labels = spec.constraint.labels.iter();
        set("nodeSelector", labels.map(|(key, value)| (key.to_string(), json!(**value))).collect());
    }
    if let Some(affinity) = affinity(job, role) {
        set("affinity", affinity);
    }
    if !role.group.task.gpu.is_none() {
        set("tolerations", json!([toleration(job)]));
    }
    let named = [
        ("serviceAccountName", &options.service_account),
        ("priorityClassName", &options.priority_class),
        ("runtimeClassName", &options.runtime_class),
    ];
    for (field, name) in named {
        if let Some(name) = name {
            set(field, json!(**name));
        }
    }
    if !options.pull_secrets.is_empty() {
        let secrets = options.pull_secrets.iter();
        set("imagePullSecrets", secrets.map(|name| json!({"name": **name})).collect());
    }
    if options.host_network {
        set("hostNetwork", json!(true));
        set("dnsPolicy", json!("ClusterFirstWithHostNet"));
    }
    pod
}

fn container(job: &JobShape<'_>, role: &Role<'_>, task: u32) -> Value {
    let options = job.input.options;
    let name = if role.tasks_per_pod == 1 { "main".to_owned() } else { format!("task{task}") };
    let mut container = json!({
        "name": name,
        "image": options.image.as_deref(),
        "command": command(job, role, task),
        "resources": resources(job, role),
    });
    let mut set = |name: &str, value: Value| container[name] = value;
    let mut env: Vec<Value> = job
        .input
        .env
        .iter()
        .map(|(name, value)| {
            secret::variable(job, name)
                .unwrap_or_else(|| json!({"name": name, "value": literal(value)}))
        })
        .collect();
    if role.group.task.gpu.share.0 > 0 && job.input.scheduler == GangScheduler::Muster {
        env.push(gpu_share::variable());
    }
    if !env.is_empty() {
        set("env", env.into());
    }
    if !options.env_from.is_empty() {
        let sources = options.env_from.iter().map(|source| match source {
            EnvSource::Secret(name) => json!({"secretRef": {"name": **name}}),
            EnvSource::ConfigMap(name) => json!({"configMapRef": {"name": **name}}),
        });
        set("envFrom", sources.collect());
    }
    if let Some(workdir) = files::workdir(job) {
        set("workingDir", json!(workdir));
    }
    if let Some(hook) = checkpoint_hook(job, task) {
        set("lifecycle", hook);
    }
    let mut mounts: Vec<Value> = files::mount(job).into_iter().collect();
    if has_shared_memory(job, role) {
        mounts.push(json!({"name": "shm", "mountPath": "/dev/shm"}));
    }
    for (number, volume) in options.volumes.iter().enumerate() {
        let mut mount = json!({"name": format!("volume{number}"), "mountPath": *volume.path});
        if volume.is_read_only {
            mount["readOnly"] = json!(true);
        }
        mounts.push(mount);
    }
    if !mounts.is_empty() {
        set("volumeMounts", mounts.into());
    }
    container
}

/// Returns the time to save and to end before SIGKILL, also where a scheduler preempts the pod.
fn grace(job: &JobShape<'_>) -> Span {
    let spec = job.input.spec;
    match spec.checkpoint {
        // The hook takes its time before SIGTERM is sent.
        Some(checkpoint) if checkpoint_hook(job, 0).is_some() => checkpoint.lead + spec.grace,
        Some(checkpoint) => checkpoint.lead.max(spec.grace),
        None => spec.grace,
    }
}

/// Returns the hook by which a task saves before its pod is stopped; `None` for a job without checkpoints, and for a
/// RayJob, whose program may run in another pod.
fn checkpoint_hook(job: &JobShape<'_>, task: u32) -> Option<Value> {
    let checkpoint = job.input.spec.checkpoint.filter(|_| job.kind != JobKind::RayJob)?;
    checkpoint::hook(checkpoint, task)
}

/// Nodes with GPUs are often tainted with their resource, to keep other pods away.
fn toleration(job: &JobShape<'_>) -> Value {
    json!({"key": gpu_resource(job), "operator": "Exists", "effect": "NoSchedule"})
}

fn gpu_resource<'a>(job: &JobShape<'a>) -> &'a str {
    job.input.options.gpu_resource.as_deref().unwrap_or(NVIDIA)
}

fn resources(job: &JobShape<'_>, role: &Role<'_>) -> Value {
    let task = &role.group.task;
    let mut limits = Map::new();
    let mut requests = Map::new();
    if task.gpu.devices > 0 {
        limits.insert(gpu_resource(job).to_owned(), task.gpu.devices.into());
    }
    for (name, count) in &task.extras {
        limits.insert(name.to_string(), (*count).into());
    }
    if task.memory.0 > 0 {
        limits.insert("memory".to_owned(), task.memory.0.to_string().into());
    }
    // CPUs are shared by need: a limit would throttle data loaders beside idle CPUs.
    if task.cpus.0 > 0 {
        let cpus = match task.cpus.0 {
            milli if milli % 1000 == 0 => (milli / 1000).to_string(),
            milli => format!("{milli}m"),
        };
        requests.insert("cpu".to_owned(), cpus.into());
    }
    let mut resources = Map::new();
    for (name, amounts) in [("limits", limits), ("requests", requests)] {
        if !amounts.is_empty() {
            resources.insert(name.to_owned(), amounts.into());
        }
    }
    resources.into()
}

/// Returns true if the container gets a larger `/dev/shm` than the 64 MB of container runtimes, on
/// which data loaders and NCCL fail.
fn has_shared_memory(job: &JobShape<'_>, role: &Role<'_>) -> bool {
    !role.group.task.gpu.is_none() || job.input.options.shm_bytes.is_some()
}

fn volumes(job: &JobShape<'_>, role: &Role<'_>) -> Vec<Value> {
    let options = job.input.options;
    let mut volumes = files::volumes(job);
    if has_shared_memory(job, role) {
        let mut memory = json!({"medium": "Memory"});
        if let Some(size) = options.shm_bytes {
            memory["sizeLimit"] = size.0.to_string().into();
        }
        volumes.push(json!({"name": "shm", "emptyDir": memory}));
    }
    for (number, volume) in options.volumes.iter().enumerate() {
        let claim = json!({"claimName": *volume.claim, "readOnly": volume.is_read_only});
        volumes.push(json!({"name": format!("volume{number}"), "persistentVolumeClaim": claim}));
    }
    volumes
}

/// Returns the rules for nodes: not the excluded ones, and one pod of the role on each where the job
/// says how many tasks a node has.
fn affinity(job: &JobShape<'_>, role: &Role<'_>) -> Option<Value> {
    let mut affinity = Map::new();
    let terms = node_terms(job, role);
    if !terms.is_empty() {
        let terms = json!({"nodeSelectorTerms": terms});
        let rules = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        affinity.insert("nodeAffinity".to_owned(), rules);
    }
    if role.group.tasks_per_node.is_some() && role.pods > 1 {
        let selector = json!({"matchLabels": labels(job, role)});
        let term = json!({"topologyKey": names::HOSTNAME, "labelSelector": selector});
        let rules = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        affinity.insert("podAntiAffinity".to_owned(), rules);
    }
    (!affinity.is_empty()).then(|| affinity.into())
}

/// Returns the terms for nodes, of which one must hold: none of the excluded ones, and a label that tells a
/// GPU of an accepted model. Nodes may tell it in different labels.
fn node_terms(job: &JobShape<'_>, role: &Role<'_>) -> Vec<Value> {
    let exclude = &job.input.spec.constraint.exclude;
    let names: Vec<&str> = exclude.iter().map(|node| node.as_str()).collect();
    let others = json!({"key": names::HOSTNAME, "operator": "NotIn", "values": names});
    let others: Vec<Value> = (!exclude.is_empty()).then_some(others).into_iter().collect();
    let labels = job.input.gpu_labels.of_models(&role.group.task.gpu.models);
    let term = |rules: Vec<Value>| json!({"matchExpressions": rules});
    let with_gpu = |(key, values): (&str, BTreeSet<&str>)| {
        let rule = json!({"key": key, "operator": "In", "values": values});
        term([vec![rule], others.clone()].concat())
    };
    match (labels.is_empty(), others.is_empty()) {
        (false, _) => labels.into_iter().map(with_gpu).collect(),
        (true, false) => vec![term(others)],
        (true, true) => Vec::new(),
    }
}
