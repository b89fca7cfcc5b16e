//! Groups of processes in the cgroup hierarchy of version 1.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of a controller.
pub fn root(controller: &str) -> PathBuf {
    Path::new("/sys/fs/cgroup").join(controller)
}

/// Returns the folders in a group whose names start with `prefix`.
pub fn children(group: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Returns the pids of all processes in a group and its descendants.
pub fn pids(group: &Path) -> Vec<u32> {
    let own = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own = own.lines().filter_map(|line| line.parse().ok());
    own.chain(children(group, "").iter().flat_map(|child| pids(child))).collect()
}

/// Removes a group with its descendants; those with processes stay, and so do their parents.
pub fn remove(group: &Path) {
    for child in children(group, "") {
        remove(&child);
    }
    let _ = fs::remove_dir(group);
}
