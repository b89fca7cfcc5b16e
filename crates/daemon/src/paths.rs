//! Paths of the state and the socket, and checks whether they are safe to use. Both the daemon and
//! its clients compute paths here, so they always agree. Nothing is created before
//! [`Paths::prepare`].

mod netfs;

use std::env;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::store;

/// Longest socket path that the kernel accepts (`sun_path` is 108 bytes with its terminating zero).
const SOCKET_PATH_MAX: usize = 107;

/// Paths of one daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Path of its socket.
    pub socket: PathBuf,
    /// Directory for data that must survive a reboot: the database, supervisors' records, logs.
    pub state_dir: PathBuf,
    /// Directory for data that need not survive a reboot: sockets.
    pub runtime_dir: PathBuf,
    /// True for the daemon that all users of the machine share.
    system: bool,
}

/// Error of the paths.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// No home directory is known.
    #[error("neither MUSTER_HOME, XDG_STATE_HOME nor HOME is set")]
    NoHome,
    /// An environment variable contains a relative path.
    #[error("{variable} is `{}`, which is not an absolute path", .path.display())]
    Relative {
        /// Name of the variable.
        variable: &'static str,
        /// Value of the variable.
        path: PathBuf,
    },
    /// The state directory is on a network file system.
    #[error("{} is on a network file system ({kind}), where locks and durable writes cannot be relied on", .path.display())]
    Network {
        /// Path of the directory.
        path: PathBuf,
        /// Type of the file system.
        kind: String,
    },
    /// Other users could read or replace the files.
    #[error("{} is not safe to use: {problem}", .path.display())]
    Unsafe {
        /// Path that is not safe.
        path: PathBuf,
        /// Reason why it is not safe.
        problem: String,
    },
    /// The socket's path is too long.
    #[error("the socket path {} is longer than {SOCKET_PATH_MAX} bytes", .0.display())]
    SocketTooLong(PathBuf),
    /// The operating system reports an error.
    #[error("cannot use {}", .path.display())]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl PathsError {
    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            PathsError::NoHome => "set MUSTER_HOME to a directory of your own",
            PathsError::Relative { .. } => "give an absolute path: /…",
            PathsError::Network { .. } => "set MUSTER_HOME to a directory on a local disk",
            PathsError::Unsafe { .. } => "remove it, or set MUSTER_HOME to a directory of your own",
            PathsError::SocketTooLong(_) => "set MUSTER_HOME to a shorter path",
            PathsError::Io { .. } => {
                "make it writable for you, or set MUSTER_HOME to a directory of your own"
            }
        }
    }
}

impl Paths {
    /// Returns the paths of this user's own daemon: under `MUSTER_HOME` when it is set; else the
    /// state in the XDG state directory, keyed by host, and the socket in the XDG runtime directory
    /// (or `/tmp/muster-<uid>`).
    ///
    /// # Errors
    /// When no directory is known, or when the socket's directory exists and is not private to this
    /// user.
    pub fn personal() -> Result<Self, PathsError> {
        let (state_dir, runtime_dir) = match absolute("MUSTER_HOME")? {
            Some(home) => (home.clone(), home.join("run")),
            None => (state_home()?.join("muster").join(host_name()), runtime_home()),
        };
        let paths =
            Self { socket: runtime_dir.join("muster.sock"), state_dir, runtime_dir, system: false };
        paths.check_socket_length()?;
        if paths.runtime_dir.exists() {
            check_private(&paths.runtime_dir)?;
        }
        Ok(paths)
    }

    /// Returns the directory for records of jobs that were submitted to an external scheduler such
    /// as `slurm`. Not keyed by host: login nodes and compute nodes share it.
    ///
    /// # Errors
    /// When a variable does not contain an absolute path.
    pub fn external_scheduler(system: &str) -> Result<PathBuf, PathsError> {
        match absolute("MUSTER_HOME")? {
            Some(home) => Ok(home.join(system)),
            None => Ok(state_home()?.join("muster").join(system)),
        }
    }

    /// Returns the paths at which clients find the daemon that all users of the machine share.
    /// Variables of the user do not change them.
    #[must_use]
    pub fn system() -> Self {
        let runtime_dir = PathBuf::from("/run/muster");
        Self {
            socket: runtime_dir.join("muster.sock"),
            state_dir: PathBuf::from("/var/lib/muster"),
            runtime_dir,
            system: true,
        }
    }

    /// Returns true when a shared daemon is installed on this machine: it has run before, and its
    /// state directory exists. Removing that directory undoes the installation.
    #[must_use]
    pub fn shared_is_installed() -> bool {
        fs::symlink_metadata(Self::system().state_dir)
            .is_ok_and(|found| found.is_dir() && found.uid() == 0)
    }

    /// Returns true when the user has set a directory for a daemon of their own.
    #[must_use]
    pub fn home_is_named() -> bool {
        matches!(absolute("MUSTER_HOME"), Ok(Some(_)))
    }

    /// Returns the paths that a shared daemon uses: under root's `MUSTER_HOME` when it is set
    /// (clients then need `MUSTER_SOCKET`), else [`Paths::system`].
    ///
    /// # Errors
    /// When `MUSTER_HOME` is not an absolute path.
    pub fn system_to_serve() -> Result<Self, PathsError> {
        let home = absolute("MUSTER_HOME")?;
        Ok(home.map_or_else(Self::system, |home| Self::under(&home, true)))
    }

    /// Returns paths under one directory, for a daemon of a test or of another program. All users
    /// must reach a shared daemon's socket and none its state, so the state has its own directory
    /// there.
    #[must_use]
    pub fn under(dir: &Path, system: bool) -> Self {
        let runtime_dir = dir.join("run");
        let state_dir = if system { dir.join("state") } else { dir.to_owned() };
        Self { socket: runtime_dir.join("muster.sock"), state_dir, runtime_dir, system }
    }

    /// Returns the process id of the daemon that uses these paths, whether it listens or not;
    /// `None` when there is none.
    #[must_use]
    pub fn daemon(&self) -> Option<u32> {
        store::holder(&self.state_dir)
    }

    /// Creates missing directories and checks existing ones. Only the daemon calls it.
    ///
    /// # Errors
    /// When a directory is on a network file system, belongs to another user, or cannot be created.
    pub fn prepare(&self) -> Result<(), PathsError> {
        self.check_socket_length()?;
        netfs::reject_network(&self.state_dir)?;
        // Every user may reach the shared daemon's socket, and the kernel identifies the user. The
        // runtime directory comes first: the two may share a parent, which is created with the mode
        // of the first.
        create_private(&self.runtime_dir, if self.system { 0o755 } else { 0o700 })?;
        create_private(&self.state_dir, 0o700)?;
        if self.system {
            [&self.runtime_dir, &self.state_dir].into_iter().try_for_each(|dir| check_parents(dir))
        } else {
            Ok(())
        }
    }

    fn check_socket_length(&self) -> Result<(), PathsError> {
        if self.socket.as_os_str().as_bytes().len() > SOCKET_PATH_MAX {
            Err(PathsError::SocketTooLong(self.socket.clone()))
        } else {
            Ok(())
        }
    }
}

/// Returns the name of this host as `uname` reports it.
#[must_use]
pub fn host_name() -> String {
    let uname = rustix::system::uname();
    let name: String = uname
        .nodename()
        .to_string_lossy()
        .chars()
        .map(|letter| if letter == '/' { '_' } else { letter })
        .collect();
    match name.as_str() {
        "" | "." | ".." => "localhost".to_owned(),
        _ => name,
    }
}

fn state_home() -> Result<PathBuf, PathsError> {
    if let Some(dir) = absolute("XDG_STATE_HOME")? {
        return Ok(dir);
    }
    Ok(absolute("HOME")?.ok_or(PathsError::NoHome)?.join(".local/state"))
}

/// Returns `$XDG_RUNTIME_DIR/muster` when that directory belongs to this user (after `sudo`, which
/// keeps the variable, it does not).
fn runtime_home() -> PathBuf {
    let uid = geteuid().as_raw();
    let xdg = absolute("XDG_RUNTIME_DIR").ok().flatten();
    let mine =
        xdg.filter(|dir| fs::metadata(dir).is_ok_and(|found| found.is_dir() && found.uid() == uid));
    match mine {
        Some(dir) => dir.join("muster"),
        None => PathBuf::from(format!("/tmp/muster-{uid}")),
    }
}

fn absolute(variable: &'static str) -> Result<Option<PathBuf>, PathsError> {
    match env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(path) if path.is_relative() => Err(PathsError::Relative { variable, path }),
        found => Ok(found),
    }
}

/// Creates a directory and its parents, and checks that it belongs to this user and has this mode.
fn create_private(dir: &Path, mode: u32) -> Result<(), PathsError> {
    let failed = |source| PathsError::Io { path: dir.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(failed)?;
    let found = owned(dir)?;
    if found.permissions().mode() & 0o777 != mode {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    Ok(())
}

/// Rejects anything but a directory (not a link) of this user that no other user can write to.
fn check_private(dir: &Path) -> Result<(), PathsError> {
    match owned(dir)?.permissions().mode() & 0o022 {
        0 => Ok(()),
        _ => Err(PathsError::Unsafe {
            path: dir.to_owned(),
            problem: "other users can write to it".to_owned(),
        }),
    }
}

/// Rejects a directory of which another user could replace a parent: each parent must belong to
/// this user (root, for a shared daemon) or to root, and be writable for others only with the
/// sticky bit (`/tmp`).
fn check_parents(dir: &Path) -> Result<(), PathsError> {
    let real =
        fs::canonicalize(dir).map_err(|source| PathsError::Io { path: dir.to_owned(), source })?;
    for way in real.ancestors().skip(1) {
        let found = fs::symlink_metadata(way)
            .map_err(|source| PathsError::Io { path: way.to_owned(), source })?;
        let trusted = found.uid() == 0 || found.uid() == geteuid().as_raw();
        let mode = found.permissions().mode();
        let sticky = 0o1000;
        if !trusted || (mode & 0o022 != 0 && mode & sticky == 0) {
            let problem = format!("other users can rename entries of {}", way.display());
            return Err(PathsError::Unsafe { path: dir.to_owned(), problem });
        }
    }
    Ok(())
}

fn owned(dir: &Path) -> Result<fs::Metadata, PathsError> {
    let problem =
        |problem: &str| PathsError::Unsafe { path: dir.to_owned(), problem: problem.to_owned() };
    let found = fs::symlink_metadata(dir)
        .map_err(|source| PathsError::Io { path: dir.to_owned(), source })?;
    if !found.is_dir() {
        return Err(problem("it is not a directory"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(problem("it belongs to another user"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_directories_are_private_and_foreign_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(&dir.path().join("home"), false);
        paths.prepare().unwrap();
        for made in [&paths.state_dir, &paths.runtime_dir] {
            assert_eq!(
                fs::metadata(made).unwrap().permissions().mode() & 0o777,
                0o700,
                "{}",
                made.display()
            );
        }

        fs::set_permissions(&paths.runtime_dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(check_private(&paths.runtime_dir), Err(PathsError::Unsafe { .. })));
        paths.prepare().unwrap();
        check_private(&paths.runtime_dir).unwrap();

        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&paths.runtime_dir, &link).unwrap();
        assert!(matches!(check_private(&link), Err(PathsError::Unsafe { .. })));
    }

    #[test]
    fn a_shared_daemon_closes_its_state_and_opens_the_way_to_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let paths = Paths::under(&home, true);
        paths.prepare().unwrap();
        for (made, mode) in [(&home, 0o755), (&paths.runtime_dir, 0o755), (&paths.state_dir, 0o700)]
        {
            assert_eq!(
                fs::metadata(made).unwrap().permissions().mode() & 0o777,
                mode,
                "{}",
                made.display()
            );
        }

        // A user that can write to a directory can replace its entries.
        fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(paths.prepare(), Err(PathsError::Unsafe { .. })));
        fs::set_permissions(&home, fs::Permissions::from_mode(0o1777)).unwrap();
        paths.prepare().unwrap();
    }

    #[test]
    fn a_socket_path_that_the_kernel_cannot_take_is_refused_early() {
        let deep = PathBuf::from("/tmp").join("x".repeat(100));
        assert!(matches!(Paths::under(&deep, false).prepare(), Err(PathsError::SocketTooLong(_))));
    }
}
