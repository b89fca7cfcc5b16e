//! The scheduling engine: state, plan, check, explain. Sans-io: it is told what happened
//! ([`Engine::apply`]), makes a plan as a value ([`Engine::plan`]), has it judged
//! ([`Engine::check`]), takes it over ([`Engine::commit`]) and says what the world should do
//! ([`Engine::take_effects`]).
//!
//! * `state/`: the fold of events and decisions, and the indexes over it
//! * `plan/`: one pass over what waits, on scratch with an undo log
//! * `check/`: the judge of plans and states; the one definition of the invariants; shares no code
//!   with `plan`
//! * `explain/`: why something waits, when it starts, what would start it now
//! * `view.rs`: what people are shown
//!
//! It must not read a clock or the environment, do I/O, or let the order of an unordered map reach
//! an output: the same events give the same plans, on every machine.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")
)]

mod bounds;
mod check;
mod engine;
mod explain;
mod fact;
#[cfg(test)]
mod fixture;
mod plan;
mod refusal;
mod state;
mod view;

pub use bounds::Malformed;
pub use check::Violation;
pub use engine::{Engine, RedactingJobs, Snapshot};
pub use fact::{Counts, Fact};
pub use muster_policy::TreeError;
pub use refusal::{Refusal, RestoreError};
pub use view::JobKey;
