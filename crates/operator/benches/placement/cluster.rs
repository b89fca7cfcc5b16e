//! The cluster of a measurement: creates and removes pods, and sees their bindings.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::Failure;
use crate::pods::Workload;

/// Namespace of the pods.
const NAMESPACE: &str = "placement-bench";
/// Requests at the same time, as many as the scheduler posts.
const AT_ONCE: usize = 32;
/// Pause between two looks at what is being deleted.
const PAUSE: Duration = Duration::from_millis(200);

/// Client of the cluster that the kubeconfig names.
pub struct Cluster(Client);

impl Cluster {
    pub async fn connect() -> Result<Self, Failure> {
        let cluster = Self(Client::try_default().await?);
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        match cluster.send(Method::POST, "/api/v1/namespaces", &body).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other?),
        }
        // Pods are refused until the controller has made this account.
        let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default");
        while cluster.get(&account).await.is_err() {
            pause().await;
        }
        Ok(cluster)
    }

    /// Creates the pods, in their order as far as concurrent requests keep it.
    pub async fn create(&self, workload: &Workload) -> Result<(), Failure> {
        self.post_all(&pod_groups(), workload.pod_groups()).await?;
        self.post_all(&pods(), workload.pods()).await
    }

    async fn post_all(&self, path: &str, objects: Vec<Value>) -> Result<(), Failure> {
        let posts = objects.iter().map(|object| self.send(Method::POST, path, object));
        stream::iter(posts).buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        Ok(())
    }

    /// Removes all pods and PodGroups of the namespace, and waits until they are gone.
    pub async fn clear(&self) -> Result<(), Failure> {
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        for path in [pods(), pod_groups()] {
            match self.send(Method::DELETE, &path, &now).await {
                // Without its feature gate there are no PodGroups.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                other => drop(other?),
            }
            while !self.items(&format!("{path}?limit=1")).await?.is_empty() {
                pause().await;
            }
        }
        Ok(())
    }

    /// Binds the pods to the nodes in turn.
    pub async fn post_bindings(&self, workload: &Workload) -> Result<(), Failure> {
        let nodes = self.items("/api/v1/nodes").await?;
        let posts = (0..workload.pods as usize).map(|index| {
            let node = &nodes[index % nodes.len()]["metadata"]["name"];
            let binding = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": format!("pod-{index}"), "namespace": NAMESPACE},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let path = format!("{}/pod-{index}/binding", pods());
            async move { self.send(Method::POST, &path, &binding).await }
        });
        stream::iter(posts).buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        Ok(())
    }

    /// Follows the pods that get a node from now on.
    pub async fn bindings(&self) -> Result<Bindings, Failure> {
        let list = self.get(&format!("{}?limit=1", pods())).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let path =
            format!("{}?watch=1&fieldSelector=spec.nodeName!%3D&resourceVersion={version}", pods());
        let request = Request::get(path).body(Vec::new())?;
        Ok(Bindings { stream: Box::pin(self.0.request_stream(request).await?), line: Vec::new() })
    }

    /// Returns the number of pods on the node that has most.
    pub async fn fullest_node(&self) -> Result<usize, Failure> {
        let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.items(&pods()).await? {
            *by_node.entry(pod["spec"]["nodeName"].to_string()).or_default() += 1;
        }
        Ok(by_node.into_values().max().unwrap_or_default())
    }

    async fn items(&self, path: &str) -> Result<Vec<Value>, kube::Error> {
        Ok(self.get(path).await?["items"].as_array().cloned().unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.0.request(request).await
    }
}

/// Rests between two checks of a condition.
async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// Pods that have got a node, as they are seen.
pub struct Bindings {
    stream: Pin<Box<dyn AsyncBufRead>>,
    line: Vec<u8>,
}

impl Bindings {
    /// Waits for the next one. The first bytes of a line tell enough: reading 5,000 pods would take
    /// processor time from those that are measured.
    pub async fn next(&mut self) -> Result<(), Failure> {
        loop {
            self.line.clear();
            if self.stream.read_until(b'\n', &mut self.line).await? == 0 {
                return Err("the watch has ended".into());
            }
            if self.line.starts_with(br#"{"type":"ADDED""#) {
                return Ok(());
            }
            if self.line.starts_with(br#"{"type":"ERROR""#) {
                return Err(String::from_utf8_lossy(&self.line).into());
            }
        }
    }
}

fn pods() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

fn pod_groups() -> String {
    format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups")
}
