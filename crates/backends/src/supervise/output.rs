//! What the task writes, on its way to the log.
//!
//! The task writes to a pipe, not to the file: a program that reopens its output (`> /dev/stderr`)
//! would truncate a file, and a full disk would fail the program. The file stays out of the user's
//! reach. Nor may a program that writes without end fill the disk: see [`Log`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_model::payload::Identity;
use rustix::pipe::{PipeFlags, pipe_with};

use super::log::Log;

/// Most that one call moves, so that a task that never stops writing cannot keep its supervisor
/// from its other work.
const MAX_CHUNKS: usize = 16;
/// As much as a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

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
