//! Patience: keeps what becomes free for an element that has been first in its queue for too long.
//!
//! A head is the first element of a leaf that capacity blocks and for which no start can be
//! planned, since jobs without a time limit are in its way: small jobs behind it would take every
//! device as it frees. Once it has been a head for the tree's `patience`, the places of its whole
//! gang are kept from every element behind it, within its queue's own quota.
//!
//! # Which places
//!
//! Those where it would start if the jobs that have held their places longest had ended, and no
//! more of them than it takes. Services without a time limit never end by themselves and are not
//! counted on: a gang that needs their places keeps nothing.
//!
//! # Why the wait is bounded
//!
//! Let `h` be the latest start among the jobs that a head waits for. What it keeps is free, or held
//! by jobs that started at `h` or before; no element behind it gets any of it. So in the next pass
//! the jobs that started by `h` are enough again, and `h` never grows: the head starts when all
//! jobs have ended that ran when it began to keep, unless an element before it in the order takes
//! places. Where every job has a time limit each head has a planned start, and nothing here has an
//! effect.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use muster_model::{ElementId, Keep, NodeId, TaskPlacement, Tier, Time};
use muster_policy::Slot;
use smallvec::SmallVec;

use super::Planner;
use super::consider::Candidate;
use super::gauge::{Gauge, Reach};
use super::lore::Memo;
use super::terms::{self, Admitted, Whose};
use crate::state::State;
use crate::state::ends::End;
use crate::state::pool::{HoldKey, Holding, Pool};

/// What a round found out about heads.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    /// Heads that the state has not recorded.
    pub(super) heads: Vec<ElementId>,
    /// What is kept for those whose patience is over.
    pub(super) keeps: Vec<Keep>,
    /// When the next patience ends.
    pub(super) due: Option<Time>,
}

impl Patience {
    /// True when places are kept for an element.
    pub(super) fn keeps_for(&self, element: ElementId) -> bool {
        self.keeps.iter().any(|keep| keep.element == element)
    }
}

impl Planner<'_> {
    /// What is kept in this round.
    pub(crate) fn keeps(&self) -> &[Keep] {
        &self.patience.keeps
    }

    /// For a new round. What failed may have failed because of what was kept, and something else
    /// may be kept now.
    pub(super) fn forget_keeps(&mut self) {
        if !self.patience.keeps.is_empty() {
            self.state.lore.forget_failures();
        }
        self.patience = Patience::default();
    }

    /// An element that is first in its leaf, and has no planned start, waits on as its head.
    /// Returns false when it cannot be one: another element of the leaf may.
    pub(super) fn wait_as_head(&mut self, slot: Slot, candidate: &Candidate, memo: &Memo) -> bool {
        let Some(patience) = self.state.policy.tree().patience else { return false };
        if Tier::of_order(candidate.priority) == Tier::Last {
            return false;
        }
        // 1. What is lent could be reclaimed from it, so none of that is kept for it.
        let whose = Whose { owns: true, ..candidate.whose() };
        let promise = self.promise(candidate.duration);
        let tries =
            terms::admitted(&self.state.policy, whose, &candidate.shape, promise, &memo.picks);
        let Ok(tries) = tries else { return false };
        // 2. Is its patience over?
        let since = self.state.head_since(candidate.element);
        let due = since.unwrap_or(self.now) + patience;
        if due <= self.now {
            let Some(placement) = self.places_to_keep(candidate, memo, &tries) else {
                return false;
            };
            self.keep_back(slot, candidate, placement);
        } else {
            self.patience.due = Some(self.patience.due.map_or(due, |known| known.min(due)));
        }
        if since.is_none() {
            self.patience.heads.push(candidate.element);
        }
        true
    }

    /// Keeps places from everything behind an element, in this round.
    fn keep_back(&mut self, slot: Slot, candidate: &Candidate, placement: Arc<[TaskPlacement]>) {
        let capped = self.capped(candidate.job);
        self.state.slate.waiting.count(slot, capped);
        let (element, shape) = (candidate.element, Arc::clone(&candidate.shape));
        // Dates that the pass before found did not have to spare these places.
        self.state.lore.forget_dates();
        self.state.pool.book(element, (self.now, Time::NEVER), shape, Arc::clone(&placement));
        self.patience.keeps.push(Keep { element, placement });
    }

    /// Where it would start if as few jobs as possible had ended, those that have held their places
    /// longest.
    fn places_to_keep(
        &mut self,
        candidate: &Candidate,
        memo: &Memo,
        tries: &[Admitted<'_>],
    ) -> Option<Arc<[TaskPlacement]>> {
        let shape = Arc::clone(&candidate.shape);
        let reach = Reach { shape: &shape, eligible: &memo.eligible, avoid: &candidate.avoid };
        let checkpoint = self.state.pool.checkpoint();
        let outer = self.state.pool.look_inside(shape.window.as_ref());
        let order = self.longest_held(reach);
        let gauge = Gauge::new(&mut self.state.pool, reach);
        let gone = Vec::new();
        let mut search =
            Search { planner: self, candidate, memo, tries, reach, gauge, gone, found: None };
        if search.widen(order) {
            let all: Vec<usize> = (0..search.gone.len()).collect();
            search.narrow(&all);
        }
        let found = search.found;
        self.state.pool.rollback(checkpoint);
        self.state.pool.look(outer);
        found
    }

    /// Holdings on nodes that a gang may use and that end by themselves, the oldest first. One may
    /// come up several times, in a row.
    fn longest_held(&self, reach: Reach<'_>) -> Queue {
        let pool = &self.state.pool;
        let ids = (0..pool.nodes().len() as u32).map(NodeId).filter(|id| reach.admits(pool, *id));
        let keys = ids.flat_map(|id| pool.node(id).holds.iter().map(|hold| hold.key));
        let ends = keys.filter(|key| ends_by_itself(self.state, pool.holding(*key)));
        let order: Vec<_> = ends
            .map(|key| {
                let element = pool.holding(key).element;
                let run = self.state.element(element).and_then(|element| element.run.as_ref());
                // What starts in this pass has no attempt yet.
                let from = run.filter(|run| run.key == key).map_or(self.now, |run| run.held_from);
                Reverse((from, element, key))
            })
            .collect();
        order.into()
    }
}

/// Holdings by when they began.
type Queue = BinaryHeap<Reverse<(Time, ElementId, HoldKey)>>;

/// False for a replica of a service without a time limit: it is there until the service is
/// cancelled.
fn ends_by_itself(state: &State, holding: &Holding) -> bool {
    holding.end != End::Never
        || state
            .jobs
            .get(&holding.element.job)
            .is_some_and(|job| job.record.spec.service().is_none())
}

/// A search for the places to keep. Holdings are given back on scratch.
struct Search<'r, 's> {
    planner: &'r mut Planner<'s>,
    candidate: &'r Candidate,
    memo: &'r Memo,
    tries: &'r [Admitted<'r>],
    reach: Reach<'r>,
    gauge: Gauge<'r>,
    /// Holdings that were given back, the oldest first.
    gone: Vec<HoldKey>,
    found: Option<Arc<[TaskPlacement]>>,
}

impl Search<'_, '_> {
    /// Gives back one holding after the other until the gang fits. Where it does not although it
    /// might, the next look is taken after twice as many.
    fn widen(&mut self, mut order: Queue) -> bool {
        let mut stride = 1;
        loop {
            let mut more = 1;
            if self.gauge.is_enough() {
                if self.fits() {
                    return true;
                }
                (more, stride) = (stride, stride * 2);
            }
            let mut given = 0;
            while given < more {
                let Some(Reverse((_, _, key))) = order.pop() else {
                    return given > 0 && self.gauge.is_enough() && self.fits();
                };
                if self.gone.last() != Some(&key) {
                    self.gone.push(key);
                    self.change(key, Pool::park);
                    given += 1;
                }
            }
        }
    }

    /// Takes back what the gang can do without, the youngest first: all for which the bound leaves
    /// room at once, or half by half.
    fn narrow(&mut self, those: &[usize]) {
        let mut back: SmallVec<[usize; 16]> = SmallVec::new();
        for at in those.iter().rev() {
            let key = self.gone[*at];
            self.change(key, Pool::unpark);
            match self.gauge.is_enough() {
                true => back.push(*at),
                false => self.change(key, Pool::park),
            }
        }
        if back.is_empty() || self.fits() {
            return;
        }
        for at in back {
            self.change(self.gone[at], Pool::park);
        }
        if those.len() > 1 {
            let (first, last) = those.split_at(those.len() / 2);
            self.narrow(last);
            self.narrow(first);
        }
    }

    /// Changes what a holding holds, and the bound with it.
    fn change(&mut self, key: HoldKey, change: impl FnOnce(&mut Pool, HoldKey)) {
        let pool = &mut self.planner.state.pool;
        let tasks = pool.holding(key).placement.iter();
        let mut nodes: SmallVec<[NodeId; 8]> = tasks.map(|task| task.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| self.reach.admits(pool, *node));
        for node in &nodes {
            self.gauge.leave(pool.node(*node));
        }
        change(pool, key);
        for node in &nodes {
            self.gauge.enter(pool.node(*node));
        }
    }

    /// Does the gang fit beside what is not given back? Remembers where.
    fn fits(&mut self) -> bool {
        let (candidate, memo) = (self.candidate, self.memo);
        let checkpoint = self.planner.state.pool.checkpoint();
        let found = self.tries.iter().find_map(|one| {
            let (seat, duration) = (candidate.seat(), candidate.duration);
            self.planner.place(seat, &candidate.shape, one, &memo.eligible, duration)
        });
        self.planner.state.pool.rollback(checkpoint);
        let fits = found.is_some();
        if fits {
            self.found = found;
        }
        fits
    }
}
