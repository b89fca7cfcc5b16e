//! Unix sockets at paths of any length: the kernel accepts 107 bytes, and a home directory may be
//! deeper. For longer paths the directory is opened and the socket addressed through
//! `/proc/self/fd`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Longest path that fits into a socket address: `sun_path` less its final NUL.
const MAX_PATH_BYTES: usize = 107;

/// Listens at `path`, replacing a socket that is already there.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    let near = Near::to(path)?;
    match std::fs::remove_file(&near.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(&near.path)
}

/// Connects to the socket at `path`.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(Near::to(path)?.path)
}

/// Path short enough for a socket address, and the open directory that keeps it valid.
struct Near {
    path: PathBuf,
    _dir: Option<OwnedFd>,
}

impl Near {
    fn to(path: &Path) -> io::Result<Self> {
        if path.as_os_str().as_bytes().len() <= MAX_PATH_BYTES {
            return Ok(Self { path: path.to_owned(), _dir: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let dir = rustix::fs::open(
            parent,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        Ok(Self { path, _dir: Some(dir) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_bind_connect_and_replace_an_old_socket() {
        let temp = tempfile::tempdir().unwrap();
        let deep = temp.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        for path in [temp.path().join("short"), deep.join("long")] {
            drop(bind(&path).unwrap());
            let _listener = bind(&path).unwrap();
            connect(&path).unwrap();
            assert!(path.exists());
        }
        assert!(connect(&deep.join("absent")).is_err());
    }
}
