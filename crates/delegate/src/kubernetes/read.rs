//! Lists kinds of objects of a whole cluster, for checks of it. It writes nothing.

use std::path::Path;

use futures_util::future::join_all;
use muster_api::types::ErrorBody;
use serde_json::Value;

use super::server::ApiServer;

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
    /// The user may not list the kind, with the message of the API server.
    Forbidden(String),
}

/// Lists kinds, each given by its API group and its name in addresses; the answers are in the same
/// order.
///
/// # Errors
/// If the API server cannot be used, or does not answer.
pub async fn read_lists(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    kinds: &[(&str, &str)],
) -> Result<Vec<ListAnswer>, ErrorBody> {
    let server = ApiServer::connect_with(kubeconfig, context).await.map_err(ErrorBody::from)?;
    let answers = kinds.iter().map(|(group, plural)| list(&server, group, plural));
    join_all(answers).await.into_iter().collect()
}

async fn list(server: &ApiServer, group: &str, plural: &str) -> Result<ListAnswer, ErrorBody> {
    let root = if group.is_empty() { Some(CORE.to_owned()) } else { server.root(group, plural) };
    let Some(root) = root else { return Ok(ListAnswer::NotServed) };
    match server.list(format!("{root}/{plural}")).await {
        Ok(listed) => {
            let version = root.strip_prefix("/apis/").unwrap_or("v1");
            Ok(ListAnswer::Listed { api_version: version.to_owned(), objects: listed.items })
        }
        Err(error) if error.is_forbidden() => Ok(ListAnswer::Forbidden(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
