//! Checkpoint acknowledgements: a task acknowledges a saved checkpoint by writing its label to a
//! pipe that the supervisor created, at any time, requested or not.
//!
//! A pipe rather than a watched file: each write arrives once and in order, and the kernel limits
//! watches per user. Users cannot create or remove names in the pipe's directory. The pause between
//! two reads doubles while a program keeps writing; it blocks meanwhile.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use muster_model::payload::Identity;
use muster_model::{Checkpoint, TaskCheckpoint, TaskSignalled, Time};
use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::signal::SignalDelivery;
use crate::record::{self, OrderRecord, TaskDir};

/// Shortest pause between two reads: each record is a durable write here and in the daemon.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two reads, for a task that writes all the time.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most bytes of one read: the capacity of a pipe.
const MAX_READ_BYTES: usize = 64 * 1024;

/// Mode of the directory of pipes that belong to several users: traversable, not listable.
pub(crate) const TRAVERSE_ONLY_MODE: u32 = 0o711;

/// Reason for which the task is asked to save a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointTrigger {
    /// Its time limit is near.
    Limit,
    /// The daemon requested it, with this request number.
    Request(u32),
}

/// Checkpoint state of one task: its pipe, the newest acknowledgement, and an open request.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// `None` for orders of earlier versions.
    pipe: Option<OwnedFd>,
    newest: Option<TaskCheckpoint>,
    /// Number of the newest request signalled to the task; 0 is none.
    newest_request: u32,
    /// The warning before the time limit was sent.
    warned: bool,
    /// Signal delivery of the open request.
    delivery: Option<SignalDelivery>,
    /// Number of processes that got the signal of the newest request; `None` before the first.
    signalled: Option<TaskSignalled>,
    /// Time before which the pipe is not read.
    next_read: Duration,
    pause: Duration,
}

impl Checkpoints {
    /// Creates the pipe that the order names.
    pub(super) fn open(order: &OrderRecord) -> io::Result<Self> {
        let owner = order.switch_user.then_some(&order.identity);
        Ok(Self {
            pipe: order.checkpoint_file.as_deref().map(|path| make(path, owner)).transpose()?,
            newest: None,
            newest_request: 0,
            warned: false,
            delivery: None,
            signalled: None,
            next_read: Duration::ZERO,
            pause: PAUSE_MIN,
        })
    }

    /// Recreates the pipe if it was deleted.
    pub(super) fn keep(&mut self, order: &OrderRecord) {
        let Some(path) = order.checkpoint_file.as_deref().filter(|path| !path.exists()) else {
            return;
        };
        let owner = order.switch_user.then_some(&order.identity);
        let recreate = || {
            let dir = path.parent().ok_or(ErrorKind::NotFound)?;
            if !dir.exists() {
                record::private_dirs(dir)?;
                let mode = if owner.is_some() { TRAVERSE_ONLY_MODE } else { 0o700 };
                std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode))?;
            }
            make(path, owner)
        };
        // A failure is retried in the next round.
        if let Ok(pipe) = recreate() {
            self.pipe = Some(pipe);
        }
    }

    /// Returns the pipe to poll, while it may be read.
    pub(super) fn poll_fd(&self, now: Duration) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| now >= self.next_read).map(AsFd::as_fd)
    }

    /// Returns the time of the next read, if it lies in the future.
    pub(super) fn read_due(&self, now: Duration) -> Option<Duration> {
        (self.pipe.is_some() && now < self.next_read).then_some(self.next_read)
    }

    /// Returns the newest acknowledged checkpoint.
    pub(super) fn newest(&self) -> Option<&TaskCheckpoint> {
        self.newest.as_ref()
    }

    /// Reads the pipe and records the acknowledgement, if there is one. Returns it for the report.
    pub(super) fn read(&mut self, dir: &TaskDir, now: Duration) -> Option<TaskCheckpoint> {
        let text = drain(self.pipe.as_ref()?)?;
        // The task wrote again within the pause: read more rarely.
        let is_pressing = self.next_read > Duration::ZERO && now < self.next_read + self.pause / 4;
        self.pause = if is_pressing { (self.pause * 2).min(PAUSE_MAX) } else { PAUSE_MIN };
        self.next_read = now + self.pause;
        // Reported even when the record failed: a full disk must not hide a checkpoint that is
        // saved elsewhere. The next acknowledgement tries again, and the daemon journals the
        // report.
        let (checkpoint, _recorded) = self.record(dir, &text);
        Some(checkpoint)
    }

    /// Records an acknowledgement with the label in `text`. Returns it, and whether it is on disk.
    pub(super) fn record(&mut self, dir: &TaskDir, text: &[u8]) -> (TaskCheckpoint, bool) {
        let checkpoint = TaskCheckpoint {
            count: self.newest.as_ref().map_or(0, |checkpoint| checkpoint.count).saturating_add(1),
            answers: self.newest_request,
            warned: self.warned,
            at: Time(record::now_ms()),
            label: label(text).into(),
        };
        let is_recorded = dir.write_checkpoint(checkpoint.clone()).is_ok();
        self.newest = Some(checkpoint.clone());
        // The acknowledgement also answers the open request.
        self.delivery = None;
        (checkpoint, is_recorded)
    }

    /// Returns true for a request that was not signalled yet.
    pub(super) fn is_new(&self, request: u32) -> bool {
        request > self.newest_request
    }

    /// Starts the signal delivery of a request: later writes may answer it and are read at once.
    pub(super) fn request(
        &mut self,
        why: CheckpointTrigger,
        terms: Option<Checkpoint>,
        now: Duration,
    ) {
        match why {
            CheckpointTrigger::Limit => self.warned = true,
            CheckpointTrigger::Request(request) => self.newest_request = request,
        }
        self.next_read = Duration::ZERO;
        self.pause = PAUSE_MIN;
        self.delivery = terms.map(|terms| SignalDelivery::new(terms, now));
        self.signalled = None;
    }

    /// Returns the time of the next delivery round, while a request is open.
    pub(super) fn next_delivery(&self) -> Option<Duration> {
        self.delivery.as_ref().map(SignalDelivery::due)
    }

    /// Signals those of `pids` that handle the signal and have not got it yet. Returns the report,
    /// if it differs from the previous one.
    pub(super) fn deliver(&mut self, pids: &[i32], now: Duration) -> Option<TaskSignalled> {
        let delivery = self.delivery.as_mut()?;
        delivery.run_round(pids, now);
        let reached = delivery.reached();
        if delivery.is_over(now) {
            self.delivery = None;
        }
        let is_news = self.signalled.is_none_or(|reported| reported.reached == 0 && reached > 0);
        let signalled =
            TaskSignalled { request: self.newest_request, warned: self.warned, reached };
        if is_news {
            self.signalled = Some(signalled);
        }
        self.signalled.filter(|_| is_news)
    }

    /// Stops the signal delivery: the task is being ended, or has ended.
    pub(super) fn cancel_delivery(&mut self) {
        self.delivery = None;
    }

    /// Returns how many processes got the signal of the newest request.
    pub(super) fn signalled(&self) -> Option<TaskSignalled> {
        self.signalled
    }
}

/// Creates the pipe, in place of one of an earlier attempt to prepare. It is held open in both
/// directions, so that it never reads as closed.
pub(super) fn make(path: &Path, owner: Option<&Identity>) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(path, flags, Mode::empty())?;
    // Write-only for the task: a reader would take bytes from the supervisor.
    rustix::fs::fchmod(&pipe, Mode::from_raw_mode(0o200))?;
    if let Some(owner) = owner {
        std::os::unix::fs::fchown(&pipe, Some(owner.uid), Some(owner.gid))?;
    }
    Ok(pipe)
}

/// Reads the contents of the pipe; `None` when it is empty.
pub(super) fn drain(pipe: &OwnedFd) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while text.len() < MAX_READ_BYTES {
        match rustix::io::read(pipe, &mut buffer) {
            Ok(count) if count > 0 => text.extend_from_slice(&buffer[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Returns the label in a text: its last line that is not blank, without control characters, cut to
/// [`TaskCheckpoint::MAX_LABEL_BYTES`].
pub(crate) fn label(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let mut label: String = line.chars().filter(|c| !c.is_control()).collect();
    while label.len() > TaskCheckpoint::MAX_LABEL_BYTES {
        label.pop();
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_last_line_that_is_not_blank() {
        assert_eq!(label(b"step 1\nstep 2\n\n"), "step 2");
        assert_eq!(label(b"  step 3"), "step 3");
        assert_eq!(label(b"\n"), "");
        assert_eq!(label(b"a\x1b[31mred\x00"), "a[31mred");
        assert_eq!(label(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        let long = label("ä".repeat(100).as_bytes());
        assert_eq!(long, "ä".repeat(64), "cut between characters");
    }
}
