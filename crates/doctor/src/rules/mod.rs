//! The rules, in the order in which they are shown. Lists of data with one function each; none
//! knows of another.

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

use crate::rule::Rule;

/// Every rule.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
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
