//! A pseudo-terminal and the task's own one: its output goes to the log, to a bounded backlog, and
//! to whoever is attached; whoever attaches later sees the backlog first.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_model::payload::Identity;
use rustix::event::PollFlags;
use rustix::fs::Mode;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::exec::open_terminal;
use super::log::Log;
use super::sessions::Sessions;

/// What a session that attaches later still sees.
const BACKLOG_BYTES: usize = 64 * 1024;
/// Keys that the program has not yet read; more are dropped, as a terminal does.
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// The near end of a pseudo-terminal.
#[derive(Debug)]
pub(super) struct Pty {
    near: OwnedFd,
    input: VecDeque<u8>,
    is_open: bool,
}

impl Pty {
    /// Both ends; the far end belongs to `owner` when that is somebody else.
    pub(super) fn open(
        owner: Option<&Identity>,
        rows: u16,
        cols: u16,
    ) -> io::Result<(Self, OwnedFd)> {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&near)?;
        unlockpt(&near)?;
        let name = ptsname(&near, Vec::new())?;
        let far = open_terminal(std::path::Path::new(&*name.to_string_lossy()))?;
        if let Some(owner) = owner {
            std::os::unix::fs::fchown(&far, Some(owner.uid), None)?;
            rustix::fs::fchmod(&far, Mode::from_raw_mode(0o620))?;
        }
        rustix::io::ioctl_fionbio(&near, true)?;
        let pty = Self { near, input: VecDeque::new(), is_open: true };
        pty.resize(rows, cols);
        Ok((pty, far))
    }

    /// Tells the terminal its size; its programs get SIGWINCH.
    pub(super) fn resize(&self, rows: u16, cols: u16) {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = tcsetwinsize(&self.near, size);
    }

    /// Keys for the program.
    pub(super) fn type_in(&mut self, keys: &[u8]) {
        let room = MAX_INPUT_BYTES.saturating_sub(self.input.len());
        self.input.extend(&keys[..keys.len().min(room)]);
        self.write();
    }

    /// What to poll for; `None` once the far end is closed.
    pub(super) fn wants(&self, readable: bool) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, readable);
        flags.set(PollFlags::OUT, !self.input.is_empty());
        (self.is_open && !flags.is_empty()).then(|| (self.near.as_fd(), flags))
    }

    /// Writes waiting keys, then reads what the program wrote: at most one buffer's worth per call
    /// when `once`, else until nothing more comes.
    pub(super) fn pump(&mut self, once: bool) -> Vec<u8> {
        self.write();
        let mut shown = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        while self.is_open {
            match rustix::io::read(&self.near, &mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(count) => {
                    shown.extend_from_slice(&buffer[..count]);
                    if once {
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // EIO: no process has the far end open any more.
                Err(_) => self.is_open = false,
            }
        }
        shown
    }

    fn write(&mut self) {
        while self.is_open && !self.input.is_empty() {
            match rustix::io::write(&self.near, self.input.as_slices().0) {
                Ok(count) => drop(self.input.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => self.is_open = false,
            }
        }
    }
}

/// The task's own terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    pty: Pty,
    backlog: VecDeque<u8>,
}

impl Terminal {
    /// A terminal, and its far end for the task.
    pub(super) fn open(
        owner: Option<&Identity>,
        rows: u16,
        cols: u16,
    ) -> io::Result<(Self, OwnedFd)> {
        let (pty, far) = Pty::open(owner, rows, cols)?;
        Ok((Self { pty, backlog: VecDeque::new() }, far))
    }

    /// What to poll for.
    pub(super) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.pty.wants(true)
    }

    /// Moves what the task wrote to the log, the backlog and the attached sessions.
    pub(super) fn pump(&mut self, log: &mut Log, sessions: &mut Sessions) {
        let shown = self.pty.pump(false);
        if shown.is_empty() {
            return;
        }
        log.append(&shown);
        sessions.show(&shown);
        self.backlog.extend(&shown);
        let surplus = self.backlog.len().saturating_sub(BACKLOG_BYTES);
        self.backlog.drain(..surplus);
    }

    /// What was shown last.
    pub(super) fn backlog(&self) -> Vec<u8> {
        self.backlog.iter().copied().collect()
    }

    /// Keys for the task.
    pub(super) fn type_in(&mut self, keys: &[u8]) {
        self.pty.type_in(keys);
    }

    /// The size of the window that attached last.
    pub(super) fn resize(&self, rows: u16, cols: u16) {
        self.pty.resize(rows, cols);
    }
}
