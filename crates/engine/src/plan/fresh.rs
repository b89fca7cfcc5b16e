//! What a pass itself starts, before somebody finds that it may be made to go for him: it borrows
//! what his queue owns; or a round later the order is another, and he comes first now. Started all
//! the same, the next pass would take it back. So the pass is thrown away, and planned again with
//! its turn to start after his.
//!
//! Whoever comes in a later turn is looked at in every turn before, too, and what it cannot start
//! it reserves: otherwise others would start in what is kept for it.

use muster_model::{ElementId, EvictionCause, Preemption, Tier};
use muster_policy::{LeafId, ModelId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Planner;
use super::ask::Pick;
use super::consider::Candidate;
use super::lore::Memo;
use super::rights::right;
use super::terms::Admitted;
use crate::state::pool::HoldKey;
use crate::state::runners::{Runner, Runners};

/// Who starts when.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// In which turn the entries of a leaf start, up to an order within it; the first where nothing
    /// is said.
    later: FxHashMap<(LeafId, i32), u32>,
    /// Who does not start in this pass: with his start the order is another, in which somebody
    /// comes first who can start only where he is. Without it planning again mostly comes to the
    /// same.
    never: FxHashSet<ElementId>,
}

/// Passes at most, of which all but one are thrown away. One more is enough nearly always: each
/// puts off everybody who could be made to go for the claimant.
pub(super) const MOST_TRIES: u32 = 8;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Fresh {
    /// It is looked out for: people who only ask what would be do not.
    pub(super) is_watched: bool,
    /// What this pass starts, as it will run.
    pub(super) runners: Runners,
    /// One of them yields to everybody.
    pub(super) has_idlers: bool,
    /// Queues on the way up to the top that a leaf is beyond the quota of, by model.
    beyond: FxHashMap<(LeafId, ModelId), u32>,
    turns: Turns,
    turn: u32,
    /// The turns of the next try, when this one is in vain.
    pub(super) again: Option<Turns>,
}

impl Fresh {
    pub(super) fn watched(turns: Turns) -> Self {
        Self { is_watched: true, turns, ..Self::default() }
    }

    /// Somebody went: who starts next may borrow again.
    pub(super) fn forget(&mut self) {
        self.beyond.clear();
    }

    /// False when planning again may start something: it was kept from starting for the sake of the
    /// order.
    pub(super) fn is_settled(&self) -> bool {
        self.is_watched && self.turns.never.is_empty()
    }

    /// True when it is not yet the turn of an entry.
    pub(super) fn is_put_off(&self, candidate: &Candidate) -> bool {
        let (leaf, priority) = (candidate.leaf, candidate.priority);
        let waits = |((of, most), turn): (&(LeafId, i32), &u32)| {
            *of == leaf && priority <= *most && *turn > self.turn
        };
        self.turns.later.iter().any(waits) || self.turns.never.contains(&candidate.element)
    }

    /// Goes on to the next turn, if there is one.
    pub(super) fn next_turn(&mut self) -> bool {
        let next = self.turns.later.values().copied().filter(|turn| *turn > self.turn).min();
        self.turn = next.unwrap_or(self.turn);
        next.is_some()
    }

    /// The runner of an element that starts in this pass.
    pub(super) fn runner(
        &self,
        leaf: LeafId,
        priority: i32,
        element: ElementId,
    ) -> Option<&Runner> {
        self.runners.get(&(leaf, priority))?.get(&element)
    }
}

impl Planner<'_> {
    /// Remembers what starts, as somebody who could be made to go.
    pub(super) fn note_start(
        &mut self,
        candidate: &Candidate,
        key: HoldKey,
        gpus: &SmallVec<[(ModelId, u64); 1]>,
    ) {
        let policy = &self.state.policy;
        if !self.fresh.is_watched || policy.tree().preemption == Preemption::OFF {
            return;
        }
        let leaf = candidate.leaf;
        let mut is_more = false;
        for (model, _) in gpus {
            let (levels, known) =
                (policy.beyond(leaf, *model), self.fresh.beyond.entry((leaf, *model)).or_default());
            is_more |= levels > *known;
            *known = levels;
        }
        // Who is owed nothing so far may be now, and who was refused may have a right.
        self.fresh.has_idlers |= Tier::of_order(candidate.priority) == Tier::Last;
        let runners = self.fresh.runners.entry((leaf, candidate.priority)).or_default();
        if is_more || runners.is_empty() {
            self.rights.owe_more();
            self.limited.forget();
        }
        let spec = &self.state.jobs[&candidate.job].record.spec;
        let runner = Runner {
            attempt: candidate.attempt,
            key,
            user: candidate.user,
            gpus: gpus.clone(),
            unsaved_since: None,
            held_from: self.now,
            protect: candidate.protect,
            delay: Runner::delay(spec, true),
        };
        runners.insert(candidate.element, runner);
    }

    /// Room for somebody is what this pass has started: it is planned again, with the turn of all
    /// that could be made to go for him after his; or, where that has not helped, without `those`.
    pub(super) fn put_off(&mut self, candidate: &Candidate, pick: &Pick, those: &[ElementId]) {
        let mut turns = self.fresh.turns.clone();
        if self.fresh.turn > 0 {
            turns.never.extend(those.iter().copied());
            self.fresh.again = Some(turns);
            return;
        }
        let asked = pick.exact.as_deref().unwrap_or(&[]);
        for (leaf, priority) in self.fresh.runners.keys() {
            let most = match right(&self.state.policy, candidate, asked, (*leaf, *priority)) {
                Ok(EvictionCause::Reclaimed) => i32::MAX,
                Ok(EvictionCause::Outranked) => candidate.priority - 1,
                Ok(EvictionCause::Yielded) => Tier::LAST_ORDER,
                Ok(EvictionCause::Shrunk | EvictionCause::Grown | EvictionCause::Moved)
                | Err(_) => continue,
            };
            turns.later.insert((*leaf, most), 1);
        }
        self.fresh.again = Some(turns);
    }

    /// Would it start now, if it were its turn?
    pub(super) fn would_start(
        &mut self,
        candidate: &Candidate,
        memo: &Memo,
        tries: &[Admitted<'_>],
    ) -> bool {
        let (seat, shape, duration) = (candidate.seat(), &candidate.shape, candidate.duration);
        self.has_place(seat, shape, tries, &memo.eligible, duration)
    }
}
