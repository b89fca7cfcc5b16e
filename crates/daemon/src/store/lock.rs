//! One daemon per directory, by an advisory lock that the kernel drops when its holder dies.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use muster_runtime::StoreError;
use rustix::fs::{FlockOperation, flock};

use super::fault::refused_io;

/// A held lock; dropping it lets go. Children do not inherit it (the file is close-on-exec).
#[derive(Debug)]
pub struct DirLock {
    _file: fs::File,
}

impl DirLock {
    /// Takes the lock of a directory.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another daemon holds it.
    pub fn acquire(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("lock");
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(|error| refused_io(&path.display().to_string(), &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Locked(path.display().to_string())),
            Err(errno) => Err(refused_io(&path.display().to_string(), &errno.into())),
        }
    }
}
