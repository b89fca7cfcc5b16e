//! Checks of the gang: its ranks, its allocation, and the devices that it can open. `devices`
//! checks which GPUs the ranks use.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::verify::{ProbeObservation, SeenRank};

use super::JobEvidence;
use super::check::JobCheckOutcome::{self, NotTested, Passed};
use super::check::{WHOLE_MILLIS, count, fail_if_any};

/// Returns the ranks with the probes that saw them.
pub(super) fn ranks(
    evidence: &JobEvidence,
) -> impl Iterator<Item = (&ProbeObservation, &SeenRank)> {
    evidence.seen.iter().flat_map(|seen| seen.ranks.iter().map(move |rank| (seen, rank)))
}

pub(super) fn whole(evidence: &JobEvidence) -> JobCheckOutcome {
    // 1. Collect where each rank was seen.
    let mut places: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (seen, rank) in ranks(evidence) {
        places.entry(rank.rank).or_default().push(&seen.node);
    }
    if places.is_empty() {
        return NotTested("running ranks that Muster started".to_owned());
    }
    // 2. Compare with where it should be.
    let world = evidence.expected.len();
    let mut wrong = Vec::new();
    let missing: Vec<String> = evidence
        .expected
        .iter()
        .filter(|one| !places.contains_key(&one.rank))
        .map(|one| one.rank.to_string())
        .collect();
    if !missing.is_empty() && evidence.timed_out {
        return NotTested(format!(
            "answers of {} more ranks before the timeout: {}",
            missing.len(),
            missing.join(", ")
        ));
    }
    if !missing.is_empty() {
        wrong.push(format!(
            "{} of {world} ranks are missing: {}",
            missing.len(),
            missing.join(", ")
        ));
    }
    for one in &evidence.expected {
        match (places.get(&one.rank).map(Vec::as_slice), &one.node) {
            (Some([place]), Some(node)) if place != node => {
                wrong.push(format!("rank {} runs on {place} instead of {node}", one.rank));
            }
            (Some([_, _, ..]), _) => wrong.push(format!(
                "rank {} runs {} times: on {}",
                one.rank,
                places[&one.rank].len(),
                places[&one.rank].join(", ")
            )),
            _ => {}
        }
    }
    for (_, rank) in ranks(evidence) {
        if rank.world_size.is_some_and(|reported| reported as usize != world) {
            wrong.push(format!(
                "rank {} has a world size of {} instead of {world}",
                rank.rank,
                rank.world_size.unwrap_or_default()
            ));
        }
    }
    fail_if_any(
        &wrong,
        format!("{} on {}", count(world, "rank"), count(evidence.nodes().len(), "node")),
    )
}

pub(super) fn one_allocation(evidence: &JobEvidence) -> JobCheckOutcome {
    let mut by_allocation: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for seen in &evidence.seen {
        let nodes = by_allocation.entry(seen.allocation.unwrap_or_default()).or_default();
        if !nodes.contains(&seen.node.as_str()) {
            nodes.push(&seen.node);
        }
    }
    match by_allocation.len() {
        1 if by_allocation.contains_key(&0) => NotTested("an allocation of Slurm".to_owned()),
        1 => Passed(format!(
            "{}, all in job {}",
            count(evidence.nodes().len(), "node"),
            by_allocation.keys().sum::<u64>()
        )),
        _ => {
            let parts = by_allocation
                .iter()
                .map(|(job, nodes)| format!("{} in job {job}", nodes.join(", ")));
            fail_if_any(&parts.collect::<Vec<_>>(), "")
        }
    }
}

/// Returns the number of GPUs of a rank: as allocated, or as in its environment.
pub(super) fn gpus(evidence: &JobEvidence, rank: &SeenRank) -> Option<u32> {
    let expected = evidence.expected.iter().find(|one| one.rank == rank.rank);
    expected.and_then(|one| one.gpus).or(rank.gpus)
}

/// Returns the number of GPUs of the ranks that a probe saw; ranks with shares may have the same one.
fn allocated(evidence: &JobEvidence, seen: &ProbeObservation) -> u32 {
    let is_share =
        |rank: &SeenRank| rank.gpu_share_millis.is_some_and(|share| share < WHOLE_MILLIS);
    let (shares, whole): (Vec<&SeenRank>, Vec<&SeenRank>) =
        seen.ranks.iter().partition(|rank| is_share(rank));
    let shared: BTreeSet<&String> =
        shares.iter().flat_map(|rank| rank.visible.iter().flatten()).collect();
    let whole: u32 = whole.into_iter().filter_map(|rank| gpus(evidence, rank)).sum();
    whole + u32::try_from(shared.len()).unwrap_or(u32::MAX)
}

pub(super) fn closed_devices(evidence: &JobEvidence) -> JobCheckOutcome {
    // Several probes of one node see the same files, or those of their containers.
    let mut files: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>, u32)> = BTreeMap::new();
    for seen in &evidence.seen {
        let (there, open, own) = files.entry(&seen.node).or_default();
        there.extend(seen.device_files.iter().map(|file| file.path.as_str()));
        let can_open = seen.device_files.iter().filter(|file| file.is_open);
        open.extend(can_open.map(|file| file.path.as_str()));
        *own += allocated(evidence, seen);
    }
    let counts =
        files.into_iter().map(|(node, (there, open, own))| (node, (there.len(), open.len(), own)));
    let mut by_node: BTreeMap<&str, (usize, usize, u32)> = counts.collect();
    by_node.retain(|_, (there, ..)| *there > 0);
    if by_node.is_empty() {
        return NotTested("device files of GPUs".to_owned());
    }
    // A job that has all GPUs of a node can open all of them.
    let whole = by_node.values().all(|(there, _, own)| *there == *own as usize);
    if by_node.values().all(|(_, open, _)| *open == 0) {
        return if by_node.values().all(|(.., own)| *own == 0) {
            Passed("it has no GPU, and can open none".to_owned())
        } else {
            NotTested("a probe that can open the job's own GPUs".to_owned())
        };
    }
    let wrong: Vec<String> = by_node
        .iter()
        .filter(|(_, (_, open, own))| *open > *own as usize)
        .map(|(node, (_, open, own))| {
            let can = count(*open, "GPU");
            format!("on {node} {can} can be opened, of which the job was allocated {own}")
        })
        .collect();
    if whole {
        NotTested("a node with GPUs of other jobs: this job has all GPUs of its nodes".to_owned())
    } else if evidence.is_personal && !wrong.is_empty() {
        NotTested(format!(
            "a shared daemon, which closes GPUs to jobs; with your own, {}",
            wrong.join("; ")
        ))
    } else {
        fail_if_any(&wrong, "only its own GPUs can be opened")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use muster_model::check::ProbeOutcome;
    use muster_model::verify::SeenFile;

    use super::*;
    use crate::job::ExpectedRank;

    /// Returns two sound nodes with two ranks of one GPU each.
    pub(in crate::job) fn sound() -> JobEvidence {
        let rank = |rank: u32| SeenRank {
            rank,
            world_size: Some(4),
            visible: Some(vec![(rank % 2).to_string()]),
            ..SeenRank::default()
        };
        let file = |at: u32| SeenFile { path: format!("/dev/nvidia{at}"), is_open: at < 2 };
        let seen = |node: &str, ranks: [u32; 2]| ProbeObservation {
            node: node.to_owned(),
            allocation: Some(7),
            ranks: ranks.map(rank).to_vec(),
            device_files: (0..8).map(file).collect(),
            gpu_users: None,
            shared_memory: Ok(0),
            rdma_devices: Vec::new(),
            listens: None,
        };
        let expected = |rank: u32| ExpectedRank {
            rank,
            node: Some(if rank < 2 { "a" } else { "b" }.to_owned()),
            gpus: Some(1),
        };
        JobEvidence {
            expected: (0..4).map(expected).collect(),
            seen: vec![seen("a", [0, 1]), seen("b", [2, 3])],
            ..JobEvidence::default()
        }
    }

    pub(in crate::job) fn failed(verdict: JobCheckOutcome) -> String {
        match verdict {
            JobCheckOutcome::Failed(says) => says,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_sound_gang_passes() {
        let sound = sound();
        assert_eq!(whole(&sound), Passed("4 ranks on 2 nodes".to_owned()));
        assert_eq!(one_allocation(&sound), Passed("2 nodes, all in job 7".to_owned()));
        assert_eq!(closed_devices(&sound), Passed("only its own GPUs can be opened".to_owned()));
    }

    #[test]
    fn a_rank_that_is_missing_double_or_elsewhere_is_named() {
        let mut missing = sound();
        missing.seen[1].ranks.remove(1);
        assert_eq!(failed(whole(&missing)), "1 of 4 ranks are missing: 3");
        missing.timed_out = true;
        assert!(matches!(whole(&missing), NotTested(_)));
        let mut double = sound();
        double.seen[1].ranks[0].rank = 1;
        assert_eq!(
            failed(whole(&double)),
            "1 of 4 ranks are missing: 2; rank 1 runs 2 times: on a, b"
        );
        let mut elsewhere = sound();
        elsewhere.expected[0].node = Some("c".to_owned());
        assert_eq!(failed(whole(&elsewhere)), "rank 0 runs on a instead of c");
        let mut misled = sound();
        misled.seen[0].ranks[0].world_size = Some(2);
        assert_eq!(failed(whole(&misled)), "rank 0 has a world size of 2 instead of 4");
    }

    #[test]
    fn who_was_not_seen_has_not_passed() {
        let mut partly = JobEvidence { job: 7, ..sound() };
        partly.seen.pop();
        let outcomes = |evidence: &JobEvidence| {
            let checks = crate::job::verify(evidence).checks.into_iter();
            checks.map(|check| (check.check, check.outcome)).collect::<BTreeMap<_, _>>()
        };
        let found = outcomes(&partly);
        assert_eq!(found["whole"], ProbeOutcome::Failed);
        for check in ["one-allocation", "devices", "closed-devices", "shared-memory"] {
            assert_ne!(found[check], ProbeOutcome::Passed, "{check}");
        }
        // Of a job that was not started by Muster nothing is known.
        partly.seen[0].ranks.clear();
        assert_eq!(outcomes(&partly)["whole"], ProbeOutcome::NotTested);
    }

    #[test]
    fn two_jobs_are_no_gang() {
        let mut two = sound();
        two.seen[1].allocation = Some(8);
        assert_eq!(failed(one_allocation(&two)), "a in job 7; b in job 8");
        let here = |seen: ProbeObservation| ProbeObservation { allocation: None, ..seen };
        let local = JobEvidence {
            seen: two.seen.into_iter().map(here).collect(),
            ..JobEvidence::default()
        };
        assert!(matches!(one_allocation(&local), NotTested(_)));
    }

    #[test]
    fn devices_of_others_are_closed() {
        let mut open = sound();
        open.seen[1].device_files.iter_mut().for_each(|file| file.is_open = true);
        assert_eq!(
            failed(closed_devices(&open)),
            "on b 8 GPUs can be opened, of which the job was allocated 2"
        );
        // A personal daemon cannot close devices.
        open.is_personal = true;
        assert!(matches!(closed_devices(&open), NotTested(_)));
        // A job without GPUs.
        let mut none = sound();
        none.expected.iter_mut().for_each(|one| one.gpus = Some(0));
        for file in none.seen.iter_mut().flat_map(|seen| &mut seen.device_files) {
            file.is_open = false;
        }
        let right = Passed("it has no GPU, and can open none".to_owned());
        assert_eq!(closed_devices(&none), right);
        // Two ranks with shares of one GPU can open two.
        let mut shares = sound();
        for rank in shares.seen.iter_mut().flat_map(|seen| &mut seen.ranks) {
            rank.gpu_share_millis = Some(500);
            rank.visible = Some(vec!["GPU-a".to_owned()]);
        }
        assert!(failed(closed_devices(&shares)).starts_with("on a 2 GPUs can be opened, of which"));
        // A job that has the whole node has no other job beside it.
        let mut all = sound();
        all.seen.iter_mut().for_each(|seen| seen.device_files.truncate(2));
        assert!(matches!(closed_devices(&all), NotTested(_)));
    }
}
