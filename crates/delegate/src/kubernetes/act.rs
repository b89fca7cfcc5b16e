//! Actions on jobs: each is a change of the object, or its deletion.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use muster_api::types::{
    ActionResponse, BulkAction, BulkRequest, BulkResponse, BulkResult, ErrorBody, ScaleRequest,
};
use muster_kubernetes::job::view;
use muster_kubernetes::names;
use muster_model::view::JobState;
use muster_model::{Array, JobId, Replicas};
use serde_json::{Value, json};

use super::list::FoundJob;
use super::server::ApiServer;
use super::{KubernetesScheduler, REREAD_INTERVAL, RequestError, Result};
use crate::route::now;

/// Longest wait for the end of pods, whose programs may save their state first.
const LONGEST_END: Duration = Duration::from_secs(600);

/// Actions that are under way at once.
const AT_ONCE: usize = 16;

/// Action on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KubernetesAction {
    /// End its pods for good.
    Cancel,
    /// Keep it from starting.
    Hold,
    /// Let a held job start.
    Release,
    /// End its pods and start it again.
    Requeue,
}

impl KubernetesScheduler {
    /// Performs an action on a job.
    pub(super) async fn act(
        &self,
        job: JobId,
        index: Option<u32>,
        action: KubernetesAction,
    ) -> Result<ActionResponse> {
        if let Some(index) = index {
            return Err(refuse_elements(action, vec![index]));
        }
        let found = self.find(job).await?;
        let state = view(found.job(), &found.pods(), "").state;
        let message = match action {
            KubernetesAction::Cancel => self.cancel(&found, state).await?,
            KubernetesAction::Hold => self.hold(&found, state).await?,
            KubernetesAction::Release => self.release(&found, state).await?,
            KubernetesAction::Requeue => self.requeue(&found, state).await?,
        };
        Ok(ActionResponse { message })
    }

    /// Performs an action on each job; an error on one does not stop the others.
    pub(super) async fn bulk(&self, request: BulkRequest) -> Result<BulkResponse> {
        let action = match request.action {
            BulkAction::Cancel => KubernetesAction::Cancel,
            BulkAction::Hold => KubernetesAction::Hold,
            BulkAction::Release => KubernetesAction::Release,
            BulkAction::Requeue => KubernetesAction::Requeue,
        };
        let elements = |job| {
            let own = request.targets.iter().filter(move |target| target.job == job);
            own.filter_map(|target| target.index).collect::<Vec<u32>>()
        };
        let elements = &elements;
        let results = stream::iter(request.targets.clone()).map(|target| async move {
            let answer = match target.index {
                // One hint for all elements of a job.
                Some(_) => Err(refuse_elements(action, elements(target.job))),
                None => self.act(target.job, None, action).await,
            };
            BulkResult::of(target, answer.map_err(ErrorBody::from))
        });
        Ok(BulkResponse { results: results.buffered(AT_ONCE).collect().await })
    }

    /// Ends a job. A Job of Kubernetes itself stays, as one that was cancelled; objects of other kinds,
    /// and those that another scheduler might start later, are deleted.
    async fn cancel(&self, found: &FoundJob, state: JobState) -> Result<String> {
        if state.is_final() {
            return Ok(format!("had already ended: {}", state.word()));
        }
        let server = self.server().await?;
        let mark = json!({"annotations": {names::CANCELLED: self.settings.user.as_str()}});
        let job = found.job();
        let waits = job.is_suspended();
        let is_started_by_others = waits && job.label(names::KUEUE_QUEUE).is_some();
        if !found.key.api.is_batch() || is_started_by_others {
            server.delete(&found.key.path()).await?;
            return Ok("cancelled: the object was deleted".to_owned());
        }
        // Its controller ends the pods, and counts the job as failed. While it is suspended, the time of
        // the deadline does not run; if it is started meanwhile, it ends at once.
        let body = json!({"metadata": mark, "spec": {"activeDeadlineSeconds": 1}});
        server.merge(&found.key.path(), &body).await?;
        Ok("cancelled".to_owned())
    }

    /// Sets the number of replicas of a service, or the range of its autoscaler.
    pub(super) async fn scale(&self, job: JobId, request: ScaleRequest) -> Result<ActionResponse> {
        let found = self.find(job).await?;
        let name = &found.key.name;
        if found.job().replicas().is_none() {
            return Err(RequestError::refused(format!(
                "{name} is not a service: only services can be scaled"
            ))
            .hint("submit the job again with the new number of tasks"));
        }
        let ScaleRequest { guaranteed, max } = request;
        if guaranteed == 0 || guaranteed > max {
            return Err(RequestError::refused("a service on Kubernetes has at least 1 replica")
                .hint("such as `muster scale NAME 2`, or `muster scale NAME 1..4`"));
        }
        let server = self.server().await?;
        let limits = json!({"minReplicas": guaranteed, "maxReplicas": max});
        let written = serde_json::to_string(&Replicas { guaranteed, max });
        let written = written.expect("numbers are valid JSON");
        let mut body = json!({"metadata": {"annotations": {names::REPLICAS: written}}});
        if found.key.api.is_of_kserve() {
            body["spec"] = json!({"predictor": limits});
        } else if let Some(autoscaler) = autoscaler_of(server, &found.key.namespace, name).await? {
            server.merge(&autoscaler, &json!({"spec": limits})).await?;
        } else if guaranteed < max {
            return Err(RequestError::refused(format!(
                "{name} has no autoscaler, and so no range of replicas"
            ))
            .hint("submit it with a range, such as `replicas: 1..4`"));
        } else {
            body["spec"] = json!({"replicas": guaranteed});
        }
        server.merge(&found.key.path(), &body).await?;
        let replicas = match (guaranteed, max) {
            (1, 1) => "1 replica".to_owned(),
            _ if guaranteed == max => format!("{max} replicas"),
            _ => format!("{guaranteed}..{max} replicas"),
        };
        Ok(ActionResponse { message: replicas })
    }

    async fn hold(&self, found: &FoundJob, state: JobState) -> Result<String> {
        match state {
            JobState::Held => return Ok("already held".to_owned()),
            JobState::Pending => {}
            state if state.is_final() => {
                return Err(RequestError::refused(format!(
                    "it had already ended: {}",
                    state.word()
                ))
                .hint("`muster run` submits it again"));
            }
            state => {
                return Err(RequestError::refused(format!(
                    "it is {}: only a pending job can be held",
                    state.word()
                ))
                .hint("`muster cancel` ends it"));
            }
        }
        let is_of_kueue = found.job().label(names::KUEUE_QUEUE).is_some();
        let can_be_held =
            found.key.api.is_batch() || matches!(found.key.api.kind, "JobSet" | "RayJob");
        if is_of_kueue || !can_be_held {
            return Err(RequestError::refused("its scheduler ignores a hold")
                .hint("`muster cancel` ends it; submit it again when it may start"));
        }
        // Not if it has been started since it was read.
        let version = &found.object["metadata"]["resourceVersion"];
        let body = json!({
            "metadata": {"annotations": {names::HELD: "true"}, "resourceVersion": version},
            "spec": {"suspend": true},
        });
        self.server().await?.merge(&found.key.path(), &body).await?;
        Ok("held".to_owned())
    }

    async fn release(&self, found: &FoundJob, state: JobState) -> Result<String> {
        if state != JobState::Held {
            return Ok("was not held".to_owned());
        }
        if found.job().is_stopped_service() {
            let body = json!({"metadata": {"annotations": {names::KSERVE_STOP: Value::Null}}});
            self.server().await?.merge(&found.key.path(), &body).await?;
            return Ok("released".to_owned());
        }
        if !found.job().is_suspended() {
            let name = &found.key.name;
            return Err(RequestError::refused("its parallelism is 0, so that it has no pods").hint(
                format!("`kubectl patch job {name} --type=merge --patch '{{\"spec\":{{\"parallelism\":1}}}}'` starts it"),
            ));
        }
        let mut body = json!({"metadata": {"annotations": {names::HELD: Value::Null}}});
        // No scheduler starts a job without a queue.
        if found.job().label(names::QUEUE).is_none() {
            body["spec"] = suspend(found, false)["spec"].take();
        }
        self.server().await?.merge(&found.key.path(), &body).await?;
        Ok("released".to_owned())
    }

    /// Ends the pods of a running job, and lets it start again.
    async fn requeue(&self, found: &FoundJob, state: JobState) -> Result<String> {
        let name = &found.key.name;
        let job = found.job();
        check_requeue(found, state)?;
        let server = self.server().await?;
        let path = found.key.path();
        if job.api.is_service() {
            // A change of the pod template replaces every replica.
            let mark = json!({names::RESTARTED: now().0.to_string()});
            let body = if job.api.is_of_kserve() {
                json!({"spec": {"predictor": {"annotations": mark}}})
            } else {
                json!({"spec": {"template": {"metadata": {"annotations": mark}}}})
            };
            server.merge(&path, &body).await?;
            return Ok("its replicas are replaced".to_owned());
        }
        server.merge(&path, &suspend(found, true)).await?;
        // The scheduler of its queue starts it again, but the elements of an array together. Otherwise its
        // controller would not notice a suspension that ends before the pods do.
        if job.label(names::QUEUE).is_none() || job.array().is_some() {
            (self.settings.warn)(&format!(
                "waiting for the end of its pods; if this is interrupted, `muster release {name}` starts it again"
            ));
            let ended = tokio::time::timeout(LONGEST_END, self.wait_until_ended(found)).await;
            ended.map_err(|_| {
                RequestError::refused(format!("the pods of {name} have not ended"))
                    .hint(format!("`muster release {name}` starts it again when they have"))
            })??;
            server.merge(&path, &suspend(found, false)).await?;
        }
        Ok("requeued".to_owned())
    }

    /// Waits until a job has no pods that run or are being ended.
    async fn wait_until_ended(&self, found: &FoundJob) -> Result<()> {
        let has_ended =
            |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        // A RayJob that is suspended forgets the cluster that has its pods.
        let of_cluster = found.job().ray_cluster().map(|cluster| found.key.pods_path(cluster));
        let server = self.server().await?;
        loop {
            let mut pods = self.find(found.job().number()).await?.pods;
            if let Some(path) = &of_cluster {
                pods.extend(server.list(path.clone()).await?.items);
            }
            if pods.iter().all(has_ended) {
                return Ok(());
            }
            server.wait_for_change(&self.last_lists(), REREAD_INTERVAL).await;
        }
    }
}

/// Returns the path of the autoscaler of a Deployment; `None` if it has none.
async fn autoscaler_of(server: &ApiServer, namespace: &str, name: &str) -> Result<Option<String>> {
    let path =
        format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/{name}");
    Ok(server.get(&path).await?.map(|_| path))
}

/// Returns the error for an action on elements, which only the whole array has on Kubernetes.
fn refuse_elements(action: KubernetesAction, indices: Vec<u32>) -> RequestError {
    let array = Array::list(indices, None).filter(|_| action == KubernetesAction::Requeue);
    match array {
        Some(array) => RequestError::refused(
            "Kubernetes runs no element of an array or sweep again",
        )
        .hint(format!("submit them as a job of their own: `muster run FILE --array {array}`")),
        None => RequestError::refused("one element of an array cannot be changed on Kubernetes")
            .hint("leave out the index to change the array"),
    }
}

/// Returns an error for a job that cannot start again.
fn check_requeue(found: &FoundJob, state: JobState) -> Result<()> {
    let job = found.job();
    if state.is_final() {
        return Err(RequestError::refused(format!("it had already ended: {}", state.word()))
            .hint("`muster run` submits it again"));
    }
    if matches!(state, JobState::Pending | JobState::Held) {
        return Err(RequestError::refused(format!("it is {}: it has not started", state.word()))
            .hint("only a running job can be requeued"));
    }
    if !job.api.is_service() && !job.can_be_suspended() {
        return Err(RequestError::refused(format!(
            "the controller of a {} does not start it again",
            job.api.kind
        ))
        .hint("cancel it and submit it again"));
    }
    if job.label(names::KUEUE_QUEUE).is_some() {
        return Err(RequestError::refused(
            "Kueue starts a suspended job again before its pods have ended",
        )
        .hint("`kubectl patch workload NAME --type=merge --patch '{\"spec\":{\"active\":false}}'`, and when its pods are gone the same with `true`"));
    }
    // These pods would not run again, and the others would wait for them.
    let counted = job.object["status"]["succeeded"].as_u64().unwrap_or(0);
    let seen = found.pods.iter().filter(|pod| pod["status"]["phase"] == "Succeeded").count();
    let ended = counted.max(seen as u64);
    if ended > 0 && !job.has_elements() {
        return Err(RequestError::refused(format!(
            "{ended} of its pods have ended with success, and Kubernetes does not run these again"
        ))
        .hint("cancel it and submit it again"));
    }
    Ok(())
}

/// Returns the change that suspends a job, or lets it start.
fn suspend(found: &FoundJob, is_suspended: bool) -> Value {
    let suspend = json!({"suspend": is_suspended});
    let is_of_kubeflow = found.key.api.group == "kubeflow.org";
    json!({"spec": if is_of_kubeflow { json!({"runPolicy": suspend}) } else { suspend }})
}
