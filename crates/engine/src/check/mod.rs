//! The judge: is a plan right, is the state sound? This is the one definition of the invariants,
//! used by tests, simulation and debug assertions.
//!
//! It reads the state and shares no code with `plan`: what is free, what a gang is, and whether a
//! reservation is kept are worked out here again, in the plainest way, from the records of jobs and
//! nodes.

mod borrowed;
mod budget;
mod claims;
mod counted;
mod drained;
mod ledger;
mod patience;
mod plan;
mod quota;
mod reserved;
mod resized;
mod state;
#[cfg(test)]
mod tests;
mod topology;
mod violation;
mod windows;

pub use violation::Violation;

pub(crate) use plan::{check, starts_have_effects};
pub(crate) use state::sanity_check;
