//! Starts of the present pass that a later entry of the same pass may preempt: because they borrow
//! what its queue owns, or because a later round gives it precedence. If committed, the next pass
//! would evict them. So the pass is discarded and planned again with their start deferred to a
//! later phase.
//!
//! An entry of a later phase is also visited in each earlier phase, and gets a reservation if it
//! cannot start: otherwise others would start on capacity that is reserved for it.

use muster_model::{ElementId, EvictionCause, Preemption, Tier};
use muster_policy::{LeafId, ModelId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::PlanningPass;
use super::cache::classes::ClassCache;
use super::candidate::Candidate;
use super::eligibility::preemption_cause;
use crate::place::request::{AdmittedChoice, ModelChoice};
use crate::pool::HoldKey;
use crate::state::preemptable::{PreemptableAttempt, PreemptableAttempts};

/// Phases in which entries may start.
#[derive(Clone, Debug, Default)]
pub(super) struct StartPhases {
    /// Phase by leaf, for entries up to an order (priority); phase 0 if absent.
    phase_of: FxHashMap<(LeafId, i32), u32>,
    /// Elements that do not start in this pass. Their start would move another element ahead of
    /// them that could start only by preempting them, so planning again would give another plan.
    excluded: FxHashSet<ElementId>,
}

/// Most passes, of which all but the last are discarded. Two suffice nearly always: each discarded
/// pass defers every element that the preemptor could evict.
pub(super) const MAX_PASSES: u32 = 8;

/// Starts of the present pass; see the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct PassStarts {
    /// Enables the check; off when only the result of a hypothetical pass is wanted.
    pub(super) is_watched: bool,
    /// Starts of this pass, as running attempts.
    pub(super) attempts: PreemptableAttempts,
    /// True if one of them is opportunistic.
    pub(super) has_opportunistic: bool,
    /// Number of queues from a leaf to the root that use more than their quota, by model.
    levels_beyond_quota: FxHashMap<(LeafId, ModelId), u32>,
    phases: StartPhases,
    phase: u32,
    /// Phases for planning again; set if this pass must be discarded.
    pub(super) retry_with: Option<StartPhases>,
}

impl PassStarts {
    pub(super) fn with_phases(phases: StartPhases) -> Self {
        Self { is_watched: true, phases, ..Self::default() }
    }

    /// Clears the record of borrowing after an eviction: later starts may borrow again.
    pub(super) fn forget_borrowing(&mut self) {
        self.levels_beyond_quota.clear();
    }

    /// Returns false if planning again may start something that was kept back for the sake of the
    /// order.
    pub(super) fn is_stable(&self) -> bool {
        self.is_watched && self.phases.excluded.is_empty()
    }

    /// Returns true if the candidate starts in a later phase or not in this pass.
    pub(super) fn is_deferred(&self, candidate: &Candidate) -> bool {
        let leaf = candidate.leaf;
        let priority = candidate.priority;
        let starts_later = |((of, up_to_order), phase): (&(LeafId, i32), &u32)| {
            *of == leaf && priority <= *up_to_order && *phase > self.phase
        };
        self.phases.phase_of.iter().any(starts_later)
            || self.phases.excluded.contains(&candidate.element)
    }

    /// Advances to the next phase. Returns false if there is none.
    pub(super) fn next_phase(&mut self) -> bool {
        let next = self.phases.phase_of.values().copied().filter(|phase| *phase > self.phase).min();
        self.phase = next.unwrap_or(self.phase);
        next.is_some()
    }

    /// Returns the attempt of an element that starts in this pass.
    pub(super) fn attempt(
        &self,
        leaf: LeafId,
        priority: i32,
        element: ElementId,
    ) -> Option<&PreemptableAttempt> {
        self.attempts.get(&(leaf, priority))?.get(&element)
    }
}

/// Records a start as a possible victim.
pub(super) fn note_start(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    key: HoldKey,
    gpus: &SmallVec<[(ModelId, u64); 1]>,
) {
    let policy = &pass.state.policy;
    if !pass.pass_starts.is_watched || policy.tree().preemption == Preemption::OFF {
        return;
    }
    let leaf = candidate.leaf;
    let mut borrows_more = false;
    for (model, _) in gpus {
        let levels = policy.queues().levels_beyond_quota(leaf, *model);
        let known = pass.pass_starts.levels_beyond_quota.entry((leaf, *model)).or_default();
        borrows_more |= levels > *known;
        *known = levels;
    }
    // A queue without anything to reclaim may have it now, and a refused entry may have
    // possible victims.
    pass.pass_starts.has_opportunistic |= Tier::of_order(candidate.priority) == Tier::Opportunistic;
    let attempts = pass.pass_starts.attempts.entry((leaf, candidate.priority)).or_default();
    if borrows_more || attempts.is_empty() {
        pass.eligibility.note_more_borrowing();
        pass.cache.release_counters();
    }
    let spec = &pass.state.jobs[&candidate.job].record.spec;
    let attempt = PreemptableAttempt {
        attempt: candidate.attempt,
        key,
        user: candidate.user,
        gpus: gpus.clone(),
        unsaved_since: None,
        held_from: pass.now,
        protect: candidate.protect,
        delay: PreemptableAttempt::eviction_delay(spec, true),
    };
    attempts.insert(candidate.element, attempt);
}

/// Discards the pass because the candidate would preempt its starts: it is planned again with
/// all that the candidate may preempt deferred; or, if that was tried already, without the
/// `elements`.
pub(super) fn defer(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    choice: &ModelChoice,
    elements: &[ElementId],
) {
    let mut phases = pass.pass_starts.phases.clone();
    if pass.pass_starts.phase > 0 {
        phases.excluded.extend(elements.iter().copied());
        pass.pass_starts.retry_with = Some(phases);
        return;
    }
    let requested = choice.exact.as_deref().unwrap_or(&[]);
    for (leaf, priority) in pass.pass_starts.attempts.keys() {
        let up_to_order =
            match preemption_cause(&pass.state.policy, candidate, requested, (*leaf, *priority)) {
                Ok(EvictionCause::Reclaimed) => i32::MAX,
                Ok(EvictionCause::Outranked) => candidate.priority - 1,
                Ok(EvictionCause::Opportunistic) => Tier::MAX_OPPORTUNISTIC_ORDER,
                Ok(EvictionCause::Shrunk | EvictionCause::Grown | EvictionCause::Moved)
                | Err(_) => continue,
            };
        phases.phase_of.insert((*leaf, up_to_order), 1);
    }
    pass.pass_starts.retry_with = Some(phases);
}

/// Returns true if a deferred candidate would start now.
pub(super) fn would_start(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    cached: &ClassCache,
    admitted: &[AdmittedChoice<'_>],
) -> bool {
    let preferences = candidate.node_preferences();
    let shape = &candidate.shape;
    let duration = candidate.duration;
    pass.has_placement(preferences, shape, admitted, &cached.eligible, duration)
}
