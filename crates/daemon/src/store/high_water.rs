//! High-water marks: how far a state has come, in small files outside the database. A database that
//! has not come as far as its marks is a restored copy, or has lost its log.
//!
//! A mark is written after each batch and not synced: it survives a killed daemon, and after a
//! power loss it may only be too low, which accepts a state that is sound.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use muster_backends::epoch::Epoch;

/// How far a state has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighWater {
    /// Its newest epoch.
    pub epoch: Epoch,
    /// Number of its last record.
    pub revision: u64,
    /// Number of its next job.
    pub next_job: u64,
}

impl HighWater {
    /// The mark in a file; `None` when there is none.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut words = text.split_whitespace();
        Some(Self {
            epoch: Epoch::parse(words.next()?)?,
            revision: words.next()?.parse().ok()?,
            next_job: words.next()?.parse().ok()?,
        })
    }

    /// Of fixed length, so that a new mark replaces an old one in one write.
    fn line(&self) -> String {
        format!("{} {:020} {:020}\n", self.epoch, self.revision, self.next_job)
    }
}

/// Mark files that follow a state.
#[derive(Debug)]
pub(super) struct Marks {
    files: Vec<File>,
    mark: HighWater,
}

impl Marks {
    /// Opens the files and writes the mark to each, durably.
    pub(super) fn open(paths: &[PathBuf], mark: HighWater) -> io::Result<Self> {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)?;
            file.write_all_at(mark.line().as_bytes(), 0)?;
            file.sync_all()?;
            files.push(file);
        }
        Ok(Self { files, mark })
    }

    /// Raises the mark. A failure is no failure of the state.
    pub(super) fn raise(&mut self, revision: u64, next_job: u64) {
        self.mark.revision = revision;
        self.mark.next_job = next_job.max(self.mark.next_job);
        for file in &self.files {
            if let Err(error) = file.write_all_at(self.mark.line().as_bytes(), 0) {
                tracing::debug!(%error, "a high-water mark could not be written");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_as_it_was_raised_last() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("a"), dir.path().join("b")];
        assert_eq!(HighWater::read(&paths[0]), None);
        let mark = HighWater { epoch: Epoch::of(7), revision: 3, next_job: 12 };
        let mut marks = Marks::open(&paths, mark.clone()).unwrap();
        marks.raise(1_000_000, 5);
        for path in &paths {
            let raised = HighWater { revision: 1_000_000, ..mark.clone() };
            assert_eq!(HighWater::read(path), Some(raised), "numbers are never taken back");
        }
        fs::write(&paths[0], "torn").unwrap();
        assert_eq!(HighWater::read(&paths[0]), None);
    }
}
