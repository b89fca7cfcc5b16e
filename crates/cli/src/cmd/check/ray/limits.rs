//! Reads how many CPUs and how much memory a process may use: its affinity, and the limits of its control
//! groups in both versions of their file system.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders where the control groups of version 2 are mounted.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Limits from here on are none: version 1 has a number of pages that no machine has.
const NO_LIMIT: u64 = 1 << 60;

/// Returns the number of CPUs that a process may use.
pub fn cpus(process: &Path, groups: &str) -> Option<u64> {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = list.and_then(|list| count_of(list.trim()));
    let unified = group_files(groups, "", &UNIFIED, "cpu.max");
    let quotas = unified.iter().filter_map(|file| quota(&fs::read_to_string(file).ok()?));
    let folders = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    let first = group_files(groups, "cpu", &folders, "cpu.cfs_quota_us");
    let older = first.iter().filter_map(|file| {
        let period = fs::read_to_string(file.with_file_name("cpu.cfs_period_us")).ok()?;
        quota(&format!("{} {}", fs::read_to_string(file).ok()?.trim(), period.trim()))
    });
    allowed.into_iter().chain(quotas).chain(older).min()
}

/// Returns the limit on the memory of a process in bytes.
pub fn memory_bytes(groups: &str) -> Option<u64> {
    let mut files = group_files(groups, "", &UNIFIED, "memory.max");
    let first = ["/sys/fs/cgroup/memory"];
    files.extend(group_files(groups, "memory", &first, "memory.limit_in_bytes"));
    let limits = files.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.filter(|limit| *limit < NO_LIMIT).min()
}

/// Returns this file of a process's group and of those above it. A hierarchy of version 2 has no
/// controller's name.
fn group_files(groups: &str, controller: &str, mounts: &[&str], file: &str) -> Vec<PathBuf> {
    let path = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(path)
    });
    let Some(path) = path else { return Vec::new() };
    let above = Path::new(path).ancestors().map(|path| path.strip_prefix("/").unwrap_or(path));
    above
        .flat_map(|path| mounts.iter().map(move |mount| Path::new(mount).join(path).join(file)))
        .collect()
}

/// Counts the CPUs of a list such as `0-3,8`.
fn count_of(list: &str) -> Option<u64> {
    list.split(',').try_fold(0, |sum: u64, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(sum + last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    })
}

/// Returns the CPUs of a quota, rounded up: `150000 100000` are 2. `max` and -1 are none.
fn quota(text: &str) -> Option<u64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let period: u64 = period.parse().ok().filter(|period| *period > 0)?;
    Some(quota.parse::<u64>().ok()?.div_ceil(period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_quotas_are_counted() {
        assert_eq!(count_of("0-3,8"), Some(5));
        assert_eq!(count_of("7"), Some(1));
        assert_eq!(count_of(""), None);
        assert_eq!(quota("150000 100000\n"), Some(2));
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("-1 100000"), None);
    }

    #[test]
    fn groups_above_limit_as_well() {
        let groups = "4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/d\n";
        let files = |controller: &str| {
            let found = group_files(groups, controller, &["/m"], "f");
            found.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(files("memory"), ["/m/a/b/f", "/m/a/f", "/m/f"]);
        assert_eq!(files("cpu"), ["/m/c/f", "/m/f"]);
        assert_eq!(files(""), ["/m/d/f", "/m/f"]);
        assert!(files("pids").is_empty());
    }
}
