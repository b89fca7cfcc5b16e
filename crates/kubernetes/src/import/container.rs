//! A container as a task: its resources, variables and mounts. Its command is read by `command`.

use muster_model::kubernetes::EnvSource;

use super::command::expand;
use super::draft::{JobDraft, TaskDraft};
use super::object::ImportedObject;
use super::reasons::{DIFFERS, SECRET};
use crate::{checkpoint, quantity};

/// Resource of NVIDIA's device plugin, the default of a job.
const NVIDIA: &str = "nvidia.com/gpu";
/// Resources that are GPUs or other accelerators, whole ones.
const GPUS: [&str; 7] = [
    NVIDIA,
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron",
];

/// Reads a container at a place, of a pod with this specification.
pub(super) fn read(
    object: &mut ImportedObject,
    at: &str,
    spec: &str,
    job: &mut JobDraft,
) -> TaskDraft {
    let is_first = job.groups.is_empty();
    let mut task = TaskDraft::default();
    resources(object, at, job, &mut task);
    variables(object, at, job, is_first);
    mounts(object, at, spec, job);
    let lifecycle = format!("{at}/lifecycle");
    if let Some(secs) = object.get(&lifecycle).and_then(checkpoint::hook_secs) {
        job.saving_secs = secs;
        object.field(&lifecycle, "checkpoint");
    }
    let mut one = |field: &str, target: &str, slot: &mut Option<String>| {
        let at = format!("{at}/{field}");
        let Some(text) = object.text(&at, target) else { return };
        if is_first || slot.as_ref() == Some(&text) {
            *slot = Some(text);
        } else {
            object.lost(&at, DIFFERS);
        }
    };
    one("image", "kubernetes: {image}", &mut job.kubernetes.image);
    one("workingDir", "workdir", &mut job.workdir);
    object.field(&format!("{at}/name"), "tasks are named by their rank");
    for field in ["imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"] {
        object.near(&format!("{at}/{field}"), "as the cluster does by default");
    }
    task
}

fn resources(object: &mut ImportedObject, at: &str, job: &mut JobDraft, task: &mut TaskDraft) {
    for part in ["limits", "requests"] {
        let part_at = format!("{at}/resources/{part}");
        for (name, amount) in object.texts(&part_at) {
            let at = muster_document::child(&part_at, &name);
            let is_limit = part == "limits";
            match name.as_str() {
                "cpu" => cpus(object, &at, &amount, is_limit, task),
                "memory" => memory(object, &at, &amount, is_limit, task),
                _ if GPUS.contains(&name.as_str()) => gpus(object, &at, &name, &amount, job, task),
                _ if name.contains('/') => match quantity::whole(&amount) {
                    Some(count) if count > 0 => {
                        object.field(&at, "extras");
                        if !task.extras.iter().any(|(known, _)| *known == name) {
                            task.extras.push((name, count));
                        }
                    }
                    _ => object.lost(&at, "not a whole number"),
                },
                _ => object.lost(&at, "a job requests GPUs, CPUs, memory and extended resources"),
            }
        }
    }
}

fn gpus(
    object: &mut ImportedObject,
    at: &str,
    name: &str,
    amount: &str,
    job: &mut JobDraft,
    task: &mut TaskDraft,
) {
    let Some(count) = quantity::whole(amount) else {
        return object.lost(at, "not a whole number");
    };
    let resource = job.kubernetes.gpu_resource.as_deref().unwrap_or(NVIDIA);
    let has_others = task.gpus > 0 || job.groups.iter().any(|group| group.task.gpus > 0);
    if has_others && resource != name {
        return object.lost(at, "a job has GPUs of one kind");
    }
    task.gpus = count;
    object.field(at, "gpus");
    if name != NVIDIA && count > 0 {
        job.kubernetes.gpu_resource = Some(name.to_owned());
    }
}

/// A job has one number of CPUs, which Kubernetes calls the request.
fn cpus(object: &mut ImportedObject, at: &str, amount: &str, is_limit: bool, task: &mut TaskDraft) {
    let Some(milli) = quantity::milli(amount).and_then(|milli| u64::try_from(milli).ok()) else {
        return object.lost(at, "not an amount of CPUs");
    };
    if is_limit {
        object.near(at, "cpus: a job has no limit of CPUs, it may use idle ones");
    } else {
        object.field(at, "cpus");
    }
    // Requests are read last, and count where both are given.
    task.cpus_milli = milli;
}

/// A job has one size of memory, which is reserved and is its limit.
fn memory(
    object: &mut ImportedObject,
    at: &str,
    amount: &str,
    is_limit: bool,
    task: &mut TaskDraft,
) {
    let Some(bytes) = quantity::whole(amount) else {
        return object.lost(at, "not a size");
    };
    if is_limit || task.memory_bytes == bytes {
        task.memory_bytes = bytes;
        object.field(at, "memory");
    } else if task.memory_bytes == 0 {
        task.memory_bytes = bytes;
        object.near(at, "memory: it is the limit, too");
    } else {
        object.near(at, "memory: a job reserves its limit");
    }
}

fn variables(object: &mut ImportedObject, at: &str, job: &mut JobDraft, is_first: bool) {
    let mut known: Vec<(String, String)> = Vec::new();
    for entry in object.children(&format!("{at}/env")) {
        let name = object.peek_text(&format!("{entry}/name")).unwrap_or_default().to_owned();
        let is_secret = object.get(&format!("{entry}/valueFrom/secretKeyRef")).is_some();
        if name == muster_ray::TOKEN && is_secret {
            object.near(&entry, SECRET);
            continue;
        }
        if object.get(&format!("{entry}/valueFrom")).is_some() {
            object.lost(&entry, super::reasons::of("/valueFrom"));
            continue;
        }
        let value = object.peek_text(&format!("{entry}/value")).unwrap_or_default();
        let value = expand(value, &known);
        known.push((name.clone(), value.clone()));
        let other = job.env.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        match other {
            Some(other) if *other == value => object.field(&entry, "env"),
            None if is_first => {
                job.env.push((name, value));
                object.field(&entry, "env");
            }
            _ => object.lost(&entry, DIFFERS),
        }
    }
    for entry in object.children(&format!("{at}/envFrom")) {
        let name = |field: &str| object.peek_text(&format!("{entry}/{field}/name"));
        let source = match (name("secretRef"), name("configMapRef")) {
            (Some(name), None) => EnvSource::Secret(name.into()),
            (None, Some(name)) => EnvSource::ConfigMap(name.into()),
            _ => continue,
        };
        let text = match source {
            EnvSource::Secret(name) => format!("secret/{name}"),
            EnvSource::ConfigMap(name) => format!("configmap/{name}"),
        };
        if object.get(&format!("{entry}/prefix")).is_some() {
            object.lost(&entry, "`env-from` has no prefix");
        } else {
            object.field(&entry, "kubernetes: {env-from}");
            if !job.kubernetes.env_from.contains(&text) {
                job.kubernetes.env_from.push(text);
            }
        }
    }
}

/// Reads mounts together with their volumes.
fn mounts(object: &mut ImportedObject, at: &str, spec: &str, job: &mut JobDraft) {
    let volumes = object.children(&format!("{spec}/volumes"));
    for mount in object.children(&format!("{at}/volumeMounts")) {
        let text = |object: &ImportedObject, field: &str| {
            object.peek_text(&format!("{mount}/{field}")).unwrap_or_default().to_owned()
        };
        let name = text(object, "name");
        let path = text(object, "mountPath");
        let named = |volume: &&String| object.peek_text(&format!("{volume}/name")) == Some(&name);
        let Some(volume) = volumes.iter().find(named) else { continue };
        let has_part = ["subPath", "subPathExpr"]
            .iter()
            .any(|field| object.get(&format!("{mount}/{field}")).is_some());
        let claim = object.peek_text(&format!("{volume}/persistentVolumeClaim/claimName"));
        let is_memory = object.peek_text(&format!("{volume}/emptyDir/medium")) == Some("Memory");
        if is_memory && path == "/dev/shm" {
            let limit = object.get(&format!("{volume}/emptyDir/sizeLimit"));
            let limit =
                limit.and_then(super::object::scalar).and_then(|text| quantity::whole(&text));
            job.kubernetes.shm_bytes = job.kubernetes.shm_bytes.or(limit);
            object.field(volume, "kubernetes: {shm}");
            object.field(&mount, "kubernetes: {shm}");
        } else if let (Some(claim), false) = (claim, has_part) {
            let is_read_only = object.is_set(&format!("{mount}/readOnly"))
                || object.is_set(&format!("{volume}/persistentVolumeClaim/readOnly"));
            let end = if is_read_only { ":ro" } else { "" };
            let text = format!("{claim}:{path}{end}");
            object.field(volume, "kubernetes: {volumes}");
            object.field(&mount, "kubernetes: {volumes}");
            if !job.kubernetes.volumes.contains(&text) {
                job.kubernetes.volumes.push(text);
            }
        }
    }
}
