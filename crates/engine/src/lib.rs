//! The scheduling engine: state, plan, check, explain. Sans-io: [`Engine::apply`] takes events,
//! [`Engine::plan`] returns a plan as a value, [`Engine::check`] verifies it, [`Engine::commit`]
//! applies it, and [`Engine::take_effects`] returns the actions to carry out.
//!
//! The modules are layers; each uses only those before it:
//!
//! * `pool/`: nodes and what is held on them, with scratch and rollback
//! * `place/`: finds devices for a whole gang on the pool, now or later
//! * `state/`: the fold of events and decisions, and the indexes over it
//! * `plan/`: one scheduling pass over the pending entries, and what the planner remembers
//! * `validate/`: accepts or refuses an event
//! * `explain/`: why a job is pending, when it starts, what would start it now
//! * `check/`: the checker of plans and states; the one definition of the invariants; shares no
//!   code with `place` and `plan`
//! * `view.rs`: views for users
//! * `predict.rs`: run times predicted from ended jobs, for those who submit
//!
//! It must not read a clock or the environment, do I/O, or let the order of an unordered map reach
//! an output: the same events give the same plans, on every machine.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at an unexpected value"))]

mod bounds;
mod check;
mod engine;
mod explain;
mod fact;
#[cfg(test)]
mod fixture;
mod place;
mod plan;
mod pool;
mod predict;
mod refusal;
mod state;
mod validate;
mod view;

pub use bounds::MalformedJob;
pub use check::Violation;
pub use engine::{Engine, RedactingJobs, Snapshot};
pub use fact::{AccountingFact, EngineCounts};
pub use muster_policy::{TreeError, UsageRecord};
pub use predict::{JobLikeness, RuntimePredictor};
pub use refusal::{EventRefusal, RestoreError};
pub use state::view::JobKey;
