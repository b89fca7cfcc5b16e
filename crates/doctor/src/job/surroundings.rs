//! Checks of what is around the ranks: the way to rank 0, memory, clocks.

use std::collections::{BTreeMap, BTreeSet};

use super::JobEvidence;
use super::check::Verdict::{self, NotTested, Passed};
use super::check::none_of;

/// Containers are given 64 MiB by default, which is too little for anything; one GiB is too little
/// for a data loader already.
const SHARED_MEMORY_BYTES: u64 = 1 << 30;
/// Logs are compared and credentials are made with a grain of a second.
const CLOCK_NANOS: i64 = 1_000_000_000;

pub(super) fn master(evidence: &JobEvidence) -> Verdict {
    if evidence.reached.is_empty() {
        return NotTested("rank 0, and a probe beside it".to_owned());
    }
    let mut wrong: Vec<String> = evidence
        .reached
        .iter()
        .filter_map(|(node, error)| Some(format!("from {node}: {}", error.as_ref()?)))
        .collect();
    wrong.sort();
    wrong.dedup();
    let asked: BTreeSet<&str> = evidence.seen.iter().map(|seen| seen.node.as_str()).collect();
    let heard: BTreeSet<&str> = evidence.reached.iter().map(|(node, _)| node.as_str()).collect();
    let silent: Vec<&str> = asked.difference(&heard).copied().collect();
    if wrong.is_empty() && !silent.is_empty() {
        return NotTested(format!("answers of {} in time", silent.join(", ")));
    }
    let named =
        evidence.seen.iter().flat_map(|seen| &seen.ranks).find_map(|rank| rank.master.clone());
    let name = named.unwrap_or_default();
    none_of(&wrong, format!("{name} answers all {} that asked", evidence.reached.len()))
}

pub(super) fn shared_memory(evidence: &JobEvidence) -> Verdict {
    let mut by_node: BTreeMap<&str, &Result<u64, String>> = BTreeMap::new();
    for seen in &evidence.seen {
        // Of several probes of one node the worst counts.
        let worst = by_node.entry(&seen.node).or_insert(&seen.shared_memory);
        if seen.shared_memory.is_err()
            || matches!((&seen.shared_memory, *worst), (Ok(new), Ok(old)) if new < old)
        {
            *worst = &seen.shared_memory;
        }
    }
    let Some(least) = by_node.values().filter_map(|seen| seen.as_ref().ok()).min() else {
        return match by_node.iter().next() {
            Some((node, Err(error))) => Verdict::Failed(format!("/dev/shm on {node}: {error}")),
            _ => NotTested("a probe on the job's nodes".to_owned()),
        };
    };
    let wrong: Vec<String> = by_node
        .iter()
        .filter_map(|(node, seen)| match seen {
            Err(error) => Some(format!("/dev/shm on {node}: {error}")),
            Ok(bytes) if *bytes < SHARED_MEMORY_BYTES => {
                Some(format!("{} MiB are free in /dev/shm of {node}", bytes >> 20))
            }
            Ok(_) => None,
        })
        .collect();
    none_of(&wrong, format!("{} GiB are free at least", least >> 30))
}

pub(super) fn memlock(evidence: &JobEvidence) -> Verdict {
    let with_adapter: Vec<_> =
        evidence.seen.iter().filter(|seen| !seen.rdma_devices.is_empty()).collect();
    if with_adapter.is_empty() {
        return NotTested("an adapter for RDMA: these nodes have none".to_owned());
    }
    let wrong: Vec<String> = with_adapter
        .iter()
        .flat_map(|seen| &seen.ranks)
        .filter_map(|rank| {
            Some(format!("rank {} may lock {} KiB", rank.rank, rank.memlock_bytes? >> 10))
        })
        .collect();
    none_of(&wrong, "without limit")
}

pub(super) fn clocks(evidence: &JobEvidence) -> Verdict {
    let (Some(ahead), Some(behind)) = (
        evidence.clocks.iter().max_by_key(|bound| bound.low_nanos),
        evidence.clocks.iter().min_by_key(|bound| bound.high_nanos),
    ) else {
        return NotTested("answers of the nodes".to_owned());
    };
    if evidence.nodes().len() < 2 {
        return NotTested("several nodes: there is one clock".to_owned());
    }
    // Certainly apart, certainly near, or too slow an answer to tell.
    let apart = ahead.low_nanos - behind.high_nanos;
    let most = evidence.clocks.iter().map(|bound| bound.high_nanos).max().unwrap_or_default()
        - evidence.clocks.iter().map(|bound| bound.low_nanos).min().unwrap_or_default();
    match () {
        () if apart > CLOCK_NANOS => Verdict::Failed(format!(
            "{} is {} ahead of {} at least",
            ahead.node,
            seconds(apart),
            behind.node
        )),
        () if most <= CLOCK_NANOS => {
            Passed(format!("within {} of each other", seconds(most + 999_999)))
        }
        () => NotTested(format!("faster answers: clocks may be apart by {}", seconds(most))),
    }
}

fn seconds(nanos: i64) -> String {
    let millis = nanos / 1_000_000;
    match millis {
        0..1_000 => format!("{millis} ms"),
        _ => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::verify::{Seen, SeenRank};

    use super::*;
    use crate::job::ClockBound;

    fn seen(node: &str, shared_memory: Result<u64, String>, memlock_bytes: Option<u64>) -> Seen {
        Seen {
            node: node.to_owned(),
            allocation: None,
            ranks: vec![SeenRank { memlock_bytes, ..SeenRank::default() }],
            device_files: Vec::new(),
            gpu_users: None,
            shared_memory,
            rdma_devices: vec!["mlx5_0".to_owned()],
            listens: None,
        }
    }

    fn two(a: Seen, b: Seen) -> JobEvidence {
        JobEvidence { seen: vec![a, b], ..JobEvidence::default() }
    }

    #[test]
    fn who_does_not_reach_rank_0_is_named() {
        let mut evidence = two(seen("a", Ok(0), None), seen("b", Ok(0), None));
        assert!(matches!(master(&evidence), NotTested(_)));
        evidence.reached =
            vec![("a".to_owned(), None), ("b".to_owned(), Some("no route".to_owned()))];
        assert_eq!(master(&evidence), Verdict::Failed("from b: no route".to_owned()));
        evidence.reached.pop();
        assert_eq!(master(&evidence), NotTested("answers of b in time".to_owned()));
        evidence.reached.push(("b".to_owned(), None));
        assert!(matches!(master(&evidence), Passed(_)));
    }

    #[test]
    fn little_shared_memory_and_little_that_may_be_locked_are_failures() {
        let roomy = two(seen("a", Ok(8 << 30), None), seen("b", Ok(16 << 30), None));
        assert_eq!(shared_memory(&roomy), Passed("8 GiB are free at least".to_owned()));
        assert_eq!(memlock(&roomy), Passed("without limit".to_owned()));
        let tight =
            two(seen("a", Ok(64 << 20), Some(65536)), seen("b", Err("read-only".to_owned()), None));
        let said = "64 MiB are free in /dev/shm of a; /dev/shm on b: read-only";
        assert_eq!(shared_memory(&tight), Verdict::Failed(said.to_owned()));
        assert_eq!(memlock(&tight), Verdict::Failed("rank 0 may lock 64 KiB".to_owned()));
    }

    #[test]
    fn clocks_are_apart_near_or_not_known_to_be() {
        let clocks_of = |a: (i64, i64), b: (i64, i64)| {
            let bound = |node: &str, (low_ms, high_ms): (i64, i64)| ClockBound {
                node: node.to_owned(),
                low_nanos: low_ms * 1_000_000,
                high_nanos: high_ms * 1_000_000,
            };
            let evidence = two(seen("a", Ok(0), None), seen("b", Ok(0), None));
            clocks(&JobEvidence { clocks: vec![bound("a", a), bound("b", b)], ..evidence })
        };
        assert_eq!(clocks_of((0, 4), (-3, 1)), Passed("within 7 ms of each other".to_owned()));
        assert_eq!(
            clocks_of((2_000, 2_100), (0, 50)),
            Verdict::Failed("a is 1.9 s ahead of b at least".to_owned())
        );
        // Answers so slow that both could be true.
        assert!(matches!(clocks_of((-2_000, 2_000), (0, 1)), NotTested(_)));
    }
}
