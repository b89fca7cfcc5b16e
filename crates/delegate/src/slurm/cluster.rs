//! Name of the cluster, which keys the records. Submissions read it from the controller and cache
//! it beside the records, so that other commands need no call for it, even while the controller is
//! down. The cache is valid while Slurm's configuration file is unchanged.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{RequestError, Result, SlurmScheduler};

/// File name of the cache, in the directory of all clusters.
const CACHE_FILE: &str = ".cluster.json";

/// Cached name of a cluster, with what its validity depends on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CachedCluster {
    /// Name of the cluster.
    name: String,
    /// Path of its configuration.
    conf: PathBuf,
    /// Inode, size and time of change of that file.
    stamp: (u64, u64, i64, i64),
    /// Settings that select the configuration: `SLURM_CONF`, and the directory of Slurm's programs.
    chosen: (Option<String>, Option<PathBuf>),
}

impl SlurmScheduler {
    /// Returns the cluster's name from the controller; while that is down, the name of the only
    /// known cluster.
    pub(super) async fn cluster(&self) -> Result<&str> {
        let ask = async || {
            if let Some(name) = self.cached_name() {
                return Ok(name);
            }
            match self.query_name().await {
                Ok((name, _)) => Ok(name),
                Err(refusal) => self.only_cluster().ok_or(refusal),
            }
        };
        Ok(self.cluster.get_or_try_init(ask).await?)
    }

    /// Caches the cluster's name for later commands.
    pub(super) async fn name_cluster(&self) -> Result<()> {
        if self.cached_name().is_some() {
            return Ok(());
        }
        let (name, conf) = self.query_name().await?;
        let note = CachedCluster {
            stamp: stamp(&conf).unwrap_or_default(),
            name,
            conf,
            chosen: self.chosen(),
        };
        // Without the cache every command asks the controller.
        let text = serde_json::to_vec(&note).unwrap_or_default();
        let path = self.settings.root.join(CACHE_FILE);
        let new = path.with_extension("new");
        let _ = std::fs::create_dir_all(&self.settings.root)
            .and_then(|()| std::fs::write(&new, text))
            .and_then(|()| std::fs::rename(&new, &path));
        Ok(())
    }

    fn cached_name(&self) -> Option<String> {
        let note: CachedCluster =
            serde_json::from_slice(&std::fs::read(self.settings.root.join(CACHE_FILE)).ok()?)
                .ok()?;
        let is_same = stamp(&note.conf) == Some(note.stamp) && note.chosen == self.chosen();
        is_same.then_some(note.name)
    }

    fn chosen(&self) -> (Option<String>, Option<PathBuf>) {
        (std::env::var("SLURM_CONF").ok(), self.tools().folder().map(Path::to_owned))
    }

    /// Returns the name and the configuration file from the controller.
    async fn query_name(&self) -> Result<(String, PathBuf)> {
        let text = self.tools().output("scontrol", &["show", "config"]).await?;
        let field = |wanted: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim().to_owned())
        };
        let name = field("ClusterName")
            .ok_or_else(|| RequestError::internal("Slurm's configuration names no cluster"))?;
        Ok((name, field("SLURM_CONF").unwrap_or_default().into()))
    }

    fn only_cluster(&self) -> Option<String> {
        let entries = std::fs::read_dir(&self.settings.root).ok()?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names = names.filter(|name| !name.starts_with('.'));
        names.next().filter(|_| names.next().is_none())
    }
}

fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}
