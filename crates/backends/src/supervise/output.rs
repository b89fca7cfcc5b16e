//! The pipe that carries a task's standard output and error to its log.
//!
//! The task writes to a pipe, not to the file: a program that reopens its output (`> /dev/stderr`)
//! would truncate a file, and a full disk would make its writes fail. The user has no access to the
//! file. [`Log`] bounds its size.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_model::payload::Identity;
use rustix::pipe::{PipeFlags, pipe_with};

use super::log::Log;
use super::metric::Reports;

/// Most chunks that one call moves, so that a task that never stops writing cannot starve the
/// supervisor's other work.
const MAX_CHUNKS: usize = 16;
/// Capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// The supervisor's end of the task's standard output and error.
#[derive(Debug)]
pub(super) struct OutputPipe {
    reader: OwnedFd,
    is_open: bool,
}

impl OutputPipe {
    /// Creates the pipe and returns both ends; the write end belongs to `owner`, so that the task
    /// can reopen it by path.
    pub(super) fn open(owner: Option<&Identity>) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        if let Some(owner) = owner {
            std::os::unix::fs::fchown(&writer, Some(owner.uid), Some(owner.gid))?;
        }
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok((Self { reader, is_open: true }, writer))
    }

    /// Returns the read end to poll; `None` once all write ends are closed.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_open.then(|| self.reader.as_fd())
    }

    /// Moves pending output to the log, and shows it to the reports of the task. Returns true when there may be more.
    pub(super) fn pump(&mut self, log: &mut Log, reports: Option<&mut Reports>) -> bool {
        let mut reports = reports;
        let mut buffer = vec![0; CHUNK_BYTES];
        for _ in 0..MAX_CHUNKS {
            match rustix::io::read(&self.reader, &mut buffer) {
                Ok(count) if count > 0 => {
                    log.append(&buffer[..count]);
                    if let Some(reports) = reports.as_deref_mut() {
                        reports.see_output(&buffer[..count]);
                    }
                }
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
