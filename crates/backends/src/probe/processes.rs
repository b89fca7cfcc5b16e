//! Finds the processes of a job on this node, by their environment and their ancestors, and reads
//! the GPUs that each has visible and open. It evaluates nothing. Invariant: a running process is
//! not missed because it is in the middle of an exec.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::verify::SeenProcess;

use super::{NODE, number};
use crate::cgroup;
use crate::process::{self, Stat};

/// Longest wait for processes that are in the middle of an exec, which takes microseconds, on a
/// loaded machine milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Environment variables of a process.
pub(crate) type EnvVariables = BTreeMap<String, String>;

/// One process of the job.
#[derive(Clone, Debug)]
pub(crate) struct JobProcess {
    pub(crate) pid: u32,
    pub(super) variables: EnvVariables,
}

/// Processes of one rank, the oldest first: it has the variables that Muster set.
pub(crate) type RankProcesses = Vec<JobProcess>;

/// Result of reading a process's environment from `/proc`.
#[derive(Debug, PartialEq, Eq)]
enum ReadEnvironment {
    Known(EnvVariables),
    /// The process is in the middle of an exec: the old environment is gone and the new one is not
    /// there yet.
    Replaced,
    /// The process belongs to another user, is a kernel thread, or has ended.
    None,
}

/// Returns the processes of each rank on this node. Repeats the scan while a process has no
/// environment yet.
pub(crate) fn ranks_of(job: u64, index: Option<u32>, own: &EnvVariables) -> Vec<RankProcesses> {
    let mut found = Vec::new();
    // Processes that are still not readable after that are left out.
    let _ = process::poll_until(PATIENCE, || {
        let (ranks, is_complete) = scan(job, index, own);
        found = ranks;
        is_complete
    });
    found
}

/// Scans the processes once. The flag is false when a process had no environment yet.
fn scan(job: u64, index: Option<u32>, own: &EnvVariables) -> (Vec<RankProcesses>, bool) {
    // 1. Every process that can be read.
    let mut is_complete = true;
    let mut all: BTreeMap<i32, (Stat, EnvVariables)> = BTreeMap::new();
    for pid in process::pids() {
        let Some(stat) = Stat::read(pid).filter(|stat| !stat.is_zombie) else { continue };
        match environment(&Path::new("/proc").join(pid.to_string())) {
            ReadEnvironment::Known(variables) => _ = all.insert(pid, (stat, variables)),
            ReadEnvironment::Replaced => is_complete = false,
            ReadEnvironment::None => {}
        }
    }
    // 2. Those of the job, by rank. Several Slurm nodes may run on one machine.
    let is_here = |variables: &EnvVariables| match (variables.get(NODE), own.get(NODE)) {
        (Some(theirs), Some(ours)) => theirs == ours,
        _ => true,
    };
    let mut by_rank: BTreeMap<u64, Vec<(bool, u64, i32)>> = BTreeMap::new();
    for (pid, (stat, variables)) in &all {
        let own_rank = own_rank(variables, job, index).filter(|_| is_here(variables));
        if let Some(rank) = own_rank.or_else(|| inherited_rank(*pid, &all, job, index)) {
            by_rank.entry(rank).or_default().push((own_rank.is_none(), stat.start_ticks, *pid));
        }
    }
    // 3. Per rank, processes with variables of their own first, then the oldest.
    let process = |pid: i32| {
        Some(JobProcess { pid: pid.unsigned_abs(), variables: all.get(&pid)?.1.clone() })
    };
    let rank = |mut processes: Vec<(bool, u64, i32)>| {
        processes.sort_unstable();
        processes.into_iter().filter_map(|(.., pid)| process(pid)).collect()
    };
    (by_rank.into_values().map(rank).collect(), is_complete)
}

/// Returns the rank of the job in an environment.
fn own_rank(variables: &EnvVariables, job: u64, index: Option<u32>) -> Option<u64> {
    is_of(variables, job, index).then(|| number(variables, "MUSTER_TASK")).flatten()
}

/// Returns the rank of the nearest ancestor that has one: `env -i` drops the variables, but the
/// parent stays.
fn inherited_rank(
    pid: i32,
    all: &BTreeMap<i32, (Stat, EnvVariables)>,
    job: u64,
    index: Option<u32>,
) -> Option<u64> {
    let mut at = pid;
    // Pids may be reused during this walk, so that cycles are possible: bound the number of steps.
    for _ in 0..all.len() {
        let (stat, variables) = all.get(&at)?;
        if variables.contains_key("MUSTER_JOB_ID") {
            return own_rank(variables, job, index).filter(|_| at != pid);
        }
        at = stat.parent;
    }
    None
}

pub(super) fn is_of(variables: &EnvVariables, job: u64, index: Option<u32>) -> bool {
    let own = number(variables, "MUSTER_ARRAY_INDEX").or(number(variables, "MUSTER_REPLICA"));
    number(variables, "MUSTER_JOB_ID") == Some(job) && (index.is_none() || own == index)
}

/// Returns the number of the job that a process belongs to: as in its environment or, where only its
/// owner may read that, in the name of its control group.
pub(super) fn job_of(pid: u32) -> Option<u64> {
    let folder = Path::new("/proc").join(pid.to_string());
    let told = match environment(&folder) {
        ReadEnvironment::Known(variables) => number(&variables, "MUSTER_JOB_ID"),
        ReadEnvironment::Replaced | ReadEnvironment::None => None,
    };
    let groups = || fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    told.or_else(|| cgroup::job_of(&groups()))
}

/// Reads the environment of the process with this `/proc` directory.
fn environment(folder: &Path) -> ReadEnvironment {
    // An empty environment is real (`env -i`) if there is a command line, which the exec sets at
    // the same time.
    for _ in 0..2 {
        match process::read_at_once(&folder.join("environ")) {
            Err(_) => return ReadEnvironment::None,
            Ok(bytes) if !bytes.is_empty() => return ReadEnvironment::Known(variables(&bytes)),
            Ok(_) => {}
        }
        if fs::read(folder.join("cmdline")).is_ok_and(|line| line.is_empty()) {
            // Kernel threads have no program and never an environment.
            let has_program = fs::read_link(folder.join("exe")).is_ok();
            return if has_program { ReadEnvironment::Replaced } else { ReadEnvironment::None };
        }
    }
    ReadEnvironment::Known(EnvVariables::new())
}

fn variables(bytes: &[u8]) -> EnvVariables {
    let pair = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    bytes.split(|byte| *byte == 0).filter_map(pair).collect()
}

/// Returns the GPUs that an environment makes visible; `None` where no variable is set, which makes
/// all visible.
pub(super) fn visible(variables: &EnvVariables) -> Option<Vec<String>> {
    let listed = |name: &str| -> Option<Vec<String>> {
        let entries =
            variables.get(name)?.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        // Runtimes stop at the first entry that is not a device; these are the usual ones.
        let is_device = |entry: &&str| !["-1", "NoDevFiles", "none", "void"].contains(entry);
        Some(entries.take_while(is_device).map(str::to_owned).collect())
    };
    // Where ROCR_VISIBLE_DEVICES has UUIDs of AMD devices, CUDA_VISIBLE_DEVICES numbers the
    // remaining ones: it is 0 in every rank.
    let by_uuid = listed("ROCR_VISIBLE_DEVICES")
        .filter(|list| list.iter().any(|entry| entry.bytes().any(|byte| !byte.is_ascii_digit())));
    by_uuid.or_else(|| listed("CUDA_VISIBLE_DEVICES")).or_else(|| listed("ROCR_VISIBLE_DEVICES"))
}

/// Returns the visible and open devices of each process of a rank, without duplicates: workers of a
/// data loader are all alike.
pub(super) fn uses(rank: &RankProcesses, configured: &[PathBuf]) -> Vec<SeenProcess> {
    let mut seen: Vec<SeenProcess> = Vec::new();
    for process in rank {
        let one = SeenProcess {
            pid: process.pid,
            visible: visible(&process.variables),
            open: open_devices(Path::new(&format!("/proc/{}/fd", process.pid)), configured),
        };
        if !seen.iter().any(|other| other.visible == one.visible && other.open == one.open) {
            seen.push(one);
        }
    }
    seen
}

/// Returns the device files of GPUs among open files; `None` where these may not be read.
fn open_devices(folder: &Path, configured: &[PathBuf]) -> Option<Vec<String>> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let is_gpu = |path: &PathBuf| configured.contains(path) || is_usual_gpu(path);
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok()).filter(is_gpu);
    let open: BTreeSet<String> = links.map(|path| path.to_string_lossy().into_owned()).collect();
    Some(open.into_iter().collect())
}

/// Returns true for `/dev/nvidia0` and so on.
fn is_usual_gpu(path: &Path) -> bool {
    let number = path.to_str().and_then(|path| path.strip_prefix("/dev/nvidia"));
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory with the files of a process in `/proc`.
    fn folder(environ: &str, cmdline: &str, has_program: bool) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("environ"), environ).unwrap();
        fs::write(folder.path().join("cmdline"), cmdline).unwrap();
        if has_program {
            std::os::unix::fs::symlink("/bin/sleep", folder.path().join("exe")).unwrap();
        }
        folder
    }

    #[test]
    fn a_process_in_the_middle_of_an_exec_differs_from_one_without_an_environment() {
        let known = |pairs: &[(&str, &str)]| {
            ReadEnvironment::Known(
                pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            )
        };
        for (environ, cmdline, has_program, expected) in [
            ("A=1\0B=2\0", "sleep\0", true, known(&[("A", "1"), ("B", "2")])),
            ("", "", true, ReadEnvironment::Replaced),
            ("", "sleep\0", true, known(&[])),
            ("", "", false, ReadEnvironment::None),
        ] {
            let folder = folder(environ, cmdline, has_program);
            assert_eq!(
                environment(folder.path()),
                expected,
                "{environ:?} {cmdline:?} {has_program}"
            );
        }
        assert_eq!(environment(Path::new("/no/such/folder")), ReadEnvironment::None);
    }

    #[test]
    fn visible_devices_are_read_from_the_variables() {
        let of = |pairs: &[(&str, &str)]| {
            let variables =
                pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            visible(&variables).map(|list| list.join(" "))
        };
        assert_eq!(of(&[("CUDA_VISIBLE_DEVICES", "1, 2")]).as_deref(), Some("1 2"));
        assert_eq!(of(&[("CUDA_VISIBLE_DEVICES", "-1")]).as_deref(), Some(""));
        assert_eq!(of(&[("CUDA_VISIBLE_DEVICES", "")]).as_deref(), Some(""));
        assert_eq!(of(&[]), None);
        // Slurm sets both to numbers; on AMD, Muster sets one to UUIDs, and the other numbers them.
        let both = |rocr| of(&[("CUDA_VISIBLE_DEVICES", "0"), ("ROCR_VISIBLE_DEVICES", rocr)]);
        assert_eq!(both("3").as_deref(), Some("0"));
        assert_eq!(both("GPU-a").as_deref(), Some("GPU-a"));
        assert_eq!(of(&[("ROCR_VISIBLE_DEVICES", "3")]).as_deref(), Some("3"));
    }

    #[test]
    fn only_gpu_device_files_count_as_open() {
        let folder = tempfile::tempdir().unwrap();
        for (at, target) in
            ["/dev/null", "/dev/nvidia0", "/dev/nvidiactl", "/srv/gpu7", "/dev/nvidia0"]
                .iter()
                .enumerate()
        {
            std::os::unix::fs::symlink(target, folder.path().join(at.to_string())).unwrap();
        }
        let configured = [PathBuf::from("/srv/gpu7")];
        let open = open_devices(folder.path(), &configured).unwrap();
        assert_eq!(open, ["/dev/nvidia0", "/srv/gpu7"]);
        assert_eq!(open_devices(Path::new("/no/such/folder"), &configured), None);
    }
}
