//! Lists kinds of objects of a whole cluster for checks of it, and creates and deletes the objects of
//! their probes.

use std::path::Path;

use futures_util::future::join_all;
use muster_api::types::ErrorBody;
use serde_json::{Value, json};

use super::server::{ApiServer, refusal};

/// Path of the core API, whose group has no name.
const CORE: &str = "/api/v1";

/// Answer to the list of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum ListAnswer {
    /// Objects of all namespaces, as the API server prints them in a list: each without its API version
    /// and kind.
    Listed {
        /// API version that was asked, such as `batch/v1`.
        api_version: String,
        /// Objects in the order of their names.
        objects: Vec<Value>,
    },
    /// The cluster does not serve the kind, so that there are none.
    NotServed,
    /// The user may not list the kind.
    Forbidden,
    /// The kind could not be listed, with the message of the API server: the program behind it may not work.
    Failed(String),
}

/// Cluster that is checked, as one user.
pub struct CheckedCluster {
    server: ApiServer,
}

impl CheckedCluster {
    /// Connects to the cluster of a context of this kubeconfig; `None` for what kubectl would use.
    ///
    /// # Errors
    /// If the API server cannot be used, or does not answer.
    pub async fn connect(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, ErrorBody> {
        Ok(Self { server: ApiServer::connect_with(kubeconfig, context).await? })
    }

    /// Returns the namespace of the context.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.server.namespace
    }

    /// Returns true if the cluster serves a kind.
    #[must_use]
    pub fn serves(&self, (group, plural): (&str, &str)) -> bool {
        self.server.serves(group, plural)
    }

    /// Lists kinds, each given by its API group and its name in addresses; the answers are in the same
    /// order.
    pub async fn list(&self, kinds: &[(&str, &str)]) -> Vec<ListAnswer> {
        join_all(kinds.iter().map(|(group, plural)| self.list_kind(group, plural))).await
    }

    async fn list_kind(&self, group: &str, plural: &str) -> ListAnswer {
        let Some(root) = self.root(group, plural) else { return ListAnswer::NotServed };
        match self.server.list(format!("{root}/{plural}")).await {
            Ok(listed) => {
                ListAnswer::Listed { api_version: version(&root).to_owned(), objects: listed.items }
            }
            Err(error) if error.is_forbidden() => ListAnswer::Forbidden,
            Err(error) => ListAnswer::Failed(error.to_string()),
        }
    }

    /// Returns the objects of a namespace that have a label.
    ///
    /// # Errors
    /// If the API server refuses, or does not answer.
    pub async fn labelled(
        &self,
        (group, plural): (&str, &str),
        namespace: &str,
        label: &str,
    ) -> Result<Vec<Value>, ErrorBody> {
        let Some(root) = self.root(group, plural) else { return Ok(Vec::new()) };
        let path = format!("{root}/namespaces/{namespace}/{plural}?labelSelector={label}");
        Ok(self.server.list(path).await?.items)
    }

    /// Creates an object in a namespace, with the API version that the cluster serves.
    ///
    /// # Errors
    /// If the API server refuses, or does not serve the kind.
    pub async fn create(
        &self,
        (group, plural): (&str, &str),
        namespace: &str,
        mut object: Value,
    ) -> Result<(), ErrorBody> {
        let Some(root) = self.root(group, plural) else {
            return Err(super::RequestError::refused(format!(
                "the cluster does not serve {plural}.{group}"
            ))
            .into());
        };
        object["apiVersion"] = json!(version(&root));
        let path = format!("{root}/namespaces/{namespace}/{plural}");
        self.server.create(&path, &object).await.map_err(refusal)?;
        Ok(())
    }

    /// Deletes an object of a namespace; one that is gone is no error.
    ///
    /// # Errors
    /// If the API server refuses, or does not answer.
    pub async fn delete(
        &self,
        (group, plural): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Result<(), ErrorBody> {
        let Some(root) = self.root(group, plural) else { return Ok(()) };
        self.server.delete(&format!("{root}/namespaces/{namespace}/{plural}/{name}")).await?;
        Ok(())
    }

    /// Returns the path of the API version that serves a kind, up to the namespace.
    fn root(&self, group: &str, plural: &str) -> Option<String> {
        if group.is_empty() { Some(CORE.to_owned()) } else { self.server.root(group, plural) }
    }
}

/// Returns the API version at a path: `batch/v1`, or `v1` of the core API.
fn version(root: &str) -> &str {
    root.strip_prefix("/apis/").unwrap_or("v1")
}
