//! Explanations, nodes and queues, as the scheduler inside the cluster would give them.

use std::collections::BTreeMap;

use muster_api::types::{ExplainResponse, NodeList, QueueList};
use muster_kubernetes::job::{roles, volcano};
use muster_kubernetes::names;
use muster_model::view::{Explanation, GangPods, GangSource, GangView};
use muster_model::{ElementId, JobId, Reason};
use muster_operator::ObjectName;
use muster_operator::error::ReadError;
use muster_operator::reader::{ClusterReader, ReaderSettings};

use serde_json::Value;

use super::list::FoundJob;
use super::{KubernetesScheduler, RequestError, Result};
use crate::route::now;

impl KubernetesScheduler {
    /// Explains why a job waits, or where it runs.
    pub(super) async fn explain(&self, job: JobId, index: Option<u32>) -> Result<ExplainResponse> {
        let found = self.find(job).await?;
        if let Some(reason) = &found.reason
            && volcano::is_waiting(found.job())
        {
            return Ok(of_volcano(&found, ElementId { job, index: index.unwrap_or(0) }, reason));
        }
        // The gang of a RayJob is its cluster; its name stays when the cluster is deleted.
        let cluster = found.job().ray_cluster().filter(|_| !found.pods().is_empty());
        let name = match cluster {
            Some(cluster) => format!("raycluster/{cluster}"),
            None => format!("{}/{}", found.key.api.word(), found.key.name),
        };
        // Until a RayJob has pods, only one that is suspended is a gang; KubeRay says why others have none.
        if found.job().is_ray() && found.pods().is_empty() && !found.job().is_suspended() {
            pod_to_explain(&found)?;
        }
        let reader = self.reader(Some(found.key.namespace.clone())).await?;
        let explained = match (name.parse::<ObjectName>(), volcano_group(&found)) {
            (Ok(name), _) => reader.explain(&name).await?,
            (Err(_), Some(group)) => match reader.explain(&group).await {
                // Volcano deletes it between two starts.
                Err(ReadError::NotFound { .. }) => reader.explain(&pod_to_explain(&found)?).await?,
                explained => {
                    let (now, mut explanation, mut gang) = explained?;
                    explanation.name.clone_from(&found.key.name);
                    gang.object = name;
                    (now, explanation, gang)
                }
            },
            // Replicas of a service are no gang.
            (Err(_), None) => reader.explain(&pod_to_explain(&found)?).await?,
        };
        let (now, mut explanation, gang) = explained;
        explanation.element = ElementId { job, index: index.unwrap_or(0) };
        Ok(ExplainResponse { now, explanation, gang: Some(gang) })
    }

    pub(super) async fn nodes(&self) -> Result<NodeList> {
        let (now, nodes) = self.reader(None).await?.nodes().await?;
        Ok(NodeList { now, nodes })
    }

    pub(super) async fn queues(&self) -> Result<QueueList> {
        let (now, queues) = self.reader(None).await?.queues().await?;
        Ok(QueueList { now, queues })
    }

    pub(super) async fn reader(&self, namespace: Option<String>) -> Result<ClusterReader> {
        let settings = ReaderSettings {
            kubeconfig: None,
            context: self.settings.context.clone(),
            namespace,
            levels: Vec::new(),
            queues: None,
            lease: (names::NAMESPACE.to_owned(), names::LEASE.to_owned()),
        };
        Ok(ClusterReader::new(settings).await?)
    }
}

/// Explains a pending Job of Volcano, by the reason in the PodGroup that Volcano makes for it.
fn of_volcano(found: &FoundJob, element: ElementId, reason: &Reason) -> ExplainResponse {
    let key = &found.key;
    let shown = found.view(&key.namespace);
    let of_roles = || roles(found.job()).iter().map(|role| role.pods).sum();
    let pods = match u32::try_from(found.pods.len()).unwrap_or(u32::MAX) {
        0 => GangPods { expected: of_roles(), ..GangPods::default() },
        waiting => GangPods { waiting, ..GangPods::default() },
    };
    let name = format!("{}/{}", key.api.word(), key.name);
    let explanation = Explanation {
        reasons: vec![reason.clone()],
        ..Explanation::blank(element, key.name.clone(), shown.state, shown.queue)
    };
    let gang = GangView {
        object: name.clone(),
        gang: name,
        namespace: key.namespace.clone(),
        scheduler: volcano::SCHEDULER.to_owned(),
        source: GangSource::Condition,
        pods,
        since: None,
        missing_rules: Vec::new(),
        notes: Vec::new(),
        jobs: BTreeMap::new(),
    };
    ExplainResponse { now: now(), explanation, gang: Some(gang) }
}

/// Returns the PodGroup of a Job of Volcano that has not ended: Volcano deletes it at the end.
fn volcano_group(found: &FoundJob) -> Option<ObjectName> {
    let is_live = found.key.api.is_of_volcano() && !found.view("").state.is_final();
    let pods = found.pods();
    let group = volcano::group_of_pod(pods.first().filter(|_| is_live)?)?;
    format!("podgroup/{group}").parse().ok()
}

/// Returns a pod of a job: one that has no node yet, else the first.
fn pod_to_explain(found: &FoundJob) -> Result<ObjectName> {
    let is_waiting = |pod: &&&Value| !pod["spec"]["nodeName"].is_string();
    let pods = found.pods();
    let pod = pods.iter().find(is_waiting).or(pods.first()).ok_or_else(|| {
        let name = &found.key.name;
        let shown = found.view("");
        if shown.state.is_final() {
            let outcome = shown.elements.first().and_then(|element| element.outcome.as_ref());
            let how = outcome.map_or(String::new(), |outcome| format!(": {outcome}"));
            return RequestError::refused(format!("{name} has ended, {}{how}", shown.state.word()))
                .hint(format!("`muster show {name}` has more"));
        }
        let text = match shown.waiting_for {
            Some(Reason::Native { message, .. }) => format!("{name} has no pods yet: {message}"),
            Some(Reason::Held) => format!("{name} is held: `muster release` starts it"),
            _ => format!("{name} has no pods yet"),
        };
        RequestError::refused(text)
            .hint(format!("`kubectl describe {}/{name}` shows why", found.key.api.word()))
    })?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    format!("pod/{name}").parse().map_err(RequestError::refused)
}

#[cfg(test)]
mod tests {
    use muster_kubernetes::job::APIS;
    use muster_model::view::JobState;
    use serde_json::json;

    use super::super::JobKey;
    use super::*;

    #[test]
    fn a_job_of_volcano_waits_for_the_reason_of_its_pod_group() {
        let api = APIS.iter().find(|api| api.is_of_volcano()).unwrap();
        let object = json!({
            "metadata": {"name": "train", "namespace": "team", "uid": "a1"},
            "spec": {"queue": "research", "tasks": [{"name": "main", "replicas": 4}]},
            "status": {"state": {"phase": "Pending"}},
        });
        let key = JobKey {
            api,
            root: "/apis/batch.volcano.sh/v1alpha1".to_owned(),
            namespace: "team".to_owned(),
            name: "train".to_owned(),
        };
        let reason = Reason::Native {
            code: "NotEnoughResources".to_owned(),
            message: "4/4 tasks in gang unschedulable".to_owned(),
            evidence: Vec::new(),
        };
        let pods = Vec::new();
        let mut found = FoundJob { key, object, pods, reason: Some(reason.clone()) };
        let explained = |found: &FoundJob| {
            let answer = of_volcano(found, ElementId::single(JobId(1)), &reason);
            let gang = answer.gang.unwrap();
            assert_eq!((gang.object.as_str(), gang.scheduler.as_str()), ("vcjob/train", "volcano"));
            assert_eq!(answer.explanation.reasons, std::slice::from_ref(&reason));
            assert_eq!(answer.explanation.state, JobState::Pending);
            (gang.pods.expected, gang.pods.waiting)
        };
        assert_eq!(explained(&found), (4, 0));
        assert_eq!(found.view("team").waiting_for, Some(reason.clone()));
        found.pods = vec![json!({}), json!({})];
        assert_eq!(explained(&found), (0, 2));
    }
}
