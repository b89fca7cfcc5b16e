//! The rules for the Ray clusters of a machine, in the order in which they are shown: lists of data with
//! one independent function each.

mod claims;
mod clusters;
mod network;
mod remains;

use super::view::HostView;
use crate::rule::{CheckRule, RuleResult};

/// Rule about the Ray clusters of a machine.
pub(crate) type RayRule = CheckRule<fn(&HostView<'_>) -> RuleResult>;

/// Returns all rules in order.
pub(crate) fn all() -> impl Iterator<Item = &'static RayRule> {
    [clusters::RULES, claims::RULES, network::RULES, remains::RULES].into_iter().flatten()
}
