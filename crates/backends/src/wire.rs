//! What daemon and supervisor say to each other: one JSON object per line, over a Unix socket.
//!
//! Pure: types and their lines. Either side ignores an object that it does not know, so that a
//! newer daemon can talk to an older supervisor and the other way round; a field is never given
//! another meaning.

use std::path::PathBuf;

use muster_model::{StopCause, TaskCheckpoint, TaskExit, TaskSignalled};
use serde::{Deserialize, Serialize};

/// Longest line that is read; the largest real one is a refusal with its reason.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// First line on a connection to a supervisor's socket: what the connection is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "hello")]
pub enum Hello {
    /// A daemon that wants reports and gives commands. Answered at once by the present stage.
    Control,
    /// What follows comes from a client and is only passed on: nothing but a terminal session may
    /// follow.
    Guest,
    /// A daemon that was told over its API that the task's progress is saved. Answered by what was
    /// noted of it on disk, else by the end of the connection.
    Saved {
        /// The label, as the task would write it.
        label: String,
    },
    /// A person's terminal; frames of [`crate::local::session`] follow in both directions.
    Terminal {
        /// What to connect to.
        target: Target,
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

/// What a terminal session connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The task's own terminal when it has one, else a shell beside it.
    Auto,
    /// The task's own terminal.
    Main,
    /// A shell of the same user beside the task: same cgroup, devices and environment.
    Shell,
}

/// Daemon to supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum ToSupervisor {
    /// Run the user's process. Once; repeating it changes nothing.
    Go,
    /// Ask its processes to save their progress, unless this request or a later one has come
    /// before.
    Checkpoint {
        /// Which request of the attempt, from 1.
        request: u32,
    },
    /// End the task.
    Stop {
        /// Why.
        cause: StopCause,
    },
    /// Say the present stage again.
    Status,
    /// The end that a staying supervisor told is durable in the daemon's journal.
    Noted,
    /// Supervise this task next. Sent only to a supervisor that stays, and implies
    /// [`ToSupervisor::Noted`].
    Next {
        /// Directory of the task's records.
        dir: PathBuf,
    },
}

/// Supervisor to daemon. Each stage implies the ones before it; a checkpoint is no stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum FromSupervisor {
    /// Everything but the user's program is in place.
    Prepared,
    /// It cannot be made ready; nothing is left of it.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// It can never be made ready; nothing is left of it.
    Impossible {
        /// Why, for people.
        reason: String,
    },
    /// The user's program runs.
    Started,
    /// A request for a checkpoint has reached so many processes of it, or none so far.
    Signalled {
        /// How far it got.
        signalled: TaskSignalled,
    },
    /// A process of it says that its progress is saved, and the record of that is on disk.
    Checkpointed {
        /// What was noted.
        noted: TaskCheckpoint,
    },
    /// It answers on its port.
    Ready,
    /// It is over, nothing is left of it, and the record of it is written.
    Exited {
        /// How.
        exit: TaskExit,
        /// The supervisor waits a moment for another task. Supervisors of earlier versions never
        /// do.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stays: bool,
    },
    /// Another supervisor owns this task; this one did nothing.
    Claimed,
}

/// One line, with its end.
#[must_use]
pub fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec(message).expect("plain enums of strings and numbers always serialise");
    bytes.push(b'\n');
    bytes
}

/// Collects bytes and gives whole lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Takes what was read. False when the peer sends more than [`MAX_LINE_BYTES`] without a line
    /// end.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() <= MAX_LINE_BYTES || self.bytes.contains(&b'\n')
    }

    /// The next whole line without its end.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let rest = self.bytes.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        Some(line)
    }

    /// What was read after the last whole line.
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
            let mut lines = Lines::default();
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
        let mut lines = Lines::default();
        assert!(!lines.push(&vec![b'x'; MAX_LINE_BYTES + 1]));
    }

    #[test]
    fn the_wire_form_is_stable() {
        let said = FromSupervisor::Exited { exit: TaskExit::Signal { signal: 9 }, stays: false };
        assert_eq!(
            line(&said),
            b"{\"is\":\"exited\",\"exit\":{\"kind\":\"signal\",\"signal\":9}}\n"
        );
        assert_eq!(line(&Hello::Control), b"{\"hello\":\"control\"}\n");
    }
}
