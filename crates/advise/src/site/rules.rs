//! The decision about a site as an ordered list of rules: the base control plane, its add-ons, the
//! split of the fleet, and reasons that change nothing. Data only.

mod base;
mod reasons;
mod stack;

use crate::list::joined;
use crate::rule::Rule;

use base::BASE;
use reasons::REASONS;
use stack::STACK;

/// Rules in order of evaluation. Choosing rules come first: the first that holds chooses.
pub(crate) const RULES: &[Rule] =
    &joined::<Rule, { BASE.len() + STACK.len() + REASONS.len() }>(&[BASE, STACK, REASONS]);
