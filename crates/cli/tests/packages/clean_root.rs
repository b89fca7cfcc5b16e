//! Root file systems that a test may change: a copy of the minimal Debian that `cargo xtask packages` has
//! made, or an unpacked image. Commands run in namespaces of their own, which end with them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;
use crate::first_command::{self, WORK};

/// Mounts what a program expects, and runs the rest of the words in the root. Arguments: the root, options
/// of chroot, `--`, the command.
const ENTER: &str = r#"
root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
options=
while [ "$1" != -- ]; do options="$options $1"; shift; done
shift
exec chroot $options "$root" "$@"
"#;

/// Folders and files that the package tools themselves write, and those of the test.
const NOT_COMPARED: [&str; 7] =
    [WORK, "proc", "dev", "var/lib/dpkg", "var/log", "var/cache", "etc/ld.so.cache"];

/// Root file system in a temporary folder.
pub struct CleanRoot {
    folder: tempfile::TempDir,
}

impl CleanRoot {
    /// Returns an empty folder.
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Returns a minimal Debian, with the first job of the README in [`WORK`].
    pub fn debian() -> Self {
        let base = std::env::var_os("MUSTER_PACKAGES_ROOT").expect("cargo xtask packages sets it");
        let root = Self::empty();
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]).arg(PathBuf::from(base).join("."));
        files::run(copy.arg(root.path()));
        first_command::prepare(root.path());
        root
    }

    /// Returns the root of the file system.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Copies a package to [`WORK`], and returns its path in the root.
    pub fn add(&self, package: &Path) -> String {
        let name = package.file_name().unwrap().to_str().unwrap();
        fs::copy(package, self.path().join(WORK).join(name)).unwrap();
        format!("/{WORK}/{name}")
    }

    /// Runs a script in the root and returns its output.
    pub fn script(&self, script: &str) -> String {
        self.run(&[], &["/bin/sh", "-ec", script])
    }

    /// Runs a command in the root, with these options of `chroot`.
    pub fn run(&self, options: &[&str], words: &[&str]) -> String {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh"]);
        command.arg(self.path()).args(options).arg("--").args(words).env_clear();
        command.envs([
            ("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/home/muster"),
        ]);
        files::run(&mut command)
    }

    /// Returns all files, except those of package tools and of the test.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.path().to_path_buf()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap();
                let path = entry.path();
                let relative = path.strip_prefix(self.path()).unwrap().to_path_buf();
                if NOT_COMPARED.iter().any(|other| relative == Path::new(other)) {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    open.push(path);
                } else {
                    found.insert(relative);
                }
            }
        }
        found
    }

    /// Checks that nothing was added since `before`, except below this folder.
    pub fn check_left(&self, before: &BTreeSet<PathBuf>, state: Option<&str>) {
        let after = self.files();
        let is_state = |path: &&PathBuf| state.is_some_and(|state| path.starts_with(state));
        let left: Vec<&PathBuf> = after.difference(before).filter(|path| !is_state(path)).collect();
        assert!(left.is_empty(), "files were left: {left:?}");
        assert!(before.is_subset(&after), "files of the system are gone");
        if let Some(state) = state {
            assert!(self.path().join(state).join("muster.db").exists(), "the state is gone");
        }
    }
}
