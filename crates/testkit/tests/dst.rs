//! A fixed set of deterministic simulation tests, and the coverage they must reach. `cargo xtask
//! simulate` plays more.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use muster_testkit::dst::{Coverage, play, shrink};

/// Number of runs in each test.
const SEEDS: u64 = 120;

/// Seeds that failed once, as long as the random choices stay the same: see ADR 0010, "What it
/// found".
const FOUND: [u64; 8] = [357, 1082, 1226, 2362, 2916, 3666, 5731, 9171];

/// Least count of everything that is counted, about half of what was seen.
const LEAST: u64 = 20;

/// Least counts of combinations that are rarer.
const RARE: [(&str, u64); 18] = [
    ("reclaimed", 8),
    ("nominations_dropped", 2),
    ("unsaved", 1),
    ("checkpoints", 8),
    ("saved", 6),
    ("reservations_over", 5),
    ("reserved_starts", 3),
    ("idle", 5),
    ("reservations", 20),
    ("yielded", 8),
    ("scaled", 15),
    ("shrunk", 2),
    ("grown", 3),
    ("moved", 1),
    ("exited_when_asked", 2),
    ("died_when_asked", 2),
    ("starvation_tests", 5),
    ("kept_places", 5),
];

#[test]
fn invariants_hold_under_faults_and_everything_that_can_run_ends() {
    let mut coverage = Coverage::default();
    for seed in 0..SEEDS {
        coverage.add(&holds(seed));
    }
    for (what, count) in coverage.counts() {
        let least = RARE.iter().find(|(rare, _)| *rare == what).map_or(LEAST, |(_, least)| *least);
        assert!(count >= least, "{what} happened {count} times in {SEEDS} runs: {coverage}");
    }
    assert!(
        coverage.gangs > 500 && coverage.backfills > 100 && coverage.succeeded > 500,
        "{coverage}"
    );
}

#[test]
fn seeds_that_failed_once_pass() {
    for seed in FOUND {
        holds(seed);
    }
}

/// Plays the run of a seed, which must pass, and returns its coverage.
fn holds(seed: u64) -> Coverage {
    match play(seed, None, false) {
        Ok(played) => played.coverage,
        Err(broken) => {
            let least = shrink(&broken).unwrap_or(broken);
            panic!(
                "{least}\nhint: cargo xtask simulate --seed {} --rounds {} --trace",
                least.seed, least.rounds
            );
        }
    }
}

#[test]
fn a_seed_gives_the_same_run_to_the_byte() {
    for seed in [3, 77, 1 << 40] {
        let first = play(seed, None, true).unwrap();
        let second = play(seed, None, true).unwrap();
        assert_eq!((first.hash, &first.lines), (second.hash, &second.lines), "seed {seed}");
        assert!(first.lines.len() > 50, "seed {seed}");
        assert_ne!(
            first.hash,
            play(seed + 1, None, false).unwrap().hash,
            "another seed is another run"
        );
    }
}
