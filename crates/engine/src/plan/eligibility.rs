//! Preemption eligibility: which running attempts a candidate may preempt, and why: a queue
//! reclaims its quota, a higher priority preempts a lower one, and opportunistic attempts are
//! preempted by any normal one. `preempt.rs` chooses the victims.

use muster_model::view::NotPreemptedReason;
use muster_model::{EvictionCause, Preemption, Span, Tier, Time};
use muster_policy::{EntrySlot, LeafId, ModelId, Policy, UserId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::EntryKind;
use super::PlanningPass;
use super::candidate::Candidate;
use super::shrink::has_removable_steps;
use crate::state::entries::EntryRank;
use crate::state::preemptable::PreemptableAttempts;

/// Cached facts about preemption in a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct PreemptionEligibility {
    /// Leaves that may reclaim quota from some other leaf.
    lenders: FxHashMap<LeafId, bool>,
    /// Leaves from which quota may be reclaimable: they, or a queue that they are in, use more than
    /// their quota.
    borrowers: Option<Vec<LeafId>>,
    /// True if an opportunistic attempt, or task, runs in any leaf.
    has_opportunistic: Option<bool>,
    /// Kinds for which preemption failed in this round, whatever the user.
    failed: FxHashMap<EntryKind, FailedPreemptions>,
    /// As `failed`, for one user and elements that must not (true) or may borrow, where this or a
    /// limit on the user was the reason.
    failed_by_user: FxHashMap<(UserId, bool, EntryKind), FailedPreemptions>,
    /// Thousandths of GPUs by leaf and model that earlier entries of this round may reclaim once they have waited:
    /// later ones of their leaf reclaim only what is left of its quota beside them.
    held_back: FxHashMap<(LeafId, ModelId), u64>,
    /// First expiry of a protection that kept an attempt from being preempted.
    pub(super) protection_expiry: Option<Time>,
}

/// Preemption that failed for an entry, and so for others of its kind.
#[derive(Clone, Copy, Debug)]
struct FailedPreemption {
    /// Shortest duration for which it failed: it fails for longer ones, too.
    duration: Span,
    /// Time since which that entry waits: preemption fails for entries that began to wait later, too. `Time(0)` if the
    /// wait has no effect.
    waits_since: Time,
}

impl FailedPreemption {
    fn holds_for(self, duration: Span, waits_since: impl FnOnce() -> Time) -> bool {
        duration >= self.duration
            && (self.waits_since == Time(0) || waits_since() >= self.waits_since)
    }
}

/// Failed preemptions of one kind; none of them follows from another.
#[derive(Clone, Debug, Default)]
struct FailedPreemptions(SmallVec<[FailedPreemption; 1]>);

impl FailedPreemptions {
    /// Most failures remembered; further ones replace the last.
    const MOST: usize = 4;

    fn hold_for(&self, duration: Span, waits_since: impl Fn() -> Time) -> bool {
        self.0.iter().any(|failed| failed.holds_for(duration, &waits_since))
    }

    fn add(&mut self, new: FailedPreemption) {
        self.0.retain(|known| !new.holds_for(known.duration, || known.waits_since));
        self.0.truncate(Self::MOST - 1);
        self.0.push(new);
    }
}

impl PreemptionEligibility {
    /// Returns true if preemption failed for a kind, and may succeed for an entry that has waited longer.
    pub(super) fn depends_on_wait(&self, kind: EntryKind) -> bool {
        let waits = |failed: &FailedPreemption| failed.waits_since > Time(0);
        self.failed.get(&kind).is_some_and(|failed| failed.0.iter().any(waits))
    }

    /// Requests another pass at a time when something changes that blocks a preemption now.
    pub(super) fn replan_at(&mut self, at: Time) {
        let first = self.protection_expiry.map_or(at, |known| known.min(at));
        self.protection_expiry = (first < Time::NEVER).then_some(first);
    }

    /// Returns true while an attempt is protected, and requests a pass at its expiry.
    pub(super) fn is_protected(&mut self, now: Time, until: Time) -> bool {
        let is_safe = until > now;
        if is_safe {
            self.replan_at(until);
        }
        is_safe
    }

    /// Updates the cache after more was borrowed: more may be reclaimable.
    pub(super) fn note_more_borrowing(&mut self) {
        self.lenders.retain(|_, is_lender| *is_lender);
        self.borrowers = None;
    }

    /// Clears the cache after evictions, which change what is reclaimable and what fails.
    pub(super) fn clear(&mut self) {
        self.lenders.clear();
        self.borrowers = None;
        self.begin_round();
    }

    /// Clears failed preemptions for a new round.
    pub(super) fn begin_round(&mut self) {
        self.failed.clear();
        self.failed_by_user.clear();
        self.held_back.clear();
    }

    /// Holds back the quota that an entry of a leaf may reclaim once it has waited.
    pub(super) fn hold_back(&mut self, leaf: LeafId, asked: &[(ModelId, u64)]) {
        for (model, milli) in asked {
            *self.held_back.entry((leaf, *model)).or_default() += milli;
        }
    }

    /// Returns the thousandths of GPUs that are held back for earlier entries of a leaf.
    pub(super) fn held_back(&self, leaf: LeafId, model: ModelId) -> u64 {
        self.held_back.get(&(leaf, model)).copied().unwrap_or(0)
    }
}

/// Returns the cause by which a candidate that requests these amounts by model may preempt attempts
/// of a leaf with this priority; or why it may not.
pub(crate) fn preemption_cause(
    policy: &Policy,
    candidate: &Candidate,
    asked: &[(ModelId, u64)],
    (leaf, priority): (LeafId, i32),
) -> Result<EvictionCause, NotPreemptedReason> {
    let terms = policy.tree().preemption;
    let is_reclaimable = |(model, milli): &(ModelId, u64)| {
        policy.queues().reclaimable(candidate.leaf, leaf, *model, *milli) > 0
    };
    let stays_within_nominal = |(model, milli): &(ModelId, u64)| {
        policy.queues().stays_within_nominal(candidate.leaf, leaf, *model, *milli)
    };
    if Tier::of_order(priority) < Tier::of_order(candidate.priority) {
        return if terms == Preemption::OFF {
            Err(NotPreemptedReason::Disabled)
        } else {
            Ok(EvictionCause::Opportunistic)
        };
    }
    match leaf == candidate.leaf {
        true if priority >= candidate.priority => Err(NotPreemptedReason::NotLowerPriority),
        true if terms.priority => Ok(EvictionCause::Outranked),
        // An opportunistic candidate reclaims nothing, even if its queue could.
        false if Tier::of_order(candidate.priority) == Tier::Opportunistic => {
            Err(NotPreemptedReason::OpportunisticCandidate)
        }
        false if terms.reclaim && asked.iter().any(is_reclaimable) => Ok(EvictionCause::Reclaimed),
        false if terms.reclaim && asked.iter().any(stays_within_nominal) => {
            Err(NotPreemptedReason::WithinQuota)
        }
        false if terms.reclaim => Err(NotPreemptedReason::WouldExceedQuota),
        true | false => Err(NotPreemptedReason::Disabled),
    }
}

fn entry_kind(candidate: &Candidate) -> EntryKind {
    (candidate.leaf, candidate.class, candidate.priority)
}

/// Returns true if preemption for an entry may succeed.
pub(super) fn may_preempt(pass: &mut PlanningPass<'_>, slot: EntrySlot, rank: EntryRank) -> bool {
    let EntryRank { leaf, class, priority, duration, .. } = rank;
    let waits_since = || {
        let owner = pass.state.entries.owner(slot);
        let record = &pass.state.jobs[&owner.job].record;
        owner.ordinal.map_or(record.submitted, |ordinal| record.waits_since(ordinal))
    };
    let failed = pass.eligibility.failed.get(&(leaf, class, priority));
    !failed.is_some_and(|failed| failed.hold_for(duration, waits_since))
        && has_victims(pass, (leaf, class, priority))
}

fn has_victims(pass: &mut PlanningPass<'_>, (leaf, class, priority): EntryKind) -> bool {
    has_possible_victims(pass, leaf, priority) && pass.state.classes.shape(class).preempts
}

/// Returns true if preemption for a candidate may succeed.
pub(super) fn may_try_preemption(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    duration: Span,
) -> bool {
    let kind = entry_kind(candidate);
    let key = (candidate.user, candidate.own_quota_only(), kind);
    let eligibility = &pass.eligibility;
    let has_failed = [eligibility.failed_by_user.get(&key), eligibility.failed.get(&kind)]
        .into_iter()
        .flatten()
        .any(|failed| failed.hold_for(duration, || candidate.waits_since));
    !has_failed && has_victims(pass, kind)
}

/// Records that preemption for a candidate failed. The failure holds for its whole kind unless
/// something specific to the candidate had a part in it.
pub(super) fn note_failed_preemption(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    duration: Span,
    depends_on_wait: bool,
) {
    let waits_since = if depends_on_wait { candidate.waits_since } else { Time(0) };
    let failed = FailedPreemption { duration, waits_since };
    let Candidate { leaf, user, .. } = *candidate;
    let milli = candidate.shape.milli();
    if candidate.own_quota_only() || pass.state.policy.check_user(leaf, user, milli).is_err() {
        let key = (user, candidate.own_quota_only(), entry_kind(candidate));
        pass.eligibility.failed_by_user.entry(key).or_default().add(failed);
    } else {
        pass.eligibility.failed.entry(entry_kind(candidate)).or_default().add(failed);
    }
}

/// Returns true if a pending entry of a leaf, with at most this priority, may have victims.
pub(super) fn has_possible_victims(
    pass: &mut PlanningPass<'_>,
    leaf: LeafId,
    priority: i32,
) -> bool {
    let terms = pass.state.policy.tree().preemption;
    let lowest = |attempts: &PreemptableAttempts| {
        let first = attempts.range((leaf, i32::MIN)..).next();
        first.is_some_and(|((at, lowest), _)| *at == leaf && *lowest < priority)
    };
    let outranks =
        || lowest(&pass.state.preemptable.attempts) || lowest(&pass.pass_starts.attempts);
    if terms.priority && outranks() {
        return true;
    }
    let is_normal = Tier::of_order(priority) == Tier::Normal;
    is_normal
        && terms != Preemption::OFF
        && (has_opportunistic_attempts(pass) || can_reclaim(pass, leaf))
}

/// Returns true if any opportunistic attempt or task runs. Cached for
/// the pass, which does not change the attempts that ran before it.
fn has_opportunistic_attempts(pass: &mut PlanningPass<'_>) -> bool {
    let is_opportunistic =
        |(_, order): &(LeafId, i32)| Tier::of_order(*order) == Tier::Opportunistic;
    let known = || {
        pass.state.preemptable.attempts.keys().any(is_opportunistic)
            || has_removable_steps(pass.state)
    };
    pass.pass_starts.has_opportunistic
        || *pass.eligibility.has_opportunistic.get_or_insert_with(known)
}

/// Returns true if a leaf may reclaim quota from any other leaf.
fn can_reclaim(pass: &mut PlanningPass<'_>, leaf: LeafId) -> bool {
    if !pass.state.policy.tree().preemption.reclaim {
        return false;
    }
    if let Some(known) = pass.eligibility.lenders.get(&leaf) {
        return *known;
    }
    let policy = &pass.state.policy;
    let is_reclaimable = |borrower: LeafId| {
        policy.models().ids().any(|model| policy.queues().reclaimable(leaf, borrower, model, 1) > 0)
    };
    let is_lender = policy.queues().has_unused_quota(leaf) && {
        let is_beyond = |other: &LeafId| {
            policy
                .models()
                .ids()
                .any(|model| policy.queues().levels_beyond_quota(*other, model) > 0)
        };
        let leaves = pass
            .state
            .preemptable
            .attempts
            .keys()
            .chain(pass.pass_starts.attempts.keys())
            .map(|(other, _)| *other);
        let borrowers = pass.eligibility.borrowers.get_or_insert_with(|| {
            let mut all: Vec<LeafId> = leaves.collect();
            all.dedup();
            all.retain(is_beyond);
            all
        });
        borrowers.iter().any(|other| *other != leaf && is_reclaimable(*other))
    };
    pass.eligibility.lenders.insert(leaf, is_lender);
    is_lender
}
