//! What limits and quota refused in this pass, so that thousands of entries behind one limit are
//! not judged one by one.
//!
//! **What is refused once stays refused until the pass ends, or somebody is told to go** (then all
//! is forgotten). Apart from that a pass only adds holds: a start counts itself in
//! ([`Policy::try_hold`](muster_policy::Policy::try_hold)), and all of them are undone together at
//! its end. Limits, nominal quota, borrow and lend limits are fixed meanwhile. With holds growing,
//!
//! * what runs in a queue only grows, and so does what a user holds: a limit that was reached stays
//!   reached;
//! * what is charged to a budget only grows, since a pass plans at one instant, in one window; and
//!   a longer promise is refused where a shorter one is; so it is with borrowed time, whose ceiling
//!   for what is too long is the nominal quota;
//! * `taken` of every queue only grows, since the claim of each child, `max(taken, kept)`, does;
//! * a start that adds `x` to a queue adds `max(taken + x, kept) - max(taken, kept)` to the claim
//!   that its parent sees, and this does not fall as `taken` grows: what a queue keeps for itself
//!   and does not use yet is used up first. So at every level the same start adds no less than
//!   before to no less than before, and a ceiling that it broke it breaks.
//!
//! The judgement depends on the leaf, the user and [`Terms`], and below a budget or a limit on
//! borrowed time on how long the element may run, so these are the key; all rounds of a pass share
//! what was learnt. The property is tested in `policy`; debug builds judge again whatever is
//! answered from memory. It must not remember across passes: then holds shrink, too.

use std::sync::Arc;

use muster_model::{Reason, Span, Time};
use muster_policy::{LeafId, UserId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Planner;
use super::ask::Pick;
use super::lore::Terms;
use super::terms::{self, Whose};
use crate::state::entries::ENDLESS;
use crate::state::shape::ClassId;

/// What a refusal is remembered by. The length is [`ENDLESS`] where nothing asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    leaf: LeafId,
    user: UserId,
    terms: Terms,
    duration: Span,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Limited {
    refused: FxHashSet<Key>,
    /// When the first of the budgets is refilled that refused something.
    refill: Option<Time>,
    /// Refused entries by user and leaf in this round.
    counts: FxHashMap<(LeafId, UserId), u32>,
    /// A planner without a memory, to compare with.
    #[cfg(test)]
    pub(super) forgets: bool,
}

/// Refused entries of a user after which it is worth a look whether limits refuse everything that
/// the user has there.
const LOOK_AFTER: u32 = 16;

impl Limited {
    /// Remembers a refusal.
    pub(super) fn refuse(&mut self, key: Key, reason: &Reason) {
        // What asks for more than a whole budget is not helped by a new one.
        if let Reason::Budget { refills_at, asked_gpu_secs, budget_gpu_secs, .. } = reason
            && asked_gpu_secs <= budget_gpu_secs
        {
            self.refill = Some(self.refill.map_or(*refills_at, |earlier| earlier.min(*refills_at)));
        }
        #[cfg(test)]
        if self.forgets {
            return;
        }
        self.refused.insert(key);
    }

    /// When the first of the budgets is refilled that refused something in this pass.
    pub(super) fn refill(&self) -> Option<Time> {
        self.refill
    }

    /// How many refusals are remembered.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.refused.len()
    }

    /// Forgets everything: somebody was told to go, and counts no more.
    pub(super) fn forget(&mut self) {
        self.refused.clear();
        self.counts.clear();
    }

    /// Forgets, for a new round, how many entries were refused; not what.
    pub(super) fn count_again(&mut self) {
        self.counts.clear();
    }
}

impl Planner<'_> {
    /// What a refusal of this is remembered by.
    pub(super) fn limit_key(
        &self,
        leaf: LeafId,
        user: UserId,
        duration: Option<Span>,
        terms: Terms,
    ) -> Key {
        let policy = &self.state.policy;
        let matters = policy.is_budgeted(leaf) || policy.is_timed(leaf);
        let duration = duration.filter(|_| matters).unwrap_or(ENDLESS);
        Key { leaf, user, terms, duration }
    }

    /// True when a class of a user is known to be refused in a leaf, for so long.
    pub(super) fn is_limited(
        &self,
        leaf: LeafId,
        user: UserId,
        class: ClassId,
        duration: Span,
    ) -> bool {
        if self.limited.refused.is_empty() {
            return false;
        }
        let Some(memo) = self.state.lore.known(class) else { return false };
        let duration = (duration < ENDLESS).then_some(duration);
        let is_limited =
            self.limited.refused.contains(&self.limit_key(leaf, user, duration, memo.terms));
        debug_assert!(
            !is_limited || self.judge(leaf, user, class, duration, &memo.picks).is_err(),
            "what was refused once in a pass stays refused"
        );
        is_limited
    }

    /// True when limits refuse everything that a user has in a leaf. Asked for every refused entry,
    /// it looks only each time that their number has doubled.
    pub(super) fn is_user_limited(&mut self, leaf: LeafId, user: UserId, priority: i32) -> bool {
        #[cfg(test)]
        if self.limited.forgets {
            return false;
        }
        let count = self.limited.counts.entry((leaf, user)).or_default();
        *count += 1;
        if *count < LOOK_AFTER || !count.is_power_of_two() || self.asked_about == Some(leaf) {
            return false;
        }
        // Who may make others go is not refused by terms alone.
        if self.has_rights(leaf, priority) {
            return false;
        }
        // In no meaningful order; a judgement changes nothing but what is remembered.
        let classes: Vec<(ClassId, Span)> =
            self.state.entries.shortest_of_user(leaf, user).collect();
        classes.into_iter().all(|(class, _)| {
            // What is refused for the shortest is refused for all; the shortest of the leaf is no
            // longer than the user's.
            let shortest = self.state.entries.shortest(leaf, class);
            if self.is_limited(leaf, user, class, shortest) {
                return true;
            }
            let memo = self.memo(class);
            let (picks, terms) = (Arc::clone(&memo.picks), memo.terms);
            let duration = (shortest < ENDLESS).then_some(shortest);
            let Err(reason) = self.judge(leaf, user, class, duration, &picks) else { return false };
            let key = self.limit_key(leaf, user, duration, terms);
            self.limited.refuse(key, &reason);
            true
        })
    }

    /// Do limits, budgets and quota admit a try? The first refusal when they do not.
    fn judge(
        &self,
        leaf: LeafId,
        user: UserId,
        class: ClassId,
        duration: Option<Span>,
        picks: &[Pick],
    ) -> Result<(), Reason> {
        let (promise, shape) = (self.promise(duration), self.state.classes.shape(class));
        let whose = Whose { leaf, user, owns: false };
        terms::admitted(&self.state.policy, whose, shape, promise, picks).map(|_| ())
    }
}
