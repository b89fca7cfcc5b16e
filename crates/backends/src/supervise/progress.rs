//! How a task says that its progress is saved: it writes to a pipe that its supervisor made, at any
//! time and asked or not; what it writes is the label.
//!
//! A pipe and not a watched file: each write arrives, in order and once, and the kernel limits the
//! number of watches per user. The pipe lies in a directory in which users cannot make or remove
//! names. A program that writes without end is read ever more rarely and waits meanwhile.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use muster_model::payload::Identity;
use muster_model::{Checkpoint, TaskCheckpoint, TaskSignalled, Time};
use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::signal::Delivery;
use crate::record::{self, OrderRecord, TaskDir};

/// Least time between two notes: each is a durable write here and in the daemon.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Most time between two, for a task that has always written again by the time it is read.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most that is read at once: as much as a pipe holds.
const MAX_READ_BYTES: usize = 64 * 1024;

/// Mode of a directory of pipes that belong to several users: to be passed through, and not listed.
pub(crate) const PASSAGE_MODE: u32 = 0o711;

/// Why the task is asked to save its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Its limit is near.
    Limit,
    /// Somebody wants it: the number of the request.
    Request(u32),
}

/// What a task has acknowledged, and how it does.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None` for orders of earlier versions.
    pipe: Option<OwnedFd>,
    noted: Option<TaskCheckpoint>,
    /// The newest request that was passed on; 0 is none.
    asked: u32,
    /// The warning before the limit was sent.
    warned: bool,
    /// The request that is being passed on.
    delivery: Option<Delivery>,
    /// How far the newest one got; `None` before the first.
    signalled: Option<TaskSignalled>,
    /// Not to be read before.
    quiet_until: Duration,
    pause: Duration,
}

impl Progress {
    /// Makes the pipe that the order names.
    pub(super) fn open(order: &OrderRecord) -> io::Result<Self> {
        let owner = order.switch_user.then_some(&order.identity);
        Ok(Self {
            pipe: order.checkpoint_file.as_deref().map(|path| make(path, owner)).transpose()?,
            noted: None,
            asked: 0,
            warned: false,
            delivery: None,
            signalled: None,
            quiet_until: Duration::ZERO,
            pause: PAUSE_MIN,
        })
    }

    /// Makes the pipe again where it was removed.
    pub(super) fn keep(&mut self, order: &OrderRecord) {
        let Some(path) = order.checkpoint_file.as_deref().filter(|path| !path.exists()) else {
            return;
        };
        let owner = order.switch_user.then_some(&order.identity);
        let way = || {
            let dir = path.parent().ok_or(ErrorKind::NotFound)?;
            if !dir.exists() {
                record::private_dirs(dir)?;
                let mode = if owner.is_some() { PASSAGE_MODE } else { 0o700 };
                std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode))?;
            }
            make(path, owner)
        };
        // Failing, it is tried again with the next look.
        if let Ok(pipe) = way() {
            self.pipe = Some(pipe);
        }
    }

    /// What to wait for: the pipe while it may be read.
    pub(super) fn wants(&self, now: Duration) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| now >= self.quiet_until).map(AsFd::as_fd)
    }

    /// When it may be read again, if that lies ahead.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        (self.pipe.is_some() && now < self.quiet_until).then_some(self.quiet_until)
    }

    /// What was noted last.
    pub(super) fn noted(&self) -> Option<&TaskCheckpoint> {
        self.noted.as_ref()
    }

    /// Reads what was written since, and records it. Answers what to tell.
    pub(super) fn read(&mut self, dir: &TaskDir, now: Duration) -> Option<TaskCheckpoint> {
        let text = drain(self.pipe.as_ref()?)?;
        // Written again by the time that it is read: read more rarely.
        let is_pressing =
            self.quiet_until > Duration::ZERO && now < self.quiet_until + self.pause / 4;
        self.pause = if is_pressing { (self.pause * 2).min(PAUSE_MAX) } else { PAUSE_MIN };
        self.quiet_until = now + self.pause;
        // Told nevertheless: a disk that is full must not hide progress that is saved elsewhere.
        // The next note tries again, and what is told is journalled.
        let (noted, _recorded) = self.note(dir, &text);
        Some(noted)
    }

    /// Notes the word of somebody who speaks for the task, and whether it is on disk.
    pub(super) fn note(&mut self, dir: &TaskDir, text: &[u8]) -> (TaskCheckpoint, bool) {
        let noted = TaskCheckpoint {
            count: self.noted.as_ref().map_or(0, |noted| noted.count).saturating_add(1),
            answers: self.asked,
            warned: self.warned,
            at: Time(record::now_ms()),
            label: label(text).into(),
        };
        let is_recorded = dir.write_checkpointed(noted.clone()).is_ok();
        self.noted = Some(noted.clone());
        // It answers what was asked.
        self.delivery = None;
        (noted, is_recorded)
    }

    /// True for a request that was not passed on yet.
    pub(super) fn is_new(&self, request: u32) -> bool {
        request > self.asked
    }

    /// The signal goes out: what is written from here on may answer it, and is read at once.
    pub(super) fn ask(&mut self, why: Ask, terms: Option<Checkpoint>, now: Duration) {
        match why {
            Ask::Limit => self.warned = true,
            Ask::Request(request) => self.asked = request,
        }
        (self.quiet_until, self.pause) = (Duration::ZERO, PAUSE_MIN);
        self.delivery = terms.map(|terms| Delivery::new(terms, now));
        self.signalled = None;
    }

    /// When to look for processes that handle the signal.
    pub(super) fn look_due(&self) -> Option<Duration> {
        self.delivery.as_ref().map(Delivery::due)
    }

    /// Signals those of `pids` that handle it and were not signalled yet. Answers what to tell,
    /// when that is news.
    pub(super) fn look(&mut self, pids: &[i32], now: Duration) -> Option<TaskSignalled> {
        let delivery = self.delivery.as_mut()?;
        delivery.look(pids, now);
        let reached = delivery.reached();
        if delivery.is_over(now) {
            self.delivery = None;
        }
        let is_news = self.signalled.is_none_or(|told| told.reached == 0 && reached > 0);
        let signalled = TaskSignalled { request: self.asked, warned: self.warned, reached };
        if is_news {
            self.signalled = Some(signalled);
        }
        self.signalled.filter(|_| is_news)
    }

    /// No process is signalled any more: the task is being ended, or has ended.
    pub(super) fn ask_no_more(&mut self) {
        self.delivery = None;
    }

    /// How far the newest request got.
    pub(super) fn signalled(&self) -> Option<TaskSignalled> {
        self.signalled
    }
}

/// Makes the pipe, in place of one that an earlier try has left. Held open for both directions, it
/// never ends.
fn make(path: &Path, owner: Option<&Identity>) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(path, flags, Mode::empty())?;
    // Others write only: who reads would take what the supervisor waits for.
    rustix::fs::fchmod(&pipe, Mode::from_raw_mode(0o200))?;
    if let Some(owner) = owner {
        std::os::unix::fs::fchown(&pipe, Some(owner.uid), Some(owner.gid))?;
    }
    Ok(pipe)
}

/// What the pipe holds; `None` when nothing.
fn drain(pipe: &OwnedFd) -> Option<Vec<u8>> {
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

/// The last line that says something, without what a terminal would obey, cut to what is kept.
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
    fn a_label_is_the_last_line_that_says_something() {
        assert_eq!(label(b"step 1\nstep 2\n\n"), "step 2");
        assert_eq!(label(b"  step 3"), "step 3");
        assert_eq!(label(b"\n"), "");
        assert_eq!(label(b"a\x1b[31mred\x00"), "a[31mred");
        assert_eq!(label(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        let long = label("ä".repeat(100).as_bytes());
        assert_eq!(long, "ä".repeat(64), "cut between characters");
    }
}
