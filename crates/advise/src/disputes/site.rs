//! Disagreements about a site, as a closed list: about its size, about its base plane, about teams,
//! about what stands on it, and about what has become true since the pages were written. Data only.

mod aged;
mod base;
mod size;
mod stack;
mod teams;

use muster_model::advice::{DisputeKind, Position};

use super::says;
use crate::condition::Condition;
use crate::list::joined;
use crate::rule::Disagreement;

use aged::AGED;
use base::BASE;
use size::SIZE;
use stack::STACK;
use teams::TEAMS;

/// Disagreements about a site; those that would change the base plane first.
pub(crate) const SITE: &[Disagreement] = &joined::<
    Disagreement,
    { SIZE.len() + BASE.len() + TEAMS.len() + STACK.len() + AGED.len() },
>(&[SIZE, BASE, TEAMS, STACK, AGED]);

/// One disagreement.
const fn dispute(
    id: &'static str,
    kind: DisputeKind,
    when: Condition,
    question: &'static str,
    positions: &'static [Position],
    muster: &'static str,
) -> Disagreement {
    Disagreement { id, kind, when, question, positions, muster }
}
