//! Room by making others go. A queue within its nominal quota takes back what others borrow; within
//! a leaf queue, higher priority takes from lower; and what runs in what was idle ([`Tier::Last`])
//! yields to whoever waits in his turn, in any queue. **Nobody goes unless the claimant then
//! starts**: everything is tried on scratch, with the placement and the verdicts of every other
//! start.
//!
//! # Who goes
//!
//! Those who may be made to go stand in one order: what was idle before borrowed before owned,
//! lower priority, least GPU time lost since the last checkpoint, the youngest first. The set is
//! the first in that order, read from its far end: the shortest beginning of the order with which
//! the claimant starts, without everybody who can stay after all, the most precious first. Since
//! more room never makes a start impossible, that is the feasible set whose most precious member is
//! the least precious possible, then its second, and so on; no member of it can stay.
//!
//! A queue gives back no more than it owes, so those who go first in order may use that up for room
//! that is of no use. Where that was so and the claimant does not start, `clear.rs` looks again,
//! node by node.
//!
//! # Why there are no loops
//!
//! Taking back needs the claimant's side to be within its nominal quota with the start, and the
//! other side beyond its own; afterwards the former still is, so nobody can take back from it in
//! turn. Taking by priority strictly raises what the leaf runs, and so does yielding for what all
//! leaves run in their turn. Who went starts again only in what is free, or by a right that it has
//! against others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use muster_model::{
    AttemptId, Decision, ElementId, Eviction, EvictionCause, NodeId, Reason, Span, TaskPlacement,
    Time,
};
use muster_policy::{LeafId, ModelId, Slot, UserId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ask::Pick;
use super::claims::Kept;
use super::consider::Candidate;
use super::gauge::{Gauge, Reach};
use super::lore::Memo;
use super::rights::right;
use super::shrink::{Leaver, Part, Pieces, put_together, take_apart};
use super::{Planned, Planner, terms};
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::entries::ENDLESS;
use crate::state::pool::{HoldKey, Pool};

/// Somebody who may be made to go.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    pub(super) id: AttemptId,
    pub(super) cause: EvictionCause,
    pub(super) part: Part,
    pub(super) key: HoldKey,
    pub(super) leaf: LeafId,
    pub(super) user: UserId,
    pub(super) gpus: SmallVec<[(ModelId, u64); 1]>,
    /// What it is worth to let it stay where it is, of those who go by the same right: thousandths
    /// of GPUs, or what a move costs.
    pub(super) cost: u64,
    /// Until it is gone at the latest, from now.
    pub(super) delay: Span,
    /// It starts in this pass.
    is_fresh: bool,
}

/// In which order they go: what only shrinks, borrowed before owned, lower priority, least lost,
/// the youngest; of a gang that shrinks, the last step first.
type Order = (EvictionCause, i32, u64, Reverse<(Time, ElementId)>, Reverse<u32>);

/// Somebody in that order, and his queue.
pub(super) type Ranked = Reverse<(Order, LeafId)>;

/// Those who may be made to go, the first in order first. Of thousands mostly a few are asked for.
pub(super) type Queue = BinaryHeap<Ranked>;

/// A way to make room.
pub(super) struct Way {
    pub(super) placement: Arc<[TaskPlacement]>,
    pub(super) leavers: Vec<Leaver>,
}

impl Way {
    /// Until everybody is gone at the latest, from now.
    pub(super) fn delay(&self) -> Span {
        self.leavers.iter().map(|leaver| leaver.victim.delay).max().unwrap_or(Span(0))
    }
}

impl Planner<'_> {
    /// Makes others go for a candidate, if it then starts.
    pub(super) fn preempt(&mut self, slot: Slot, candidate: &Candidate, memo: &Memo) -> bool {
        let duration = candidate.duration.unwrap_or(ENDLESS);
        if !self.may_be_made_room(candidate, duration) {
            return false;
        }
        for pick in memo.picks.iter() {
            let order = self.victims(candidate, pick);
            let widen = |room: &mut Room<'_, '_>, order| room.widen(order) || room.clear();
            let Some(way) = self.way((candidate, memo, pick), order, widen) else { continue };
            let fresh = way.leavers.iter().filter(|leaver| leaver.victim.is_fresh);
            let fresh: Vec<ElementId> = fresh.map(|leaver| leaver.victim.id.element).collect();
            match fresh.is_empty() {
                true => self.make_room(slot, candidate, way),
                false => self.put_off(candidate, pick, &fresh),
            }
            return true;
        }
        if candidate.avoid.is_empty() {
            self.was_in_vain(candidate, duration);
        }
        false
    }

    /// The way to make room on the models of a try with those in an order; `find` makes them go
    /// until the candidate starts.
    pub(super) fn way(
        &mut self,
        (candidate, memo, pick): (&Candidate, &Memo, &Pick),
        order: Queue,
        find: impl FnOnce(&mut Room<'_, '_>, Queue) -> bool,
    ) -> Option<Way> {
        if order.is_empty() {
            return None;
        }
        let shape = Arc::clone(&candidate.shape);
        let reach = Reach { shape: &shape, eligible: &memo.eligible, avoid: &candidate.avoid };
        let checkpoint = self.state.pool.checkpoint();
        let outer = self.state.pool.look_inside(shape.window.as_ref());
        let gauge = Gauge::new(&mut self.state.pool, reach);
        let mut room = Room {
            planner: self,
            candidate,
            memo,
            pick,
            reach,
            gauge,
            apart: FxHashMap::default(),
            tried: Vec::new(),
            found: None,
        };
        if find(&mut room, order) {
            let gone: Vec<usize> = (0..room.tried.len()).filter(|at| room.tried[*at].1).collect();
            room.narrow(&gone);
            room.start_beside();
            room.spare();
        }
        let (found, tried) = (room.found.take(), std::mem::take(&mut room.tried));
        // Everything is put back; the decision is made with what was found.
        let gone = tried.into_iter().filter(|(_, is_gone)| *is_gone).map(|(victim, _)| victim);
        let gone: Vec<Victim> =
            gone.inspect(|victim| victim.count(&mut self.state.policy, false)).collect();
        self.state.pool.rollback(checkpoint);
        self.state.pool.look(outer);
        let placement = found.filter(|_| !gone.is_empty())?;
        Some(Way { placement, leavers: put_together(self.state, gone) })
    }

    /// Who may be made to go for a candidate, in order.
    fn victims(&mut self, candidate: &Candidate, pick: &Pick) -> Queue {
        let mut order = Vec::new();
        self.spare_parts(candidate, &mut order);
        let (state, now) = (&*self.state, self.now);
        let asked = pick.exact.as_deref().unwrap_or(&[]);
        for ((leaf, priority), runners) in state.runners.iter().chain(&self.fresh.runners) {
            let Ok(cause) = right(&state.policy, candidate, asked, (*leaf, *priority)) else {
                continue;
            };
            let of_queue = state.policy.protection(*leaf);
            let is_owed = |(model, milli): &&(ModelId, u64)| {
                state.policy.owed(candidate.leaf, *leaf, *model, *milli) > 0
            };
            let owed: SmallVec<[ModelId; 2]> =
                asked.iter().filter(is_owed).map(|(model, _)| *model).collect();
            for (element, runner) in runners {
                let safe_until = runner.protect.max(of_queue).until(runner.held_from);
                let helps = cause != EvictionCause::Reclaimed
                    || runner.gpus.iter().any(|(model, _)| owed.contains(model));
                if !helps || self.evicted.contains(&runner.key) {
                    continue;
                }
                if self.rights.protects(now, safe_until) {
                    continue;
                }
                let (cause, priority, lost, age) =
                    (cause, *priority, runner.lost(now), Reverse((runner.held_from, *element)));
                order.push(Reverse(((cause, priority, lost, age, Reverse(0)), *leaf)));
            }
        }
        order.into()
    }

    /// Decides it, on scratch: those who go count no more, the claimant does, and its places are
    /// kept.
    pub(super) fn make_room(&mut self, slot: Slot, candidate: &Candidate, way: Way) {
        let (leaf, user) = (candidate.leaf, candidate.user);
        let delay = way.delay();
        let mut evict = Vec::with_capacity(way.leavers.len());
        for Leaver { victim, .. } in &way.leavers {
            evict.push(Eviction { id: victim.id, cause: victim.cause });
            self.evicted.insert(victim.key);
            self.state.policy.undo_hold(victim.leaf, victim.user, &victim.gpus);
            let gpus = victim.gpus.clone();
            self.state.slate.planned.push(Planned::Left {
                leaf: victim.leaf,
                user: victim.user,
                gpus,
            });
            self.state.pool.hasten(victim.key, self.now + victim.delay);
        }
        let gpus = gpus_by_model(&self.state.pool, &way.placement);
        let (promise, milli) = (self.promise(candidate.duration), candidate.shape.milli());
        self.state.policy.try_hold(leaf, user, &gpus);
        self.state.policy.try_promise(leaf, user, milli, promise);
        self.state.slate.planned.push(Planned::Came { leaf, user, gpus, milli, promise });
        let placement = Arc::clone(&way.placement);
        self.decisions.push(Decision::Claim {
            element: candidate.element,
            placement: way.placement,
            evict,
        });
        let until = candidate.duration.map_or(Time::NEVER, |span| self.now + delay + span);
        let element = candidate.element;
        let id = attempt_id(element.job, element.index, candidate.attempt);
        let (shape, fresh) = (Arc::clone(&candidate.shape), Some((id, candidate.duration)));
        self.keep(Kept { element, until, shape, placement, fresh });
        let capped = self.capped(candidate.job);
        self.state.slate.started.count(slot, capped);
        for Leaver { victim, keeps } in way.leavers {
            if let Some(keeps) = keeps {
                self.settle(victim.id.element, victim.delay, keeps);
            }
        }
        self.look_again();
    }

    /// Whoever was refused before may find that those who went were in the way: another round
    /// looks.
    pub(super) fn look_again(&mut self) {
        self.has_room = true;
        self.limited.forget();
        self.rights.forget();
        self.fresh.forget();
    }
}

/// Room being made on scratch.
pub(super) struct Room<'r, 's> {
    pub(super) planner: &'r mut Planner<'s>,
    candidate: &'r Candidate,
    memo: &'r Memo,
    pick: &'r Pick,
    pub(super) reach: Reach<'r>,
    pub(super) gauge: Gauge<'r>,
    /// Holdings of those that shrink, part by part.
    apart: FxHashMap<ElementId, Pieces>,
    /// Those tried, in order, and whether they are gone. Who stays owed nothing when it was his
    /// turn.
    pub(super) tried: Vec<(Victim, bool)>,
    /// Where the candidate would start, as things stand.
    found: Option<Arc<[TaskPlacement]>>,
}

impl Room<'_, '_> {
    /// Makes one after the other go until the candidate starts. Where a look is in vain although
    /// there might be room, the next look is taken after twice as many.
    fn widen(&mut self, mut order: Queue) -> bool {
        let mut stride = 1;
        loop {
            let mut more = 1;
            if self.might_start() {
                if self.looks() {
                    return true;
                }
                (more, stride) = (stride, stride * 2);
            }
            let mut went = 0;
            while went < more {
                let Some(victim) = self.victim(&mut order) else {
                    // The last look at everybody gone, unless that was the one before.
                    return went > 0 && self.might_start() && self.looks();
                };
                self.tried.push((victim, false));
                let at = self.tried.len() - 1;
                if self.owes(at) {
                    self.goes(at);
                    went += 1;
                }
            }
        }
    }

    /// Makes those in an order go node by node, until the candidate starts.
    pub(super) fn gather(&mut self, mut order: Queue) -> bool {
        while let Some(victim) = self.victim(&mut order) {
            self.tried.push((victim, false));
        }
        self.clear()
    }

    /// The next who may be made to go.
    fn victim(&mut self, order: &mut Queue) -> Option<Victim> {
        let Reverse(((cause, priority, _, Reverse((_, element)), Reverse(step)), leaf)) =
            order.pop()?;
        let (state, fresh) =
            (&mut *self.planner.state, self.planner.fresh.runner(leaf, priority, element));
        let (runner, is_fresh) = match fresh {
            Some(fresh) => (fresh, true),
            None => (&state.runners[&(leaf, priority)][&element], false),
        };
        let cost = match cause {
            EvictionCause::Moved => runner.cost_of_move(self.planner.now),
            _ => runner.gpus.iter().map(|(_, milli)| milli).sum(),
        };
        let mut victim = Victim {
            cost,
            id: attempt_id(element.job, element.index, runner.attempt),
            cause,
            part: Part::Whole,
            key: runner.key,
            leaf,
            user: runner.user,
            gpus: runner.gpus.clone(),
            delay: runner.delay,
            is_fresh,
        };
        // What shrinks stands before what goes whole: whoever does both is in parts by then.
        if cause == EvictionCause::Shrunk
            && let Entry::Vacant(entry) = self.apart.entry(element)
        {
            let elastic = state.jobs.get(&element.job)?.record.spec.elastic()?;
            entry.insert(take_apart(&mut state.pool, victim.key, elastic));
        }
        if let Some(pieces) = self.apart.get(&element) {
            victim.part =
                if cause == EvictionCause::Shrunk { Part::Step(step) } else { Part::Base };
            let piece = pieces.of(victim.part);
            (victim.key, victim.gpus) = (piece.key, piece.gpus.clone());
        }
        Some(victim)
    }

    /// False where somebody may not be made to go as things stand: his queue has given back what it
    /// owes.
    pub(super) fn owes(&self, at: usize) -> bool {
        let victim = &self.tried[at].0;
        let asked = self.pick.exact.as_deref().unwrap_or(&[]);
        let policy = &self.planner.state.policy;
        let owes = |(model, milli): &(ModelId, u64)| {
            victim.gpus.iter().any(|(held, _)| held == model)
                && policy.owed(self.candidate.leaf, victim.leaf, *model, *milli) > 0
        };
        victim.cause != EvictionCause::Reclaimed || asked.iter().any(owes)
    }

    /// Lets stay whoever can, the last in order first: all for whom the bounds leave room at once,
    /// or half by half.
    fn narrow(&mut self, those: &[usize]) {
        let mut back = Vec::new();
        for at in those.iter().rev() {
            self.stays(*at);
            match self.might_start() {
                true => back.push(*at),
                false => self.goes(*at),
            }
        }
        if back.is_empty() || self.looks() {
            return;
        }
        back.iter().for_each(|at| self.goes(*at));
        if those.len() > 1 {
            let (first, last) = those.split_at(those.len() / 2);
            self.narrow(last);
            self.narrow(first);
        }
    }

    /// Lets stay whoever is in the way of no place that was found: a search that finds another way
    /// with him there, or none, does not say that he is.
    fn spare(&mut self) {
        let Some(placement) = self.found.clone() else { return };
        let by_model = gpus_by_model(&self.planner.state.pool, &placement);
        for at in (0..self.tried.len()).rev() {
            if !self.tried[at].1 {
                continue;
            }
            self.stays(at);
            let allows = |caps: &[(ModelId, u64)]| {
                let held = |model| {
                    by_model.iter().find(|(known, _)| known == model).map_or(0, |(_, milli)| *milli)
                };
                caps.iter().all(|(model, most)| held(model) <= *most)
            };
            let is_admitted =
                self.admitted().is_ok_and(|tries| tries.iter().any(|one| allows(&one.caps)));
            if !is_admitted || !self.fits_beside(at, &placement) {
                self.goes(at);
            }
        }
    }

    /// Those who go since they count may be in nobody's way: then it starts at once beside them.
    fn start_beside(&mut self) {
        let gone: Vec<usize> = (0..self.tried.len()).filter(|at| self.tried[*at].1).collect();
        for at in &gone {
            self.stays(*at);
            let victim = &self.tried[*at].0;
            victim.count(&mut self.planner.state.policy, true);
            // For as long as with those who go, as who can stay is asked then.
            self.tried[*at].1 = true;
        }
        if self.might_start() {
            self.looks();
        }
        for at in gone {
            let victim = &self.tried[at].0;
            victim.count(&mut self.planner.state.policy, false);
            self.goes(at);
        }
    }

    /// Is all of a placement free on the nodes of one who came back?
    fn fits_beside(&mut self, at: usize, placement: &[TaskPlacement]) -> bool {
        let gone = self.tried.iter().filter(|(_, is_gone)| *is_gone);
        let delay = gone.map(|(victim, _)| victim.delay).max().unwrap_or(Span(0));
        let until =
            self.candidate.duration.map_or(Time::NEVER, |span| self.planner.now + span + delay);
        let nodes = self.nodes_of(at);
        let there = placement.iter().filter(|task| nodes.binary_search(&task.node).is_ok());
        let there: Arc<[TaskPlacement]> = there.cloned().collect();
        let checkpoint = self.planner.state.pool.checkpoint();
        let (element, shape) = (self.candidate.element, &self.candidate.shape);
        let fits = self.planner.take_promised(element, &there, shape, until);
        self.planner.state.pool.rollback(checkpoint);
        fits
    }

    /// Where somebody is, of what the candidate may use.
    pub(super) fn nodes_of(&self, at: usize) -> SmallVec<[NodeId; 8]> {
        let pool = &self.planner.state.pool;
        let tasks = pool.holding(self.tried[at].0.key).placement.iter();
        let mut nodes: SmallVec<[NodeId; 8]> = tasks.map(|task| task.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| self.reach.admits(pool, *node));
        nodes
    }

    pub(super) fn goes(&mut self, at: usize) {
        let (victim, is_gone) = &mut self.tried[at];
        *is_gone = true;
        victim.count(&mut self.planner.state.policy, true);
        self.change(at, Pool::park);
    }

    pub(super) fn stays(&mut self, at: usize) {
        let (victim, is_gone) = &mut self.tried[at];
        *is_gone = false;
        victim.count(&mut self.planner.state.policy, false);
        self.change(at, Pool::unpark);
    }

    /// Changes what a holding holds, and the gauge with it.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Pool, HoldKey)) {
        let nodes = self.nodes_of(at);
        let pool = &mut self.planner.state.pool;
        for node in &nodes {
            self.gauge.leave(pool.node(*node));
        }
        change(pool, self.tried[at].0.key);
        for node in &nodes {
            self.gauge.enter(pool.node(*node));
        }
    }

    /// False when it is certain that the candidate would not start.
    pub(super) fn might_start(&self) -> bool {
        self.gauge.is_enough() && self.admitted().is_ok()
    }

    fn admitted(&self) -> Result<SmallVec<[terms::Admitted<'_>; 1]>, Reason> {
        self.planner.admitted(self.candidate, std::slice::from_ref(self.pick))
    }

    /// Would the candidate start? Remembers where.
    pub(super) fn looks(&mut self) -> bool {
        let (candidate, memo, pick) = (self.candidate, self.memo, self.pick);
        let Ok(tries) = self.planner.admitted(candidate, std::slice::from_ref(pick)) else {
            return false;
        };
        let delay =
            self.tried.iter().filter(|(_, is_gone)| *is_gone).map(|(victim, _)| victim.delay).max();
        let duration = candidate.duration.map(|span| span + delay.unwrap_or(Span(0)));
        let checkpoint = self.planner.state.pool.checkpoint();
        let found = tries.iter().find_map(|one| {
            self.planner.place(candidate.seat(), &candidate.shape, one, &memo.eligible, duration)
        });
        self.planner.state.pool.rollback(checkpoint);
        let starts = found.is_some();
        if starts {
            self.found = found;
        }
        starts
    }
}
