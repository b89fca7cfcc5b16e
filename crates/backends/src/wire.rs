//! Messages between daemon and supervisor: one JSON object per line, over a Unix socket.
//!
//! Pure types and their encoding. Each side ignores objects that it does not know, so that a newer
//! daemon can talk to an older supervisor and the other way round; the meaning of a field never
//! changes.

use std::path::PathBuf;

use muster_model::sweep::MetricReport;
use muster_model::{StopCause, TaskCheckpoint, TaskExit, TaskSignalled};
use serde::{Deserialize, Serialize};

/// Longest line that is read; the largest real one is a refusal with its reason.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// First line on a connection to a supervisor's socket: the purpose of the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "hello")]
pub enum Hello {
    /// A daemon that sends commands and receives reports. Answered at once by the present stage.
    Control,
    /// A daemon that relays a client's bytes unread: only a terminal session may follow.
    #[serde(rename = "guest")]
    TerminalRelay,
    /// A daemon that received a checkpoint acknowledgement for the task over its API. Answered by
    /// the checkpoint once it is recorded on disk; otherwise the connection closes.
    Saved {
        /// Label of the checkpoint, as the task would write it.
        label: String,
    },
    /// A client's terminal; frames of [`crate::local::session`] follow in both directions.
    Terminal {
        /// Terminal to attach to.
        target: TerminalTarget,
        /// Value of `TERM` for a new shell.
        term: Option<String>,
        /// Rows of the terminal.
        rows: u16,
        /// Columns of the terminal.
        cols: u16,
        /// Program and arguments to run in place of a shell; empty is a shell.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        command: Vec<String>,
    },
}

/// Terminal that a session attaches to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalTarget {
    /// The task's own terminal when it has one, else a shell beside it.
    Auto,
    /// The task's own terminal.
    Main,
    /// A shell of the same user beside the task: same cgroup, devices and environment.
    Shell,
}

/// Message of the daemon to a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum ToSupervisor {
    /// Run the user's process. Repeating it changes nothing.
    Go,
    /// Ask the task to save a checkpoint, unless this request or a later one was received before.
    Checkpoint {
        /// Number of the request within the attempt, from 1.
        request: u32,
    },
    /// End the task and report its exit.
    Stop {
        /// Reason for the stop.
        cause: StopCause,
    },
    /// Report the present stage again.
    Status,
    /// Confirms to an idle supervisor that the end it reported is durable in the daemon's journal.
    #[serde(rename = "noted")]
    EndDurable,
    /// Supervise this task next. Sent only to an idle supervisor, and implies
    /// [`ToSupervisor::EndDurable`].
    Next {
        /// Directory of the task's records.
        dir: PathBuf,
    },
}

/// Message of a supervisor to the daemon. Each stage implies the ones before it; a checkpoint is
/// not a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum FromSupervisor {
    /// Everything but the user's program is in place.
    Prepared,
    /// The task cannot be prepared; no process of it is left.
    Refused {
        /// Reason, shown to users.
        reason: String,
    },
    /// The task cannot be prepared, now or at a retry; no process of it is left.
    Impossible {
        /// Reason, shown to users.
        reason: String,
    },
    /// The user's program runs.
    Started,
    /// A checkpoint request was signalled to processes of the task, possibly to none so far.
    Signalled {
        /// The request, and the number of processes that got the signal.
        signalled: TaskSignalled,
    },
    /// A checkpoint was acknowledged, and the acknowledgement is recorded on disk.
    Checkpointed {
        /// Checkpoint as recorded on disk.
        #[serde(rename = "noted")]
        checkpoint: TaskCheckpoint,
    },
    /// The task has reported its metric.
    Reported {
        /// Step and value, the latest of a second.
        report: MetricReport,
    },
    /// The service accepts connections on its port.
    Ready,
    /// The task is over, no process of it is left, and its exit record is written.
    Exited {
        /// Kind of exit, with its code or signal.
        exit: TaskExit,
        /// True when the supervisor stays idle for a moment, waiting for another task. Supervisors
        /// of earlier versions never do.
        #[serde(rename = "stays", default, skip_serializing_if = "std::ops::Not::not")]
        reusable: bool,
    },
    /// Another supervisor owns this task; this one did nothing.
    Claimed,
}

/// Encodes a message as one line with its newline.
#[must_use]
pub fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec(message).expect("plain enums of strings and numbers always serialise");
    bytes.push(b'\n');
    bytes
}

/// Splits a byte stream into lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Appends bytes that were read. Returns false when the peer has sent more than
    /// [`MAX_LINE_BYTES`] without a newline.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() <= MAX_LINE_BYTES || self.bytes.contains(&b'\n')
    }

    /// Returns the next complete line without its newline.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let rest = self.bytes.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        Some(line)
    }

    /// Returns the bytes after the last complete line.
    #[must_use]
    pub fn into_rest(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let mut text = line(&ToSupervisor::Go);
        text.extend(line(&ToSupervisor::Stop { cause: StopCause::Cancelled }));
        for cut in 1..text.len() {
            let mut lines = LineBuffer::default();
            let mut seen = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                assert!(lines.push(part));
                while let Some(line) = lines.next_line() {
                    seen.push(serde_json::from_slice::<ToSupervisor>(&line).unwrap());
                }
            }
            assert_eq!(
                seen,
                [ToSupervisor::Go, ToSupervisor::Stop { cause: StopCause::Cancelled }]
            );
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = LineBuffer::default();
        assert!(!lines.push(&vec![b'x'; MAX_LINE_BYTES + 1]));
    }

    #[test]
    fn the_wire_form_is_stable() {
        let message =
            FromSupervisor::Exited { exit: TaskExit::Signal { signal: 9 }, reusable: false };
        assert_eq!(
            line(&message),
            b"{\"is\":\"exited\",\"exit\":{\"kind\":\"signal\",\"signal\":9}}\n"
        );
        assert_eq!(line(&Hello::Control), b"{\"hello\":\"control\"}\n");
    }
}
