//! High-water marks: progress of a state in small files outside the database. A database behind its
//! marks is a restored copy, or has lost its log.
//!
//! A mark is written after each batch without a sync: it survives a killed daemon, and after a
//! power loss it may be too low, so a consistent state is never rejected.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use muster_backends::epoch::Epoch;

/// Progress of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighWater {
    /// Newest epoch of the state.
    pub epoch: Epoch,
    /// Number of the last journal record.
    pub revision: u64,
    /// Number of the next job.
    pub next_job: u64,
}

impl HighWater {
    /// Reads the mark in a file; returns `None` when there is none.
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

    /// Formats the mark with fixed length, so that a new mark replaces an old one in one write.
    fn line(&self) -> String {
        format!("{} {:020} {:020}\n", self.epoch, self.revision, self.next_job)
    }
}

/// Open mark files of a state.
#[derive(Debug)]
pub(super) struct MarkFiles {
    files: Vec<File>,
    mark: HighWater,
}

impl MarkFiles {
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

    /// Raises the mark. An error is logged only, since the state itself is not affected.
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
        let mut marks = MarkFiles::open(&paths, mark.clone()).unwrap();
        marks.raise(1_000_000, 5);
        for path in &paths {
            let raised = HighWater { revision: 1_000_000, ..mark.clone() };
            assert_eq!(HighWater::read(path), Some(raised), "numbers are never taken back");
        }
        fs::write(&paths[0], "torn").unwrap();
        assert_eq!(HighWater::read(&paths[0]), None);
    }
}
