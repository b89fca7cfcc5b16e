//! What a state directory remembers of its machine: declared GPUs and the node's name. Both stay as they are while jobs
//! hold resources under them.

use muster_backends::local::VirtualGpus;
use muster_model::NodeName;
use muster_runtime::StoreError;

use super::ServeError;
use crate::store::SqliteStore;

/// Name in the `meta` table: `8`, `8:h100` or `2:a100,7:a100-1g.10gb`.
const VIRTUAL_GPUS: &str = "virtual_gpus";

/// Name in the `meta` table.
const HOST: &str = "host";

/// The declaration that holds from now on.
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
        return Err(ServeError::OtherGpus { declared: name(declared.as_ref()), asked: name(asked.as_ref()) });
    }
    store.set_meta(VIRTUAL_GPUS, asked.as_ref().map(VirtualGpus::to_string).as_deref())?;
    Ok(asked)
}

/// The name of this machine as a node, and what to tell users about it. A renamed host keeps its old name as long as
/// jobs run under it.
pub(super) fn node_name(
    store: &SqliteStore,
    host: &str,
    idle: bool,
) -> Result<(NodeName, Vec<String>), ServeError> {
    match store.meta(HOST)? {
        Some(known) if known != host && !idle => {
            let warning = format!(
                "this host is called {host} now; as a node it stays {known} until the daemon is started with no job running"
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
    fn a_renamed_host_keeps_its_name_while_jobs_run() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path()).unwrap();
        let named = |host, idle| {
            node_name(&store, host, idle).map(|(name, words)| (name.to_string(), words.len())).unwrap()
        };
        assert_eq!(named("old", true), ("old".to_owned(), 0));
        assert_eq!(named("new", false), ("old".to_owned(), 1));
        assert_eq!(named("new", true), ("new".to_owned(), 0));
        assert_eq!(named("new", false), ("new".to_owned(), 0));
    }
}
