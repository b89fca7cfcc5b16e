//! What a pass knows of classes, so that it need not try again: within a round nothing is given back, so what did not
//! fit once does not fit later, nor for longer.

use std::sync::Arc;

use muster_model::queue::PlacementPolicy;
use muster_model::{ElementId, JobId, Span, Time};
use muster_policy::{LeafId, UserId};
use smallvec::SmallVec;

use super::ask::{Caps, Pick};
use super::consider::{Candidate, Seat};
use super::limited::Terms;
use super::terms::Admitted;
use super::{Lane, Planner};
use crate::state::entries::ENDLESS;
use crate::state::shape::{ClassId, Eligible};

/// What is known of a class in this pass.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    pub(crate) picks: Arc<[Pick]>,
    pub(crate) eligible: Eligible,
    pub(super) terms: Terms,
    /// It did not fit until this instant; during a round nothing is given back, so it does not fit for any longer either.
    /// One instant from now when it would not fit even without reservations; that holds for the whole pass.
    pub(super) failed: Option<Time>,
}

/// Blocked entries of a leaf after which it is worth a look whether any of the others has hope: as many as a look
/// costs in classes, roughly.
const LOOK_AFTER: u32 = 16;

/// The shortest stretch of time: too short for any reservation to begin within it.
pub(super) const MOMENT: Span = Span(1);

impl Planner<'_> {
    pub(crate) fn memo(&mut self, class: ClassId) -> &mut Memo {
        let (state, limited) = (&mut *self.state, &mut self.limited);
        self.memos.entry(class).or_insert_with(|| {
            let eligible = state.classes.eligible(class, &state.pool);
            let weighs = state.policy.tree().placement != PlacementPolicy::Pack;
            let picks = state.classes.picks(class, &state.pool, weighs);
            let terms = limited.terms(&picks, state.classes.shape(class));
            Memo { picks, eligible, terms, failed: None }
        })
    }

    /// Remembers that a candidate did not fit, for everybody else of its class.
    pub(super) fn learn(&mut self, candidate: &Candidate, memo: &Memo, tries: &[Admitted<'_>], until: Time) {
        let is_kept_back = self.is_kept_back(candidate.seat(), candidate.class, memo, tries);
        let is_free = tries.len() == memo.picks.len() && tries.iter().all(|one| one.caps.is_empty());
        if candidate.avoid.is_empty() && is_free {
            self.fail(candidate.class, if is_kept_back { until } else { self.now + MOMENT });
        }
    }

    /// Tries a class as such, whoever it may be of: an element of it fits only if the class does.
    fn probe(&mut self, class: ClassId, duration: Span) -> bool {
        let memo = self.memo(class).clone();
        let shape = Arc::clone(self.state.classes.shape(class));
        let seat = Seat { element: ElementId::single(JobId(0)), avoid: &[], home: &[] };
        let tries: Vec<Admitted<'_>> =
            memo.picks.iter().map(|pick| Admitted { pick, caps: Caps::new() }).collect();
        let span = (duration < ENDLESS).then_some(duration);
        let checkpoint = self.state.pool.checkpoint();
        let fits = tries.iter().any(|one| self.place(seat, &shape, one, &memo.eligible, span).is_some());
        self.state.pool.rollback(checkpoint);
        if !fits {
            let is_kept_back = self.is_kept_back(seat, class, &memo, &tries);
            self.fail(class, if is_kept_back { self.now + duration } else { self.now + MOMENT });
        }
        fits
    }

    /// What does not fit: would it for a moment, before any reservation begins?
    fn is_kept_back(&mut self, seat: Seat<'_>, class: ClassId, memo: &Memo, tries: &[Admitted<'_>]) -> bool {
        let pool = &self.state.pool;
        if pool.bookings().is_empty() && !pool.has_drains_ahead() && !pool.has_windows() {
            return false;
        }
        let shape = Arc::clone(self.state.classes.shape(class));
        let checkpoint = self.state.pool.checkpoint();
        let fits =
            tries.iter().any(|one| self.place(seat, &shape, one, &memo.eligible, Some(MOMENT)).is_some());
        self.state.pool.rollback(checkpoint);
        fits
    }

    fn fail(&mut self, class: ClassId, until: Time) {
        let memo = self.memo(class);
        memo.failed = Some(memo.failed.map_or(until, |failed| failed.min(until)));
    }

    /// Forgets, for a new round, what failed only because of reservations.
    pub(super) fn hope_again(&mut self) {
        let for_good = self.now + MOMENT;
        for memo in self.memos.values_mut() {
            memo.failed = memo.failed.filter(|failed| *failed <= for_good);
        }
    }

    /// Something was given back after all: what did not fit may now.
    pub(super) fn forget_failures(&mut self) {
        self.memos.values_mut().for_each(|memo| memo.failed = None);
    }

    /// True when nothing of a leaf can start or reserve any more in this round. Asked for every blocked entry, it looks
    /// only each time that their number has doubled.
    pub(super) fn is_leaf_hopeless(&mut self, blocked: &mut Vec<u32>, leaf: LeafId, priority: i32) -> bool {
        let at = leaf.0 as usize;
        if blocked.len() <= at {
            blocked.resize(at + 1, 0);
        }
        let count = &mut blocked[at];
        *count += 1;
        let is_early = *count < LOOK_AFTER || !count.is_power_of_two();
        if is_early
            || self.may_reserve(&Lane::of(leaf))
            || self.has_rights(leaf, priority)
            || self.asked_about == Some(leaf)
        {
            return false;
        }
        // The shortest of each class decides for all of it: longer is never easier to place.
        let classes: SmallVec<[(ClassId, Span); 8]> = self.state.entries.shortest_in_leaf(leaf).collect();
        // All are tried, so that what is learnt does not depend on the order in which they are kept.
        let hopeful = classes
            .iter()
            .filter(|(class, duration)| {
                self.may_reserve(&self.lane(leaf, *class))
                    || !self.is_hopeless(*class, *duration) && self.probe(*class, *duration)
            })
            .count();
        hopeful == 0
    }

    /// True when nothing that a user has in a leaf can start or reserve any more in this round, as far as that is known. Asked
    /// with how many entries of the user were passed over one after the other, it looks only each time that has doubled.
    pub(super) fn is_user_hopeless(
        &mut self,
        (leaf, user): (LeafId, UserId),
        priority: i32,
        passed_over: u32,
    ) -> bool {
        if passed_over < LOOK_AFTER || !passed_over.is_power_of_two() || self.asked_about == Some(leaf) {
            return false;
        }
        // Others may come to owe a leaf something while a round goes on, when its own are made to go; all other rights are there
        // from its beginning.
        let policy = &self.state.policy;
        if policy.tree().preemption.reclaim && policy.has_quota(leaf) || self.has_rights(leaf, priority) {
            return false;
        }
        self.state.entries.shortest_of_user(leaf, user).all(|(class, duration)| {
            self.is_hopeless(class, duration) && !self.may_reserve(&self.lane(leaf, class))
        })
    }

    /// True when a class is known not to fit for that long.
    pub(super) fn is_hopeless(&self, class: ClassId, duration: Span) -> bool {
        let until = self.now + duration;
        self.memos.get(&class).and_then(|memo| memo.failed).is_some_and(|failed| failed <= until)
    }
}
