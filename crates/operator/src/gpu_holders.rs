//! Pods that hold GPUs for pods with shares of them. A holder is made when the first share is given, and
//! deleted when the scheduler says that nobody needs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use muster_kubernetes::gpu_share::{HolderState, holder, holder_key, holder_state};
use muster_kubernetes::object::ObjectKey;
use muster_model::NodeName;
use muster_scheduler::PodId;
use serde_json::{Value, json};

use crate::actions::{Executor, FIRST_PAUSE};
use crate::address::{core, get, with_body};
use crate::error::{code, is_transient, message};

/// Longest wait for a holder: its image may have to be pulled. After it the pod is planned anew.
const START: Duration = Duration::from_secs(45);
/// Longest pause between two looks at a holder that starts.
const LOOK: Duration = Duration::from_secs(1);

impl Executor {
    /// Makes sure that a holder has a GPU of a node for a pod; returns the GPU's ids in the form that
    /// containers take.
    ///
    /// # Errors
    /// Why no holder has it, for users.
    pub(crate) async fn hold_gpu(
        &self,
        pod: &PodId,
        node: &NodeName,
        number: usize,
    ) -> Result<Arc<str>, String> {
        let holders = self.holders.as_ref().ok_or("this scheduler gives no shares of GPUs")?;
        let key = holder_key(&holders.namespace, node.as_str(), number);
        let body = holder(&key, node.as_str(), number, &holders.image);
        let give_up = Instant::now() + START;
        let mut pause = FIRST_PAUSE;
        loop {
            let obstacle = match self.look_at_holder(pod, &key, &body).await {
                Ok(HolderState::Holds(ids)) => return Ok(ids),
                Ok(HolderState::Failed(reason)) => {
                    return Err(format!("the pod {key} could not take a GPU: {reason}"));
                }
                Ok(HolderState::Starting(reason)) => reason,
                Ok(HolderState::Leaving) => Some("the last one is being deleted".to_owned()),
                Err(error) if is_transient(&error) => Some(message(&error)),
                Err(error) => {
                    return Err(format!("the pod {key} cannot be made: {}", message(&error)));
                }
            };
            if Instant::now() > give_up {
                let reason =
                    obstacle.unwrap_or_else(|| "the kubelet says nothing of it".to_owned());
                let secs = START.as_secs();
                return Err(format!("the pod {key} took no GPU within {secs} s: {reason}"));
            }
            self.rest(&mut pause).await;
            pause = pause.min(LOOK);
        }
    }

    /// Returns the state of a holder, which is made if there is none and the pod still waits.
    async fn look_at_holder(
        &self,
        pod: &PodId,
        key: &ObjectKey,
        body: &Value,
    ) -> Result<HolderState, kube::Error> {
        match self.client.request::<Value>(get(&core("pods", key))).await {
            Ok(pod) => return Ok(holder_state(pod)),
            Err(error) if code(&error) != Some(404) => return Err(error),
            Err(_) => {}
        }
        if self.pod(pod).await?.is_none_or(|facts| facts.is_terminating) {
            return Ok(HolderState::Failed(format!("{pod} is gone")));
        }
        let pods = format!("/api/v1/namespaces/{}/pods", key.namespace);
        match self.client.request::<Value>(with_body(Method::POST, &pods, body)).await {
            // Another pod with a share of the same GPU was faster.
            Err(error) if code(&error) == Some(409) => Ok(HolderState::Starting(None)),
            answer => answer.map(holder_state),
        }
    }

    /// Deletes a holder, until the API server says that it is gone or being deleted.
    pub(crate) async fn free_gpu(&self, holder: &PodId) {
        let path = core("pods", &holder.key);
        let body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": holder.uid},
        });
        let mut pause = FIRST_PAUSE;
        loop {
            match self.client.request::<Value>(with_body(Method::DELETE, &path, &body)).await {
                Ok(_) => return,
                // It is gone, or another one has its name.
                Err(error) if matches!(code(&error), Some(404 | 409)) => return,
                Err(error) => tracing::warn!("cannot delete {holder}: {}", message(&error)),
            }
            self.rest(&mut pause).await;
        }
    }
}
