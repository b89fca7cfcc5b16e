//! Starting stage two and hearing from it: the supervisor's side of the gate.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::exec::{ExecPlan, GO, IMPOSSIBLE, READY};
use crate::wire::Lines;

/// What stage two said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// All that is left is to execute.
    Ready,
    /// It cannot, and why.
    Failed(String),
    /// It never can, and why.
    Impossible(String),
    /// The gate closed without a word: it became the user's program (after Go), or died (before).
    Closed,
}

/// A process started through stage two.
#[derive(Debug)]
pub(super) struct Child {
    /// Its pid, which is also its session and process group.
    pub pid: i32,
    /// Readable once it has ended.
    pub pidfd: OwnedFd,
    gate: Option<UnixStream>,
    lines: Lines,
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
            gate: Some(ours),
            lines: Lines::default(),
        })
    }

    /// The gate, while it is open.
    pub(super) fn gate(&self) -> Option<&UnixStream> {
        self.gate.as_ref()
    }

    /// Lets stage two execute the user's program.
    pub(super) fn go(&self) {
        if let Some(mut gate) = self.gate.as_ref() {
            // A failure means that it is dead, which its pidfd says too.
            let _ = gate.write_all(format!("{GO}\n").as_bytes());
        }
    }

    /// Reads the gate until it would block or is closed.
    pub(super) fn hear(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        while let Some(gate) = self.gate.as_mut() {
            let mut buffer = [0; 4096];
            match gate.read(&mut buffer) {
                Ok(0) => self.gate = None,
                Ok(count) => {
                    if !self.lines.push(&buffer[..count]) {
                        self.gate = None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.gate = None,
            }
            while let Some(line) = self.lines.next_line() {
                let line = String::from_utf8_lossy(&line).into_owned();
                said.push(match line.strip_prefix(IMPOSSIBLE) {
                    Some(reason) => Said::Impossible(reason.to_owned()),
                    None if line == READY => Said::Ready,
                    None => Said::Failed(line),
                });
            }
            if self.gate.is_none() {
                said.push(Said::Closed);
            }
        }
        said
    }

    /// Signals just this process.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }
}
