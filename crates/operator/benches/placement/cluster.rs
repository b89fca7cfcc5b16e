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
use crate::pods::{GangStyle, Workload};

/// Namespace of the pods.
const NAMESPACE: &str = "placement-bench";
/// Objects that schedulers make for pods: API and kind.
const RECORDS: [(&str, &str); 2] =
    [("kueue.x-k8s.io/v1beta2", "workloads"), ("scheduling.run.ai/v1alpha2", "bindrequests")];
/// Requests at the same time, as many as the scheduler posts.
const AT_ONCE: usize = 32;
/// Tries of a request whose connection fails.
const TRIES: u32 = 4;
/// Time over which the API server must be calm before a measurement, and the share of a processor
/// that it may use then, the request for its metrics included.
const CALM_PERIOD: Duration = Duration::from_secs(2);
const CALM_CPU: f64 = 0.2;
const CALM_TRIES: u32 = 30;
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
        if let Some(path) = pod_groups(workload.gangs) {
            self.post_all(&path, workload.pod_groups()).await?;
        }
        self.post_all(&jobs(), workload.jobs()).await?;
        self.post_all(&pods(), workload.pods()).await
    }

    async fn post_all(&self, path: &str, objects: Vec<Value>) -> Result<(), Failure> {
        let posts = objects.iter().map(|object| self.send(Method::POST, path, object));
        stream::iter(posts).buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        Ok(())
    }

    /// Removes all pods of the namespace and all that schedulers keep about them, and waits until
    /// they are gone.
    pub async fn clear(&self) -> Result<(), Failure> {
        let now = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
        });
        let groups = GangStyle::ALL.into_iter().filter_map(pod_groups);
        let records = RECORDS.iter().map(|(api, kind)| of_kind(api, kind));
        // Jobs first: they would replace their pods.
        for path in [jobs(), pods()].into_iter().chain(groups).chain(records) {
            match self.send(Method::DELETE, &path, &now).await {
                // Without their feature gate or definition there are none.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                other => drop(other?),
            }
            self.release(&path).await?;
            while !self.items(&format!("{path}?limit=1")).await?.is_empty() {
                pause().await;
            }
        }
        Ok(())
    }

    /// Removes the finalizers of a scheduler that has ended.
    async fn release(&self, path: &str) -> Result<(), Failure> {
        let items = self.items(path).await?;
        let is_held = |item: &&Value| {
            let finalizers = item["metadata"]["finalizers"].as_array().into_iter().flatten();
            finalizers.filter_map(Value::as_str).any(|name| name.starts_with("kueue.x-k8s.io/"))
        };
        let patches = items.iter().filter(is_held).map(|item| async move {
            let path = format!("{path}/{}", item["metadata"]["name"].as_str().unwrap_or_default());
            match self.send(Method::PATCH, &path, &json!({"metadata": {"finalizers": null}})).await
            {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                other => other.map(drop),
            }
        });
        stream::iter(patches).buffer_unordered(AT_ONCE).try_for_each(|()| async { Ok(()) }).await?;
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
    pub async fn bindings(&self) -> Result<PodChanges, Failure> {
        let list = self.get(&format!("{}?limit=1", pods())).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let bound = "watch=1&fieldSelector=spec.nodeName!%3D";
        self.watch(&format!("{}?{bound}&resourceVersion={version}", pods())).await
    }

    /// Lists all pods, and follows their changes from then on.
    pub async fn follow_all_pods(&self) -> Result<PodChanges, Failure> {
        let version = self.get("/api/v1/pods?limit=1").await?["metadata"]["resourceVersion"].take();
        let version = version.as_str().ok_or("the list of pods has no version")?;
        let list = Request::get("/api/v1/pods").body(Vec::new())?;
        self.0.request_text(list).await?;
        self.watch(&format!("/api/v1/pods?watch=1&resourceVersion={version}")).await
    }

    async fn watch(&self, path: &str) -> Result<PodChanges, Failure> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(PodChanges { stream: Box::pin(self.0.request_stream(request).await?), line: Vec::new() })
    }

    /// Returns the number of pods on the node that has most; fails if a pod of a gang has none.
    pub async fn fullest_node(&self) -> Result<usize, Failure> {
        let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.items(&pods()).await? {
            let node = pod["spec"]["nodeName"].as_str().ok_or("a gang is not whole")?;
            *by_node.entry(node.to_owned()).or_default() += 1;
        }
        Ok(by_node.into_values().max().unwrap_or_default())
    }

    /// Waits until the API server has little to do: what it still does for the measurement before
    /// would count for this one. After a minute the measurement begins in any case.
    pub async fn calm(&self) -> Result<(), Failure> {
        let mut before = self.cpu_secs().await?;
        for _ in 0..CALM_TRIES {
            rest(CALM_PERIOD).await;
            let now = self.cpu_secs().await?;
            if now - before < CALM_CPU * CALM_PERIOD.as_secs_f64() {
                return Ok(());
            }
            before = now;
        }
        eprintln!("the API server was not calm before this measurement");
        Ok(())
    }

    /// Returns the processor time that the API server has used.
    async fn cpu_secs(&self) -> Result<f64, Failure> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = self.0.request_text(request).await?;
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
        Ok(value.ok_or("the API server does not say how much processor time it used")?.parse()?)
    }

    async fn items(&self, path: &str) -> Result<Vec<Value>, kube::Error> {
        Ok(self.get(path).await?["items"].as_array().cloned().unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let content = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let mut tries = TRIES;
        loop {
            let request = Request::builder()
                .method(method.clone())
                .uri(path)
                .header(http::header::CONTENT_TYPE, content)
                .body(body.clone())
                .map_err(kube::Error::HttpError)?;
            tries -= 1;
            match self.0.request(request).await {
                // The server may close a connection that was idle just before it is used again.
                Err(kube::Error::Service(_)) if tries > 0 => pause().await,
                // The first try arrived, and its answer was lost.
                Err(kube::Error::Api(status)) if status.code == 409 && tries + 1 < TRIES => {
                    return Ok(Value::Null);
                }
                answer => return answer,
            }
        }
    }
}

/// Rests between two checks of a condition.
pub async fn pause() {
    rest(PAUSE).await;
}

async fn rest(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Changes of pods that a watch reports.
pub struct PodChanges {
    stream: Pin<Box<dyn AsyncBufRead>>,
    line: Vec<u8>,
}

impl PodChanges {
    /// Reads changes until the watch fails.
    pub async fn until_end(&mut self) -> Result<(), Failure> {
        loop {
            self.next().await?;
        }
    }

    /// Waits until a pod comes into view. The first bytes of a line tell enough: reading 5,000 pods would take
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

fn jobs() -> String {
    of_kind("batch/v1", "jobs")
}

/// Returns the path of a gang style's PodGroups, if it has any.
fn pod_groups(gangs: GangStyle) -> Option<String> {
    gangs.pod_group_api().map(|api| of_kind(api, "podgroups"))
}

fn of_kind(api: &str, kind: &str) -> String {
    format!("/apis/{api}/namespaces/{NAMESPACE}/{kind}")
}
