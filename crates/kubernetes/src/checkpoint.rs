//! The checkpoint request in a container: a shell script that signals the processes of a task, and what
//! its lines mean.

use muster_model::{Checkpoint, CheckpointTo};
use serde_json::{Value, json};

/// Script that the shell of the container runs; [`arguments`] follow it.
pub const SCRIPT: &str = include_str!("checkpoint.sh");

/// Line of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointLine {
    /// Number of processes that have got the signal so far.
    Sent(u32),
    /// Label of the acknowledgement, which may be empty.
    Saved(String),
    /// Reason why the request cannot be made.
    Failed(String),
}

impl CheckpointLine {
    /// Reads a line; `None` for one of another program.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "sent" => rest.parse().ok().map(Self::Sent),
            "saved" => Some(Self::Saved(rest.trim().to_owned())),
            "error" => Some(Self::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

/// Returns the file to which the `nth` container of a pod acknowledges. Containers of a pod share
/// `/dev/shm`, which is writable where the file system of the image is not.
#[must_use]
pub fn file(nth: u32) -> String {
    format!("/dev/shm/muster-checkpoint-{nth}")
}

/// Returns the arguments of the script for the `nth` container of a pod.
#[must_use]
pub fn arguments(checkpoint: Checkpoint, nth: u32) -> [String; 4] {
    let to = match checkpoint.to {
        CheckpointTo::Handlers => "handlers",
        CheckpointTo::Outermost => "outermost",
        CheckpointTo::All => "all",
    };
    let seconds = checkpoint.lead.0.div_ceil(1000);
    [checkpoint.signal.to_string(), to.to_owned(), seconds.to_string(), file(nth)]
}

/// Signal that a container gets anyway when it is stopped.
const SIGTERM: i32 = 15;

/// Name of the hook's shell, by which an import finds it.
const HOOK: &str = "muster-checkpoint";

/// Returns the hook that has the `nth` container of a pod save before it is stopped, as when it is preempted or its node
/// drained; `None` where SIGTERM asks for it.
pub(crate) fn hook(checkpoint: Checkpoint, nth: u32) -> Option<Value> {
    if checkpoint.signal == SIGTERM {
        return None;
    }
    let words = ["/bin/sh", "-c", SCRIPT, HOOK].map(str::to_owned);
    let words: Vec<String> =
        words.into_iter().chain(arguments(checkpoint, nth)).chain(["ending".to_owned()]).collect();
    Some(json!({"preStop": {"exec": {"command": words}}}))
}

/// Returns the longest time in seconds that such a hook waits; `None` for any other hook.
pub(crate) fn hook_secs(lifecycle: &Value) -> Option<u64> {
    let words = lifecycle.pointer("/preStop/exec/command")?;
    (words[3] == HOOK).then(|| words[6].as_str()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use muster_model::{AfterCheckpoint, CheckpointBy, Span};

    use super::*;

    #[test]
    fn lines_are_read_as_the_script_writes_them() {
        for (line, expected) in [
            ("sent 2", Some(CheckpointLine::Sent(2))),
            ("saved step 1200", Some(CheckpointLine::Saved("step 1200".to_owned()))),
            ("saved ", Some(CheckpointLine::Saved(String::new()))),
            (
                "error the image has no readlink",
                Some(CheckpointLine::Failed("the image has no readlink".to_owned())),
            ),
            ("sent", None),
            ("Defaulted container", None),
        ] {
            assert_eq!(CheckpointLine::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn arguments_follow_the_job_file() {
        let checkpoint = Checkpoint {
            signal: 12,
            lead: Span(1500),
            by: CheckpointBy::All,
            then: AfterCheckpoint::Continue,
            to: CheckpointTo::Outermost,
        };
        assert_eq!(
            arguments(checkpoint, 1),
            ["12", "outermost", "2", "/dev/shm/muster-checkpoint-1"]
        );
    }
}
