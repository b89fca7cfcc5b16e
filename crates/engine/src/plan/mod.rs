//! Planning: one scheduling pass over all pending entries, in the policy's order, on scratch. The
//! result is a [`Plan`]; at the end the state is rolled back. `consider.rs` handles a single entry.
//!
//! A pass has rounds. Starts change fair shares, and with them the order of entries and the entry
//! that gets the first reservation; so after a round that started something while other capacity
//! was reserved, another round runs with new reservations. A pass ends with a round that changes
//! nothing: planning again after its commit decides nothing, unless the plan decided something and
//! asks to be repeated one millisecond later ([`WakeTimes`]).

pub(crate) mod admission;
pub(crate) mod advance_reservation;
pub(crate) mod cache;
mod consider;
mod defragment;
mod elastic;
pub(crate) mod eligibility;
mod evict_by_node;
mod head_reservation;
pub(crate) mod infeasible;
mod limit_cache;
mod pass;
mod pass_starts;
mod pending;
mod planner;
mod preempt;
mod quick_reject;
pub(crate) mod scratch;
mod shrink;
#[cfg(test)]
mod tests;
mod victim;

pub(crate) use consider::{Candidate, NodePreferences};
pub(crate) use pass::PlanningPass;
pub(crate) use planner::{Outlook, Planner};
