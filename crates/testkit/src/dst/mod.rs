//! Deterministic simulation test (DST). From one seed it generates a cluster, a queue tree, jobs,
//! user requests, and faults of disk, daemon, network, tasks, nodes and clock, and plays them on
//! the production runtime and engine. Invariants are checked after each step; when faults and
//! arrivals stop, everything that can run must end.
//!
//! * `../rng.rs`, `site.rs`, `jobs.rs`, `checkpoint_reaction.rs`, `features.rs`,
//!   `event_generator.rs`, `admin.rs`: random input
//! * `world.rs`: daemon, disk (`../faulty_store.rs`), tasks (the backend of `scenario/`), network
//!   (`network.rs`), and the invariants
//! * `ledger/`, `attempt.rs`: the reference ledger, a second account of every job from the journal
//!   alone
//! * `liveness.rs`, `feasibility.rs`: the liveness phase at the end of a run; `starvation.rs`: a
//!   bound on waiting behind endless jobs
//! * `coverage.rs`, `transcript.rs`: counts and transcript of a run
//!
//! The same seed gives the same run and the same transcript, byte by byte
//! (docs/adr/0010-deterministic-simulation.md). It must not hold scheduling logic, nor use a clock
//! or random numbers except the seeded generator.

mod admin;
mod attempt;
mod checkpoint_reaction;
mod coverage;
mod event_generator;
mod feasibility;
mod features;
mod jobs;
mod ledger;
mod liveness;
mod network;
mod site;
mod starvation;
mod transcript;
mod world;

pub use coverage::Coverage;

use muster_model::Time;

use crate::rng::SeededRng;
use transcript::Transcript;
use world::DstWorld;

/// Start of every run, an arbitrary instant.
const RUN_START: Time = Time(1_000_000_000);

/// A run that passed.
#[derive(Clone, Debug)]
pub struct DstRun {
    /// Number of rounds before the liveness phase.
    pub rounds: u64,
    /// Hash of the transcript.
    pub hash: u64,
    /// Counts of what happened.
    pub coverage: Coverage,
    /// The transcript, if requested.
    pub lines: Vec<String>,
}

/// A run in which an invariant was violated.
#[derive(Clone, Debug, thiserror::Error)]
#[error("seed {seed}, round {round} of {rounds}: {what}")]
pub struct DstFailure {
    /// Seed of the run.
    pub seed: u64,
    /// Round of the violation, from 1; `rounds` + 1 in the liveness phase.
    pub round: u64,
    /// Number of rounds of the run.
    pub rounds: u64,
    /// Description of the violation.
    pub what: String,
    /// The transcript up to the violation, if requested.
    pub lines: Vec<String>,
}

/// Plays the run of a seed, with at most `most_rounds` of its rounds.
///
/// # Errors
/// The first violation of an invariant.
pub fn play(
    seed: u64,
    most_rounds: Option<u64>,
    keep_lines: bool,
) -> Result<DstRun, Box<DstFailure>> {
    let all = SeededRng::new(!seed).between(20, 120);
    let rounds = most_rounds.map_or(all, |most| most.min(all));
    let broken = |round, what, lines| Box::new(DstFailure { seed, round, rounds, what, lines });
    let mut world = DstWorld::new(seed, Transcript::new(keep_lines))
        .map_err(|what| broken(0, what, Vec::new()))?;
    for round in 1..=rounds {
        if let Err(what) = world.round() {
            return Err(broken(round, what, world.transcript.lines()));
        }
    }
    if let Err(what) = world.run_liveness_phase() {
        return Err(broken(rounds + 1, what, world.transcript.lines()));
    }
    Ok(DstRun {
        rounds,
        hash: world.transcript.hash(),
        coverage: world.coverage,
        lines: world.transcript.lines(),
    })
}

/// Returns the run with the fewest rounds in which the seed still fails.
#[must_use]
pub fn shrink(broken: &DstFailure) -> Option<Box<DstFailure>> {
    (0..=broken.rounds.min(broken.round))
        .find_map(|rounds| play(broken.seed, Some(rounds), false).err())
}
