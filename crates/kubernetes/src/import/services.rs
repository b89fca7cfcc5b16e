//! Objects whose pods run until they are deleted, as services: Deployment, StatefulSet and
//! LeaderWorkerSet; a notebook where the one pod is a notebook server. Autoscalers are read by `around`.

use muster_document::child;
use muster_model::Replicas;
use serde_json::json;

use super::draft::{ProgramDraft, ServiceDraft};
use super::found::{FoundJob, merge_equal, role};
use super::object::ImportedObject;
use super::pod::PodTemplate;
use crate::names;

/// Programs that are a notebook server, as they are named in commands and images.
const NOTEBOOKS: [&str; 4] = ["jupyter", "notebook", "code-server", "rstudio"];

/// Reads a Deployment or StatefulSet: replicas that are independent of each other.
pub(super) fn replicated(object: &mut ImportedObject, found: &mut FoundJob) {
    let at = "/spec/template";
    let own = child("/metadata/annotations", names::REPLICAS);
    let own = object.peek_text(&own).and_then(|text| serde_json::from_str::<Replicas>(text).ok());
    let number = object.number("/spec/replicas", "replicas").unwrap_or(1);
    let (guaranteed, max) =
        own.map_or((number, number), |own| (own.guaranteed.into(), own.max.into()));
    let (guaranteed, max) = without_none(object, found, (guaranteed, max));
    role(object, found, &PodTemplate { at, role: "main", pods: 1 });
    ports(object, at, found, ServiceDraft { guaranteed, max, port: None });
    if max == 1 && is_notebook(object, found) {
        found.draft.service = None;
        found.draft.is_notebook = true;
        object.near("/spec/replicas", "kind: a notebook is one task, with a time limit");
    }
    object.field("/spec/selector", "set by the cluster");
    object.field("/spec/serviceName", "the address of rank 0 is in $MASTER_ADDR");
    for field in ["strategy", "updateStrategy", "minReadySeconds", "progressDeadlineSeconds"] {
        let at = format!("/spec/{field}");
        object.near(&at, "replicas are replaced by `muster requeue`, one after the other");
    }
    object.near("/spec/podManagementPolicy", "replicas start independently of each other");
    object.near("/spec/revisionHistoryLimit", "a job has no earlier versions");
    object.near(
        "/spec/persistentVolumeClaimRetentionPolicy",
        "a job creates and deletes no volume claims",
    );
}

/// Returns the replicas of a service; one that has none now is held, and has one when it is released.
fn without_none(
    object: &mut ImportedObject,
    found: &mut FoundJob,
    (guaranteed, max): (u64, u64),
) -> (u64, u64) {
    if max > 0 {
        return (guaranteed, max);
    }
    found.draft.is_held = true;
    object.near("/spec/replicas", "hold: it has no replicas now; released, it has one");
    (1, 1)
}

/// Reads a Notebook of Kubeflow, whose one pod is a notebook server.
pub(super) fn notebook(object: &mut ImportedObject, found: &mut FoundJob) {
    role(object, found, &PodTemplate { at: "/spec/template", role: "main", pods: 1 });
    found.draft.is_notebook = true;
}

/// Reads a LeaderWorkerSet: each replica is a gang of a leader and workers.
pub(super) fn leader_worker_set(object: &mut ImportedObject, found: &mut FoundJob) {
    let spec = "/spec/leaderWorkerTemplate";
    let replicas = object.number("/spec/replicas", "replicas").unwrap_or(1);
    let size = object.number(&format!("{spec}/size"), "the number of tasks").unwrap_or(1).max(1);
    let leader = format!("{spec}/leaderTemplate");
    let worker = format!("{spec}/workerTemplate");
    let has_leader = object.get(&leader).is_some();
    if has_leader {
        role(object, found, &PodTemplate { at: &leader, role: "leader", pods: 1 });
    }
    let workers = size - u64::from(has_leader);
    if workers > 0 {
        let role_name = if has_leader { "worker" } else { "main" };
        role(object, found, &PodTemplate { at: &worker, role: role_name, pods: workers });
    } else {
        object.lost(&worker, "there are no workers: the size counts the leader");
    }
    merge_equal(found);
    let first = if has_leader { leader } else { worker };
    ports(object, &first, found, ServiceDraft { guaranteed: replicas, max: replicas, port: None });
    if has_leader {
        let at = format!("{spec}/workerTemplate/spec/containers/0/ports");
        object.near(&at, "port: that of the leader");
    }
    let policy = format!("{spec}/restartPolicy");
    if object.peek_text(&policy).is_none_or(|policy| policy.starts_with("Recreate")) {
        object.field(&policy, "a replica restarts as a whole");
    } else {
        object.near(&policy, "a replica restarts as a whole, not pod by pod");
    }
    object.near("/spec/startupPolicy", "all tasks of a replica start together");
    object.near("/spec/rolloutStrategy", "replicas are replaced by `muster requeue`");
    object.field("/spec/networkConfig", "the address of rank 0 is in $MASTER_ADDR");
}

/// Reads an autoscaler: the range of the replicas of a service.
pub(super) fn autoscaler(index: usize, objects: &mut [ImportedObject], jobs: &mut [FoundJob]) {
    let Some(target) = target(&objects[index], objects, jobs) else { return };
    let is_own = jobs[target].is_own;
    let object = &mut objects[index];
    let least = object.number("/spec/minReplicas", "replicas").unwrap_or(1);
    let Some(most) = object.number("/spec/maxReplicas", "replicas") else { return };
    let Some(service) = &mut jobs[target].draft.service else { return };
    (service.guaranteed, service.max) = (least.min(most), least.max(most));
    object.field("/spec/scaleTargetRef", "replicas");
    for at in ["/spec/metrics", "/spec/behavior", "/metadata"] {
        let says =
            "replicas beyond the guaranteed ones start where GPUs are idle, whatever the load";
        if is_own { object.field(at, says) } else { object.near(at, says) }
    }
}

/// Returns the job that an autoscaler scales.
pub(super) fn target(
    scaler: &ImportedObject,
    objects: &[ImportedObject],
    jobs: &[FoundJob],
) -> Option<usize> {
    let text = |field: &str| scaler.peek_text(&format!("/spec/scaleTargetRef/{field}"));
    let kind = text("kind")?;
    let name = text("name")?;
    jobs.iter().position(|job| {
        let object = &objects[job.object];
        object.kind() == kind && object.name() == name
    })
}

/// Reads the port of a service from its first container; probes of that port mean the same.
fn ports(object: &mut ImportedObject, at: &str, found: &mut FoundJob, mut service: ServiceDraft) {
    let container = format!("{at}/spec/containers/0");
    for port in object.children(&format!("{container}/ports")) {
        let number = object.peek_number(&format!("{port}/containerPort"));
        if service.port.is_none() && number.is_some() {
            service.port = number;
            let says = "port: replica n listens on port + n, which it finds in $PORT";
            if found.is_own { object.field(&port, says) } else { object.near(&port, says) }
        } else {
            object.lost(&port, "a service has one port");
        }
    }
    let probe = format!("{container}/readinessProbe");
    let is_of_port = service.port.is_some()
        && object.get(&format!("{probe}/tcpSocket/port"))
            == service.port.map(|port| json!(port)).as_ref();
    if is_of_port {
        object.field(&probe, "a service is ready once its port accepts connections");
    }
    found.draft.restarts = None;
    found.draft.service = Some(service);
}

/// Returns true if the program, or the image whose own command runs, is a notebook server.
fn is_notebook(object: &ImportedObject, found: &FoundJob) -> bool {
    let group = &found.draft.groups[0];
    let program = match &group.task.run {
        ProgramDraft::Text(text) => text.clone(),
        ProgramDraft::Words(words) => words.join(" "),
    };
    let has_command = object.get("/spec/template/spec/containers/0/command").is_some();
    let image = found.draft.kubernetes.image.as_deref().filter(|_| !has_command);
    let text = format!("{program} {}", image.unwrap_or_default());
    NOTEBOOKS.iter().any(|name| text.contains(name))
}
