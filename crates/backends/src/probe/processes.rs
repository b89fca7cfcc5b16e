//! Finds the processes of a job on this node, by their environment and by what started them, and
//! reads what each is told and has open of GPUs. It judges nothing. Invariant: a process that runs
//! is not missed because it is being replaced by its program at this moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::verify::SeenProcess;

use super::{NODE, number};
use crate::process::{self, Stat};

/// Longest wait for processes that are between two programs. The kernel takes microseconds; a
/// loaded machine milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Environment of a process.
pub(super) type Variables = BTreeMap<String, String>;

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) variables: Variables,
}

/// The processes of one rank, the eldest first: that one has what the rank was given.
pub(super) type Rank = Vec<Process>;

/// What `/proc` says of a process's environment.
#[derive(Debug, PartialEq, Eq)]
enum Environment {
    Known(Variables),
    /// The kernel is replacing its program: the old environment is gone and the new one is not
    /// there yet.
    Replaced,
    /// Another user's, a kernel thread, or gone.
    None,
}

/// Returns the processes of each rank on this node. Looks again while a process has no environment
/// yet.
pub(super) fn ranks_of(job: u64, index: Option<u32>, own: &Variables) -> Vec<Rank> {
    let mut found = Vec::new();
    // What is still not readable when patience ends is left out, as a process that cannot be read.
    let _ = process::until_empty(PATIENCE, || {
        let (ranks, is_complete) = scan(job, index, own);
        found = ranks;
        is_complete
    });
    found
}

/// Looks once. False when some process had no environment yet.
fn scan(job: u64, index: Option<u32>, own: &Variables) -> (Vec<Rank>, bool) {
    // 1. Every process that can be read.
    let mut is_complete = true;
    let mut all: BTreeMap<i32, (Stat, Variables)> = BTreeMap::new();
    for pid in process::pids() {
        let Some(stat) = Stat::read(pid).filter(|stat| !stat.is_zombie) else { continue };
        match environment(&Path::new("/proc").join(pid.to_string())) {
            Environment::Known(variables) => _ = all.insert(pid, (stat, variables)),
            Environment::Replaced => is_complete = false,
            Environment::None => {}
        }
    }
    // 2. Those of the job, by rank. Several nodes of Slurm may be one machine.
    let is_here = |variables: &Variables| match (variables.get(NODE), own.get(NODE)) {
        (Some(theirs), Some(ours)) => theirs == ours,
        _ => true,
    };
    let mut by_rank: BTreeMap<u64, Vec<(bool, u64, i32)>> = BTreeMap::new();
    for (pid, (stat, variables)) in &all {
        let told = told_rank(variables, job, index).filter(|_| is_here(variables));
        if let Some(rank) = told.or_else(|| inherited_rank(*pid, &all, job, index)) {
            by_rank.entry(rank).or_default().push((told.is_none(), stat.start_ticks, *pid));
        }
    }
    // 3. The eldest of each first.
    let process =
        |pid: i32| Some(Process { pid: pid.unsigned_abs(), variables: all.get(&pid)?.1.clone() });
    let rank = |mut processes: Vec<(bool, u64, i32)>| {
        processes.sort_unstable();
        processes.into_iter().filter_map(|(.., pid)| process(pid)).collect()
    };
    (by_rank.into_values().map(rank).collect(), is_complete)
}

/// The rank of the job that an environment names.
fn told_rank(variables: &Variables, job: u64, index: Option<u32>) -> Option<u64> {
    is_of(variables, job, index).then(|| number(variables, "MUSTER_TASK")).flatten()
}

/// The rank of the nearest ancestor that names one: `env -i` drops the variables and not the
/// parent.
fn inherited_rank(
    pid: i32,
    all: &BTreeMap<i32, (Stat, Variables)>,
    job: u64,
    index: Option<u32>,
) -> Option<u64> {
    let mut at = pid;
    // Pids are used again while this walks, so that a circle is possible.
    for _ in 0..all.len() {
        let (stat, variables) = all.get(&at)?;
        if variables.contains_key("MUSTER_JOB_ID") {
            return told_rank(variables, job, index).filter(|_| at != pid);
        }
        at = stat.parent;
    }
    None
}

pub(super) fn is_of(variables: &Variables, job: u64, index: Option<u32>) -> bool {
    let own = number(variables, "MUSTER_ARRAY_INDEX").or(number(variables, "MUSTER_REPLICA"));
    number(variables, "MUSTER_JOB_ID") == Some(job) && (index.is_none() || own == index)
}

/// Reads the environment of the process whose folder this is.
fn environment(folder: &Path) -> Environment {
    // `env -i` starts programs with an empty environment; then the command line, which comes with
    // it, is there.
    for _ in 0..2 {
        match fs::read(folder.join("environ")) {
            Err(_) => return Environment::None,
            Ok(bytes) if !bytes.is_empty() => return Environment::Known(variables(&bytes)),
            Ok(_) => {}
        }
        if fs::read(folder.join("cmdline")).is_ok_and(|line| line.is_empty()) {
            // Kernel threads have no program, and never an environment.
            let has_program = fs::read_link(folder.join("exe")).is_ok();
            return if has_program { Environment::Replaced } else { Environment::None };
        }
    }
    Environment::Known(Variables::new())
}

fn variables(bytes: &[u8]) -> Variables {
    let pair = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    bytes.split(|byte| *byte == 0).filter_map(pair).collect()
}

/// GPUs that an environment leaves visible; `None` where it names none at all, which leaves all
/// visible.
pub(super) fn visible(variables: &Variables) -> Option<Vec<String>> {
    let listed = |name: &str| -> Option<Vec<String>> {
        let entries =
            variables.get(name)?.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        // Runtimes stop at the first word that names no device; these are those that people write
        // for that.
        let is_device = |entry: &&str| !["-1", "NoDevFiles", "none", "void"].contains(entry);
        Some(entries.take_while(is_device).map(str::to_owned).collect())
    };
    // Where AMD's devices go by UUID, CUDA_VISIBLE_DEVICES counts what that leaves: it is 0 in
    // every rank.
    let by_uuid = listed("ROCR_VISIBLE_DEVICES")
        .filter(|list| list.iter().any(|entry| entry.bytes().any(|byte| !byte.is_ascii_digit())));
    by_uuid.or_else(|| listed("CUDA_VISIBLE_DEVICES")).or_else(|| listed("ROCR_VISIBLE_DEVICES"))
}

/// What each process of a rank is told and has open, without repeats: workers of a data loader are
/// all alike.
pub(super) fn uses(rank: &Rank, configured: &[PathBuf]) -> Vec<SeenProcess> {
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

/// Device files of GPUs among open files; `None` where they may not be looked at.
fn open_devices(folder: &Path, configured: &[PathBuf]) -> Option<Vec<String>> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let is_gpu = |path: &PathBuf| configured.contains(path) || is_usual_gpu(path);
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok()).filter(is_gpu);
    let open: BTreeSet<String> = links.map(|path| path.to_string_lossy().into_owned()).collect();
    Some(open.into_iter().collect())
}

/// `/dev/nvidia0` and so on.
fn is_usual_gpu(path: &Path) -> bool {
    let number = path.to_str().and_then(|path| path.strip_prefix("/dev/nvidia"));
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as `/proc` has it.
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
    fn a_process_between_two_programs_is_not_one_without_an_environment() {
        let known = |pairs: &[(&str, &str)]| {
            Environment::Known(
                pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            )
        };
        for (environ, cmdline, has_program, expected) in [
            ("A=1\0B=2\0", "sleep\0", true, known(&[("A", "1"), ("B", "2")])),
            ("", "", true, Environment::Replaced),
            ("", "sleep\0", true, known(&[])),
            ("", "", false, Environment::None),
        ] {
            let folder = folder(environ, cmdline, has_program);
            assert_eq!(
                environment(folder.path()),
                expected,
                "{environ:?} {cmdline:?} {has_program}"
            );
        }
        assert_eq!(environment(Path::new("/no/such/folder")), Environment::None);
    }

    #[test]
    fn devices_are_those_that_are_left_visible() {
        let of = |pairs: &[(&str, &str)]| {
            let variables =
                pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            visible(&variables).map(|list| list.join(" "))
        };
        assert_eq!(of(&[("CUDA_VISIBLE_DEVICES", "1, 2")]).as_deref(), Some("1 2"));
        assert_eq!(of(&[("CUDA_VISIBLE_DEVICES", "-1")]).as_deref(), Some(""));
        assert_eq!(of(&[("CUDA_VISIBLE_DEVICES", "")]).as_deref(), Some(""));
        assert_eq!(of(&[]), None);
        // Slurm sets both by number; on AMD Muster sets one by UUID, on which the other counts.
        let both = |rocr| of(&[("CUDA_VISIBLE_DEVICES", "0"), ("ROCR_VISIBLE_DEVICES", rocr)]);
        assert_eq!(both("3").as_deref(), Some("0"));
        assert_eq!(both("GPU-a").as_deref(), Some("GPU-a"));
        assert_eq!(of(&[("ROCR_VISIBLE_DEVICES", "3")]).as_deref(), Some("3"));
    }

    #[test]
    fn open_files_are_those_of_gpus() {
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
