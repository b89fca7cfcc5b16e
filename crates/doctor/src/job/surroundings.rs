//! Checks of a rank's environment: the connection to rank 0, shared and locked memory, clocks.

use std::collections::{BTreeMap, BTreeSet};

use super::JobEvidence;
use super::check::JobCheckOutcome::{self, NotTested, Passed};
use super::check::fail_if_any;

/// Minimum free shared memory in bytes: the 64 MiB of a container by default are too little, and
/// one GiB is hardly enough for a data loader.
const SHARED_MEMORY_BYTES: u64 = 1 << 30;
/// Maximum clock difference in nanoseconds: credentials and log lines have a resolution of a
/// second.
const CLOCK_NANOS: i64 = 1_000_000_000;

pub(super) fn master(evidence: &JobEvidence) -> JobCheckOutcome {
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
        return NotTested(format!("answers of {} before the timeout", silent.join(", ")));
    }
    let named =
        evidence.seen.iter().flat_map(|seen| &seen.ranks).find_map(|rank| rank.master.clone());
    let name = named.unwrap_or_default();
    let right = match evidence.reached.len() {
        1 => format!("its node reaches {name}"),
        nodes => format!("all {nodes} nodes reach {name}"),
    };
    fail_if_any(&wrong, right)
}

pub(super) fn shared_memory(evidence: &JobEvidence) -> JobCheckOutcome {
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
            Some((node, Err(error))) => {
                JobCheckOutcome::Failed(format!("/dev/shm on {node}: {error}"))
            }
            _ => NotTested("a probe on the job's nodes".to_owned()),
        };
    };
    let wrong: Vec<String> = by_node
        .iter()
        .filter_map(|(node, seen)| match seen {
            Err(error) => Some(format!("/dev/shm on {node}: {error}")),
            Ok(bytes) if *bytes < SHARED_MEMORY_BYTES => {
                Some(format!("only {} MiB are free in /dev/shm of {node}", bytes >> 20))
            }
            Ok(_) => None,
        })
        .collect();
    fail_if_any(&wrong, format!("at least {} GiB are free", least >> 30))
}

pub(super) fn memlock(evidence: &JobEvidence) -> JobCheckOutcome {
    let with_adapter: Vec<_> =
        evidence.seen.iter().filter(|seen| !seen.rdma_devices.is_empty()).collect();
    if with_adapter.is_empty() {
        return NotTested("an RDMA adapter: these nodes have none".to_owned());
    }
    let wrong: Vec<String> = with_adapter
        .iter()
        .flat_map(|seen| &seen.ranks)
        .filter_map(|rank| {
            Some(format!("rank {} can lock only {} KiB", rank.rank, rank.memlock_bytes? >> 10))
        })
        .collect();
    fail_if_any(&wrong, "without limit")
}

pub(super) fn clocks(evidence: &JobEvidence) -> JobCheckOutcome {
    let (Some(ahead), Some(behind)) = (
        evidence.clocks.iter().max_by_key(|bound| bound.low_nanos),
        evidence.clocks.iter().min_by_key(|bound| bound.high_nanos),
    ) else {
        return NotTested("answers of the nodes".to_owned());
    };
    if evidence.nodes().len() < 2 {
        return NotTested("several nodes: this job has one clock".to_owned());
    }
    // Provably apart, provably close, or unknown because the answer was too slow.
    let apart = ahead.low_nanos - behind.high_nanos;
    let most = evidence.clocks.iter().map(|bound| bound.high_nanos).max().unwrap_or_default()
        - evidence.clocks.iter().map(|bound| bound.low_nanos).min().unwrap_or_default();
    match () {
        () if apart > CLOCK_NANOS => JobCheckOutcome::Failed(format!(
            "{} is at least {} ahead of {}",
            ahead.node,
            seconds(apart),
            behind.node
        )),
        () if most <= CLOCK_NANOS => {
            Passed(format!("within {} of each other", seconds(most + 999_999)))
        }
        () => NotTested(format!("faster answers: clocks may differ by {}", seconds(most))),
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
    use muster_model::verify::{ProbeObservation, SeenRank};

    use super::*;
    use crate::job::ClockBound;

    fn seen(
        node: &str,
        shared_memory: Result<u64, String>,
        memlock_bytes: Option<u64>,
    ) -> ProbeObservation {
        ProbeObservation {
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

    fn two(a: ProbeObservation, b: ProbeObservation) -> JobEvidence {
        JobEvidence { seen: vec![a, b], ..JobEvidence::default() }
    }

    #[test]
    fn who_does_not_reach_rank_0_is_named() {
        let mut evidence = two(seen("a", Ok(0), None), seen("b", Ok(0), None));
        assert!(matches!(master(&evidence), NotTested(_)));
        evidence.reached =
            vec![("a".to_owned(), None), ("b".to_owned(), Some("no route".to_owned()))];
        assert_eq!(master(&evidence), JobCheckOutcome::Failed("from b: no route".to_owned()));
        evidence.reached.pop();
        assert_eq!(master(&evidence), NotTested("answers of b before the timeout".to_owned()));
        evidence.reached.push(("b".to_owned(), None));
        assert!(matches!(master(&evidence), Passed(_)));
    }

    #[test]
    fn little_shared_memory_and_little_that_may_be_locked_are_failures() {
        let roomy = two(seen("a", Ok(8 << 30), None), seen("b", Ok(16 << 30), None));
        assert_eq!(shared_memory(&roomy), Passed("at least 8 GiB are free".to_owned()));
        assert_eq!(memlock(&roomy), Passed("without limit".to_owned()));
        let tight =
            two(seen("a", Ok(64 << 20), Some(65536)), seen("b", Err("read-only".to_owned()), None));
        let said = "only 64 MiB are free in /dev/shm of a; /dev/shm on b: read-only";
        assert_eq!(shared_memory(&tight), JobCheckOutcome::Failed(said.to_owned()));
        assert_eq!(
            memlock(&tight),
            JobCheckOutcome::Failed("rank 0 can lock only 64 KiB".to_owned())
        );
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
            JobCheckOutcome::Failed("a is at least 1.9 s ahead of b".to_owned())
        );
        // With such slow answers both are possible.
        assert!(matches!(clocks_of((-2_000, 2_000), (0, 1)), NotTested(_)));
    }
}
