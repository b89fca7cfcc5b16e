//! Who has no hope in this pass: what `lore.rs` knows is learnt here, by trying, and asked for, so
//! that nothing is tried again. It must not be taken for a verdict on what somebody may do: limits
//! are asked elsewhere.

use std::sync::Arc;

use muster_model::queue::PlacementPolicy;
use muster_model::{ElementId, JobId, Span};
use muster_policy::{LeafId, UserId};
use smallvec::SmallVec;

use super::ask::Caps;
use super::consider::{Candidate, Seat};
use super::lore::Memo;
use super::slate::Lane;
use super::terms::Admitted;
use super::{Planner, gang};
use crate::state::State;
use crate::state::entries::ENDLESS;
use crate::state::shape::ClassId;

/// Blocked entries of a leaf after which it is worth a look whether any of the others has hope: as
/// many as a look costs in classes, roughly.
const LOOK_AFTER: u32 = 16;

/// The shortest stretch of time: too short for any reservation to begin within it.
pub(super) const MOMENT: Span = Span(1);

impl Planner<'_> {
    pub(crate) fn memo(&mut self, class: ClassId) -> &mut Memo {
        let State { lore, classes, pool, policy, .. } = &mut *self.state;
        lore.memo(class, || {
            let weighs = policy.tree().placement != PlacementPolicy::Pack;
            let picks = classes.picks(class, pool, weighs);
            (picks, classes.eligible(class, pool), Arc::clone(classes.shape(class)))
        })
    }

    /// Remembers that a candidate did not fit, for everybody else of its class.
    pub(super) fn learn(
        &mut self,
        candidate: &Candidate,
        memo: &Memo,
        tries: &[Admitted<'_>],
        duration: Span,
    ) {
        let is_kept_back = self.is_kept_back(candidate.seat(), candidate.class, memo, tries);
        if is_of_class(candidate, memo, tries) {
            self.fail(candidate.class, duration, is_kept_back);
        }
    }

    /// True when the indexes alone tell that a candidate fits nowhere, which most tries end with.
    /// It is remembered.
    pub(super) fn is_full(
        &mut self,
        candidate: &Candidate,
        memo: &Memo,
        tries: &[Admitted<'_>],
    ) -> bool {
        let picks = tries.iter().map(|one| one.pick);
        let is_full = gang::is_full(&mut self.state.pool, &candidate.shape, picks);
        if is_full && is_of_class(candidate, memo, tries) {
            self.state.lore.fail(candidate.class);
        }
        is_full
    }

    /// The same of a class as such, as far as it is known. Not where there are budgets: those are
    /// to be asked who is refused, and until when.
    pub(super) fn is_class_full(&mut self, class: ClassId) -> bool {
        let State { lore, pool, classes, policy, .. } = &mut *self.state;
        if policy.has_budgets() {
            return false;
        }
        let Some(memo) = lore.known(class) else { return false };
        let is_full = gang::is_full(pool, classes.shape(class), memo.picks.iter());
        if is_full {
            lore.fail(class);
        }
        is_full
    }

    /// Tries a class as such, whoever it may be of: an element of it fits only if the class does.
    fn probe(&mut self, class: ClassId, duration: Span) -> bool {
        let memo = self.memo(class).clone();
        let shape = Arc::clone(self.state.classes.shape(class));
        if gang::is_full(&mut self.state.pool, &shape, memo.picks.iter()) {
            self.state.lore.fail(class);
            return false;
        }
        let seat = Seat { element: ElementId::single(JobId(0)), avoid: &[], home: &[] };
        let tries: SmallVec<[Admitted<'_>; 1]> =
            memo.picks.iter().map(|pick| Admitted { pick, caps: Caps::new() }).collect();
        let span = (duration < ENDLESS).then_some(duration);
        let fits = self.has_place(seat, &shape, &tries, &memo.eligible, span);
        if !fits {
            let is_kept_back = self.is_kept_back(seat, class, &memo, &tries);
            self.fail(class, duration, is_kept_back);
        }
        fits
    }

    /// What does not fit: would it for a moment, before any reservation begins?
    fn is_kept_back(
        &mut self,
        seat: Seat<'_>,
        class: ClassId,
        memo: &Memo,
        tries: &[Admitted<'_>],
    ) -> bool {
        let pool = &self.state.pool;
        if pool.bookings().is_empty() && !pool.has_drains_ahead() && !pool.has_windows() {
            return false;
        }
        let shape = Arc::clone(self.state.classes.shape(class));
        self.has_place(seat, &shape, tries, &memo.eligible, Some(MOMENT))
    }

    fn fail(&mut self, class: ClassId, duration: Span, is_kept_back: bool) {
        match is_kept_back {
            true => self.state.lore.keep_back(&self.state.pool, class, duration),
            false => self.state.lore.fail(class),
        }
    }

    /// Something was given back after all: what did not fit may now.
    pub(super) fn forget_failures(&mut self) {
        self.state.lore.forget_failures();
    }

    /// True when nothing of a leaf can start or reserve any more in this round. Asked for every
    /// blocked entry, it looks only each time that their number has doubled.
    #[inline]
    pub(super) fn is_leaf_hopeless(
        &mut self,
        blocked: &mut Vec<u32>,
        leaf: LeafId,
        priority: i32,
    ) -> bool {
        let at = leaf.0 as usize;
        if blocked.len() <= at {
            blocked.resize(at + 1, 0);
        }
        let count = &mut blocked[at];
        *count += 1;
        *count >= LOOK_AFTER && count.is_power_of_two() && self.has_leaf_no_hope(leaf, priority)
    }

    fn has_leaf_no_hope(&mut self, leaf: LeafId, priority: i32) -> bool {
        if self.may_reserve(&Lane::of(leaf))
            || self.has_rights(leaf, priority)
            || self.asked_about == Some(leaf)
        {
            return false;
        }
        // The shortest of each class decides for all of it: longer is never easier to place.
        let mut classes: SmallVec<[(ClassId, Span); 8]> = SmallVec::new();
        for (class, duration) in self.state.entries.shortest_in_leaf(leaf) {
            if !self.is_hopeless(class, duration) || self.may_reserve(&self.lane(leaf, class)) {
                classes.push((class, duration));
            }
        }
        // All are tried: what is learnt of them is of use to the rest of the round.
        let is_hopeful = |(class, duration): &&(ClassId, Span)| {
            self.may_reserve(&self.lane(leaf, *class)) || self.probe(*class, *duration)
        };
        classes.iter().filter(is_hopeful).count() == 0
    }

    /// True when nothing that a user has in a leaf can start or reserve any more in this round, as
    /// far as that is known. Asked with how many entries of the user were passed over one after the
    /// other, it looks only each time that has doubled.
    #[inline]
    pub(super) fn is_user_hopeless(
        &mut self,
        whose: (LeafId, UserId),
        priority: i32,
        passed_over: u32,
    ) -> bool {
        passed_over >= LOOK_AFTER
            && passed_over.is_power_of_two()
            && self.has_user_no_hope(whose, priority)
    }

    fn has_user_no_hope(&mut self, (leaf, user): (LeafId, UserId), priority: i32) -> bool {
        if self.asked_about == Some(leaf) {
            return false;
        }
        // Others may come to owe a leaf something while a round goes on, when its own are made to
        // go; all other rights are there from its beginning.
        let policy = &self.state.policy;
        if policy.tree().preemption.reclaim && policy.has_quota(leaf)
            || self.has_rights(leaf, priority)
        {
            return false;
        }
        self.state.entries.shortest_of_user(leaf, user).all(|(class, duration)| {
            self.is_hopeless(class, duration) && !self.may_reserve(&self.lane(leaf, class))
        })
    }

    /// True when a class is known not to fit for that long.
    pub(super) fn is_hopeless(&self, class: ClassId, duration: Span) -> bool {
        self.state.lore.is_hopeless(&self.state.pool, class, duration)
    }
}

/// True when what holds of a candidate holds of all of its class: neither limits nor nodes that it
/// avoids have a part in it.
fn is_of_class(candidate: &Candidate, memo: &Memo, tries: &[Admitted<'_>]) -> bool {
    let is_free = tries.len() == memo.picks.len() && tries.iter().all(|one| one.caps.is_empty());
    candidate.avoid.is_empty() && is_free
}
