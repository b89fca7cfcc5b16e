//! A task's output on disk: the beginning and the end of it, within a size limit.
//!
//! The main type is [`Log`]. The daemon's journal and the exit records lie on the same disk, so
//! some space is reserved for them. Invariant: every byte that is not kept is counted, and the task
//! never waits for the disk.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use muster_model::Bytes;

use super::clock;
use crate::record::{self, RecordError, TaskDir};
use crate::times::OutputTimes;

/// Space that output leaves free for the journal and the records: this many bytes, and never more
/// than this part of the disk.
const RESERVE: (u64, u64) = (64 << 20, 50);
/// The part of the limit that the beginning of the output may take.
const FIRST_PART: u64 = 4;
/// The part of the limit that each later segment may take: small enough that what is kept of the
/// end hardly shrinks when the oldest segment is deleted.
const SEGMENT_PART: u64 = 8;
/// Later segments that are kept; together with the beginning they make up the limit.
const SEGMENTS: usize = 6;
/// Pause between two writes of the lost-bytes counter while bytes are being lost.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Writes a task's output.
#[derive(Debug)]
pub(super) struct Log {
    dir: TaskDir,
    file: File,
    /// Position of the file's first byte in the whole output.
    start: u64,
    len: u64,
    /// Bytes that the file may hold.
    capacity: u64,
    /// Size limit in bytes; 0 is no limit.
    limit: u64,
    /// Start positions of the later segments, oldest first.
    later: VecDeque<u64>,
    /// Bytes lost since the last that was written, and in all.
    lost: u64,
    lost_in_all: u64,
    counted_at: Option<Duration>,
    /// `None` once they cannot be written: output is worth more than its times.
    times: Option<OutputTimes>,
}

impl Log {
    /// Creates the file for the beginning of the output.
    pub(super) fn create(dir: &TaskDir, limit: Bytes) -> Result<Self, RecordError> {
        let file = dir.create_log()?;
        let capacity = if limit.0 == 0 { u64::MAX } else { limit.0 / FIRST_PART };
        Ok(Self {
            dir: dir.clone(),
            file,
            start: 0,
            len: 0,
            capacity,
            limit: limit.0,
            later: VecDeque::new(),
            lost: 0,
            lost_in_all: 0,
            counted_at: None,
            times: dir.create_times().ok().map(OutputTimes::new),
        })
    }

    /// Appends bytes. Those that the disk does not store are counted, and the loss is noted in the
    /// output once writes succeed again.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.lost > 0 && (!self.has_space() || self.note_loss().is_err()) {
            return self.lose(bytes.len());
        }
        if !self.has_space() {
            return self.lose(bytes.len());
        }
        self.mark_time();
        let written = self.write(bytes);
        if written < bytes.len() {
            self.lose(bytes.len() - written);
        }
    }

    fn mark_time(&mut self) {
        let position = self.start + self.len;
        self.times.take_if(|times| times.mark(position, clock::now(), record::now_ms).is_err());
    }

    /// Writes the count of lost bytes at the end of the output.
    ///
    /// # Errors
    /// The disk has no space even for that.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.lost_in_all == 0 {
            return Ok(());
        }
        if self.lost > 0 {
            // One line fits into the reserve.
            self.note_loss()?;
        }
        self.count()
    }

    fn lose(&mut self, bytes: usize) {
        self.lost += bytes as u64;
        self.lost_in_all += bytes as u64;
        let now = clock::now();
        if self.counted_at.is_none_or(|at| now >= at + COUNT_EVERY) {
            self.counted_at = Some(now);
            // A failure is retried later, and at the end until it succeeds.
            let _ = self.count();
        }
    }

    fn count(&self) -> io::Result<()> {
        self.dir.write_lost(self.lost_in_all).map_err(io::Error::other)
    }

    fn note_loss(&mut self) -> io::Result<()> {
        let note =
            format!("\nmuster: {} bytes of output were lost here: the disk was full\n", self.lost);
        if self.write(note.as_bytes()) < note.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.lost = 0;
        self.count()
    }

    /// Writes as many bytes as the disk stores, in as many segments as needed. Returns their
    /// number.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            let space =
                usize::try_from(self.capacity.saturating_sub(self.len)).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(cut(rest, space));
            let written = write_some(&mut self.file, now);
            self.len += written as u64;
            rest = &rest[written..];
            if written < now.len() || (!later.is_empty() && self.next_segment().is_err()) {
                break;
            }
        }
        bytes.len() - rest.len()
    }

    /// Continues in a new file; the oldest is deleted first, so that the limit always holds.
    fn next_segment(&mut self) -> Result<(), RecordError> {
        while self.later.len() >= SEGMENTS {
            self.later.pop_front().into_iter().for_each(|start| self.dir.remove_log_segment(start));
        }
        let start = self.start + self.len;
        self.file = self.dir.create_log_segment(start)?;
        self.later.push_back(start);
        self.start = start;
        self.len = 0;
        self.capacity = (self.limit / SEGMENT_PART).max(1);
        Ok(())
    }

    /// Returns false when the disk has only its reserve left; true where its size is unknown.
    fn has_space(&self) -> bool {
        rustix::fs::fstatvfs(&self.file).map_or(true, |disk| {
            is_above_reserve(
                disk.f_blocks.saturating_mul(disk.f_frsize),
                disk.f_bavail.saturating_mul(disk.f_frsize),
            )
        })
    }
}

/// Returns how much of `bytes` goes into a file with this much room: whole lines where that is
/// possible.
fn cut(bytes: &[u8], space: usize) -> usize {
    if bytes.len() <= space {
        return bytes.len();
    }
    bytes[..space].iter().rposition(|byte| *byte == b'\n').map_or(space, |newline| newline + 1)
}

/// Returns true when more than the reserve is free on a disk of `total` bytes. A file system that
/// reports size 0 (`/proc`, `/dev/full`) has no reserve.
fn is_above_reserve(total: u64, free: u64) -> bool {
    let (bytes, part) = RESERVE;
    free >= bytes.min(total / part)
}

fn write_some(file: &mut File, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::segments::{self, OutputGaps};

    fn log(limit: u64) -> (tempfile::TempDir, Log) {
        let temp = tempfile::tempdir().unwrap();
        let log = Log::create(&TaskDir::at(temp.path().to_owned()), Bytes(limit)).unwrap();
        (temp, log)
    }

    fn kept(temp: &tempfile::TempDir) -> String {
        let files = segments::list(&temp.path().join("output.log")).unwrap();
        files.iter().map(|file| std::fs::read_to_string(&file.path).unwrap()).collect()
    }

    #[test]
    fn logs_leave_a_reserve_on_the_disk() {
        for (total, free, space) in [
            (1 << 40, 65 << 20, true),
            (1 << 40, 63 << 20, false),
            (100 << 20, 3 << 20, true),
            (100 << 20, 1 << 20, false),
            (0, 0, true),
        ] {
            assert_eq!(is_above_reserve(total, free), space, "{free} of {total}");
        }
    }

    #[test]
    fn lost_output_is_counted_and_noted() {
        let (temp, mut log) = log(0);
        // Writes to /dev/full fail like a full disk.
        log.file = File::options().write(true).open("/dev/full").unwrap();
        log.append(b"12345");
        log.append(b"678");
        assert!(log.finish().is_err(), "the disk stores nothing");
        let first = temp.path().join("output.log");
        assert_eq!(segments::missing(&first).disk_full, 5, "counted at the first loss");
        log.file = File::options().append(true).open(&first).unwrap();
        log.append(b"back\n");
        assert_eq!(
            kept(&temp),
            "\nmuster: 8 bytes of output were lost here: the disk was full\nback\n"
        );
        assert_eq!(segments::missing(&first), OutputGaps { disk_full: 8, ..OutputGaps::default() });
    }

    #[test]
    fn beginning_and_end_are_kept_in_constant_space() {
        for limit in [0_u64, 7, 400, 4096] {
            let (temp, mut log) = log(limit);
            let whole: String =
                (0..1000).map(|line| format!("line {line} {}\n", "x".repeat(line % 7))).collect();
            for chunk in whole.as_bytes().chunks(37) {
                log.append(chunk);
                let files = segments::list(&temp.path().join("output.log")).unwrap();
                let length = |path: &Path| std::fs::metadata(path).unwrap().len();
                let used: u64 = files.iter().map(|file| length(&file.path)).sum();
                assert!(limit == 0 || used <= limit, "{used} of {limit}");
            }
            let missing = segments::missing(&temp.path().join("output.log"));
            let kept = kept(&temp);
            assert_eq!(kept.len() as u64 + missing.dropped, whole.len() as u64, "limit {limit}");
            let (first, last) =
                kept.split_at(if limit == 0 { 0 } else { missing.dropped_after as usize });
            assert!(whole.starts_with(first) && whole.ends_with(last), "limit {limit}");
            if limit >= 400 {
                assert!(
                    !first.is_empty() && last.len() as u64 >= limit / 2,
                    "limit {limit}: {}",
                    last.len()
                );
                assert!(last.starts_with("line "), "the end begins with a whole line");
            }
        }
    }
}
