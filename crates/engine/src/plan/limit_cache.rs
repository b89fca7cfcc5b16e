//! Cached limit verdicts: refusals by limits and quota in this pass, so that thousands of entries
//! behind one limit are not judged one by one.
//!
//! **A refusal stays valid until the pass ends, or something is evicted** (which clears the cache).
//! Otherwise a pass only adds holds: a start counts itself in
//! ([`Policy::try_hold`](muster_policy::Policy::try_hold)), and all are undone together at its end.
//! Limits, nominal quota, borrow and lend limits are fixed meanwhile. With holds growing,
//!
//! * the use of a queue only grows, and so does what a user holds: a limit that was reached stays
//!   reached;
//! * the charges to a budget only grow, since a pass plans at one instant, in one budget period;
//!   and a longer run is refused where a shorter one is; so it is with borrowed time, whose ceiling
//!   for runs that are too long is the nominal quota;
//! * `taken` of every queue only grows, since what each child charges to it, `max(taken, kept)`,
//!   does;
//! * a start that adds `x` to a queue adds `max(taken + x, kept) - max(taken, kept)` to what its
//!   parent sees, and this does not fall as `taken` grows: what a queue keeps for itself and does
//!   not use yet is used up first. So at every level the same start adds no less than before to no
//!   less than before, and a ceiling that it broke it breaks again.
//!
//! The verdict depends on the leaf, the user and [`LimitClass`], and below a budget or a limit on
//! borrowed time on the element's duration, so these are the key; all rounds of a pass share the
//! cache. The property is tested in `policy`; debug builds repeat every verdict answered from the
//! cache. It must not be kept across passes: between them holds also shrink.

use std::sync::Arc;

use muster_model::{Reason, Span, Time};
use muster_policy::{LeafId, UserId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::PlanningPass;
use super::admission::{self, Requester};
use super::cache::LimitClass;
use crate::place::classes::ClassId;
use crate::place::request::ModelChoice;
use crate::state::entries::UNLIMITED;

/// Key of a refusal. The duration is [`UNLIMITED`] where no limit depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LimitKey {
    leaf: LeafId,
    user: UserId,
    limit_class: LimitClass,
    duration: Span,
}

/// Refusals of the present pass; see the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitCache {
    refused: FxHashSet<LimitKey>,
    /// Earliest refill of a budget that refused something in this pass.
    next_refill: Option<Time>,
    /// Number of refused entries by user and leaf in this round.
    refusals_by_user: FxHashMap<(LeafId, UserId), u32>,
    /// Disables the cache, for comparison in tests.
    #[cfg(test)]
    pub(super) is_disabled: bool,
}

/// Refused entries of a user after which all of the user's classes in the leaf are judged.
const CHECK_AFTER: u32 = 16;

impl LimitCache {
    /// Records a refusal, and the refill that may lift it.
    pub(super) fn insert(&mut self, key: LimitKey, reason: &Reason) {
        // A request for more than a whole budget is not helped by a refill.
        if let Reason::Budget { refills_at, asked_gpu_secs, budget_gpu_secs, .. } = reason
            && asked_gpu_secs <= budget_gpu_secs
        {
            self.next_refill =
                Some(self.next_refill.map_or(*refills_at, |earlier| earlier.min(*refills_at)));
        }
        #[cfg(test)]
        if self.is_disabled {
            return;
        }
        self.refused.insert(key);
    }

    /// Returns the earliest refill of a budget that refused something in this pass.
    pub(super) fn next_refill(&self) -> Option<Time> {
        self.next_refill
    }

    /// Returns the number of cached refusals.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.refused.len()
    }

    /// Clears all refusals after an eviction, which lowers the counters.
    pub(super) fn clear(&mut self) {
        self.refused.clear();
        self.refusals_by_user.clear();
    }

    /// Resets the number of refused entries for a new round; keeps the refusals.
    pub(super) fn begin_round(&mut self) {
        self.refusals_by_user.clear();
    }
}

impl PlanningPass<'_> {
    /// Returns the key for a verdict.
    pub(super) fn limit_key(
        &self,
        leaf: LeafId,
        user: UserId,
        duration: Option<Span>,
        limit_class: LimitClass,
    ) -> LimitKey {
        let policy = &self.state.policy;
        let matters = policy.is_budgeted(leaf) || policy.limits_duration(leaf);
        let duration = duration.filter(|_| matters).unwrap_or(UNLIMITED);
        LimitKey { leaf, user, limit_class, duration }
    }

    /// Returns true if a class of a user is known to be refused in a leaf, for this duration.
    pub(super) fn is_limited(
        &self,
        leaf: LeafId,
        user: UserId,
        class: ClassId,
        duration: Span,
    ) -> bool {
        if self.limit_cache.refused.is_empty() {
            return false;
        }
        let Some(cached) = self.cache.get(class) else { return false };
        let duration = (duration < UNLIMITED).then_some(duration);
        let is_limited = self.limit_cache.refused.contains(&self.limit_key(
            leaf,
            user,
            duration,
            cached.limit_class,
        ));
        debug_assert!(
            !is_limited || self.judge_limits(leaf, user, class, duration, &cached.choices).is_err(),
            "a refusal stays valid for the whole pass"
        );
        is_limited
    }

    /// Returns true if limits refuse every entry of a user in a leaf. Called for every refused
    /// entry; checks only each time their number has doubled.
    pub(super) fn is_user_limited(&mut self, leaf: LeafId, user: UserId, priority: i32) -> bool {
        #[cfg(test)]
        if self.limit_cache.is_disabled {
            return false;
        }
        let count = self.limit_cache.refusals_by_user.entry((leaf, user)).or_default();
        *count += 1;
        if *count < CHECK_AFTER || !count.is_power_of_two() || self.asked_about == Some(leaf) {
            return false;
        }
        // If victims are possible, limits alone do not refuse.
        if self.has_possible_victims(leaf, priority) {
            return false;
        }
        // The order does not matter; a verdict changes nothing but the cache.
        let classes: Vec<(ClassId, Span)> =
            self.state.entries.shortest_of_user(leaf, user).collect();
        classes.into_iter().all(|(class, _)| {
            // A refusal of the shortest holds for all; the shortest of the leaf is no longer than
            // the user's.
            let shortest = self.state.entries.shortest(leaf, class);
            if self.is_limited(leaf, user, class, shortest) {
                return true;
            }
            let cached = self.class_cache(class);
            let choices = Arc::clone(&cached.choices);
            let limit_class = cached.limit_class;
            let duration = (shortest < UNLIMITED).then_some(shortest);
            let Err(reason) = self.judge_limits(leaf, user, class, duration, &choices) else {
                return false;
            };
            let key = self.limit_key(leaf, user, duration, limit_class);
            self.limit_cache.insert(key, &reason);
            true
        })
    }

    /// Checks limits, budgets and quota for a class. Returns the first refusal.
    fn judge_limits(
        &self,
        leaf: LeafId,
        user: UserId,
        class: ClassId,
        duration: Option<Span>,
        choices: &[ModelChoice],
    ) -> Result<(), Reason> {
        let charge = self.budget_charge(duration);
        let shape = self.state.classes.shape(class);
        let requester = Requester { leaf, user, own_quota_only: false };
        admission::admitted_choices(&self.state.policy, requester, shape, charge, choices)
            .map(|_| ())
    }
}
