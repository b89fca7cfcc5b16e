//! Acknowledges a checkpoint on behalf of a task, as its process would by writing to its pipe: one
//! line to its supervisor, one line back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use muster_model::TaskCheckpoint;

use crate::socket;
use crate::supervise::label_of;
use crate::wire::{self, FromSupervisor, Hello, MAX_LINE_BYTES};

/// Time that a supervisor has to record it: a durable write, on a disk that may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends an acknowledgement to the supervisor at `path` and returns the checkpoint once it is on
/// disk. Returns `None` when the task does not run, when the disk is full, or when the supervisor
/// is of an earlier version without this message. Blocks.
pub fn acknowledge(path: &Path, label: &str) -> io::Result<Option<TaskCheckpoint>> {
    let mut stream = socket::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&wire::line(&Hello::Saved { label: label_of(label.as_bytes()) }))?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(MAX_LINE_BYTES as u64)).read_until(b'\n', &mut answer)?;
    Ok(match serde_json::from_slice(&answer) {
        Ok(FromSupervisor::Checkpointed { checkpoint }) => Some(checkpoint),
        _ => None,
    })
}
