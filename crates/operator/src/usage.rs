//! The durable record of decayed usage: a ConfigMap beside the lease. Without it, fair share would
//! start from zero with each process. Beside it are the settings of the active process, for
//! `muster explain --on kubernetes`.

use http::Method;
use kube::Client;
use muster_kubernetes::names::USAGE;
use muster_scheduler::{Level, UsageRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::address::{get, with_body};
use crate::error::{code, message};
use crate::{QueueSource, Settings};

/// Keys of the ConfigMap.
const KEY: &str = "usage.json";
const SETTINGS_KEY: &str = "settings.json";

/// Settings of the active process, as others read them. The record has the queue tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PublishedSettings {
    /// Topology levels and their labels, widest first.
    pub(crate) levels: Vec<(String, String)>,
    /// Source of the queues.
    pub(crate) queues: PublishedQueues,
    /// Namespace of the pods that hold GPUs for others; `None` where there are none.
    pub(crate) holders: Option<String>,
}

/// Source of the queues of the active process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PublishedQueues {
    /// `Queue` objects of the cluster, if there are any.
    #[default]
    Objects,
    /// Kueue's objects, whose namespaces name LocalQueues.
    Kueue,
    /// Tree of a file, which is in the record.
    File,
}

impl PublishedSettings {
    pub(crate) fn of(settings: &Settings) -> Self {
        let level = |one: &Level| (one.name.to_string(), one.label.clone());
        Self {
            levels: settings.levels.iter().map(level).collect(),
            queues: match settings.queues {
                QueueSource::Objects => PublishedQueues::Objects,
                QueueSource::Kueue => PublishedQueues::Kueue,
                QueueSource::Tree(_) => PublishedQueues::File,
            },
            holders: settings.holders.as_ref().map(|holders| holders.namespace.clone()),
        }
    }

    /// Returns the levels as a scheduler takes them.
    pub(crate) fn levels(&self) -> Vec<Level> {
        let level = |(name, label): &(String, String)| Level {
            name: name.as_str().into(),
            label: label.clone(),
        };
        self.levels.iter().map(level).collect()
    }
}

/// Content of the ConfigMap; a text that this version cannot read is an error with the reason.
pub(crate) struct Published {
    /// Record of usage; `None` if there is none.
    pub(crate) record: Result<Option<UsageRecord>, String>,
    /// Settings of the author of the record.
    pub(crate) settings: Result<PublishedSettings, String>,
}

impl Published {
    /// Returns the content of a cluster whose scheduler has published nothing.
    pub(crate) fn none() -> Self {
        Self::of(&Value::Null)
    }

    /// Reads the ConfigMap as the API server prints it; `Null` is none.
    fn of(map: &Value) -> Self {
        let text = |key: &str| map["data"][key].as_str();
        let record = text(KEY).map(serde_json::from_str).transpose();
        // Versions before these settings wrote none.
        let settings = text(SETTINGS_KEY).map(serde_json::from_str).transpose();
        Self {
            record: record.map_err(|error| error.to_string()),
            settings: settings.map(Option::unwrap_or_default).map_err(|error| error.to_string()),
        }
    }
}

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

    /// Returns the record and the settings of its author.
    ///
    /// # Errors
    /// If the API server does not answer: what it has must not be overwritten.
    pub(crate) async fn load(&self) -> Result<Published, kube::Error> {
        match self.client.request(get(&format!("{}/{USAGE}", self.folder))).await {
            Ok(map) => Ok(Published::of(&map)),
            Err(error) if code(&error) == Some(404) => Ok(Published::none()),
            Err(error) => Err(error),
        }
    }

    /// Writes the record. A failure is logged: the next record comes soon.
    pub(crate) async fn save(&self, record: UsageRecord, settings: PublishedSettings) {
        let texts = serde_json::to_string(&record)
            .and_then(|usage| Ok((usage, serde_json::to_string(&settings)?)));
        let (usage, settings) = match texts {
            Ok(texts) => texts,
            Err(error) => return tracing::error!("usage cannot be recorded: {error}"),
        };
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": USAGE},
            "data": {KEY: usage, SETTINGS_KEY: settings},
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuHolders;

    #[test]
    fn settings_are_read_as_they_were_published_and_older_records_have_none() {
        let level = Level { name: "rack".into(), label: "example.com/rack".to_owned() };
        let published = PublishedSettings::of(&Settings {
            context: None,
            levels: vec![level.clone()],
            queues: QueueSource::Kueue,
            listen: None,
            lease: None,
            holders: Some(GpuHolders {
                namespace: "muster-system".to_owned(),
                image: "muster:1".to_owned(),
            }),
        });
        let text = serde_json::to_string(&published).expect("settings are JSON");
        assert_eq!(
            text,
            r#"{"levels":[["rack","example.com/rack"]],"queues":"kueue","holders":"muster-system"}"#
        );
        let read: PublishedSettings = serde_json::from_str(&text).expect("what was written");
        assert_eq!(read, published);
        let levels: Vec<_> = read.levels().into_iter().map(|one| (one.name, one.label)).collect();
        assert_eq!(levels, [(level.name, level.label)]);
        assert_eq!(serde_json::from_str::<PublishedSettings>("{}").ok(), Some(Default::default()));
    }

    #[test]
    fn what_another_version_wrote_is_an_error_and_nothing_is_none() {
        let none = Published::none();
        assert!(none.record.expect("it is readable").is_none());
        assert_eq!(none.settings, Ok(PublishedSettings::default()));
        let of = |record: &str, settings: &str| {
            Published::of(&json!({"data": {KEY: record, SETTINGS_KEY: settings}}))
        };
        let newer = of("{", r#"{"queues":"directory"}"#);
        assert!(newer.record.is_err());
        let error = newer.settings.expect_err("an unknown source of queues");
        assert!(error.contains("directory"), "{error}");
        assert!(of("{}", r#"{"queues":"file"}"#).settings.is_ok());
    }
}
