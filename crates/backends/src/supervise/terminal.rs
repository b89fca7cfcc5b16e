//! Pseudo-terminals, and the task's own terminal: its output goes to the log, to a bounded backlog
//! and to the attached sessions; a session that attaches later gets the backlog first.

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

/// Size of the output kept for sessions that attach later.
const BACKLOG_BYTES: usize = 64 * 1024;
/// Maximum of typed bytes that the program has not read yet; more are dropped, as a terminal does.
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// The controller end of a pseudo-terminal.
#[derive(Debug)]
pub(super) struct Pty {
    controller: OwnedFd,
    input: VecDeque<u8>,
    is_open: bool,
}

impl Pty {
    /// Opens a pseudo-terminal and returns both ends; the user end belongs to `owner`, if given.
    pub(super) fn open(
        owner: Option<&Identity>,
        rows: u16,
        cols: u16,
    ) -> io::Result<(Self, OwnedFd)> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let name = ptsname(&controller, Vec::new())?;
        let user_end = open_terminal(std::path::Path::new(&*name.to_string_lossy()))?;
        if let Some(owner) = owner {
            std::os::unix::fs::fchown(&user_end, Some(owner.uid), None)?;
            rustix::fs::fchmod(&user_end, Mode::from_raw_mode(0o620))?;
        }
        rustix::io::ioctl_fionbio(&controller, true)?;
        let pty = Self { controller, input: VecDeque::new(), is_open: true };
        pty.resize(rows, cols);
        Ok((pty, user_end))
    }

    /// Sets the size of the terminal; its programs get SIGWINCH.
    pub(super) fn resize(&self, rows: u16, cols: u16) {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = tcsetwinsize(&self.controller, size);
    }

    /// Queues typed bytes for the program.
    pub(super) fn type_in(&mut self, keys: &[u8]) {
        let space = MAX_INPUT_BYTES.saturating_sub(self.input.len());
        self.input.extend(&keys[..keys.len().min(space)]);
        self.write();
    }

    /// Returns the descriptor and events to poll; `None` once the user end is closed.
    pub(super) fn wants(&self, readable: bool) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, readable);
        flags.set(PollFlags::OUT, !self.input.is_empty());
        (self.is_open && !flags.is_empty()).then(|| (self.controller.as_fd(), flags))
    }

    /// Writes queued input, then reads the program's output: at most one buffer when `once`, else
    /// until no more is available.
    pub(super) fn pump(&mut self, once: bool) -> Vec<u8> {
        self.write();
        let mut shown = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        while self.is_open {
            match rustix::io::read(&self.controller, &mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(count) => {
                    shown.extend_from_slice(&buffer[..count]);
                    if once {
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // EIO: no process has the user end open any more.
                Err(_) => self.is_open = false,
            }
        }
        shown
    }

    fn write(&mut self) {
        while self.is_open && !self.input.is_empty() {
            match rustix::io::write(&self.controller, self.input.as_slices().0) {
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
    /// Opens a terminal and returns it with its user end for the task.
    pub(super) fn open(
        owner: Option<&Identity>,
        rows: u16,
        cols: u16,
    ) -> io::Result<(Self, OwnedFd)> {
        let (pty, user_end) = Pty::open(owner, rows, cols)?;
        Ok((Self { pty, backlog: VecDeque::new() }, user_end))
    }

    /// Returns the descriptor and events to poll; `None` once the user end is closed.
    pub(super) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.pty.wants(true)
    }

    /// Moves the task's output to the log and the backlog, and returns it.
    pub(super) fn pump(&mut self, log: &mut Log) -> Vec<u8> {
        let shown = self.pty.pump(false);
        if shown.is_empty() {
            return shown;
        }
        log.append(&shown);
        self.backlog.extend(&shown);
        let surplus = self.backlog.len().saturating_sub(BACKLOG_BYTES);
        self.backlog.drain(..surplus);
        shown
    }

    /// Returns the most recent output.
    pub(super) fn backlog(&self) -> Vec<u8> {
        self.backlog.iter().copied().collect()
    }

    /// Queues typed bytes for the task.
    pub(super) fn type_in(&mut self, keys: &[u8]) {
        self.pty.type_in(keys);
    }

    /// Sets the size of the terminal, to that of the session that attached or resized last.
    pub(super) fn resize(&self, rows: u16, cols: u16) {
        self.pty.resize(rows, cols);
    }
}
