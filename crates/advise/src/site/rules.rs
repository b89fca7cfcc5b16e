//! The decision about a site as an ordered list: the base plane, what stands on it, how the fleet
//! is split, and reasons that change nothing. Data only.

mod base;
mod reasons;
mod stack;

use crate::list::joined;
use crate::rule::Rule;

use base::BASE;
use reasons::REASONS;
use stack::STACK;

/// From the first question to the last. Choosing rules come first: the first that holds wins.
pub(crate) const RULES: &[Rule] =
    &joined::<Rule, { BASE.len() + STACK.len() + REASONS.len() }>(&[BASE, STACK, REASONS]);
