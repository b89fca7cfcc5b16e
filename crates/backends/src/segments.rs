//! The files that hold one task's output, and the gaps between them.
//!
//! `output.log` holds the beginning. Later output goes to `output.<position>.log`, named by the
//! position of its first byte in the whole output; the oldest of these are deleted at the limit, so
//! the gaps follow from the names alone. `output.lost` counts bytes that a full disk did not store;
//! these have no position.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file that counts bytes that a full disk did not store.
pub(crate) const LOST: &str = "output.lost";

/// One file of a task's output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogSegment {
    /// Position of its first byte in the whole output.
    pub start: u64,
    /// Path of the file.
    pub path: PathBuf,
}

/// Gaps in a task's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputGaps {
    /// Number of bytes deleted at the limit.
    pub dropped: u64,
    /// Number of bytes kept before the deleted ones.
    pub dropped_after: u64,
    /// Number of bytes that a full disk did not store.
    pub disk_full: u64,
}

impl OutputGaps {
    /// Returns true when nothing is missing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.dropped == 0 && self.disk_full == 0
    }
}

/// Returns the path of the segment that begins at `start`, for the first file of an output.
#[must_use]
pub fn path_of(first: &Path, start: u64) -> PathBuf {
    let (stem, extension) = parts(first);
    first.with_file_name(format!("{stem}.{start}.{extension}"))
}

/// Returns the position in the name of a segment; `None` for any other name.
#[must_use]
pub fn start_in(first: &Path, name: &str) -> Option<u64> {
    let (stem, extension) = parts(first);
    let middle = name.strip_prefix(stem)?.strip_prefix('.')?;
    middle.strip_suffix(extension)?.strip_suffix('.')?.parse().ok()
}

fn parts(first: &Path) -> (&str, &str) {
    let stem = first.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    (stem, first.extension().and_then(OsStr::to_str).unwrap_or_default())
}

/// Lists the files of an output by position. The list is empty before the first write.
pub fn list(first: &Path) -> io::Result<Vec<LogSegment>> {
    let dir = first.parent().unwrap_or(Path::new("."));
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        if first.file_name().is_some_and(|first| first == name) {
            found.push(LogSegment { start: 0, path: first.to_owned() });
        } else if let Some(start) = start_in(first, name) {
            found.push(LogSegment { start, path: dir.join(name) });
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the gaps of the output that begins in this file.
#[must_use]
pub fn missing(first: &Path) -> OutputGaps {
    let mut missing = OutputGaps::default();
    let mut end = 0;
    for segment in list(first).unwrap_or_default() {
        if segment.start > end {
            if missing.dropped == 0 {
                missing.dropped_after = end;
            }
            missing.dropped += segment.start - end;
        }
        let length = fs::symlink_metadata(&segment.path).map_or(0, |meta| meta.len());
        end = end.max(segment.start + length);
    }
    let lost = fs::read_to_string(first.with_file_name(LOST)).ok();
    missing.disk_full = lost.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_follow_from_the_names() {
        let temp = tempfile::tempdir().unwrap();
        let first = temp.path().join("output.log");
        assert!(list(&first).unwrap().is_empty() && missing(&first).is_none());
        for (name, text) in [
            ("output.log", "0123456789"),
            ("output.10.log", "ab"),
            ("output.40.log", "z"),
            ("output.x.log", ""),
        ] {
            fs::write(temp.path().join(name), text).unwrap();
        }
        let starts: Vec<u64> = list(&first).unwrap().iter().map(|segment| segment.start).collect();
        assert_eq!(starts, [0, 10, 40]);
        assert_eq!(missing(&first), OutputGaps { dropped: 28, dropped_after: 12, disk_full: 0 });
        fs::write(temp.path().join(LOST), "7\n").unwrap();
        assert_eq!(missing(&first).disk_full, 7);
        assert_eq!(path_of(&first, 40), temp.path().join("output.40.log"));
    }
}
