//! Readiness notification to the process that started the daemon.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

/// Writes `1` and closes the descriptor. Errors are ignored: the starter may have stopped waiting.
pub(super) fn notify(ready: Option<OwnedFd>) {
    if let Some(fd) = ready
        && let Err(error) = File::from(fd).write_all(b"1")
    {
        tracing::debug!(%error, "the starter of this daemon no longer waits for it");
    }
}
