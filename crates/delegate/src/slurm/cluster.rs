//! The name of the cluster, by which records are kept. It is asked of the controller, and noted
//! beside the records by submissions: other verbs then need no call for it, also while the
//! controller is away. What is noted counts while Slurm's configuration is the same file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Refusal, Result, Slurm};

/// In the folder of all clusters.
const NOTE: &str = ".cluster.json";

/// What was learnt of a configuration.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// The cluster.
    name: String,
    /// Where its configuration lies.
    conf: PathBuf,
    /// Inode, size and time of change of that file.
    stamp: (u64, u64, i64, i64),
    /// What chose it: `SLURM_CONF`, and the folder of Slurm's programs.
    chosen: (Option<String>, Option<PathBuf>),
}

impl Slurm {
    /// The cluster's name, as its controller has it; while that is away, as it was, where only one
    /// is known.
    pub(super) async fn cluster(&self) -> Result<&str> {
        let ask = async || {
            if let Some(name) = self.noted() {
                return Ok(name);
            }
            match self.asked().await {
                Ok((name, _)) => Ok(name),
                Err(refusal) => self.only_cluster().ok_or(refusal),
            }
        };
        Ok(self.cluster.get_or_try_init(ask).await?)
    }

    /// Notes the cluster's name for the verbs to come.
    pub(super) async fn name_cluster(&self) -> Result<()> {
        if self.noted().is_some() {
            return Ok(());
        }
        let (name, conf) = self.asked().await?;
        let note =
            Note { stamp: stamp(&conf).unwrap_or_default(), name, conf, chosen: self.chosen() };
        // Without a note every verb asks.
        let text = serde_json::to_vec(&note).unwrap_or_default();
        let path = self.settings.root.join(NOTE);
        let new = path.with_extension("new");
        let _ = std::fs::create_dir_all(&self.settings.root)
            .and_then(|()| std::fs::write(&new, text))
            .and_then(|()| std::fs::rename(&new, &path));
        Ok(())
    }

    fn noted(&self) -> Option<String> {
        let note: Note =
            serde_json::from_slice(&std::fs::read(self.settings.root.join(NOTE)).ok()?).ok()?;
        let is_same = stamp(&note.conf) == Some(note.stamp) && note.chosen == self.chosen();
        is_same.then_some(note.name)
    }

    fn chosen(&self) -> (Option<String>, Option<PathBuf>) {
        (std::env::var("SLURM_CONF").ok(), self.tools().folder().map(Path::to_owned))
    }

    /// Name and file, as the controller says.
    async fn asked(&self) -> Result<(String, PathBuf)> {
        let text = self.tools().output("scontrol", &["show", "config"]).await?;
        let field = |wanted: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim().to_owned())
        };
        let name = field("ClusterName")
            .ok_or_else(|| Refusal::internal("Slurm's configuration names no cluster"))?;
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
