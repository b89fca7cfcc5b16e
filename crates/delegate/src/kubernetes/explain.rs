//! Explanations, nodes and queues, as the scheduler inside the cluster would give them.

use muster_api::types::{ExplainResponse, NodeList, QueueList};
use muster_kubernetes::names;
use muster_model::{ElementId, JobId, Reason};
use muster_operator::ObjectName;
use muster_operator::reader::{ClusterReader, ReaderSettings};

use serde_json::Value;

use super::list::FoundJob;
use super::{KubernetesScheduler, RequestError, Result};

impl KubernetesScheduler {
    /// Explains why a job waits, or where it runs.
    pub(super) async fn explain(&self, job: JobId, index: Option<u32>) -> Result<ExplainResponse> {
        let found = self.find(job).await?;
        // The gang of a RayJob is its cluster; its name stays when the cluster is deleted.
        let cluster = found.job().ray_cluster().filter(|_| !found.pods().is_empty());
        let name = match cluster {
            Some(cluster) => format!("raycluster/{cluster}"),
            None => format!("{}/{}", found.key.api.word(), found.key.name),
        };
        let name: ObjectName = match name.parse() {
            Ok(name) => name,
            // Replicas of a service are no gang, and the gang of a Volcano Job is another object.
            Err(_) => pod_to_explain(&found)?,
        };
        let reader = self.reader(Some(found.key.namespace.clone())).await?;
        let (now, mut explanation, gang) = reader.explain(&name).await?;
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
