//! Saying for a task that its progress is saved, as its process would by writing to its pipe: one
//! line to its supervisor, one line back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use muster_model::TaskCheckpoint;

use crate::socket;
use crate::supervise::label_of;
use crate::wire::{self, FromSupervisor, Hello, MAX_LINE_BYTES};

/// How long a supervisor may take to note it: a durable write, on a disk that may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the supervisor at `path` noted, once that is on disk. `None` when its task does not run,
/// when its disk is full, or when the supervisor is of an earlier version and does not know this.
/// Blocks.
pub fn say(path: &Path, label: &str) -> io::Result<Option<TaskCheckpoint>> {
    let mut stream = socket::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&wire::line(&Hello::Saved { label: label_of(label.as_bytes()) }))?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(MAX_LINE_BYTES as u64)).read_until(b'\n', &mut answer)?;
    Ok(match serde_json::from_slice(&answer) {
        Ok(FromSupervisor::Checkpointed { noted }) => Some(noted),
        _ => None,
    })
}
