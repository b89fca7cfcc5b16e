//! Starts stage two and talks to it: the supervisor's end of the control socket, a socket pair over
//! which stage two reports that it is ready and receives Go.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::exec::{ExecPlan, GO, IMPOSSIBLE, READY};
use crate::wire::LineBuffer;

/// Message from stage two.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StageTwoMessage {
    /// Everything but the exec is done.
    Ready,
    /// Preparing or executing failed, for this reason.
    Failed(String),
    /// Preparing or executing failed, for this reason, and would fail at every retry.
    Impossible(String),
    /// The socket closed without a message: stage two became the user's program (after Go), or died
    /// (before).
    Closed,
}

/// A process started through stage two.
#[derive(Debug)]
pub(super) struct Child {
    /// Pid, which is also the id of its session and process group.
    pub pid: i32,
    /// Pidfd, readable once the process has ended.
    pub pidfd: OwnedFd,
    control: Option<UnixStream>,
    lines: LineBuffer,
}

impl Child {
    /// Starts stage two with `output` as its standard output and error.
    pub(super) fn spawn(plan: &ExecPlan, output: OwnedFd) -> io::Result<Self> {
        let (mut ours, theirs) = UnixStream::pair()?;
        let errors = output.try_clone()?;
        // The same inode as this process, even if a newer binary was installed meanwhile.
        let child = Command::new("/proc/self/exe")
            .arg0("muster")
            .arg(super::EXEC)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(output)
            .stderr(errors)
            .spawn()?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let mut line = serde_json::to_vec(plan)?;
        line.push(b'\n');
        ours.write_all(&line)?;
        ours.set_nonblocking(true)?;
        Ok(Self {
            pid: pid.as_raw_nonzero().get(),
            pidfd,
            control: Some(ours),
            lines: LineBuffer::default(),
        })
    }

    /// Returns the control socket, while it is open.
    pub(super) fn control_socket(&self) -> Option<&UnixStream> {
        self.control.as_ref()
    }

    /// Sends Go: stage two executes the user's program.
    pub(super) fn send_go(&self) {
        if let Some(mut control) = self.control.as_ref() {
            // A failure means that stage two is dead, which its pidfd reports too.
            let _ = control.write_all(format!("{GO}\n").as_bytes());
        }
    }

    /// Reads messages until the control socket would block or is closed.
    pub(super) fn read_messages(&mut self) -> Vec<StageTwoMessage> {
        let mut messages = Vec::new();
        while let Some(control) = self.control.as_mut() {
            let mut buffer = [0; 4096];
            match control.read(&mut buffer) {
                Ok(0) => self.control = None,
                Ok(count) => {
                    if !self.lines.push(&buffer[..count]) {
                        self.control = None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.control = None,
            }
            while let Some(line) = self.lines.next_line() {
                let line = String::from_utf8_lossy(&line).into_owned();
                messages.push(match line.strip_prefix(IMPOSSIBLE) {
                    Some(reason) => StageTwoMessage::Impossible(reason.to_owned()),
                    None if line == READY => StageTwoMessage::Ready,
                    None => StageTwoMessage::Failed(line),
                });
            }
            if self.control.is_none() {
                messages.push(StageTwoMessage::Closed);
            }
        }
        messages
    }

    /// Signals this process only, not its group.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }
}
