//! Telling whoever started the daemon that it takes connections.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

/// Writes `1` and closes. A starter that has given up waiting is no concern of the daemon's.
pub(super) fn tell(ready: Option<OwnedFd>) {
    if let Some(fd) = ready
        && let Err(error) = File::from(fd).write_all(b"1")
    {
        tracing::debug!(%error, "whoever started this daemon does not wait for it");
    }
}
