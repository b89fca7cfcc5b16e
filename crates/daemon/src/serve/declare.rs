//! Settings that a state directory stores for its machine: declared GPUs and the node's name, which
//! do not change while jobs hold resources; and the settings of the last `muster serve`, for
//! daemons that another command starts.

use muster_backends::local::{TaskLimits, VirtualGpus};
use muster_model::{Bytes, NodeName, Span};
use muster_runtime::StoreError;
use serde::{Deserialize, Serialize};

use super::ServeError;
use crate::store::{Retention, SqliteStore};

/// Key in the `meta` table; value such as `8`, `8:h100` or `2:a100,7:a100-1g.10gb`.
const VIRTUAL_GPUS: &str = "virtual_gpus";

/// Key in the `meta` table; value is the host name.
const HOST: &str = "host";

/// Key in the `meta` table; value is JSON.
const SETTINGS: &str = "settings";

/// Settings of a daemon other than its queues; absent ones have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSettings {
    /// Time limit of jobs that set none, where the queues set none either.
    pub default_time: Option<Span>,
    /// Retention time of ended jobs.
    pub keep: Option<Span>,
    /// Highest number of ended jobs that are stored.
    pub keep_jobs: Option<u64>,
    /// Most bytes of output that are stored per task.
    pub log_limit: Option<Bytes>,
    /// Most processes of a task at one time.
    pub max_processes: Option<u32>,
}

/// Source of a daemon's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsSource {
    /// Given settings, which are stored.
    Exactly(DaemonSettings),
    /// Stored settings of the last `muster serve`.
    LastServe,
}

impl DaemonSettings {
    pub(super) fn retention(&self) -> Retention {
        let usual = Retention::default();
        Retention {
            history: self.keep.unwrap_or(usual.history),
            history_jobs: self.keep_jobs.unwrap_or(usual.history_jobs),
            ..usual
        }
    }

    pub(super) fn limits(&self) -> TaskLimits {
        let usual = TaskLimits::default();
        TaskLimits { log: self.log_limit.unwrap_or(usual.log), processes: self.max_processes }
    }
}

/// Returns the settings that are in force from now on, and stores them.
pub(super) fn settings(
    store: &SqliteStore,
    asked: &SettingsSource,
) -> Result<DaemonSettings, StoreError> {
    let unreadable = |error| StoreError::Corrupt(format!("its settings cannot be read: {error}"));
    match asked {
        SettingsSource::LastServe => {
            let known = store.meta(SETTINGS)?;
            Ok(known
                .map(|text| serde_json::from_str(&text).map_err(unreadable))
                .transpose()?
                .unwrap_or_default())
        }
        SettingsSource::Exactly(declared) => {
            let text = serde_json::to_string(declared).map_err(unreadable)?;
            store.set_meta(SETTINGS, (*declared != DaemonSettings::default()).then_some(&*text))?;
            Ok(declared.clone())
        }
    }
}

/// Returns the declared GPUs that are in force from now on, and stores them.
pub(super) fn virtual_gpus(
    store: &SqliteStore,
    asked: Option<&VirtualGpus>,
    idle: bool,
) -> Result<Option<VirtualGpus>, ServeError> {
    let declared = store.meta(VIRTUAL_GPUS)?.map(|text| parse(&text)).transpose()?;
    let Some(asked) = asked else { return Ok(declared) };
    let asked = (asked.count() > 0).then(|| asked.clone());
    if asked == declared {
        return Ok(declared);
    }
    if !idle {
        return Err(ServeError::OtherGpus {
            declared: name(declared.as_ref()),
            asked: name(asked.as_ref()),
        });
    }
    store.set_meta(VIRTUAL_GPUS, asked.as_ref().map(VirtualGpus::to_string).as_deref())?;
    Ok(asked)
}

/// Returns the name of this machine as a node, and a warning for users. A renamed host keeps its
/// old name as long as jobs run under it.
pub(super) fn node_name(
    store: &SqliteStore,
    host: &str,
    idle: bool,
) -> Result<(NodeName, Vec<String>), ServeError> {
    match store.meta(HOST)? {
        Some(known) if known != host && !idle => {
            let warning = format!(
                "this host was renamed to {host}; its node name stays {known} until the daemon starts without running jobs"
            );
            Ok((known.into(), vec![warning]))
        }
        Some(known) if known == host => Ok((host.into(), Vec::new())),
        Some(_) | None => {
            store.set_meta(HOST, Some(host))?;
            Ok((host.into(), Vec::new()))
        }
    }
}

fn parse(text: &str) -> Result<VirtualGpus, StoreError> {
    text.parse().map_err(|_| StoreError::Corrupt(format!("its declared GPUs read `{text}`")))
}

fn name(gpus: Option<&VirtualGpus>) -> String {
    let Some(gpus) = gpus else { return "the GPUs of this machine".to_owned() };
    match &gpus.kinds[..] {
        [(count, Some(model))] => format!("{count} virtual GPUs of model {model}"),
        [(count, None)] => format!("{count} virtual GPUs"),
        _ => format!("the virtual GPUs {gpus}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(text: &str) -> VirtualGpus {
        text.parse().unwrap()
    }

    #[test]
    fn a_declaration_lasts_until_another_one_is_possible() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path()).unwrap();
        let eight = gpus("6:h100,7:h100-1g.10gb");
        assert_eq!(virtual_gpus(&store, None, true).unwrap(), None);
        assert_eq!(virtual_gpus(&store, Some(&eight), true).unwrap(), Some(eight.clone()));
        assert_eq!(virtual_gpus(&store, None, false).unwrap(), Some(eight.clone()));
        assert_eq!(virtual_gpus(&store, Some(&eight), false).unwrap(), Some(eight.clone()));
        let refused = virtual_gpus(&store, Some(&gpus("4")), false);
        assert!(matches!(refused, Err(ServeError::OtherGpus { .. })));
        assert_eq!(virtual_gpus(&store, Some(&gpus("4")), true).unwrap(), Some(gpus("4")));
        assert_eq!(virtual_gpus(&store, Some(&gpus("0")), true).unwrap(), None);
        assert_eq!(virtual_gpus(&store, None, true).unwrap(), None);
    }

    #[test]
    fn settings_are_those_of_the_last_serve() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path()).unwrap();
        let held = |asked| settings(&store, &asked).unwrap();
        assert_eq!(held(SettingsSource::LastServe), DaemonSettings::default());
        let all = DaemonSettings {
            default_time: Some(Span::from_secs(60)),
            keep: Some(Span::from_secs(5)),
            keep_jobs: Some(3),
            log_limit: Some(Bytes(7)),
            max_processes: Some(9),
        };
        assert_eq!(held(SettingsSource::Exactly(all.clone())), all);
        assert_eq!(held(SettingsSource::LastServe), all);
        assert_eq!(
            (all.retention().history, all.retention().history_jobs),
            (Span::from_secs(5), 3)
        );
        assert_eq!(all.limits(), TaskLimits { log: Bytes(7), processes: Some(9) });
        assert_eq!(
            held(SettingsSource::Exactly(DaemonSettings::default())),
            DaemonSettings::default()
        );
        assert_eq!(
            held(SettingsSource::LastServe),
            DaemonSettings::default(),
            "each serve replaces all"
        );
    }

    #[test]
    fn a_renamed_host_keeps_its_name_while_jobs_run() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path()).unwrap();
        let named = |host, idle| {
            node_name(&store, host, idle)
                .map(|(name, words)| (name.to_string(), words.len()))
                .unwrap()
        };
        assert_eq!(named("old", true), ("old".to_owned(), 0));
        assert_eq!(named("new", false), ("old".to_owned(), 1));
        assert_eq!(named("new", true), ("new".to_owned(), 0));
        assert_eq!(named("new", false), ("new".to_owned(), 0));
    }
}
