//! Moving what runs together for a gang that only scattered GPUs keep waiting: enough are free, but
//! not on whole nodes, or not in one domain. Others are told to save their progress and are
//! promised, by the same plan, other places, on which they go on at once; the gang is promised what
//! they leave. Off unless the queue file says otherwise.
//!
//! **Who moves**: jobs that save checkpoints, run and are not protected, of any queue; node by
//! node, the one first of which the least has to go, and no more of them than must. **Nobody goes
//! back to a queue**: a move counts only where everybody has a place again, so each plan starts one
//! that waited and stops none, and there are no loops. **It must pay**: in GPU time, the moves cost
//! less than the gang would wait otherwise, and no more than what is left of the budget.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_model::view::Unmoved;
use muster_model::{ElementId, EvictionCause, Kind, TaskPlacement, Tier, Time};
use muster_policy::{LeafId, PER_GPU_HOUR, PER_GPU_SEC, Slot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Planner;
use super::ask::Pick;
use super::consider::Candidate;
use super::elastic::size_of;
use super::lore::Memo;
use super::preempt::{Queue, Victim, Way};
use crate::state::attempt::gpus_by_model;
use crate::state::entries::ENDLESS;
use crate::state::shape::{ClassId, Shape};

/// So many are found to have no other place before a candidate waits on.
const MOST_STUCK: usize = 8;

/// What a pass knows of moves.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    /// What its own cost, in thousandths of GPUs times milliseconds.
    spent: u64,
    /// For whom nobody could be moved in this round, or only at a cost that is too much for who
    /// starts at that instant otherwise.
    pub(super) in_vain: FxHashMap<(LeafId, ClassId), Option<Time>>,
}

impl Moves {
    fn is_in_vain(&self, kind: (LeafId, ClassId), starts: Option<Time>) -> bool {
        let known = self.in_vain.get(&kind);
        known.is_some_and(|known| {
            known.is_none_or(|known| starts.is_some_and(|starts| starts <= known))
        })
    }
}

impl Planner<'_> {
    /// Moves others together for a candidate that would start at an instant otherwise, or nobody
    /// knows when.
    pub(super) fn defragment(
        &mut self,
        slot: Slot,
        candidate: &Candidate,
        memo: &Memo,
        starts: Option<Time>,
    ) -> bool {
        let kind = (candidate.leaf, candidate.class);
        let is_off = self.state.policy.tree().defragment.is_none();
        let is_last = Tier::of_order(candidate.priority) == Tier::Last;
        if is_off || is_last || self.moves.is_in_vain(kind, starts) {
            return false;
        }
        let mut is_dear = false;
        for pick in memo.picks.iter() {
            let Some(way) = self.moving(candidate, memo, pick) else { continue };
            let cost = cost(&way);
            match self.objection(candidate, &way, starts) {
                None => {
                    self.moves.spent = self.moves.spent.saturating_add(cost);
                    self.make_room(slot, candidate, way);
                    return true;
                }
                Some(Unmoved::Spent { refills_at, .. }) => {
                    refills_at.into_iter().for_each(|at| self.rights.wakes(at));
                }
                Some(Unmoved::Dear { .. }) => is_dear = true,
                Some(Unmoved::Off) => {}
            }
        }
        self.moves.in_vain.insert(kind, starts.filter(|_| is_dear));
        false
    }

    /// A way in which others are moved on the models of a try, and everybody runs again. Who would
    /// find no place stays, and others are tried.
    fn moving(&mut self, candidate: &Candidate, memo: &Memo, pick: &Pick) -> Option<Way> {
        if !self.is_scattered(&candidate.shape, pick) {
            return None;
        }
        let mut stuck = Vec::new();
        while stuck.len() < MOST_STUCK {
            let order = self.movers(pick, &stuck);
            let mut way =
                self.way((candidate, memo, pick), order, |room, order| room.gather(order))?;
            match self.resettle(candidate, &mut way) {
                None => return Some(way),
                Some(element) => stuck.push(element),
            }
        }
        None
    }

    /// Are there as many whole devices free as a gang needs, wherever they are?
    fn is_scattered(&mut self, shape: &Shape, pick: &Pick) -> bool {
        let devices =
            shape.groups.iter().map(|group| u64::from(group.tasks) * u64::from(group.devices));
        let asked: u64 = devices.sum();
        let mut models: SmallVec<[_; 2]> = pick.models.iter().flatten().copied().collect();
        models.sort_unstable();
        models.dedup();
        let index = self.state.pool.index();
        let indexes = models.into_iter().filter_map(|model| index.model(model));
        let sizes = indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes()));
        asked > 0 && sizes.map(|(free, nodes)| free * nodes).sum::<u64>() >= asked
    }

    /// Who may be moved, of those on the models of a try; the cheapest first.
    fn movers(&mut self, pick: &Pick, stuck: &[ElementId]) -> Queue {
        let mut order = Vec::new();
        let (state, now) = (&*self.state, self.now);
        for ((leaf, priority), runners) in &state.runners {
            if state.policy.is_budgeted(*leaf) {
                continue;
            }
            let of_queue = state.policy.protection(*leaf);
            for (element, runner) in runners {
                let record = &state.jobs[&element.job].record;
                let saves = record.spec.checkpoint.is_some() && runner.unsaved_since.is_some();
                let is_free = !record.held && record.spec.kind == Kind::Task;
                let is_there = runner
                    .gpus
                    .iter()
                    .any(|(model, _)| pick.models.iter().flatten().any(|one| one == model));
                let stays = self.evicted.contains(&runner.key) || stuck.contains(element);
                if !saves || !is_free || !is_there || stays {
                    continue;
                }
                let safe_until = runner.protect.max(of_queue).until(runner.held_from);
                if self.rights.protects(now, safe_until) {
                    continue;
                }
                let (cost, age) = (runner.cost_of_move(now), Reverse((runner.held_from, *element)));
                order.push(Reverse((
                    (EvictionCause::Moved, *priority, cost, age, Reverse(0)),
                    *leaf,
                )));
            }
        }
        order.into()
    }

    /// Finds everybody who moves another place beside the candidate, the largest first. Answers who
    /// finds none.
    fn resettle(&mut self, candidate: &Candidate, way: &mut Way) -> Option<ElementId> {
        let checkpoint = self.state.pool.checkpoint();
        // 1. They go, and the candidate comes.
        way.leavers.sort_by_key(|leaver| Reverse(leaver.victim.milli()));
        let delay = way.delay();
        for leaver in &way.leavers {
            self.state.pool.park(leaver.victim.key);
            leaver.victim.count(&mut self.state.policy, true);
        }
        let until = candidate.duration.map_or(Time::NEVER, |span| self.now + delay + span);
        let outer = self.state.pool.look_inside(candidate.shape.window.as_ref());
        let comes = self.take_promised(candidate.element, &way.placement, &candidate.shape, until);
        debug_assert!(comes, "the way was found so");
        self.state.pool.look(outer);
        let gpus = gpus_by_model(&self.state.pool, &way.placement);
        self.state.policy.try_hold(candidate.leaf, candidate.user, &gpus);
        // 2. One after the other has a place again.
        let (mut back, mut stuck) = (Vec::new(), None);
        for leaver in &mut way.leavers {
            let victim = &leaver.victim;
            let Some(placement) = self.new_place(victim) else {
                stuck = Some(victim.id.element);
                break;
            };
            let gpus = gpus_by_model(&self.state.pool, &placement);
            self.state.policy.try_hold(victim.leaf, victim.user, &gpus);
            back.push((victim.leaf, victim.user, gpus));
            leaver.keeps = Some(placement);
        }
        // 3. Everything is put back; the decision is made with what was found.
        back.iter().for_each(|(leaf, user, gpus)| self.state.policy.undo_hold(*leaf, *user, gpus));
        self.state.policy.undo_hold(candidate.leaf, candidate.user, &gpus);
        way.leavers.iter().for_each(|leaver| leaver.victim.count(&mut self.state.policy, false));
        self.state.pool.rollback(checkpoint);
        stuck
    }

    /// Where somebody goes on, as large as it is, within its limits and quota.
    fn new_place(&mut self, victim: &Victim) -> Option<Arc<[TaskPlacement]>> {
        let ElementId { job: id, index } = victim.id.element;
        let job = &self.state.jobs[&id];
        let ordinal = job.record.ordinal_of(index)?;
        let run = job.record.elements.get(&ordinal)?.run.as_ref()?;
        let size = job.record.spec.elastic().map(|elastic| (elastic.group, size_of(run, elastic)));
        let mut candidate = self.candidate_of(id, job, ordinal);
        candidate.duration = candidate.duration.map(|span| span + victim.delay);
        if let Some((group, tasks)) = size {
            candidate.shape = Arc::new(candidate.shape.resized(group, tasks));
        }
        self.settled(&candidate).map(|(_, placement)| placement)
    }

    /// Who would have to move for a candidate, what that costs in thousandths of GPUs times
    /// milliseconds, and what speaks against it; `None` where nobody could, or nothing does.
    pub(crate) fn unmoved(
        &mut self,
        candidate: &Candidate,
        starts: Option<Time>,
    ) -> Option<(Vec<ElementId>, u64, Unmoved)> {
        if Tier::of_order(candidate.priority) == Tier::Last {
            return None;
        }
        let memo = self.memo(candidate.class).clone();
        let ways = memo.picks.iter().filter_map(|pick| self.moving(candidate, &memo, pick));
        let way = ways.min_by_key(cost)?;
        let why = self.objection(candidate, &way, starts)?;
        Some((way.leavers.iter().map(|leaver| leaver.victim.id.element).collect(), cost(&way), why))
    }

    /// Is it asked for, within the budget, and less than what the candidate's GPUs would have done
    /// until it starts otherwise?
    fn objection(&self, candidate: &Candidate, way: &Way, starts: Option<Time>) -> Option<Unmoved> {
        let Some(terms) = self.state.policy.tree().defragment else { return Some(Unmoved::Off) };
        let cost = cost(way);
        let left = self.state.moves_left(self.now).saturating_sub(self.moves.spent);
        if cost > left {
            let is_within = cost <= terms.gpu_hours.saturating_mul(PER_GPU_HOUR);
            let refills_at = self.state.moves_refill(self.now).filter(|_| is_within);
            return Some(Unmoved::Spent { left_gpu_secs: left / PER_GPU_SEC, refills_at });
        }
        let delay = way.delay();
        let wait = starts.map_or(ENDLESS, |starts| starts.since(self.now + delay));
        let worth = candidate.shape.milli().saturating_mul(wait.0);
        (cost >= worth).then_some(Unmoved::Dear { worth_gpu_secs: worth / PER_GPU_SEC })
    }
}

/// What all who move cost together.
fn cost(way: &Way) -> u64 {
    way.leavers.iter().fold(0, |sum, leaver| leaver.victim.cost.saturating_add(sum))
}
