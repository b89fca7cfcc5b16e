//! Check of the GPUs that a job's ranks use: allocated devices, environment of the rank's
//! processes, open device files, and processes that the driver lists. A device that two ranks use
//! fails, whichever source shows it; a device that no source shows is not tested.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::verify::{ProbeObservation, SeenRank};

use super::JobEvidence;
use super::check::JobCheckOutcome::{self, NotTested};
use super::check::{WHOLE_MILLIS, count, fail_if_any};
use super::gang::{gpus, ranks};

/// GPU of a node: node, and number, UUID or file.
type GpuId<'a> = (&'a str, &'a str);

pub(super) fn devices(evidence: &JobEvidence) -> JobCheckOutcome {
    let known: Vec<(&ProbeObservation, &SeenRank, u32)> = ranks(evidence)
        .filter_map(|(seen, rank)| Some((seen, rank, gpus(evidence, rank)?)))
        .collect();
    // 1. Compare the allocated devices.
    let mut wrong = unallocated_use(evidence, &known);
    if wrong.is_empty() && known.iter().all(|(_, _, gpus)| *gpus == 0) {
        return NotTested("a job with GPUs, whose ranks were found".to_owned());
    }
    wrong.extend(wrong_counts(&known));
    // 2. Compare the devices in use. The driver's list is proof; then open files; the environment
    // is only a request.
    let listed = by_driver(evidence);
    let opened = by_open_files(&known);
    let reported = by_environment(&known);
    let reported =
        reported.iter().filter(|((node, _), users)| !have_separate_files(&known, node, users));
    let mut shared = BTreeSet::new();
    for ((node, device), users) in
        listed.iter().chain(&opened).chain(reported).filter(|(_, users)| exceed_one(&known, users))
    {
        // Ranks that share a GPU are reported once, by the first source that shows it.
        if shared.insert((*node, users.clone())) {
            wrong.push(format!("{} share GPU {device} of {node}", numbered(users)));
        }
    }
    wrong.extend(foreign_devices(&known));
    // 3. Report what could not be observed.
    if wrong.is_empty()
        && let Some(unseen) = missing_source(evidence, &known)
    {
        return NotTested(unseen);
    }
    let gpus: usize = known.iter().map(|(.., gpus)| *gpus as usize).sum();
    let is_share = |(_, rank, _): &(_, &SeenRank, _)| {
        rank.gpu_share_millis.is_some_and(|share| share < WHOLE_MILLIS)
    };
    let right = if known.iter().any(is_share) {
        format!("{} of a GPU", count(gpus, "share"))
    } else {
        format!("{}, each of one rank", count(gpus, "GPU"))
    };
    fail_if_any(&wrong, right)
}

/// Returns true when several ranks have more of one GPU than there is: shares may fit on it.
fn exceed_one(known: &[(&ProbeObservation, &SeenRank, u32)], users: &BTreeSet<u32>) -> bool {
    let share = |rank: &u32| {
        let of = known.iter().find(|(_, one, _)| one.rank == *rank);
        of.and_then(|(_, one, _)| one.gpu_share_millis).unwrap_or(WHOLE_MILLIS)
    };
    users.len() > 1 && users.iter().map(share).sum::<u32>() > WHOLE_MILLIS
}

/// Reports ranks with a process on a GPU that they were not allocated, as the driver lists it. A GPU
/// that the environment names by number may be any, and a process on a split GPU may be listed for
/// each of its slices.
fn unallocated_use(
    evidence: &JobEvidence,
    known: &[(&ProbeObservation, &SeenRank, u32)],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((node, uuid), users) in by_driver(evidence) {
        for (_, rank, gpus) in known.iter().filter(|(_, rank, _)| users.contains(&rank.rank)) {
            let own = rank.visible.as_deref().unwrap_or_default();
            let is_elsewhere = !own.is_empty()
                && !uuid.starts_with("MIG-")
                && own.iter().all(|device| is_uuid(device) && !names(device, uuid));
            if *gpus == 0 || is_elsewhere {
                wrong.push(format!(
                    "rank {} uses {uuid} of {node}, which it was not allocated",
                    rank.rank
                ));
            }
        }
    }
    wrong
}

/// Formats ranks: `ranks 0 and 1`, `ranks 0, 1 and 2`.
fn numbered(ranks: &BTreeSet<u32>) -> String {
    let words: Vec<String> = ranks.iter().map(u32::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("ranks {} and {last}", rest.join(", ")),
        _ => format!("rank {}", words.join("")),
    }
}

/// Reports ranks that have another number of GPUs than expected.
fn wrong_counts(known: &[(&ProbeObservation, &SeenRank, u32)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, rank, gpus) in known {
        let sees = rank.visible.as_deref().unwrap_or_default().len();
        match rank.visible {
            None if *gpus > 0 => {
                wrong.push(format!("rank {} has no GPUs set in its environment", rank.rank))
            }
            _ if sees != *gpus as usize => {
                let sees = count(sees, "GPU");
                wrong.push(format!("rank {} sees {sees}, instead of {gpus}", rank.rank));
            }
            _ => {}
        }
    }
    wrong
}

/// Groups ranks by the GPU that the environment of their processes names.
fn by_environment<'a>(
    known: &[(&'a ProbeObservation, &'a SeenRank, u32)],
) -> BTreeMap<GpuId<'a>, BTreeSet<u32>> {
    let mut users: BTreeMap<GpuId<'a>, BTreeSet<u32>> = BTreeMap::new();
    for (seen, rank, _) in known {
        let own = rank.visible.iter().flatten();
        let processes = rank.processes.iter().flat_map(|process| process.visible.iter().flatten());
        for device in own.chain(processes) {
            users.entry((&seen.node, device)).or_default().insert(rank.rank);
        }
    }
    users
}

/// Groups ranks by the device files that they have open. A rank with more open files than GPUs only
/// enumerates devices, and is left out.
fn by_open_files<'a>(
    known: &[(&'a ProbeObservation, &'a SeenRank, u32)],
) -> BTreeMap<GpuId<'a>, BTreeSet<u32>> {
    let mut users: BTreeMap<GpuId<'a>, BTreeSet<u32>> = BTreeMap::new();
    for (seen, rank, gpus) in known {
        let files = open_files(rank);
        for file in files.iter().filter(|_| files.len() <= *gpus as usize) {
            users.entry((&seen.node, file)).or_default().insert(rank.rank);
        }
    }
    users
}

fn open_files(rank: &SeenRank) -> BTreeSet<&str> {
    let open = rank.processes.iter().flat_map(|process| process.open.iter().flatten());
    open.map(String::as_str).collect()
}

/// Groups ranks by the GPU on which the driver lists one of their processes.
fn by_driver(evidence: &JobEvidence) -> BTreeMap<GpuId<'_>, BTreeSet<u32>> {
    let mut users: BTreeMap<GpuId<'_>, BTreeSet<u32>> = BTreeMap::new();
    for seen in &evidence.seen {
        for user in seen.gpu_users.iter().flatten() {
            if let Some(rank) = user.rank {
                users.entry((&seen.node, &user.uuid)).or_default().insert(rank);
            }
        }
    }
    users
}

/// Returns whether ranks with the same device number have different device files open: tasks in
/// separate device cgroups may all have number 0 without sharing.
fn have_separate_files(
    known: &[(&ProbeObservation, &SeenRank, u32)],
    node: &str,
    users: &BTreeSet<u32>,
) -> bool {
    let is_one = |(seen, rank, _): &&(&ProbeObservation, &SeenRank, u32)| {
        seen.node == node && users.contains(&rank.rank)
    };
    let files: Vec<BTreeSet<&str>> =
        known.iter().filter(is_one).map(|(_, rank, _)| open_files(rank)).collect();
    let all: BTreeSet<&str> = files.iter().flatten().copied().collect();
    files.iter().all(|own| !own.is_empty())
        && all.len() == files.iter().map(BTreeSet::len).sum::<usize>()
}

/// Reports processes whose environment names a GPU that no rank of the job was allocated, in the
/// same naming.
fn foreign_devices(known: &[(&ProbeObservation, &SeenRank, u32)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (seen, rank, _) in known {
        let given: BTreeSet<&String> = known
            .iter()
            .filter(|(other, ..)| other.node == seen.node)
            .flat_map(|(_, rank, _)| rank.visible.iter().flatten())
            .collect();
        for process in &rank.processes {
            let stray = process.visible.iter().flatten().find(|device| {
                !given.contains(device) && given.iter().all(|own| naming(own) == naming(device))
            });
            if let Some(device) = stray.filter(|_| !given.is_empty()) {
                wrong.push(format!(
                    "process {} of rank {} is set to GPU {device} of {}, which the job was not allocated",
                    process.pid, rank.rank, seen.node
                ));
            }
        }
    }
    wrong
}

/// Ways to name a GPU: names of one kind can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuNaming {
    Number,
    File,
    Uuid,
}

/// Returns true when an environment that names `device` means the GPU with this UUID: CUDA accepts the
/// beginning of one.
pub(super) fn names(device: &str, uuid: &str) -> bool {
    is_uuid(device) && uuid.starts_with(device)
}

/// Returns true for a device that is named by UUID.
pub(super) fn is_uuid(device: &str) -> bool {
    naming(device) == GpuNaming::Uuid
}

fn naming(device: &str) -> GpuNaming {
    match () {
        () if device.starts_with('/') => GpuNaming::File,
        () if device.bytes().all(|byte| byte.is_ascii_digit()) => GpuNaming::Number,
        () => GpuNaming::Uuid,
    }
}

/// Returns the input that would be needed where neither the driver nor open files show the GPU in
/// use.
fn missing_source(
    evidence: &JobEvidence,
    known: &[(&ProbeObservation, &SeenRank, u32)],
) -> Option<String> {
    const LIBRARY: &str =
        "NVIDIA's management library on the nodes, which lists the processes of each GPU";
    for (seen, rank, gpus) in known {
        let is_listed =
            evidence.seen.iter().any(|one| one.node == seen.node && one.gpu_users.is_some());
        // Without device files there is nothing to open or share.
        if is_listed || seen.device_files.is_empty() || *gpus == 0 {
            continue;
        }
        if open_files(rank).len() > *gpus as usize {
            return Some(format!(
                "{LIBRARY}: rank {} has {} GPUs open and {gpus} of its own",
                rank.rank,
                open_files(rank).len()
            ));
        }
        if let Some(process) = rank.processes.iter().find(|process| process.open.is_none()) {
            return Some(format!(
                "permission to read the open files of process {}, or {LIBRARY}",
                process.pid
            ));
        }
        // A number and a UUID may be the same GPU.
        let is_renamed = |device: &&String| {
            rank.visible.iter().flatten().all(|own| naming(own) != naming(device))
        };
        let renamed = rank
            .processes
            .iter()
            .flat_map(|process| process.visible.iter().flatten())
            .find(is_renamed);
        if let Some(device) = renamed.filter(|_| open_files(rank).is_empty()) {
            return Some(format!(
                "{LIBRARY}: rank {} is set to GPU {device}, but was allocated a GPU of another name",
                rank.rank
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use muster_model::verify::{GpuUser, SeenProcess};

    use super::*;
    use crate::job::check::JobCheckOutcome::Passed;
    use crate::job::gang::tests::{failed, sound};

    fn list(text: &str) -> Option<Vec<String>> {
        Some(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Adds a process to a rank of node a, with this environment and open file.
    fn with(evidence: &mut JobEvidence, rank: usize, reported: Option<&str>, open: Option<&str>) {
        let pid = 70 + u32::try_from(rank).unwrap();
        let process =
            SeenProcess { pid, visible: reported.and_then(list), open: open.and_then(list) };
        evidence.seen[0].ranks[rank].processes.push(process);
    }

    /// Returns a process of a rank on a GPU, as the driver lists it.
    fn user(rank: u32, uuid: &str) -> GpuUser {
        let uuid = uuid.to_owned();
        GpuUser { uuid, pid: 70, is_own: true, rank: Some(rank), other_job: None }
    }

    #[test]
    fn ranks_have_as_many_gpus_as_they_should() {
        assert_eq!(devices(&sound()), Passed("4 GPUs, each of one rank".to_owned()));
        let mut shared = sound();
        shared.seen[0].ranks[1].visible = list("0");
        assert_eq!(failed(devices(&shared)), "ranks 0 and 1 share GPU 0 of a");
        let mut few = sound();
        few.seen[0].ranks[0].visible = list("");
        few.seen[0].ranks[1].visible = None;
        assert_eq!(
            failed(devices(&few)),
            "rank 0 sees 0 GPUs, instead of 1; rank 1 has no GPUs set in its environment"
        );
    }

    /// The script sets CUDA_VISIBLE_DEVICES=0 before the program, so that only the program has it.
    #[test]
    fn a_gpu_that_processes_of_two_ranks_are_told_is_shared() {
        let mut reported = sound();
        with(&mut reported, 0, Some("0"), Some(""));
        with(&mut reported, 1, Some("0"), Some(""));
        assert_eq!(failed(devices(&reported)), "ranks 0 and 1 share GPU 0 of a");
        // A worker that takes one of a whole node's GPUs has its own part.
        let mut part = sound();
        part.expected.iter_mut().for_each(|one| one.gpus = Some(2));
        for (at, rank) in part.seen.iter_mut().flat_map(|seen| &mut seen.ranks).enumerate() {
            rank.visible = list(if at % 2 == 0 { "0 1" } else { "2 3" });
        }
        with(&mut part, 0, Some("1"), Some("/dev/nvidia1"));
        with(&mut part, 1, Some("2"), Some("/dev/nvidia2"));
        assert_eq!(devices(&part), Passed("8 GPUs, each of one rank".to_owned()));
        // No rank of the job was allocated number 7.
        let mut stray = sound();
        with(&mut stray, 1, Some("7"), Some(""));
        let said = "process 71 of rank 1 is set to GPU 7 of a, which the job was not allocated";
        assert_eq!(failed(devices(&stray)), said);
        // A process without a GPU cannot use a foreign one.
        let mut none = sound();
        with(&mut none, 1, Some(""), Some(""));
        with(&mut none, 0, None, Some(""));
        assert!(matches!(devices(&none), Passed(_)));
    }

    #[test]
    fn a_gpu_that_two_ranks_have_open_is_shared_whatever_they_are_told() {
        let mut open = sound();
        with(&mut open, 0, Some("0"), Some("/dev/nvidia0"));
        with(&mut open, 1, Some("1"), Some("/dev/nvidia0"));
        assert_eq!(failed(devices(&open)), "ranks 0 and 1 share GPU /dev/nvidia0 of a");
        // Tasks in separate device cgroups all have number 0, and different files open.
        let mut apart = sound();
        apart.seen[0].ranks.iter_mut().for_each(|rank| rank.visible = list("0"));
        with(&mut apart, 0, Some("0"), Some("/dev/nvidia0"));
        with(&mut apart, 1, Some("0"), Some("/dev/nvidia1"));
        assert!(matches!(devices(&apart), Passed(_)));
    }

    #[test]
    fn what_the_driver_lists_is_proof() {
        let mut listed = sound();
        listed.seen[0].gpu_users = Some(vec![user(0, "GPU-a"), user(1, "GPU-a")]);
        assert_eq!(failed(devices(&listed)), "ranks 0 and 1 share GPU GPU-a of a");
        // A library that opens every device to list them uses one.
        let mut lists = sound();
        with(&mut lists, 0, Some("0"), Some("/dev/nvidia0 /dev/nvidia1"));
        with(&mut lists, 1, Some("1"), Some("/dev/nvidia0 /dev/nvidia1"));
        assert!(matches!(devices(&lists), NotTested(_)));
        lists.seen[0].gpu_users = Some(vec![user(0, "GPU-a"), user(1, "GPU-b")]);
        assert!(matches!(devices(&lists), Passed(_)));
    }

    #[test]
    fn a_rank_on_a_gpu_that_it_was_not_allocated_is_named() {
        // A job without GPUs that sets CUDA_VISIBLE_DEVICES in its script.
        let mut none = sound();
        none.expected.iter_mut().for_each(|one| one.gpus = Some(0));
        none.seen.iter_mut().flat_map(|seen| &mut seen.ranks).for_each(|rank| {
            rank.visible = list("");
        });
        assert!(matches!(devices(&none), NotTested(_)));
        none.seen[0].gpu_users = Some(vec![user(1, "GPU-a")]);
        // After an exec the oldest process has the script's variable.
        none.seen[0].ranks[1].visible = list("0");
        assert_eq!(
            failed(devices(&none)),
            "rank 1 uses GPU-a of a, which it was not allocated; rank 1 sees 1 GPU, instead of 0"
        );
        let mut other = sound();
        other.seen[0].ranks[0].visible = list("GPU-a");
        other.seen[0].ranks[1].visible = list("GPU-b");
        other.seen[0].gpu_users = Some(vec![user(0, "GPU-a"), user(1, "GPU-c")]);
        assert_eq!(failed(devices(&other)), "rank 1 uses GPU-c of a, which it was not allocated");
        // A number may be any GPU.
        other.seen[0].ranks[1].visible = list("1");
        assert!(matches!(devices(&other), Passed(_)));
        other.seen[0].ranks[1].visible = list("GPU-c");
        other.seen[0].gpu_users = Some(vec![user(0, "GPU-abc"), user(1, "GPU-cde")]);
        assert!(matches!(devices(&other), Passed(_)));
        // The driver lists a process on a split GPU for each slice.
        other.seen[0].ranks[0].visible = list("MIG-a");
        other.seen[0].ranks[1].visible = list("GPU-c");
        other.seen[0].gpu_users = Some(vec![user(0, "MIG-a"), user(0, "MIG-b"), user(1, "GPU-c")]);
        assert!(matches!(devices(&other), Passed(_)));
    }

    #[test]
    fn ranks_with_shares_that_fit_share_a_gpu() {
        let mut halves = sound();
        for rank in halves.seen.iter_mut().flat_map(|seen| &mut seen.ranks) {
            rank.visible = list("GPU-a");
            rank.gpu_share_millis = Some(500);
        }
        assert_eq!(devices(&halves), Passed("4 shares of a GPU".to_owned()));
        halves.seen[0].ranks[1].gpu_share_millis = Some(600);
        assert_eq!(failed(devices(&halves)), "ranks 0 and 1 share GPU GPU-a of a");
    }

    #[test]
    fn what_cannot_be_seen_did_not_pass() {
        let mut closed = sound();
        with(&mut closed, 0, Some("0"), None);
        assert!(matches!(devices(&closed), NotTested(_)));
        // Muster names GPUs by UUID; a number in a script may mean any of them.
        let mut renamed = sound();
        renamed.seen[0].ranks[0].visible = list("GPU-a");
        renamed.seen[0].ranks[1].visible = list("GPU-b");
        with(&mut renamed, 1, Some("0"), Some(""));
        assert!(matches!(devices(&renamed), NotTested(_)));
        with(&mut renamed, 0, Some("0"), Some(""));
        assert_eq!(failed(devices(&renamed)), "ranks 0 and 1 share GPU 0 of a");
    }
}
