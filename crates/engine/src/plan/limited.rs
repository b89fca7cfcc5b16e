//! What limits and quota refused in this pass, so that thousands of entries behind one limit are not judged one by one.
//!
//! **What is refused once stays refused until the pass ends.** A pass only adds holds: a start counts itself in
//! ([`Policy::try_hold`](muster_policy::Policy::try_hold)), and all of them are undone together at its end. Limits,
//! nominal quota, borrow and lend limits are fixed meanwhile. With holds growing,
//!
//! * what runs in a queue only grows, and so does what a user holds: a limit that was reached stays reached;
//! * `taken` of every queue only grows, since the claim of each child, `max(taken, kept)`, does;
//! * a start that adds `x` to a queue adds `max(taken + x, kept) - max(taken, kept)` to the claim that its parent sees,
//!   and this does not fall as `taken` grows: what a queue keeps for itself and does not use yet is used up first. So at
//!   every level the same start adds no less than before to no less than before, and a ceiling that it broke it breaks.
//!
//! The judgement depends on the leaf, the user and [`Terms`], so these three are the key; all rounds of a pass share
//! what was learnt. The property is tested in `policy`; debug builds judge again whatever is answered from memory.

use std::sync::Arc;

use muster_policy::{LeafId, UserId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Planner;
use super::ask::Pick;
use super::terms;
use crate::state::shape::{ClassId, Shape};

/// Classes that limits and quota cannot tell apart: the same models, the same numbers of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms(u32);

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Limited {
    terms: FxHashMap<(Arc<[Pick]>, u64), Terms>,
    refused: FxHashSet<(LeafId, UserId, Terms)>,
    /// Refused entries by user and leaf in this round.
    counts: FxHashMap<(LeafId, UserId), u32>,
    /// A planner without a memory, to compare with.
    #[cfg(test)]
    pub(super) forgets: bool,
}

/// Refused entries of a user after which it is worth a look whether limits refuse everything that the user has there.
const LOOK_AFTER: u32 = 16;

impl Limited {
    /// The terms of a shape that may be tried so.
    pub(super) fn terms(&mut self, picks: &Arc<[Pick]>, shape: &Shape) -> Terms {
        let next = Terms(self.terms.len() as u32);
        *self.terms.entry((Arc::clone(picks), shape.milli())).or_insert(next)
    }

    /// Remembers a refusal.
    pub(super) fn refuse(&mut self, leaf: LeafId, user: UserId, terms: Terms) {
        #[cfg(test)]
        if self.forgets {
            return;
        }
        self.refused.insert((leaf, user, terms));
    }

    /// How many refusals are remembered.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.refused.len()
    }

    /// Forgets, for a new round, how many entries were refused; not what.
    pub(super) fn count_again(&mut self) {
        self.counts.clear();
    }
}

impl Planner<'_> {
    /// True when a class of a user is known to be refused in a leaf.
    pub(super) fn is_limited(&self, leaf: LeafId, user: UserId, class: ClassId) -> bool {
        let memo = self.memos.get(&class);
        let is_limited = memo.is_some_and(|memo| self.limited.refused.contains(&(leaf, user, memo.terms)));
        debug_assert!(
            !is_limited || memo.is_some_and(|memo| self.judge(leaf, user, class, &memo.picks)),
            "what was refused once in a pass stays refused"
        );
        is_limited
    }

    /// True when limits refuse everything that a user has in a leaf. Asked for every refused entry, it looks only each
    /// time that their number has doubled.
    pub(super) fn is_user_limited(&mut self, leaf: LeafId, user: UserId) -> bool {
        #[cfg(test)]
        if self.limited.forgets {
            return false;
        }
        let count = self.limited.counts.entry((leaf, user)).or_default();
        *count += 1;
        if *count < LOOK_AFTER || !count.is_power_of_two() || self.asked_about == Some(leaf) {
            return false;
        }
        // In no meaningful order; a judgement changes nothing but what is remembered.
        let classes = self.state.entries.classes_of_user(leaf, user);
        classes.into_iter().all(|class| {
            if self.is_limited(leaf, user, class) {
                return true;
            }
            let memo = self.memo(class);
            let (picks, terms) = (Arc::clone(&memo.picks), memo.terms);
            let is_limited = self.judge(leaf, user, class, &picks);
            if is_limited {
                self.limited.refuse(leaf, user, terms);
            }
            is_limited
        })
    }

    /// Do limits and quota refuse every try?
    fn judge(&self, leaf: LeafId, user: UserId, class: ClassId, picks: &[Pick]) -> bool {
        terms::admitted(&self.state.policy, (leaf, user), self.state.classes.shape(class), picks).is_err()
    }
}
