//! Lock of a directory for one daemon: an advisory lock that the kernel releases when its holder
//! dies.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use muster_runtime::StoreError;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::fault::io_error;

/// Longest time for which a lock may outlive its daemon: a child that was forked just before the
/// daemon was killed holds all of its descriptors until it executes another program, which takes a
/// moment on a busy machine.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between attempts to get the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Held lock, which is released when it is dropped. Child processes do not inherit it (the file is
/// close-on-exec).
#[derive(Debug)]
pub struct DirLock {
    _file: fs::File,
}

impl DirLock {
    /// Acquires the lock of a directory. Blocks for up to two seconds while another process holds
    /// it.
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
            .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed())
            .open(&path)
            .map_err(|error| io_error(&path.display().to_string(), &error))?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    // On a full disk only the note of the holder's process id is lost.
                    let _unnoted = note(&file);
                    return Ok(Self { _file: file });
                }
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR)
                    if Instant::now() < deadline =>
                {
                    thread::sleep(RETRY_INTERVAL);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let by = noted(&path)
                        .map_or(String::new(), |pid| format!(", held by process {pid}"));
                    return Err(StoreError::Locked(format!("{}{by}", path.display())));
                }
                Err(errno) => return Err(io_error(&path.display().to_string(), &errno.into())),
            }
        }
    }
}

/// Returns the process that holds the lock of a directory; `None` when none does.
#[must_use]
pub fn holder(dir: &Path) -> Option<u32> {
    let path = dir.join("lock");
    let file = fs::File::open(&path).ok()?;
    let is_held =
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK);
    if is_held { noted(&path) } else { None }
}

/// Writes the holder's process id, for users who look for a daemon that does not respond.
fn note(mut file: &fs::File) -> std::io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

fn noted(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()), None);
        let lock = DirLock::acquire(dir.path()).unwrap();
        assert_eq!(holder(dir.path()), Some(std::process::id()));
        let refused = DirLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("held by process {}", std::process::id())), "{refused}");
        drop(lock);
        assert_eq!(holder(dir.path()), None, "the note in the file counts only while it is held");
    }

    #[test]
    fn programs_do_not_inherit_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::acquire(dir.path()).unwrap();
        let flags = rustix::io::fcntl_getfd(&lock._file).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}
