//! Socket file: bound at the start, and bound again when it was removed or replaced, for example by
//! a cleaner of temporary directories. Otherwise no command could reach the running daemon.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use tokio::net::UnixListener;

use crate::auth::DaemonMode;
use crate::paths::Paths;

/// Interval between checks that the socket file is still the bound one.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Bound socket, and its file.
pub(super) struct Socket<'a> {
    paths: &'a Paths,
    mode: DaemonMode,
    /// Device and inode of the file that was bound.
    file: (u64, u64),
}

impl<'a> Socket<'a> {
    /// Binds the socket. The lock is held, so an existing file belongs to a daemon that has ended.
    pub fn bind(paths: &'a Paths, mode: DaemonMode) -> io::Result<(Self, UnixListener)> {
        let path = &paths.socket;
        match fs::remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        // Every user may connect to the shared daemon; the kernel identifies the user.
        let open_to = if mode == DaemonMode::System { 0o666 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(open_to))?;
        let metadata = fs::symlink_metadata(path)?;
        Ok((Self { paths, mode, file: (metadata.dev(), metadata.ino()) }, listener))
    }

    /// Waits until the socket file has been removed or replaced, and binds it again. Open
    /// connections are not affected.
    pub async fn rebound(&mut self) -> UnixListener {
        let mut is_told = false;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if self.is_there() {
                continue;
            }
            match self.bind_again() {
                Ok(listener) => {
                    tracing::warn!(socket = %self.paths.socket.display(), "the socket was removed; bound again");
                    return listener;
                }
                Err(error) if !is_told => {
                    is_told = true;
                    tracing::error!(socket = %self.paths.socket.display(), %error, "the socket is gone and cannot be bound");
                }
                Err(_) => {}
            }
        }
    }

    fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.paths.socket)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }

    /// Binds again; the directory may have been removed with the file.
    fn bind_again(&mut self) -> io::Result<UnixListener> {
        self.paths.prepare().map_err(|error| io::Error::other(error.to_string()))?;
        let (socket, listener) = Self::bind(self.paths, self.mode)?;
        *self = socket;
        Ok(listener)
    }
}
