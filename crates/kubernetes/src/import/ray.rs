//! Objects of KubeRay as jobs of kind `ray`: a RayJob, a RayCluster, which has no program, and a RayService,
//! whose program is `serve run`. A cluster that is a part of another object is read with that.

use muster_document::child;
use muster_model::payload::RUNTIME_ENV_FIELDS;
use serde_json::Value;

use super::draft::{JobDraft, ProgramDraft, RayDraft};
use super::found::{FoundJob, RayFacts, RayGroup, role};
use super::object::ImportedObject;
use super::pod::PodTemplate;
use super::reasons::SECRET;
use crate::names;

/// Share of a node's memory for its object store: the default of a job.
const OBJECT_STORE_PERCENT: u64 = 30;

/// Reads a RayJob: the cluster, and the program that KubeRay submits to it.
pub(super) fn ray_job(object: &mut ImportedObject, found: &mut FoundJob) {
    let at = "/spec/rayClusterSpec";
    if object.get(at).is_some() {
        cluster(object, found, at);
    } else {
        found.ray = Some(RayFacts::default());
        found.draft.ray = Some(RayDraft::default());
        // Its size is that of a cluster that is not in this object.
        role(object, found, &PodTemplate { at: "/spec/rayClusterSpec", role: "main", pods: 1 });
        object.lost(
            "/spec/clusterSelector",
            "a job of kind ray is a cluster of its own: write its size",
        );
    }
    // Its user submits the program where there is none.
    let entrypoint = object.text("/spec/entrypoint", "run").filter(|line| !line.trim().is_empty());
    program(found, entrypoint.clone().map(ProgramDraft::Text).unwrap_or_default());
    if let Some(facts) = &mut found.ray {
        facts.entrypoint = entrypoint;
    }
    if let Some(secs) = object.peek_number("/spec/activeDeadlineSeconds") {
        found.draft.time_secs = Some(secs);
        let says = "time: counted from when the processes run, not from when the pods are made";
        object.near("/spec/activeDeadlineSeconds", says);
    }
    found.draft.restarts =
        object.number("/spec/backoffLimit", "restart").filter(|count| *count > 0);
    runtime_env(object, found);
    object.field("/spec/submissionMode", "rank 0 runs the program beside the head");
    object.field("/spec/shutdownAfterJobFinishes", "a job's nodes end with its program");
    for (field, says) in [
        ("ttlSecondsAfterFinished", "a job's nodes end with its program"),
        ("deletionStrategy", "a job's nodes end with its program"),
        ("preRunningDeadlineSeconds", "a job whose nodes have not joined within 5 minutes fails"),
        ("submitterConfig", "rank 0 runs the program beside the head"),
        ("jobId", "jobs are found by their name"),
        ("metadata", "jobs are found by their name"),
    ] {
        object.near(&format!("/spec/{field}"), says);
    }
    for field in ["entrypointNumCpus", "entrypointNumGpus", "entrypointResources"] {
        let says =
            "the program takes nothing from its tasks: have a remote function or an actor take it";
        object.lost(&format!("/spec/{field}"), says);
    }
    object.lost("/spec/submitterPodTemplate", "rank 0 runs the program beside the head");
}

/// Reads a RayCluster, whose users submit programs as long as it exists.
pub(super) fn ray_cluster(object: &mut ImportedObject, found: &mut FoundJob) {
    cluster(object, found, "/spec");
    program(found, ProgramDraft::default());
}

/// Reads a RayService: `serve run` deploys its applications and stays until the job ends.
pub(super) fn ray_service(object: &mut ImportedObject, found: &mut FoundJob) {
    cluster(object, found, "/spec/rayClusterConfig");
    let config = object.text("/spec/serveConfigV2", "run").unwrap_or_default();
    let text = format!(
        "applications=$(mktemp) || exit 1\ncat > \"$applications\" <<'MUSTER_SERVE'\n{}\nMUSTER_SERVE\nexec serve run \"$applications\"\n",
        config.trim_end()
    );
    program(found, ProgramDraft::Text(text));
    object.near("/spec/rayClusterDeletionDelaySeconds", "a job has one cluster");
}

/// Sets the program of a job: that of every group, of which one is written.
fn program(found: &mut FoundJob, run: ProgramDraft) {
    for group in &mut found.draft.groups {
        group.task.run = run.clone();
    }
}

/// Reads the specification of a cluster: its head, and groups of workers.
fn cluster(object: &mut ImportedObject, found: &mut FoundJob, at: &str) {
    found.ray = Some(RayFacts { cluster: Some(at.to_owned()), ..RayFacts::default() });
    let version = object.text(&format!("{at}/rayVersion"), "ray: {version}");
    found.draft.ray = Some(RayDraft { version, ..RayDraft::default() });
    let head = format!("{at}/headGroupSpec");
    group(object, found, &head, "head", (1, None));
    let scales = object.is_set(&format!("{at}/enableInTreeAutoscaling"));
    for worker in object.children(&format!("{at}/workerGroupSpecs")) {
        let name = object.text(&format!("{worker}/groupName"), "the group's name");
        let name = name.unwrap_or_else(|| "worker".to_owned());
        let (pods, most) = sizes(object, found, &worker, scales);
        group(object, found, &worker, &name, (pods, most));
    }
    merge_own(object, found, &head);
    for group in &mut found.draft.groups {
        group.pods = group.pods.max(1);
    }
    unique_names(found);
    object.near(&format!("{at}/enableInTreeAutoscaling"), "a range of `tasks`");
    let scaler = format!("{at}/autoscalerOptions");
    let grows = found.draft.groups.iter().any(|group| group.most_pods > Some(group.pods));
    if let Some(terms) = found.draft.ray.as_mut().filter(|_| grows) {
        terms.idle_secs = object.number(&format!("{scaler}/idleTimeoutSeconds"), "ray: {idle}");
    }
    object.near(&scaler, "nodes come when the program waits for them");
    object.field(&format!("{at}/authOptions"), SECRET);
    let tolerance = "a job starts again as a whole: `restart`";
    object.near(&format!("{at}/gcsFaultToleranceOptions"), tolerance);
    for field in ["enableIngress", "headService", "serviceType"] {
        let says = "programs reach the cluster through `muster ray submit`";
        object.near(&format!("{head}/{field}"), says);
    }
    object.near(&format!("{at}/headServiceAnnotations"), "a job has no service");
}

/// Returns the fewest and the most pods of a group of workers.
fn sizes(
    object: &mut ImportedObject,
    found: &FoundJob,
    at: &str,
    scales: bool,
) -> (u64, Option<u64>) {
    let number = |field: &str| object.peek_number(&format!("{at}/{field}"));
    let hosts = number("numOfHosts").unwrap_or(1).max(1);
    let least = number("minReplicas").unwrap_or(0);
    let most = number("maxReplicas");
    let replicas = number("replicas").unwrap_or(least);
    // A job has one group that grows.
    let has_range = found.draft.groups.iter().any(|group| group.most_pods.is_some());
    let range = most.filter(|most| scales && !has_range && *most > least && *most <= MOST_PODS);
    let pods = match range {
        Some(_) => least,
        None if scales => least,
        // KubeRay keeps the number within the bounds.
        None => replicas.clamp(least, most.unwrap_or(u64::MAX).max(least)),
    };
    for field in ["replicas", "minReplicas", "maxReplicas", "numOfHosts"] {
        let at = format!("{at}/{field}");
        if scales && range.is_none() && field == "maxReplicas" {
            object.near(&at, "tasks: the fewest; one group of a job has a range of up to 10,000");
        } else {
            object.field(&at, "the number of tasks");
        }
    }
    (pods * hosts, range.map(|most| most * hosts))
}

/// Most pods of a range: more is no bound that anyone meant.
const MOST_PODS: u64 = 10_000;

/// Reads a group: its pods, and what a node of Ray offers of theirs.
fn group(
    object: &mut ImportedObject,
    found: &mut FoundJob,
    at: &str,
    name: &str,
    (pods, most): (u64, Option<u64>),
) {
    let template = format!("{at}/template");
    let before = found.draft.groups.len();
    // A group that may grow has pods at times.
    let shown = if most.is_some() { pods.max(1) } else { pods };
    role(object, found, &PodTemplate { at: &template, role: name, pods: shown });
    of_kuberay(object, &template);
    object.near(&format!("{at}/idleTimeoutSeconds"), "`ray: {idle}` says when nodes leave");
    object.field(&format!("{at}/scaleStrategy"), "set by the autoscaler");
    // The API server fills it in.
    if object.peek_number(&format!("{at}/priority")) == Some(0) {
        object.field(&format!("{at}/priority"), "all nodes of a cluster have the job's priority");
    }
    if found.draft.groups.len() == before {
        return;
    }
    start_params(object, found, at);
    if let Some(group) = found.draft.groups.last_mut() {
        (group.pods, group.most_pods) = (pods, most);
    }
    if let Some(facts) = &mut found.ray {
        facts.groups.push(RayGroup { at: at.to_owned(), name: name.to_owned() });
    }
}

/// Reads the parameters of `ray start`, which a job sets from its resources.
fn start_params(object: &mut ImportedObject, found: &mut FoundJob, at: &str) {
    let params = format!("{at}/rayStartParams");
    let number = |object: &ImportedObject, name: &str| -> Option<u64> {
        object.peek_text(&format!("{params}/{name}"))?.trim().parse().ok()
    };
    let Some(group) = found.draft.groups.last_mut() else { return };
    let is_there =
        |object: &ImportedObject, name: &str| object.get(&child(&params, name)).is_some();
    for (name, _) in object.texts(&params) {
        let at = child(&params, &name);
        match name.as_str() {
            "num-gpus" => object.field(&at, "gpus"),
            "num-cpus" => match number(object, "num-cpus") {
                Some(0) => object.near(&at, "a node offers its `cpus`, the head as well"),
                Some(count) => {
                    if group.task.cpus_milli == 0 && count != group.task.gpus + 1 {
                        group.task.cpus_milli = count * 1000;
                    }
                    object.field(&at, "cpus");
                }
                None => object.lost(&at, "not a number"),
            },
            "memory" | "object-store-memory" => {
                object.field(&at, "memory, ray: {object-store-percent}");
            }
            "block"
            | "dashboard-host"
            | "port"
            | "dashboard-port"
            | "metrics-export-port"
            | "dashboard-agent-listen-port"
            | "ray-client-server-port"
            | "node-ip-address"
            | "include-dashboard" => object.near(&at, "Muster chooses it for each node"),
            "resources" => object.lost(&at, "a node offers GPUs, CPUs and memory"),
            _ => {}
        }
    }
    let store = number(object, "object-store-memory");
    let memory = group.task.memory_bytes;
    let percent = store.filter(|_| memory > 0).map(|store| (store * 100 + memory / 2) / memory);
    if is_there(object, "object-store-memory") && memory == 0 {
        object
            .lost(&child(&params, "object-store-memory"), "it is a share of `memory`: write both");
    }
    let percent = percent.filter(|percent| *percent != OBJECT_STORE_PERCENT && *percent < 100);
    if let (Some(terms), Some(percent)) = (&mut found.draft.ray, percent) {
        terms.object_store_percent = Some(percent);
    }
}

/// Notes what pods of KubeRay have for its sake.
fn of_kuberay(object: &mut ImportedObject, template: &str) {
    let container = format!("{template}/spec/containers/0");
    object.near(&format!("{container}/ports"), "Muster chooses the ports of a job's cluster");
    for field in ["command", "args"] {
        let says = "KubeRay runs it before `ray start`: do its work at the start of `run`";
        object.lost(&format!("{container}/{field}"), says);
    }
    let stop = format!("{container}/lifecycle/preStop/exec/command");
    let words = object.children(&stop);
    if words.iter().any(|at| object.peek_text(at).is_some_and(|text| text.contains("ray stop"))) {
        object.near(&format!("{container}/lifecycle"), "a job's nodes end with its program");
    }
    // The directory of a node, with Ray's logs.
    for mount in object.children(&format!("{container}/volumeMounts")) {
        if object.peek_text(&format!("{mount}/mountPath")) != Some("/tmp/ray") {
            continue;
        }
        let name = object.peek_text(&format!("{mount}/name")).map(str::to_owned);
        let volumes = object.children(&format!("{template}/spec/volumes"));
        let is_it = |at: &&String| object.peek_text(&format!("{at}/name")) == name.as_deref();
        let volume = volumes.iter().find(is_it).cloned();
        for at in [Some(mount), volume].into_iter().flatten() {
            object.near(&at, "a node has a directory of its own");
        }
    }
}

/// Reads the runtime environment of the program.
fn runtime_env(object: &mut ImportedObject, found: &mut FoundJob) {
    let at = "/spec/runtimeEnvYAML";
    let Some(text) = object.peek_text(at) else { return };
    let read = muster_document::documents(text).ok().and_then(|mut documents| documents.pop());
    match read.map(|document| document.value).filter(Value::is_object) {
        Some(mut value) => {
            let mut unknown = Vec::new();
            if let Some(fields) = value.as_object_mut() {
                fields.retain(|name, _| {
                    let is_known = RUNTIME_ENV_FIELDS.contains(&name.as_str());
                    unknown.extend((!is_known).then(|| name.clone()));
                    is_known
                });
            }
            found.draft.ray.get_or_insert_default().runtime_env = Some(value);
            match unknown.join(", ") {
                names if names.is_empty() => object.field(at, "ray: {runtime-env}"),
                names => object.lost(at, &format!("Ray ignores {names}; the rest is in the job")),
            }
        }
        None => object.lost(at, "it is not a mapping"),
    }
}

/// Reads the program of a RayJob that was exported, from its line and its ConfigMap.
pub(super) fn exported_program(objects: &mut [ImportedObject], job: &mut FoundJob) {
    let Some(line) = job.ray.as_ref().and_then(|facts| facts.entrypoint.clone()) else { return };
    // 1. The ConfigMap that the head mounts.
    let object = &mut objects[job.object];
    let spec = format!("{}/spec", job.templates[0]);
    let is_named = |object: &ImportedObject, at: &str, name: &str| {
        object.peek_text(&format!("{at}/name")) == Some(name)
    };
    let mounts = object.children(&format!("{spec}/containers/0/volumeMounts"));
    let is_folder = |at: &&String| {
        object.peek_text(&format!("{at}/mountPath")) == Some(muster_ray::PROGRAM_FOLDER)
    };
    let mount = mounts.iter().find(is_folder).cloned();
    let volume = mount.as_ref().and_then(|mount| {
        let name = object.peek_text(&format!("{mount}/name"))?;
        object
            .children(&format!("{spec}/volumes"))
            .into_iter()
            .find(|at| is_named(object, at, name))
    });
    let map = volume.as_ref().and_then(|at| object.peek_text(&format!("{at}/configMap/name")));
    let map = map.map(str::to_owned);
    for at in [mount, volume].into_iter().flatten() {
        object.field(&at, "run");
    }
    let is_map = |object: &&mut ImportedObject| {
        object.kind() == "ConfigMap" && map.as_deref() == Some(object.name())
    };
    let mut map = objects.iter_mut().find(is_map);
    if let Some(map) = &mut map {
        map.field("/data", "run");
        map.field("/metadata", "run");
    }
    // 2. The line.
    let file = |name: &str| map.as_ref()?.peek_text(&format!("/data/{name}")).map(str::to_owned);
    let read = muster_ray::read_entrypoint(&line, file);
    program(job, ProgramDraft::Text(read.program));
    if let Some(terms) = &mut job.draft.ray {
        terms.wait = read.wait.map(u64::from);
        terms.python = read.python;
    }
    leave_out_defaults(&mut job.draft);
}

/// Leaves out terms of a cluster that are the defaults of a job.
pub(super) fn leave_out_defaults(job: &mut JobDraft) {
    let nodes = job.groups.iter().map(|group| group.pods * group.tasks_per_pod).sum::<u64>();
    if let Some(terms) = &mut job.ray {
        terms.wait = terms.wait.filter(|wait| *wait != nodes);
        terms.python = terms.python.take().filter(|python| python != "python3");
        let percent = terms.object_store_percent;
        terms.object_store_percent = percent.filter(|percent| *percent != OBJECT_STORE_PERCENT);
        terms.dashboard = terms.dashboard.filter(|dashboard| !dashboard);
    }
}

/// Makes one group of a head and workers that were exported from one.
fn merge_own(object: &ImportedObject, found: &mut FoundJob, head: &str) {
    let Some(facts) = &mut found.ray else { return };
    let label = |at: &str| {
        let labels = format!("{at}/template/metadata/labels");
        object.peek_text(&child(&labels, names::ROLE)).map(str::to_owned)
    };
    let own: Vec<Option<String>> = facts.groups.iter().map(|group| label(&group.at)).collect();
    for (group, own) in found.draft.groups.iter_mut().zip(&own) {
        if let Some(name) = own {
            group.name.clone_from(name);
        }
    }
    let is_one = own.len() > 1 && own[0].is_some() && own[0] == own[1];
    if is_one && facts.groups[0].at == head {
        let workers = found.draft.groups.remove(1);
        let first = &mut found.draft.groups[0];
        first.pods += workers.pods;
        first.most_pods = workers.most_pods.map(|most| most + 1);
        facts.groups.remove(1);
        found.templates.remove(1);
    }
}

/// Groups of a job have different names.
fn unique_names(found: &mut FoundJob) {
    for at in 1..found.draft.groups.len() {
        let (before, rest) = found.draft.groups.split_at_mut(at);
        let group = &mut rest[0];
        while before.iter().any(|other| other.name == group.name) {
            group.name.push_str("-workers");
        }
    }
}

/// Notes the secret of a cluster that was exported: each submission makes another one.
pub(super) fn secret(object: &mut ImportedObject, jobs: &[FoundJob]) {
    let of = object.peek_text(&child("/metadata/labels", names::JOB)).map(str::to_owned);
    let is_its = |job: &FoundJob| job.draft.ray.is_some() && of.as_deref() == Some(object.name());
    if jobs.iter().any(is_its) {
        for at in ["/metadata", "/stringData", "/data", "/type"] {
            object.field(at, SECRET);
        }
    }
}
