//! Checks of the gang itself: its ranks, and what is open to them. Which GPUs they use is in
//! `devices`.

use std::collections::BTreeMap;

use muster_model::verify::{Seen, SeenRank};

use super::JobEvidence;
use super::check::Verdict::{self, NotTested, Passed};
use super::check::{count, none_of};

/// Ranks with the node where they were seen.
pub(super) fn ranks(evidence: &JobEvidence) -> impl Iterator<Item = (&Seen, &SeenRank)> {
    evidence.seen.iter().flat_map(|seen| seen.ranks.iter().map(move |rank| (seen, rank)))
}

pub(super) fn whole(evidence: &JobEvidence) -> Verdict {
    // 1. Where each was seen.
    let mut places: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (seen, rank) in ranks(evidence) {
        places.entry(rank.rank).or_default().push(&seen.node);
    }
    if places.is_empty() {
        return NotTested("ranks that Muster started, and whose programs run".to_owned());
    }
    // 2. Against where it should be.
    let world = evidence.expected.len();
    let mut wrong = Vec::new();
    let missing: Vec<String> = evidence
        .expected
        .iter()
        .filter(|one| !places.contains_key(&one.rank))
        .map(|one| one.rank.to_string())
        .collect();
    if !missing.is_empty() && evidence.is_late {
        return NotTested(format!(
            "{} more ranks to answer in time: {}",
            missing.len(),
            missing.join(", ")
        ));
    }
    if !missing.is_empty() {
        wrong.push(format!(
            "{} of {world} ranks are not there: {}",
            missing.len(),
            missing.join(", ")
        ));
    }
    for one in &evidence.expected {
        match (places.get(&one.rank).map(Vec::as_slice), &one.node) {
            (Some([place]), Some(node)) if place != node => {
                wrong.push(format!("rank {} runs on {place} and not on {node}", one.rank));
            }
            (Some([_, _, ..]), _) => wrong.push(format!(
                "rank {} is there {} times: on {}",
                one.rank,
                places[&one.rank].len(),
                places[&one.rank].join(", ")
            )),
            _ => {}
        }
    }
    for (_, rank) in ranks(evidence) {
        if rank.world_size.is_some_and(|told| told as usize != world) {
            wrong.push(format!(
                "rank {} was told that there are {} ranks, of {world}",
                rank.rank,
                rank.world_size.unwrap_or_default()
            ));
        }
    }
    none_of(
        &wrong,
        format!("{} on {}", count(world, "rank"), count(evidence.nodes().len(), "node")),
    )
}

pub(super) fn one_allocation(evidence: &JobEvidence) -> Verdict {
    let mut by_allocation: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for seen in &evidence.seen {
        let nodes = by_allocation.entry(seen.allocation.unwrap_or_default()).or_default();
        if !nodes.contains(&seen.node.as_str()) {
            nodes.push(&seen.node);
        }
    }
    match by_allocation.len() {
        1 if by_allocation.contains_key(&0) => {
            NotTested("an allocation: this machine has none".to_owned())
        }
        1 => Passed(format!(
            "{}, all of job {}",
            count(evidence.nodes().len(), "node"),
            by_allocation.keys().sum::<u64>()
        )),
        _ => {
            let parts = by_allocation
                .iter()
                .map(|(job, nodes)| format!("{} in job {job}", nodes.join(", ")));
            none_of(&parts.collect::<Vec<_>>(), "")
        }
    }
}

/// GPUs of a rank: as it was given, or as it was told.
pub(super) fn gpus(evidence: &JobEvidence, rank: &SeenRank) -> Option<u32> {
    let expected = evidence.expected.iter().find(|one| one.rank == rank.rank);
    expected.and_then(|one| one.gpus).or(rank.gpus)
}

pub(super) fn closed_devices(evidence: &JobEvidence) -> Verdict {
    // Several probes of one node see the same files.
    let mut by_node: BTreeMap<&str, (usize, usize, u32)> = BTreeMap::new();
    for seen in &evidence.seen {
        let open = seen.device_files.iter().filter(|file| file.is_open).count();
        let node = by_node.entry(&seen.node).or_default();
        *node = (seen.device_files.len(), open, node.2);
        node.2 += seen.ranks.iter().filter_map(|rank| gpus(evidence, rank)).sum::<u32>();
    }
    by_node.retain(|_, (there, ..)| *there > 0);
    if by_node.is_empty() {
        return NotTested("device files of GPUs".to_owned());
    }
    // Who has all of a node can open all of it.
    let whole = by_node.values().all(|(there, _, own)| *there == *own as usize);
    if by_node.values().all(|(_, open, _)| *open == 0) {
        return NotTested("a probe that may open the job's own GPUs".to_owned());
    }
    let wrong: Vec<String> = by_node
        .iter()
        .filter(|(_, (_, open, own))| *open > *own as usize)
        .map(|(node, (_, open, own))| {
            format!("on {node} {open} GPUs can be opened, and {own} are its own")
        })
        .collect();
    match whole {
        true => NotTested("a node of which the job has a part: it has all GPUs of each".to_owned()),
        false => none_of(&wrong, "only its own can be opened"),
    }
}

pub(super) fn strangers(evidence: &JobEvidence) -> Verdict {
    let told: Vec<&Seen> = evidence.seen.iter().filter(|seen| seen.gpu_users.is_some()).collect();
    if told.is_empty() {
        return NotTested("NVIDIA's management library on the nodes".to_owned());
    }
    let mut wrong: Vec<String> = told
        .iter()
        .flat_map(|seen| seen.gpu_users.iter().flatten().map(move |user| (seen, user)))
        .filter(|(_, user)| !user.is_own)
        .map(|(seen, user)| format!("process {} is on {} of {}", user.pid, user.uuid, seen.node))
        .collect();
    wrong.sort();
    wrong.dedup();
    none_of(&wrong, "nobody else is there")
}

#[cfg(test)]
pub(super) mod tests {
    use muster_model::check::ProbeOutcome;
    use muster_model::verify::SeenFile;

    use super::*;
    use crate::job::Expected;

    /// Two nodes with two ranks of one GPU each, as they should be.
    pub(in crate::job) fn sound() -> JobEvidence {
        let rank = |rank: u32| SeenRank {
            rank,
            world_size: Some(4),
            visible: Some(vec![(rank % 2).to_string()]),
            ..SeenRank::default()
        };
        let file = |at: u32| SeenFile { path: format!("/dev/nvidia{at}"), is_open: at < 2 };
        let seen = |node: &str, ranks: [u32; 2]| Seen {
            node: node.to_owned(),
            allocation: Some(7),
            ranks: ranks.map(rank).to_vec(),
            device_files: (0..8).map(file).collect(),
            gpu_users: None,
            shared_memory: Ok(0),
            rdma_devices: Vec::new(),
            listens: None,
        };
        let expected = |rank: u32| Expected {
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

    pub(in crate::job) fn failed(verdict: Verdict) -> String {
        match verdict {
            Verdict::Failed(says) => says,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_sound_gang_passes() {
        let sound = sound();
        assert_eq!(whole(&sound), Passed("4 ranks on 2 nodes".to_owned()));
        assert_eq!(one_allocation(&sound), Passed("2 nodes, all of job 7".to_owned()));
        assert_eq!(closed_devices(&sound), Passed("only its own can be opened".to_owned()));
        assert!(matches!(strangers(&sound), NotTested(_)));
    }

    #[test]
    fn a_rank_that_is_missing_double_or_elsewhere_is_named() {
        let mut missing = sound();
        missing.seen[1].ranks.remove(1);
        assert_eq!(failed(whole(&missing)), "1 of 4 ranks are not there: 3");
        missing.is_late = true;
        assert!(matches!(whole(&missing), NotTested(_)));
        let mut double = sound();
        double.seen[1].ranks[0].rank = 1;
        assert_eq!(
            failed(whole(&double)),
            "1 of 4 ranks are not there: 2; rank 1 is there 2 times: on a, b"
        );
        let mut elsewhere = sound();
        elsewhere.expected[0].node = Some("c".to_owned());
        assert_eq!(failed(whole(&elsewhere)), "rank 0 runs on a and not on c");
        let mut misled = sound();
        misled.seen[0].ranks[0].world_size = Some(2);
        assert_eq!(failed(whole(&misled)), "rank 0 was told that there are 2 ranks, of 4");
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
        // Of a job that others started nothing is known at all.
        partly.seen[0].ranks.clear();
        assert_eq!(outcomes(&partly)["whole"], ProbeOutcome::NotTested);
    }

    #[test]
    fn two_jobs_are_no_gang() {
        let mut two = sound();
        two.seen[1].allocation = Some(8);
        assert_eq!(failed(one_allocation(&two)), "a in job 7; b in job 8");
        let here = |seen: Seen| Seen { allocation: None, ..seen };
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
        assert_eq!(failed(closed_devices(&open)), "on b 8 GPUs can be opened, and 2 are its own");
        // Whose node it is as a whole has nobody to be kept from.
        let mut all = sound();
        all.seen.iter_mut().for_each(|seen| seen.device_files.truncate(2));
        assert!(matches!(closed_devices(&all), NotTested(_)));
    }
}
