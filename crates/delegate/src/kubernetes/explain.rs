//! Explanations, nodes and queues, as the scheduler inside the cluster would give them.

use muster_api::types::{ExplainResponse, NodeList, QueueList};
use muster_kubernetes::names;
use muster_model::{ElementId, JobId};
use muster_operator::ObjectName;
use muster_operator::reader::{ClusterReader, ReaderSettings};

use super::{KubernetesScheduler, RequestError, Result};

impl KubernetesScheduler {
    /// Explains why a job waits, or where it runs.
    pub(super) async fn explain(&self, job: JobId, index: Option<u32>) -> Result<ExplainResponse> {
        let found = self.find(job).await?;
        let name = format!("{}/{}", found.key.api.word(), found.key.name);
        let name: ObjectName = name.parse().map_err(RequestError::refused)?;
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

    async fn reader(&self, namespace: Option<String>) -> Result<ClusterReader> {
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
