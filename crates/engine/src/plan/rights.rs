//! Who has a right to make others go, and by which: a lender takes back, higher priority takes from
//! lower, and what runs in what was idle yields. Who goes in the end, and whether it helps, is in
//! `preempt.rs`.

use muster_model::view::Stays;
use muster_model::{EvictionCause, Preemption, Span, Tier, Time};
use muster_policy::{LeafId, ModelId, Policy, UserId};
use rustc_hash::FxHashMap;

use super::consider::Candidate;
use super::{Kind, Planner};
use crate::state::runners::Runners;
use crate::state::shape::ClassId;

/// What is known of rights in a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    /// Leaves that somebody owes something.
    lenders: FxHashMap<LeafId, bool>,
    /// Leaves that may owe somebody something: they run beyond what they, or a queue that they are
    /// in, own.
    borrowers: Option<Vec<LeafId>>,
    /// Something runs in what was idle, in any leaf.
    idlers: Option<bool>,
    /// For which kinds no room could be made in this round for anybody, for this long or longer.
    in_vain: FxHashMap<Kind, Span>,
    /// For which of a user's, who must not borrow or may, where that was in the way or a limit on
    /// the user.
    own_in_vain: FxHashMap<(UserId, bool, Kind), Span>,
    /// When the first protection ends that was in the way.
    pub(super) thaw: Option<Time>,
}

impl Rights {
    /// Something changes by itself at an instant, that is in the way now: another pass is to look
    /// then.
    pub(super) fn wakes(&mut self, at: Time) {
        let first = self.thaw.map_or(at, |thaw| thaw.min(at));
        self.thaw = (first < Time::NEVER).then_some(first);
    }

    /// True while something is protected; remembers until when.
    pub(super) fn protects(&mut self, now: Time, until: Time) -> bool {
        let is_safe = until > now;
        if is_safe {
            self.wakes(until);
        }
        is_safe
    }

    /// More is borrowed than before: who is owed nothing so far may be now.
    pub(super) fn owe_more(&mut self) {
        self.lenders.retain(|_, is_lender| *is_lender);
        self.borrowers = None;
    }

    /// Others went: what was in vain may not be any more, and who owes what has changed.
    pub(super) fn forget(&mut self) {
        self.lenders.clear();
        self.borrowers = None;
        self.begin_round();
    }

    /// What was in vain in the round before may not be in this one.
    pub(super) fn begin_round(&mut self) {
        self.in_vain.clear();
        self.own_in_vain.clear();
    }
}

/// By what right a candidate that asks for so much of each model may make go what runs in a leaf
/// with this priority; or why it has none.
pub(crate) fn right(
    policy: &Policy,
    candidate: &Candidate,
    asked: &[(ModelId, u64)],
    (leaf, priority): (LeafId, i32),
) -> Result<EvictionCause, Stays> {
    let terms = policy.tree().preemption;
    let owes =
        |(model, milli): &(ModelId, u64)| policy.owed(candidate.leaf, leaf, *model, *milli) > 0;
    let owns = |(model, milli): &(ModelId, u64)| {
        policy.takes_its_own(candidate.leaf, leaf, *model, *milli)
    };
    if Tier::of_order(priority) < Tier::of_order(candidate.priority) {
        return if terms == Preemption::OFF { Err(Stays::Off) } else { Ok(EvictionCause::Yielded) };
    }
    match leaf == candidate.leaf {
        true if priority >= candidate.priority => Err(Stays::NoLower),
        true if terms.priority => Ok(EvictionCause::Outranked),
        // What runs only in what is idle takes nothing back, though its queue could.
        false if Tier::of_order(candidate.priority) == Tier::Last => Err(Stays::BehindAll),
        false if terms.reclaim && asked.iter().any(owes) => Ok(EvictionCause::Reclaimed),
        false if terms.reclaim && asked.iter().any(owns) => Err(Stays::WithinQuota),
        false if terms.reclaim => Err(Stays::NotItsOwn),
        true | false => Err(Stays::Off),
    }
}

fn kind_of(candidate: &Candidate) -> Kind {
    (candidate.leaf, candidate.class, candidate.priority)
}

impl Planner<'_> {
    /// True when an entry of a leaf might be given room by others.
    pub(super) fn may_preempt(
        &mut self,
        leaf: LeafId,
        class: ClassId,
        priority: i32,
        duration: Span,
    ) -> bool {
        let failed = self.rights.in_vain.get(&(leaf, class, priority));
        failed.is_none_or(|failed| duration < *failed) && self.has_rights(leaf, priority)
    }

    /// True when a candidate might be given room by others.
    pub(super) fn may_be_made_room(&mut self, candidate: &Candidate, duration: Span) -> bool {
        let (leaf, class, priority) = kind_of(candidate);
        let failed = self.rights.own_in_vain.get(&(
            candidate.user,
            candidate.owns(),
            (leaf, class, priority),
        ));
        failed.is_none_or(|failed| duration < *failed)
            && self.may_preempt(leaf, class, priority, duration)
    }

    /// No room could be made for a candidate. That says something of others only where nothing that
    /// is true of it alone had a part.
    pub(super) fn was_in_vain(&mut self, candidate: &Candidate, duration: Span) {
        let Candidate { leaf, user, .. } = *candidate;
        let milli = candidate.shape.milli();
        if candidate.owns() || self.state.policy.judge_user(leaf, user, milli).is_err() {
            let key = (user, candidate.owns(), kind_of(candidate));
            self.rights.own_in_vain.insert(key, duration);
        } else {
            self.rights.in_vain.insert(kind_of(candidate), duration);
        }
    }

    /// True when somebody may have to go for what waits in a leaf with at most this priority.
    pub(super) fn has_rights(&mut self, leaf: LeafId, priority: i32) -> bool {
        let terms = self.state.policy.tree().preemption;
        let lowest = |runners: &Runners| {
            let first = runners.range((leaf, i32::MIN)..).next();
            first.is_some_and(|((at, lowest), _)| *at == leaf && *lowest < priority)
        };
        let outranks = || lowest(&self.state.runners) || lowest(&self.fresh.runners);
        if terms.priority && outranks() {
            return true;
        }
        let is_in_turn = Tier::of_order(priority) == Tier::Usual;
        is_in_turn && terms != Preemption::OFF && (self.has_idlers() || self.is_lender(leaf))
    }

    /// True when something runs that yields to everybody. A pass changes nothing of what ran before
    /// it.
    fn has_idlers(&mut self) -> bool {
        let is_last = |(_, order): &(LeafId, i32)| Tier::of_order(*order) == Tier::Last;
        let known = || self.state.runners.keys().any(is_last) || self.state.has_spare();
        self.fresh.has_idlers || *self.rights.idlers.get_or_insert_with(known)
    }

    /// True when a leaf is owed something by anybody.
    fn is_lender(&mut self, leaf: LeafId) -> bool {
        if !self.state.policy.tree().preemption.reclaim {
            return false;
        }
        if let Some(known) = self.rights.lenders.get(&leaf) {
            return *known;
        }
        let policy = &self.state.policy;
        let owes = |borrower: LeafId| {
            policy.models().ids().any(|model| policy.owed(leaf, borrower, model, 1) > 0)
        };
        let is_lender = policy.may_be_owed(leaf) && {
            let is_beyond =
                |one: &LeafId| policy.models().ids().any(|model| policy.beyond(*one, model) > 0);
            let run =
                self.state.runners.keys().chain(self.fresh.runners.keys()).map(|(one, _)| *one);
            let borrowers = self.rights.borrowers.get_or_insert_with(|| {
                let mut all: Vec<LeafId> = run.collect();
                all.dedup();
                all.retain(is_beyond);
                all
            });
            borrowers.iter().any(|one| *one != leaf && owes(*one))
        };
        self.rights.lenders.insert(leaf, is_lender);
        is_lender
    }
}
