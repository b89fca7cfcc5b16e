//! Storms: whole stories from one number. A cluster, a queue tree, jobs of all shapes, people who
//! change their minds, and faults of disk, daemon, wire, tasks, nodes and clock, played on the
//! production runtime and engine. What must hold is judged after each step, and at the end, when
//! faults and arrivals stop, everything that can run must end.
//!
//! * `../dice.rs`, `site.rs`, `jobs.rs`, `asked.rs`, `beyond.rs`, `weather.rs`, `office.rs`: what
//!   there is and what happens, chosen by dice
//! * `world.rs`: daemon, disk (`disk.rs`), tasks (the backend of `scenario/`), wire (`wire.rs`),
//!   and what holds at all times
//! * `book/`, `attempt.rs`, `holdings.rs`, `quota.rs`, `budget.rs`, `topology.rs`, `claims.rs`,
//!   `onward.rs`, `windows.rs`, `owed.rs`: a second account of every job from the journal alone
//! * `calm.rs`, `fit.rs`: the end of a story, and what may be left then; `siege.rs`: a bound on
//!   waiting behind endless jobs
//! * `cover.rs`, `trace.rs`: what happened, counted and told
//!
//! The same number gives the same story, and the same transcript to the byte.
//! docs/adr/0010-deterministic-simulation.md has the reasons. It must not hold scheduling logic,
//! and no clock or random number but the dice.

mod asked;
mod attempt;
mod beyond;
mod book;
mod budget;
mod calm;
mod claims;
mod cover;
mod disk;
mod fit;
mod holdings;
mod jobs;
mod office;
mod onward;
mod owed;
mod quota;
mod siege;
mod site;
mod topology;
mod trace;
mod weather;
mod windows;
mod wire;
mod world;

pub use cover::Cover;

use crate::dice::Dice;
use trace::Trace;
use world::World;

/// A story that went well.
#[derive(Clone, Debug)]
pub struct Played {
    /// Rounds of the storm.
    pub rounds: u64,
    /// Hash of the transcript.
    pub hash: u64,
    /// What happened.
    pub cover: Cover,
    /// The transcript, when it was asked for.
    pub lines: Vec<String>,
}

/// Something did not hold.
#[derive(Clone, Debug, thiserror::Error)]
#[error("seed {seed}, round {round} of {rounds}: {what}")]
pub struct Broken {
    /// Of which story.
    pub seed: u64,
    /// In which round, from 1; one more than there are in the calm.
    pub round: u64,
    /// Of how many.
    pub rounds: u64,
    /// What.
    pub what: String,
    /// The transcript up to there, when it was asked for.
    pub lines: Vec<String>,
}

/// Plays the story of a seed, of its rounds at most so many.
///
/// # Errors
/// The first thing that does not hold.
pub fn play(seed: u64, most_rounds: Option<u64>, keep_lines: bool) -> Result<Played, Box<Broken>> {
    let all = Dice::new(!seed).between(20, 120);
    let rounds = most_rounds.map_or(all, |most| most.min(all));
    let broken = |round, what, lines| Box::new(Broken { seed, round, rounds, what, lines });
    let mut world =
        World::new(seed, Trace::new(keep_lines)).map_err(|what| broken(0, what, Vec::new()))?;
    for round in 1..=rounds {
        if let Err(what) = world.round() {
            return Err(broken(round, what, world.trace.lines()));
        }
    }
    if let Err(what) = world.calm_down() {
        return Err(broken(rounds + 1, what, world.trace.lines()));
    }
    Ok(Played { rounds, hash: world.trace.hash(), cover: world.cover, lines: world.trace.lines() })
}

/// The fewest rounds after which the story of a seed still breaks, when it does.
#[must_use]
pub fn shrink(broken: &Broken) -> Option<Box<Broken>> {
    (0..=broken.rounds.min(broken.round))
        .find_map(|rounds| play(broken.seed, Some(rounds), false).err())
}
