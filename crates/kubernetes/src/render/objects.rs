//! The objects of a job: what the scheduler of the cluster reads, and the Service by which its pods
//! find each other.

use serde_json::{Map, Value, json};

use super::pod::template;
use super::{GangScheduler, JobKind, JobShape, Role, files, secret, sweep};
use crate::names;

/// Returns all objects, in the order in which they are created.
pub(super) fn all(job: &JobShape<'_>) -> Vec<Value> {
    let mut objects: Vec<Value> = sent_files(job).into_iter().chain(secret(job)).collect();
    if job.kind == JobKind::Job && job.pods() > 1 {
        objects.push(service(job));
    }
    if job.input.scheduler == GangScheduler::PodGroups && job.pods() > 1 {
        let policy = json!({"gang": {"minCount": job.pods()}});
        let spec = json!({"schedulingPolicy": policy});
        objects.push(object(job, "scheduling.k8s.io/v1beta1", "PodGroup", spec));
    }
    let main = match job.kind {
        JobKind::Job => {
            let spec = batch_job(job, &job.roles[0]);
            object(job, "batch/v1", "Job", started_by(job, spec))
        }
        JobKind::JobSet => {
            object(job, "jobset.x-k8s.io/v1alpha2", "JobSet", started_by(job, job_set(job)))
        }
        JobKind::Volcano => object(job, "batch.volcano.sh/v1alpha1", "Job", volcano(job)),
        JobKind::TrainJob | JobKind::RayJob | JobKind::Deployment | JobKind::InferenceService => {
            unreachable!("it has objects of its own")
        }
    };
    objects.push(main);
    objects
}

/// Returns an object with the name and labels of the job.
pub(super) fn object(job: &JobShape<'_>, version: &str, kind: &str, spec: Value) -> Value {
    let mut labels = Map::new();
    labels.insert(names::JOB.to_owned(), json!(job.name));
    let queue_label = match job.input.scheduler {
        GangScheduler::Muster => names::QUEUE,
        GangScheduler::Kueue => names::KUEUE_QUEUE,
        GangScheduler::Kai => names::KAI_QUEUE,
        GangScheduler::Volcano | GangScheduler::PodGroups | GangScheduler::None => "",
    };
    let is_main = matches!(
        kind,
        "Job" | "JobSet" | "Deployment" | "InferenceService" | "TrainJob" | "RayJob"
    );
    let annotations = if is_main { annotations(job) } else { Map::new() };
    if let Some(queue) = queue(job).filter(|_| is_main && !queue_label.is_empty()) {
        labels.insert(queue_label.to_owned(), queue.into());
    }
    let mut metadata = json!({"name": job.name, "labels": labels});
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    if let Some(namespace) = &job.input.options.namespace {
        metadata["namespace"] = json!(**namespace);
    }
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// Returns the object with the files that are sent with the job, if there are any.
pub(super) fn sent_files(job: &JobShape<'_>) -> Option<Value> {
    let sent = job.input.files;
    let mut object = object(job, "v1", "ConfigMap", Value::Null);
    let fields = object.as_object_mut()?;
    fields.remove("spec");
    if let Some(folder) = &job.input.options.send {
        fields["metadata"]["annotations"] = json!({names::SENT: **folder});
    }
    fields.extend(files::fields(sent));
    (!sent.is_empty()).then_some(object)
}

/// Returns the object with the secret of a Ray cluster; `None` for other jobs.
pub(super) fn secret(job: &JobShape<'_>) -> Option<Value> {
    let mut object = object(job, "v1", "Secret", Value::Null);
    let fields = object.as_object_mut()?;
    fields.remove("spec");
    fields.insert("stringData".to_owned(), secret::content(job)?);
    Some(object)
}

/// Returns the annotations of the object that is the job.
fn annotations(job: &JobShape<'_>) -> Map<String, Value> {
    let terms = job.start_terms().into_iter();
    let mut annotations: Map<String, Value> =
        terms.map(|(name, value)| (name.to_owned(), value.into())).collect();
    if let Some(array) = &job.input.spec.array {
        let array = serde_json::to_string(array).expect("an array is valid JSON");
        annotations.insert(names::ARRAY.to_owned(), array.into());
    }
    if let Some(sweep) = job.input.sweep {
        annotations.insert(names::SWEEP.to_owned(), sweep::annotation(sweep).into());
    }
    let is_gang = job.pods() > 1 && job.service().is_none();
    if job.input.scheduler == GangScheduler::Kai && is_gang {
        annotations.insert(names::KAI_MIN_MEMBER.to_owned(), job.pods().to_string().into());
    }
    // A Job of Volcano has a field for it.
    if job.kind == JobKind::TrainJob
        && job.input.scheduler == GangScheduler::Volcano
        && let Some(queue) = job.queue()
    {
        annotations.insert(names::VOLCANO_QUEUE.to_owned(), queue.into());
    }
    if let Some(service) = job.service() {
        let replicas = serde_json::to_string(&service.replicas).expect("numbers are valid JSON");
        annotations.insert(names::REPLICAS.to_owned(), replicas.into());
    }
    // In the pods of a RayJob the signal would reach Ray's own processes.
    let checkpoint = job.input.spec.checkpoint.filter(|_| job.kind != JobKind::RayJob);
    if let Some(checkpoint) = checkpoint {
        let checkpoint =
            serde_json::to_string(&checkpoint).expect("numbers and words are valid JSON");
        annotations.insert(names::CHECKPOINT.to_owned(), checkpoint.into());
    }
    annotations
}

/// Returns the queue for the label of the scheduler. A queue of Kueue has no path. Muster starts objects
/// with a label only; an empty one means the default queue.
fn queue(job: &JobShape<'_>) -> Option<String> {
    match job.input.scheduler {
        GangScheduler::Kueue => {
            let queue = job.input.spec.queue.as_str();
            queue.rsplit('/').next().map(str::to_owned)
        }
        GangScheduler::Kai => job.queue(),
        _ => {
            let waits_suspended = job.is_gang_of_muster() || !job.start_terms().is_empty();
            job.queue().or_else(|| waits_suspended.then(String::new))
        }
    }
}

/// Suspends a workload that its scheduler or a user starts, so that it waits without pods. Muster starts
/// a suspended Job as a whole, and the elements of an array should start one by one.
pub(super) fn started_by(job: &JobShape<'_>, mut spec: Value) -> Value {
    let has_terms = !job.start_terms().is_empty();
    let is_array = job.input.spec.array.is_some();
    let waits = match job.input.scheduler {
        GangScheduler::Muster => has_terms || queue(job).is_some() && !is_array,
        GangScheduler::Kueue => true,
        GangScheduler::Kai | GangScheduler::PodGroups | GangScheduler::None => job.input.spec.held,
        GangScheduler::Volcano => false,
    };
    if waits {
        spec["suspend"] = json!(true);
    }
    spec
}

/// Returns how often a job that failed starts again.
fn restarts(job: &JobShape<'_>) -> u32 {
    let restart = &job.input.spec.restart;
    if restart.on_failure { restart.max_restarts } else { 0 }
}

/// Returns the specification of a Job with the pods of a role.
fn batch_job(job: &JobShape<'_>, role: &Role<'_>) -> Value {
    let spec = job.input.spec;
    let restarts = restarts(job);
    let template = template(job, role);
    if let Some(array) = &spec.array {
        let count = array.count();
        return json!({
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": array.max_running.map_or(count, |most| most.min(count)),
            "backoffLimitPerIndex": restarts,
            "podFailurePolicy": disruptions_ignored(),
            "template": template,
        });
    }
    if job.pods() == 1 {
        return json!({
            "backoffLimit": restarts,
            "podFailurePolicy": disruptions_ignored(),
            "template": template,
        });
    }
    // A gang whose pod fails has failed as a whole; a JobSet restarts it as a whole.
    json!({
        "completionMode": "Indexed",
        "completions": role.pods,
        "parallelism": role.pods,
        "backoffLimit": 0,
        "template": template,
    })
}

/// Returns the policy by which a pod that the cluster ends (preempted, drained, or its node lost) starts again and does
/// not count as a failure (ADR 0066). Only for pods
/// that no other one waits for.
pub(crate) fn disruptions_ignored() -> Value {
    let disrupted = json!({"type": "DisruptionTarget", "status": "True"});
    json!({"rules": [{"action": "Ignore", "onPodConditions": [disrupted]}]})
}

fn job_set(job: &JobShape<'_>) -> Value {
    let roles = job.roles.iter().map(|role| {
        let mut spec = batch_job(job, role);
        // An index for a single pod, too: its variables are counted from it.
        let size = json!({
            "completionMode": "Indexed", "completions": role.pods, "parallelism": role.pods, "backoffLimit": 0,
        });
        if let (Some(spec), Value::Object(size)) = (spec.as_object_mut(), size) {
            spec.extend(size);
        }
        json!({"name": role.name, "replicas": 1, "template": {"spec": spec}})
    });
    let mut spec = json!({
        "replicatedJobs": roles.collect::<Vec<_>>(),
        "failurePolicy": {"maxRestarts": restarts(job)},
        "network": network(job),
    });
    if job.input.scheduler == GangScheduler::Kai {
        // The default of JobSets. KAI 0.15 reads its absence as one gang for each role, each of the size of all.
        spec["startupPolicy"] = json!({"startupPolicyOrder": "AnyOrder"});
    }
    spec
}

/// Returns the domain in which the pods of a JobSet have names.
pub(super) fn network(job: &JobShape<'_>) -> Value {
    json!({"enableDNSHostnames": true, "publishNotReadyAddresses": true, "subdomain": job.name})
}

fn volcano(job: &JobShape<'_>) -> Value {
    let restarts = restarts(job);
    let action = if restarts > 0 { "RestartJob" } else { "TerminateJob" };
    let tasks = job.roles.iter().map(
        |role| json!({"name": role.name, "replicas": role.pods, "template": template(job, role)}),
    );
    let mut spec = json!({
        "schedulerName": "volcano",
        "minAvailable": job.pods(),
        "plugins": {"env": [], "svc": ["--publish-not-ready-addresses=true"]},
        "policies": [
            {"event": "PodFailed", "action": action},
            {"event": "PodEvicted", "action": "RestartJob"},
        ],
        "tasks": tasks.collect::<Vec<_>>(),
    });
    if restarts > 0 {
        // Volcano counts the first start (1.15).
        spec["maxRetry"] = json!(restarts.saturating_add(1));
    }
    if let Some(queue) = job.queue() {
        spec["queue"] = queue.into();
    }
    spec
}

/// Returns the headless Service in whose domain the pods have names, also before they are ready.
fn service(job: &JobShape<'_>) -> Value {
    let spec = json!({
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": {names::JOB: job.name},
    });
    object(job, "v1", "Service", spec)
}
