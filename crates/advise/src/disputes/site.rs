//! Disagreements about a site, as a closed list: about its size, its base control plane, its teams,
//! its add-ons, and about changes since the pages were written. Data only.

mod aged;
mod base;
mod size;
mod stack;
mod teams;

use muster_model::advice::{DisputeKind, DisputePosition};

use super::says;
use crate::condition::Condition;
use crate::list::joined;
use crate::rule::Disagreement;

use aged::AGED;
use base::BASE;
use size::SIZE;
use stack::STACK;
use teams::TEAMS;

/// Disagreements about a site; those that would change the base control plane first.
pub(crate) const SITE: &[Disagreement] = &joined::<
    Disagreement,
    { SIZE.len() + BASE.len() + TEAMS.len() + STACK.len() + AGED.len() },
>(&[SIZE, BASE, TEAMS, STACK, AGED]);

/// Returns a disagreement from its fields.
const fn dispute(
    id: &'static str,
    kind: DisputeKind,
    when: Condition,
    question: &'static str,
    positions: &'static [DisputePosition],
    muster: &'static str,
) -> Disagreement {
    Disagreement { id, kind, when, question, positions, muster }
}
