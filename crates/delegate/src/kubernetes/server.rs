//! Requests to the API server, and its answers as errors of requests.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select_all;
use futures_util::{AsyncBufRead, TryStreamExt};
use http::HeaderValue;
use kube::Client;
use kube::core::WatchEvent;
use muster_kubernetes::job::{APIS, JobApi};
use muster_operator::access;
use muster_operator::address::{get, merge, with_body};
use muster_operator::error::{OperatorError, ReadError, code};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{RETRY_INTERVAL, RequestError, Result};

/// Media types of the list of all API groups. The first has all resources, too (aggregated discovery,
/// Kubernetes 1.30 and later); older servers answer with the second, which is told from it.
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// One cluster, as one user.
pub(super) struct ApiServer {
    client: Client,
    /// Client without a limit for pauses within an answer.
    streams: Client,
    /// Namespace of the context.
    pub(super) namespace: String,
    served: ServedKinds,
}

/// API versions of each served kind, by group and plural: the one that the server prefers first.
pub(super) type ServedKinds = BTreeMap<(String, String), Vec<String>>;

/// List of objects at an instant.
#[derive(Debug)]
pub(super) struct Listed {
    /// Path of the list.
    pub(super) path: String,
    /// Objects as the API server prints them.
    pub(super) items: Vec<Value>,
    /// Version from which changes can be followed.
    pub(super) version: String,
}

/// Asks for a list of metadata alone.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");

#[derive(Deserialize)]
struct MetadataList {
    metadata: ListMetadata,
    items: Option<Vec<MetadataItem>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
struct MetadataItem {
    metadata: ObjectMetadata,
}

/// Metadata by which a job is found; `managedFields`, the largest part, are not read.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectMetadata {
    name: String,
    namespace: String,
    uid: String,
    annotations: Value,
    owner_references: Value,
}

/// Paths of lists that were read together, each with the version from which its changes follow.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct ReadLists(pub(super) Vec<(String, String)>);

impl ReadLists {
    /// Returns a number that stands for these versions.
    pub(super) fn revision(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        // Programs may read it as a floating-point number.
        hasher.finish() >> 12
    }

    /// Returns true if these are lists of all namespaces.
    pub(super) fn are_of_all(&self) -> bool {
        self.0.iter().any(|(path, _)| !path.contains("/namespaces/"))
    }
}

impl ApiServer {
    /// Connects to the cluster of a context, and asks what it serves.
    pub(super) async fn connect(context: Option<&str>) -> Result<Self> {
        Self::connect_with(None, context).await
    }

    /// Connects to the cluster of a context of this kubeconfig; `None` for the one that kubectl reads.
    pub(super) async fn connect_with(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self> {
        let (client, namespace) =
            access::client_of_user(kubeconfig, context).await.map_err(ReadError::from)?;
        let streams =
            access::client_for_streams(kubeconfig, context).await.map_err(ReadError::from)?;
        let served = discover(&client).await.map_err(ReadError::from)?;
        if served.is_empty() {
            return Err(RequestError::refused(
                "the API server does not list its APIs in one answer",
            )
            .hint("Muster needs Kubernetes 1.30 or later; `kubectl version` shows the server's"));
        }
        Ok(Self { client, streams, namespace, served })
    }

    /// Returns true if an API group is served, such as that of Kueue.
    pub(super) fn serves(&self, group: &str, plural: &str) -> bool {
        !self.versions(group, plural).is_empty()
    }

    /// Returns the API versions that serve a kind, as `batch/v1`, the preferred one first.
    pub(super) fn versions(&self, group: &str, plural: &str) -> &[String] {
        let key = (group.to_owned(), plural.to_owned());
        self.served.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Returns the path of the API version that serves a kind, up to the namespace.
    pub(super) fn root(&self, group: &str, plural: &str) -> Option<String> {
        let version = self.versions(group, plural).first()?;
        Some(format!("/apis/{version}"))
    }

    /// Returns the kinds of jobs that the cluster serves, each with its path up to the namespace.
    pub(super) fn job_kinds(&self) -> impl Iterator<Item = (&'static JobApi, String)> {
        APIS.iter().filter_map(|api| Some((api, self.root(api.group, api.plural)?)))
    }

    /// Returns an object; `None` if it does not exist.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.client.request(get(path)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Returns the objects at a path.
    pub(super) async fn list(&self, path: String) -> Result<Listed> {
        let mut list: Value = self.client.request(get(&path)).await.map_err(refusal)?;
        let items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok(Listed { path, items, version })
    }

    /// Returns the objects at a path with their metadata alone, which costs the server and this process a
    /// fraction of a list in full.
    pub(super) async fn list_metadata(&self, path: String) -> Result<Listed> {
        let mut request = get(&path);
        request.headers_mut().insert(http::header::ACCEPT, METADATA_ONLY);
        let list: MetadataList = self.client.request(request).await.map_err(refusal)?;
        let items = list.items.unwrap_or_default();
        let items = items.into_iter().map(|item| json!({"metadata": item.metadata})).collect();
        Ok(Listed { path, items, version: list.metadata.resource_version })
    }

    /// Creates an object at the path of its kind.
    pub(super) async fn create(
        &self,
        path: &str,
        object: &Value,
    ) -> std::result::Result<Value, kube::Error> {
        self.client.request(with_body(http::Method::POST, path, object)).await
    }

    /// Merges a patch into an object.
    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<Value> {
        self.try_merge(path, body).await.map_err(refusal)
    }

    /// Merges a patch into an object; the error is that of the client, for callers that try again.
    pub(super) async fn try_merge(
        &self,
        path: &str,
        body: &Value,
    ) -> std::result::Result<Value, kube::Error> {
        self.client.request(merge(path, body)).await
    }

    /// Deletes an object, and what belongs to it afterwards; true if it existed.
    pub(super) async fn delete(&self, path: &str) -> Result<bool> {
        self.delete_if(path, None).await
    }

    /// Deletes an object as [`Self::delete`] does, if its id and version are those of the preconditions;
    /// else the error is a conflict.
    pub(super) async fn delete_if(&self, path: &str, preconditions: Option<Value>) -> Result<bool> {
        let mut body =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        if let Some(preconditions) = preconditions {
            body["preconditions"] = preconditions;
        }
        let request = with_body(http::Method::DELETE, path, &body);
        match self.client.request::<Value>(request).await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(404) => Ok(false),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Opens a stream of bytes, such as the output of a container.
    pub(super) async fn stream(&self, path: &str) -> Result<impl AsyncBufRead + use<>> {
        self.streams.request_stream(get(path)).await.map_err(refusal)
    }

    /// Waits until an object at one of the paths changes after its version, or for so long.
    pub(super) async fn wait_for_change(&self, lists: &ReadLists, wait: Duration) {
        let waits = lists.0.iter().map(|(path, version)| {
            let sign = if path.contains('?') { '&' } else { '?' };
            let secs = wait.as_secs().max(1);
            let path =
                format!("{path}{sign}watch=1&resourceVersion={version}&timeoutSeconds={secs}");
            Box::pin(self.first_event(path))
        });
        let waits: Vec<_> = waits.collect();
        if waits.is_empty() {
            return;
        }
        // The server ends a watch in time; a connection that died is given up.
        let _ = tokio::time::timeout(wait + Duration::from_secs(5), select_all(waits)).await;
    }

    /// Completes at the first event, or at the end of the watch. An error ends it, too, after a
    /// pause; the next list returns the same error to the caller.
    async fn first_event(&self, path: String) {
        if let Ok(events) = self.streams.request_events::<Value>(get(&path)).await {
            let mut events = pin!(events);
            loop {
                match events.try_next().await {
                    Ok(Some(WatchEvent::Bookmark(_))) => {}
                    Ok(Some(WatchEvent::Error(_))) | Err(_) => break,
                    Ok(_) => return,
                }
            }
        }
        // Without the right to watch, or from a version that is too old: look again after a while.
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Asks the API server which kinds it serves.
async fn discover(client: &Client) -> std::result::Result<ServedKinds, kube::Error> {
    let request = http::Request::get("/apis")
        .header(http::header::ACCEPT, DISCOVERY)
        .body(Vec::new())
        .expect("the address is valid");
    Ok(served_kinds(&client.request(request).await?))
}

/// Reads the API server's list of all groups, versions and resources.
fn served_kinds(answer: &Value) -> ServedKinds {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut served = ServedKinds::new();
    for group in list(&answer["items"]) {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        // The first version is the preferred one.
        for version in list(&group["versions"]) {
            let number = version["version"].as_str().unwrap_or_default();
            for resource in list(&version["resources"]) {
                let plural = resource["resource"].as_str().unwrap_or_default();
                let key = (name.to_owned(), plural.to_owned());
                served.entry(key).or_default().push(format!("{name}/{number}"));
            }
        }
    }
    served
}

/// Turns an answer of the API server into an error with a next step.
pub(super) fn refusal(error: kube::Error) -> RequestError {
    match code(&error) {
        Some(403) => RequestError::forbidden(message(&error)).hint(
            "`kubectl auth can-i --list` shows your rights; an administrator can extend them",
        ),
        Some(404) => RequestError::not_found(message(&error))
            .hint("it may have been deleted, or its namespace does not exist: `muster ps -a` lists jobs, `kubectl get namespaces` lists namespaces"),
        Some(409) => RequestError::conflict(message(&error)),
        Some(code) if code < 500 && code != 401 && code != 429 => {
            RequestError::refused(format!("Kubernetes rejected it: {}", message(&error)))
        }
        _ => ReadError::from(error).into(),
    }
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl From<ReadError> for RequestError {
    fn from(error: ReadError) -> Self {
        let text = error.to_string();
        match error {
            ReadError::Silent(_) => Self::unavailable(text)
                .hint("`kubectl cluster-info` shows which server the kubeconfig names; a proxy is that of its `proxy-url`, or HTTPS_PROXY"),
            ReadError::Credentials(_) => Self::refused(text)
                .hint("they may have expired; `kubectl auth whoami` shows whether they are valid"),
            ReadError::Forbidden(_) => Self::forbidden(text)
                .hint("an administrator can bind the ClusterRole muster-viewer to you"),
            ReadError::Published { options, .. } => Self::refused(text).hint(format!(
                "use the version of the scheduler, or `muster explain` with {options} as it has them"
            )),
            ReadError::NotFound { .. } => {
                Self::not_found(text).hint("`muster ps -a` lists all jobs")
            }
            ReadError::Ambiguous { .. } => Self::not_found(text).hint("name the kind, too"),
            ReadError::Cluster(OperatorError::Credentials(_)) => Self::refused(text)
                .hint("`kubectl auth whoami` with the same kubeconfig shows whether they are valid"),
            ReadError::Cluster(_) => Self::refused(text)
                .hint("`kubectl get nodes` with the same kubeconfig shows whether it is valid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_version_of_a_kind_is_first() {
        let version = |number: &str, plurals: &[&str]| {
            let resources: Vec<Value> =
                plurals.iter().map(|plural| json!({"resource": plural})).collect();
            json!({"version": number, "resources": resources})
        };
        let group = json!({
            "metadata": {"name": "ray.io"},
            "versions": [version("v1", &["rayjobs"]), version("v1alpha1", &["rayjobs", "old"])],
        });
        let served = served_kinds(&json!({"items": [group]}));
        let of = |plural: &str| served.get(&("ray.io".to_owned(), plural.to_owned())).cloned();
        assert_eq!(of("rayjobs").unwrap(), ["ray.io/v1", "ray.io/v1alpha1"]);
        assert_eq!(of("old").unwrap(), ["ray.io/v1alpha1"]);
        assert_eq!(of("new"), None);
        assert!(served_kinds(&json!({"kind": "APIGroupList", "groups": []})).is_empty());
    }
}
