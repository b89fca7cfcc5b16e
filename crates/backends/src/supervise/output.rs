//! What the task writes, on its way to the log.
//!
//! The task writes to a pipe, not to the file: a program that reopens its output (`> /dev/stderr`) would truncate
//! a file, and a full disk would fail the program. The file stays out of the user's reach. Nor may a program that
//! writes without end fill the disk: the daemon's journal and the record of every task's end lie on it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_model::payload::Identity;
use rustix::pipe::{PipeFlags, pipe_with};

/// Most that one call moves, so that a task that never stops writing cannot keep its supervisor from its other
/// work.
const MAX_CHUNKS: usize = 16;
/// What logs leave free for the journal and the records: this many bytes, and never more than this part of the disk.
const RESERVE: (u64, u64) = (64 << 20, 50);
/// As much as a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// The log file, which survives a disk that is full for a while.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    lost_bytes: u64,
}

impl Log {
    /// Writes to a file that was opened for appending.
    pub(super) fn new(file: File) -> Self {
        Self { file, lost_bytes: 0 }
    }

    /// Appends; what the disk does not take is counted, and the gap is noted once it takes something again.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.lost_bytes > 0 {
            let note =
                format!("\nmuster: {} bytes of output were lost here: the disk was full\n", self.lost_bytes);
            if self.has_room() && self.file.write_all(note.as_bytes()).is_ok() {
                self.lost_bytes = 0;
            }
        }
        if self.lost_bytes > 0 || !self.has_room() || self.file.write_all(bytes).is_err() {
            self.lost_bytes += bytes.len() as u64;
        }
    }

    /// False when the disk has only its reserve left. A file system that does not tell is written to.
    fn has_room(&self) -> bool {
        rustix::fs::fstatvfs(&self.file).map_or(true, |disk| {
            is_above_reserve(
                disk.f_blocks.saturating_mul(disk.f_frsize),
                disk.f_bavail.saturating_mul(disk.f_frsize),
            )
        })
    }
}

/// Of a disk of `total` bytes of which `free` are left. One that claims no size (`/proc`, `/dev/full`) has no reserve.
fn is_above_reserve(total: u64, free: u64) -> bool {
    let (bytes, part) = RESERVE;
    free >= bytes.min(total / part)
}

/// The near end of the task's standard output and error.
#[derive(Debug)]
pub(super) struct Output {
    near: OwnedFd,
    is_open: bool,
}

impl Output {
    /// Both ends; the far end belongs to `owner`, so that it can be reopened by name.
    pub(super) fn open(owner: Option<&Identity>) -> io::Result<(Self, OwnedFd)> {
        let (near, far) = pipe_with(PipeFlags::CLOEXEC)?;
        if let Some(owner) = owner {
            std::os::unix::fs::fchown(&far, Some(owner.uid), Some(owner.gid))?;
        }
        rustix::io::ioctl_fionbio(&near, true)?;
        Ok((Self { near, is_open: true }, far))
    }

    /// What to poll for reading; `None` once nothing can write any more.
    pub(super) fn wants(&self) -> Option<BorrowedFd<'_>> {
        self.is_open.then(|| self.near.as_fd())
    }

    /// Moves what was written to the log. True when there may be more.
    pub(super) fn pump(&mut self, log: &mut Log) -> bool {
        let mut buffer = vec![0; CHUNK_BYTES];
        for _ in 0..MAX_CHUNKS {
            match rustix::io::read(&self.near, &mut buffer) {
                Ok(count) if count > 0 => log.append(&buffer[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                Ok(_) | Err(_) => {
                    self.is_open = false;
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_disk_is_not_for_logs() {
        for (total, free, room) in [
            (1 << 40, 65 << 20, true),
            (1 << 40, 63 << 20, false),
            (100 << 20, 3 << 20, true),
            (100 << 20, 1 << 20, false),
            (0, 0, true),
        ] {
            assert_eq!(is_above_reserve(total, free), room, "{free} of {total}");
        }
    }

    #[test]
    fn lost_output_is_counted_and_noted() {
        // Writes to /dev/full fail like a full disk.
        let mut log = Log::new(File::options().write(true).open("/dev/full").unwrap());
        log.append(b"12345");
        log.append(b"678");
        assert_eq!(log.lost_bytes, 8);
        let temp = tempfile::NamedTempFile::new().unwrap();
        log.file = temp.reopen().unwrap();
        log.append(b"back\n");
        let text = std::fs::read_to_string(temp.path()).unwrap();
        assert_eq!(text, "\nmuster: 8 bytes of output were lost here: the disk was full\nback\n");
    }
}
