//! The rules, in the order in which they are shown: lists of data with one independent function
//! each.

mod accounting;
mod devices;
mod gres;
mod isolation;
mod limits;
mod operations;
mod preemption;
mod priority;
mod refused;
mod scheduling;
mod topology;

use crate::rule::CheckRule;

/// Returns all rules in order.
pub(crate) fn all() -> impl Iterator<Item = &'static CheckRule> {
    [
        refused::RULES,
        accounting::RULES,
        priority::RULES,
        devices::RULES,
        isolation::RULES,
        gres::RULES,
        scheduling::RULES,
        topology::RULES,
        limits::RULES,
        preemption::RULES,
        operations::RULES,
    ]
    .into_iter()
    .flatten()
}
