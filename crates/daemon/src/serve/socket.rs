//! The socket's place in the file system: bound at the start, and bound again when somebody has
//! removed or replaced it, as those do who tidy up temporary directories. Without that no command
//! could reach a daemon that runs.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use tokio::net::UnixListener;

use crate::auth::Mode;
use crate::paths::Paths;

/// Between two looks at whether the socket is where it was bound.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where the daemon is reached, and which file that is.
pub(super) struct Socket<'a> {
    paths: &'a Paths,
    mode: Mode,
    /// Device and inode of the file that was bound.
    file: (u64, u64),
}

impl<'a> Socket<'a> {
    /// Binds the socket. The lock is held, so one that is there belongs to a daemon that is gone.
    pub fn bind(paths: &'a Paths, mode: Mode) -> io::Result<(Self, UnixListener)> {
        let path = &paths.socket;
        match fs::remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        // Everybody may knock at the shared daemon; the kernel says who does.
        let open_to = if mode == Mode::System { 0o666 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(open_to))?;
        let metadata = fs::symlink_metadata(path)?;
        Ok((Self { paths, mode, file: (metadata.dev(), metadata.ino()) }, listener))
    }

    /// Waits until the socket has been removed or replaced, and binds it again. Connections that
    /// are open go on.
    pub async fn rebound(&mut self) -> UnixListener {
        let mut is_told = false;
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
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

    /// Its directory may be gone with it.
    fn bind_again(&mut self) -> io::Result<UnixListener> {
        self.paths.prepare().map_err(|error| io::Error::other(error.to_string()))?;
        let (socket, listener) = Self::bind(self.paths, self.mode)?;
        *self = socket;
        Ok(listener)
    }
}
