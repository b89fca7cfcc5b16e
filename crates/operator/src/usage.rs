//! The durable record of decayed usage: a ConfigMap beside the lease. Without it, fair share would
//! start from zero with each process.

use http::Method;
use kube::Client;
use muster_kubernetes::names::USAGE;
use muster_scheduler::UsageRecord;
use serde_json::{Value, json};

use crate::address::{get, with_body};
use crate::error::{code, message};

/// Key of the record in the ConfigMap.
const KEY: &str = "usage.json";

/// The ConfigMap with the record.
#[derive(Clone)]
pub(crate) struct UsageStore {
    client: Client,
    folder: String,
}

impl UsageStore {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self { client, folder: format!("/api/v1/namespaces/{namespace}/configmaps") }
    }

    /// Returns the record. `None` if there is none, or if it cannot be read, which is logged.
    ///
    /// # Errors
    /// If the API server does not answer: what it has must not be overwritten.
    pub(crate) async fn load(&self) -> Result<Option<UsageRecord>, kube::Error> {
        let map: Value = match self.client.request(get(&format!("{}/{USAGE}", self.folder))).await {
            Ok(map) => map,
            Err(error) if code(&error) == Some(404) => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = map["data"][KEY].as_str().unwrap_or_default();
        match serde_json::from_str(text) {
            Ok(record) => Ok(Some(record)),
            Err(error) => {
                tracing::error!(
                    "the recorded usage cannot be read, so fair share starts from zero: {error}"
                );
                Ok(None)
            }
        }
    }

    /// Writes the record. A failure is logged: the next record comes soon.
    pub(crate) async fn save(&self, record: UsageRecord) {
        let text = match serde_json::to_string(&record) {
            Ok(text) => text,
            Err(error) => return tracing::error!("usage cannot be recorded: {error}"),
        };
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": USAGE},
            "data": {KEY: text},
        });
        let path = format!("{}/{USAGE}", self.folder);
        let mut result = self.client.request::<Value>(with_body(Method::PUT, &path, &body)).await;
        if matches!(&result, Err(error) if code(error) == Some(404)) {
            let post = with_body(Method::POST, &self.folder, &body);
            result = self.client.request::<Value>(post).await;
        }
        if let Err(error) = result {
            tracing::warn!("cannot record usage: {}", message(&error));
        }
    }
}
