//! What elastic gangs hold beyond their fewest tasks yields to whoever waits in his turn, before
//! anybody is made to go: the last tasks first, as few as are needed. Such a gang is told to go for
//! the claimant and is promised, by the same plan, what is left of its places. Here its holding is
//! taken apart and the parts are put together again; who goes is decided in `preempt.rs`.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_model::{
    Elastic, ElementId, EvictionCause, JobId, Preemption, TaskPlacement, Tier, Time,
};
use muster_policy::{ModelId, Policy};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Planner;
use super::consider::Candidate;
use super::elastic::size_of;
use super::preempt::{Ranked, Victim};
use crate::state::State;
use crate::state::attempt::gpus_by_model;
use crate::state::pool::{HoldKey, Pool};

/// What of an attempt may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// Its fewest tasks, when all beyond them go as well.
    Base,
    /// Tasks that come and go together; from 0, by rank.
    Step(u32),
}

/// A holding in parts, on scratch.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    base: Piece,
    steps: Vec<Piece>,
}

#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) key: HoldKey,
    pub(super) gpus: SmallVec<[(ModelId, u64); 1]>,
}

impl Pieces {
    pub(super) fn of(&self, part: Part) -> &Piece {
        match part {
            Part::Step(step) => &self.steps[step as usize],
            Part::Base | Part::Whole => &self.base,
        }
    }
}

impl State {
    /// How an element that runs can shrink, and by how many steps; `None` at its fewest tasks.
    pub(super) fn spare_steps(&self, id: JobId, ordinal: u32) -> Option<(Elastic, u32)> {
        let record = &self.jobs.get(&id)?.record;
        let elastic = record.spec.elastic()?;
        let run = record.elements.get(&ordinal)?.run.as_ref()?;
        let steps = size_of(run, elastic).saturating_sub(elastic.min) / elastic.step;
        (steps > 0).then_some((elastic, steps))
    }

    /// True when something runs beyond its fewest tasks.
    pub(super) fn has_spare(&self) -> bool {
        self.elastic.iter().any(|(id, ordinal)| self.spare_steps(*id, *ordinal).is_some())
    }
}

impl Planner<'_> {
    /// What may go of elastic gangs for a candidate.
    pub(super) fn spare_parts(&mut self, candidate: &Candidate, order: &mut Vec<Ranked>) {
        let terms = self.state.policy.tree().preemption;
        if terms == Preemption::OFF || Tier::of_order(candidate.priority) != Tier::Usual {
            return;
        }
        let elastic: Vec<(JobId, u32)> = self.state.elastic.iter().copied().collect();
        for (id, ordinal) in elastic {
            let Some((_, steps)) = self.state.spare_steps(id, ordinal) else { continue };
            let element =
                ElementId { job: id, index: self.state.jobs[&id].record.index_of(ordinal) };
            let Some(((leaf, priority), runner)) = self.state.runner(element) else { continue };
            if self.evicted.contains(&runner.key) {
                continue;
            }
            let safe_until =
                runner.protect.max(self.state.policy.protection(leaf)).until(runner.held_from);
            if self.rights.protects(self.now, safe_until) {
                continue;
            }
            let rank = (runner.lost(self.now), Reverse((runner.held_from, element)));
            if !self.may_go_on(id, ordinal) {
                continue;
            }
            let cause = EvictionCause::Shrunk;
            let ranked = |step| Reverse(((cause, priority, rank.0, rank.1, Reverse(step)), leaf));
            order.extend((0..steps).map(ranked));
        }
    }

    /// True when limits, quota and its nodes let a gang start again as it is: then with less, too.
    /// Not on hold, and not in a queue with a budget, since every start promises a whole run anew.
    fn may_go_on(&mut self, id: JobId, ordinal: u32) -> bool {
        if self.state.jobs[&id].record.held {
            return false;
        }
        let candidate = self.candidate_of(id, &self.state.jobs[&id], ordinal);
        let Some(run) = self.state.jobs[&id].record.elements[&ordinal].run.as_ref() else {
            return false;
        };
        let (gpus, placement) = (run.gpus.clone(), Arc::clone(&run.placement));
        let until = candidate.duration.map_or(Time::NEVER, |span| self.now + span);
        let outer = self.state.pool.look_inside(candidate.shape.window.as_ref());
        let is_sound = self.is_sound(&placement, &candidate.shape, until);
        self.state.pool.look(outer);
        let policy = &mut self.state.policy;
        policy.undo_hold(candidate.leaf, candidate.user, &gpus);
        let verdict = candidate.whose().judge(policy, &gpus, candidate.duration);
        policy.try_hold(candidate.leaf, candidate.user, &gpus);
        is_sound && verdict.is_ok() && !self.state.policy.is_budgeted(candidate.leaf)
    }
}

/// Takes a holding apart on scratch: what it holds stays held, part by part.
pub(super) fn take_apart(pool: &mut Pool, key: HoldKey, elastic: Elastic) -> Pieces {
    let holding = pool.holding(key);
    let (element, end) = (holding.element, holding.end);
    let (shape, placement) = (Arc::clone(&holding.shape), Arc::clone(&holding.placement));
    pool.park(key);
    let mut piece = |tasks: Vec<TaskPlacement>| {
        let key = pool.open(element, end, Arc::clone(&shape));
        tasks.iter().for_each(|task| pool.grant(key, task));
        let gpus = gpus_by_model(pool, &tasks);
        pool.close(key, tasks.into());
        Piece { key, gpus }
    };
    let (base, more) = split(&placement, elastic);
    let steps =
        more.chunks(elastic.step as usize).map(<[TaskPlacement]>::to_vec).map(&mut piece).collect();
    Pieces { base: piece(base), steps }
}

/// The tasks that a gang cannot do without, and the others; each by rank.
fn split(
    placement: &[TaskPlacement],
    elastic: Elastic,
) -> (Vec<TaskPlacement>, Vec<TaskPlacement>) {
    let mut left = elastic.min;
    placement.iter().cloned().partition(|task| {
        let is_base = task.group != elastic.group || left > 0;
        left -= u32::from(is_base && task.group == elastic.group);
        is_base
    })
}

/// Who has to go whole, and who goes on.
pub(super) struct Leaver {
    pub(super) victim: Victim,
    /// On which places it goes on, by rank: what is left to it, or others. `None` when it goes back
    /// to its queue.
    pub(super) keeps: Option<Arc<[TaskPlacement]>>,
}

/// Puts the parts that go together, attempt by attempt.
pub(super) fn put_together(state: &State, gone: Vec<Victim>) -> Vec<Leaver> {
    let mut whole: Vec<Victim> = Vec::new();
    let mut steps: FxHashMap<ElementId, Vec<u32>> = FxHashMap::default();
    for victim in gone {
        let element = victim.id.element;
        match victim.part {
            Part::Step(step) => steps.entry(element).or_default().push(step),
            Part::Whole | Part::Base => {}
        }
        match whole.iter_mut().find(|known| known.id == victim.id) {
            // Going whole says more.
            Some(known) if !matches!(victim.part, Part::Step(_)) => *known = victim,
            Some(_) => {}
            None => whole.push(victim),
        }
    }
    let leaver = |mut victim: Victim| {
        let element = victim.id.element;
        let is_step = matches!(victim.part, Part::Step(_));
        if victim.part != Part::Whole
            && let Some((_, runner)) = state.runner(element)
        {
            // On scratch it stood under keys of its parts.
            (victim.key, victim.gpus) = (runner.key, runner.gpus.clone());
        }
        let keeps =
            steps.get(&element).filter(|_| is_step).and_then(|gone| kept(state, element, gone));
        Leaver { victim, keeps }
    };
    whole.into_iter().map(leaver).collect()
}

/// The places of a gang without some of its steps.
fn kept(state: &State, id: ElementId, gone: &[u32]) -> Option<Arc<[TaskPlacement]>> {
    let record = &state.jobs.get(&id.job)?.record;
    let elastic = record.spec.elastic()?;
    let run = state.element(id)?.run.as_ref()?;
    let mut nth = 0;
    let stays = |task: &&TaskPlacement| {
        if task.group != elastic.group {
            return true;
        }
        nth += 1;
        let beyond = (nth - 1u32).checked_sub(elastic.min);
        beyond.is_none_or(|beyond| !gone.contains(&(beyond / elastic.step)))
    };
    Some(run.placement.iter().filter(stays).cloned().collect())
}

impl Victim {
    /// Thousandths of GPUs over all models.
    pub(super) fn milli(&self) -> u64 {
        self.gpus.iter().map(|(_, milli)| milli).sum()
    }

    /// It counts no more, or again, on scratch. A gang that only shrinks goes on running.
    pub(super) fn count(&self, policy: &mut Policy, goes: bool) {
        let (leaf, user) = (self.leaf, self.user);
        match (goes, self.part) {
            (true, Part::Step(_)) => {
                policy.try_hold(leaf, user, &[]);
                policy.undo_hold(leaf, user, &self.gpus);
            }
            (false, Part::Step(_)) => {
                policy.try_hold(leaf, user, &self.gpus);
                policy.undo_hold(leaf, user, &[]);
            }
            (true, _) => policy.undo_hold(leaf, user, &self.gpus),
            (false, _) => policy.try_hold(leaf, user, &self.gpus),
        }
    }
}
