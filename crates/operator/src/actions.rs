//! Carries out actions: bindings, deletions and explanations, a few at a time. A binding is tried
//! until the API server says what became of it.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use muster_kubernetes::gpu_share::annotations;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::{PodPhase, PodText};
use muster_model::NodeName;
use muster_scheduler::{Action, Observation, PodId};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use crate::GpuHolders;
use crate::address::{core, get, merge, patch, with_body};
use crate::error::{code, is_transient, message};
use crate::kueue::CohortNote;
use crate::sources::{Report, Served};
use crate::writes::Writes;

/// Tries to set the condition of a pod: at most 0.3 s of pauses between them, since a newer text may
/// follow.
const CONDITION_TRIES: u32 = 4;
/// Shortest and longest pause between tries of a request.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Name of the component in events.
const COMPONENT: &str = "muster";
/// Longest note of an event (API documentation of events.k8s.io/v1).
const MAX_NOTE: usize = 1024;

/// Client that carries out actions.
#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) client: Client,
    reports: UnboundedSender<Report>,
    writes: Arc<Writes>,
    /// Lock of status writes: a slow one would land after the next one for the same object.
    status_order: Arc<Mutex<()>>,
    pub(crate) served: Served,
    /// Terms of the pods that hold GPUs for others; `None` where none may be made.
    pub(crate) holders: Option<GpuHolders>,
}

/// Object that an event is about.
pub(crate) struct Regarding<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: &'a str,
}

/// Text of an event, and how tools sort it.
pub(crate) struct Notice<'a> {
    /// Type of the event: `Normal` or `Warning`.
    pub(crate) severity: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) action: &'a str,
    pub(crate) text: &'a str,
}

impl Executor {
    pub(crate) fn new(
        client: Client,
        reports: UnboundedSender<Report>,
        writes: Arc<Writes>,
        served: Served,
        holders: Option<GpuHolders>,
    ) -> Self {
        Self { client, reports, writes, status_order: Arc::default(), served, holders }
    }

    /// Rests before a request is repeated, each time twice as long.
    pub(crate) async fn rest(&self, pause: &mut Duration) {
        tokio::time::sleep(*pause).await;
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        self.writes.again().await;
    }

    /// Sends an observation to the scheduler.
    pub(crate) fn report(&self, observation: Observation) {
        // The receiver is gone only when the process ends.
        let _ = self.reports.send(Report::Seen(observation));
    }

    /// Carries out an action in the background; bindings and requests for workloads are answered
    /// with a report.
    pub(crate) fn start(&self, action: Action) {
        let executor = self.clone();
        tokio::spawn(async move {
            // A holder may take long to start, and must not keep others from their requests.
            let held = match &action {
                Action::Bind { pod, node, gpu: Some(number), .. } => {
                    let held = executor.hold_gpu(pod, node, *number).await;
                    held.map(|ids| annotations(*number, &ids))
                }
                _ => Ok(json!({})),
            };
            let Some(_turn) = executor.writes.turn().await else { return };
            match action {
                Action::Bind { pod, node, claims, .. } => {
                    let answer = match held {
                        Ok(told) => executor.bind_with(&pod, &node, &claims, &told).await,
                        Err(reason) => {
                            tracing::warn!("binding {pod} to {node} failed: {reason}");
                            Observation::BindRefused(pod, reason.into())
                        }
                    };
                    executor.report(answer);
                }
                Action::FreeGpu { holder } => executor.free_gpu(&holder).await,
                Action::FreeClaim { claim, pod } => executor.free(&claim, &pod).await,
                Action::Evict { pod, reason } => executor.evict(&pod, &reason).await,
                Action::Explain { pods, text } => executor.explain(&pods, &text).await,
                Action::Resume { workload, generation } => {
                    executor.resume(&workload, generation).await;
                }
                Action::Suspend { workload, reason } => executor.suspend(&workload, &reason).await,
                Action::NoteStages { workload, text } => {
                    executor.note_stages(&workload, &text).await;
                }
                Action::NoteEmptyGroup { group, text } => {
                    executor.note_empty_group(&group, &text).await;
                }
                Action::ExplainWorkload { workload, text } => {
                    executor.explain_workload(&workload, &text).await;
                }
            }
        });
    }

    /// Writes the status of a queue object in the background, one at a time.
    pub(crate) fn write_status(&self, address: String, status: Value) {
        let executor = self.clone();
        tokio::spawn(async move {
            let _turn = executor.status_order.lock().await;
            let path = format!("{address}/status");
            let body = json!({"status": status});
            if let Err(error) = executor.client.request::<Value>(merge(&path, &body)).await {
                if code(&error) != Some(404) {
                    tracing::warn!("cannot write {path}: {}", message(&error));
                }
                // The receiver is gone only when the process ends.
                let _ = executor.reports.send(Report::StatusLost(address));
            }
        });
    }

    /// Adds an event to a Cohort in the background.
    pub(crate) fn tell_cohort(&self, version: String, note: CohortNote) {
        let executor = self.clone();
        tokio::spawn(async move {
            let Some(_turn) = executor.writes.turn().await else { return };
            let regarding =
                Regarding { api_version: &version, kind: "Cohort", key: &note.key, uid: &note.uid };
            let notice = Notice {
                severity: "Warning",
                reason: "NotInForce",
                action: "Reading",
                text: &note.text,
            };
            executor.notify(&regarding, &notice).await;
        });
    }

    /// Binds a pod, with annotations that tell it what it got there. Whatever the answer was, a pod that is
    /// on the node counts as bound, and the binding is refused only if it certainly is not.
    pub(crate) async fn bind(&self, pod: &PodId, node: &NodeName, told: &Value) -> Observation {
        let path = format!("{}/binding", core("pods", &pod.key));
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.uid,
                "annotations": told,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node.as_str()},
        });
        let mut pause = FIRST_PAUSE;
        loop {
            let error =
                match self.client.request::<Value>(with_body(Method::POST, &path, &body)).await {
                    Ok(_) => return Observation::Bound(pod.clone()),
                    Err(error) => error,
                };
            match self.pod(pod).await {
                Ok(Some(known)) if known.node.as_ref() == Some(node) => {
                    return Observation::Bound(pod.clone());
                }
                Ok(Some(known)) if known.node.is_none() && is_transient(&error) => {}
                Ok(_) => {
                    tracing::warn!("binding {pod} to {node} was refused: {}", message(&error));
                    return Observation::BindRefused(pod.clone(), message(&error).into());
                }
                // The API server is down: nothing is known until it answers.
                Err(_) => {}
            }
            self.rest(&mut pause).await;
        }
    }

    /// Returns the pod as it is now; `None` if it is gone, or another pod has its name.
    pub(crate) async fn pod(
        &self,
        pod: &PodId,
    ) -> Result<Option<muster_kubernetes::pod::PodFacts>, kube::Error> {
        match self.client.request::<PodText>(get(&core("pods", &pod.key))).await {
            Ok(text) => Ok(Some(text.facts()).filter(|facts| facts.uid == pod.uid)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a pod, unless it has ended: its end counts for its gang.
    async fn evict(&self, pod: &PodId, reason: &str) {
        let path = core("pods", &pod.key);
        self.tell(pod, "Preempted", "Preempting", reason).await;
        let mut pause = FIRST_PAUSE;
        loop {
            let found = self.client.request::<PodText>(get(&path)).await;
            match found {
                Ok(text) => {
                    let version = text.metadata.resource_version.clone();
                    let facts = text.facts();
                    if facts.uid != pod.uid
                        || facts.phase != PodPhase::Active
                        || facts.is_terminating
                    {
                        return;
                    }
                    // The version guards against an end in between.
                    let preconditions = json!({"uid": pod.uid, "resourceVersion": version});
                    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
                    match self
                        .client
                        .request::<Value>(with_body(Method::DELETE, &path, &body))
                        .await
                    {
                        Ok(_) => return,
                        Err(error) => tracing::warn!("cannot delete {pod}: {}", message(&error)),
                    }
                }
                Err(error) if code(&error) == Some(404) => return,
                Err(error) => tracing::warn!("cannot read {pod}: {}", message(&error)),
            }
            self.rest(&mut pause).await;
        }
    }

    /// Sets the condition of pods, and adds an event to the first one. The scheduler is told of pods for
    /// which that failed.
    async fn explain(&self, pods: &[PodId], text: &str) {
        for pod in pods {
            let body = json!({
                "metadata": {"uid": pod.uid},
                "status": {"conditions": [{
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": text,
                    "lastTransitionTime": seconds(),
                }]},
            });
            let path = format!("{}/status", core("pods", &pod.key));
            if let Err(error) = self.set_condition_of_pod(&path, &body).await
                && !matches!(code(&error), Some(404 | 409))
            {
                tracing::warn!("cannot set the condition of {pod}: {}", message(&error));
                if is_transient(&error) {
                    self.report(Observation::Untold(pod.clone()));
                }
            }
        }
        if let Some(first) = pods.first() {
            self.tell(first, "FailedScheduling", "Scheduling", text).await;
        }
    }

    /// Sets the condition of a pod. Transient errors, such as a connection that the server has just closed,
    /// are retried a few times only: a newer text may follow.
    async fn set_condition_of_pod(&self, path: &str, body: &Value) -> Result<(), kube::Error> {
        for _ in 1..CONDITION_TRIES {
            match self.client.request::<Value>(patch(path, body)).await {
                Err(error) if is_transient(&error) => tokio::time::sleep(FIRST_PAUSE).await,
                answer => return answer.map(drop),
            }
        }
        self.client.request::<Value>(patch(path, body)).await.map(drop)
    }

    /// Adds an event to a pod.
    async fn tell(&self, pod: &PodId, reason: &str, action: &str, text: &str) {
        let regarding = Regarding { api_version: "v1", kind: "Pod", key: &pod.key, uid: &pod.uid };
        let notice = Notice { severity: "Warning", reason, action, text };
        self.notify(&regarding, &notice).await;
    }

    /// Adds an event to an object.
    pub(crate) async fn notify(&self, object: &Regarding<'_>, notice: &Notice<'_>) {
        let note: String = notice.text.chars().take(MAX_NOTE).collect();
        let ObjectKey { namespace, name } = object.key;
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{name}-"), "namespace": namespace},
            "eventTime": micros(),
            "reportingController": COMPONENT,
            "reportingInstance": COMPONENT,
            "action": notice.action,
            "reason": notice.reason,
            "regarding": {
                "apiVersion": object.api_version, "kind": object.kind,
                "name": name, "namespace": namespace, "uid": object.uid,
            },
            "note": note,
            "type": notice.severity,
        });
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        if let Err(error) =
            self.client.request::<Value>(with_body(Method::POST, &path, &body)).await
        {
            tracing::warn!("cannot add an event to {}: {}", object.key, message(&error));
        }
    }
}

/// Returns the present time as a `Time` of the API.
pub(crate) fn seconds() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the present time as a `MicroTime` of the API.
pub(crate) fn micros() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests;
