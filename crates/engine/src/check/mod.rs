//! The checker: verifies plans and the state. This is the single definition of the invariants, used
//! by tests, simulation and debug assertions.
//!
//! It reads the state and shares no code with `plan`: free capacity, gangs and reservations are
//! computed again in the simplest way, from the records of jobs and nodes.

mod advance_reservations;
mod borrowed;
mod budget;
mod counted;
mod drained;
mod gang;
mod head_reservations;
mod ledger;
mod pending_allocations;
mod plan;
mod quota;
mod reserved;
mod resized;
mod state;
#[cfg(test)]
mod tests;
mod topology;
mod violation;

pub use violation::Violation;

pub(crate) use plan::{check, starts_have_effects};
pub(crate) use state::sanity_check;
