//! Elastic gangs grow into what is idle, after everybody in the order has had his turn: what starts
//! in the pass at once, what runs by going for itself and starting again with more tasks. Whoever
//! waits comes first: a gang starts with its fewest tasks, reservations are kept, and what is
//! beyond the fewest yields to whoever waits in his turn (`shrink.rs`).
//!
//! A gang that runs grows only if it takes checkpoints, since it starts again; only once it has run
//! for some time at its size, since that costs; and not in a queue with a budget, since every start
//! promises a whole run anew.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_model::queue::PlacementPolicy;
use muster_model::{
    Decision, Elastic, ElementId, Eviction, EvictionCause, JobId, Span, TaskPlacement, Time,
};

use super::ask::picks;
use super::claims::Kept;
use super::consider::Candidate;
use super::{Planned, Planner, terms};
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::job::{Run, RunStage};
use crate::state::pool::HoldKey;
use crate::state::runners::Runner;
use crate::state::shape::Shape;

/// A gang that starts in this pass at its fewest tasks.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    candidate: Candidate,
    elastic: Elastic,
    key: HoldKey,
    /// Where it stands in the decisions, and in what the policy was told.
    decision: usize,
    planned: usize,
}

/// A gang in a larger size.
struct Larger {
    key: HoldKey,
    placement: Arc<[TaskPlacement]>,
    shape: Arc<Shape>,
}

impl Planner<'_> {
    /// Remembers a start that may be larger. Comes right before its decision.
    pub(super) fn sow(&mut self, candidate: &Candidate, key: HoldKey) {
        let spec = &self.state.jobs[&candidate.job].record.spec;
        if let Some(elastic) = spec.elastic() {
            let (decision, planned) = (self.decisions.len(), self.state.slate.planned.len() - 1);
            self.seeds.push(Seed { candidate: candidate.clone(), elastic, key, decision, planned });
        }
    }

    /// Gives what is idle to those who can use it, first to what starts. True when something has:
    /// its queue counts more, and with that the order is another; or it goes elsewhere, or sooner
    /// than others could know. So others look again.
    pub(super) fn grow(&mut self) -> bool {
        let mut grew = false;
        for seed in std::mem::take(&mut self.seeds) {
            grew |= self.grow_start(&seed);
        }
        if grew {
            // Somebody may come first now for whom it has to shrink again: as with a promise that
            // is kept, the next pass looks.
            self.keeps = true;
            self.forget_failures();
            self.look_again();
        }
        let mut running: Vec<(JobId, u32)> = self.state.elastic.iter().copied().collect();
        running.sort_by_key(|(id, ordinal)| {
            Reverse(self.state.jobs[id].record.spec.order_of(*ordinal))
        });
        let decided = self.decisions.len();
        for (id, ordinal) in running {
            self.grow_runner(id, ordinal);
        }
        grew || self.decisions.len() > decided
    }

    /// A start as large as can be. True when it can be larger.
    fn grow_start(&mut self, seed: &Seed) -> bool {
        let candidate = &seed.candidate;
        let Planned::Came { leaf, user, gpus, milli, promise } =
            &self.state.slate.planned[seed.planned]
        else {
            return false;
        };
        let (leaf, user, gpus, milli, promise) = (*leaf, *user, gpus.clone(), *milli, *promise);
        let checkpoint = self.state.pool.checkpoint();
        self.state.pool.retract(seed.key);
        self.state.policy.undo_promise(leaf, user, milli, promise);
        self.state.policy.undo_hold(leaf, user, &gpus);
        let Some(larger) = self.larger(candidate, seed.elastic, seed.elastic.min) else {
            self.state.pool.rollback(checkpoint);
            self.state.policy.try_hold(leaf, user, &gpus);
            self.state.policy.try_promise(leaf, user, milli, promise);
            return false;
        };
        let (gpus, milli) =
            (gpus_by_model(&self.state.pool, &larger.placement), larger.shape.milli());
        self.state.policy.try_hold(leaf, user, &gpus);
        self.state.policy.try_promise(leaf, user, milli, promise);
        let fresh = self.fresh.runners.get_mut(&(leaf, candidate.priority));
        if let Some(runner) = fresh.and_then(|those| those.get_mut(&candidate.element)) {
            (runner.key, runner.gpus) = (larger.key, gpus.clone());
        }
        self.state.slate.planned[seed.planned] = Planned::Came { leaf, user, gpus, milli, promise };
        let Decision::Start { placement, .. } = &mut self.decisions[seed.decision] else {
            return false;
        };
        *placement = larger.placement;
        true
    }

    /// What runs makes room for itself in a larger size.
    fn grow_runner(&mut self, id: JobId, ordinal: u32) {
        let job = &self.state.jobs[&id];
        let spec = Arc::clone(&job.record.spec);
        let (Some(elastic), Some(after)) = (spec.elastic(), spec.grow_after) else { return };
        let element = &job.record.elements[&ordinal];
        let Some(run) = element.run.as_ref().filter(|run| may_grow(run, elastic)) else { return };
        let is_free = spec.checkpoint.is_some()
            && !job.record.held
            && !self.evicted.contains(&run.key)
            && !self.state.policy.is_budgeted(job.record.leaf);
        if !is_free {
            return;
        }
        // 1. Not too soon after its last change.
        let ripe = run.started.map_or(Time::NEVER, |started| started + after);
        if ripe > self.now {
            self.rights.wakes(ripe);
            return;
        }
        // 2. With what it holds back on scratch: is there more?
        let mut candidate = self.candidate_of(id, job, ordinal);
        let delay = Runner::delay(&spec, true);
        candidate.duration = candidate.duration.map(|span| span + delay);
        let (key, held, size) = (run.key, run.gpus.clone(), size_of(run, elastic));
        let (leaf, user) = (candidate.leaf, candidate.user);
        let old = attempt_id(id, candidate.element.index, element.attempt);
        let checkpoint = self.state.pool.checkpoint();
        self.state.pool.park(key);
        self.state.policy.undo_hold(leaf, user, &held);
        let larger = self.larger(&candidate, elastic, size);
        self.state.pool.rollback(checkpoint);
        let Some(larger) = larger else {
            self.state.policy.try_hold(leaf, user, &held);
            return;
        };
        // 3. It goes, and its places are kept.
        self.evicted.insert(key);
        self.state.slate.planned.push(Planned::Left { leaf, user, gpus: held });
        self.state.pool.hasten(key, self.now + delay);
        self.look_again();
        let evict = vec![Eviction { id: old, cause: EvictionCause::Grown }];
        self.promise_on(&candidate, larger.placement, larger.shape, evict);
    }

    /// Who has to leave its places, or some of them, goes on with others, or with the rest.
    pub(super) fn settle(&mut self, id: ElementId, delay: Span, placement: Arc<[TaskPlacement]>) {
        let job = &self.state.jobs[&id.job];
        let Some(ordinal) = job.record.ordinal_of(id.index) else { return };
        let mut candidate = self.candidate_of(id.job, job, ordinal);
        candidate.duration = candidate.duration.map(|span| span + delay);
        let shape = match job.record.spec.elastic() {
            None => Arc::clone(&candidate.shape),
            Some(elastic) => {
                let tasks =
                    placement.iter().filter(|task| task.group == elastic.group).count() as u32;
                Arc::new(candidate.shape.resized(elastic.group, tasks))
            }
        };
        self.promise_on(&candidate, placement, shape, Vec::new());
    }

    /// Promises an element that runs the places on which it goes on, and keeps them.
    fn promise_on(
        &mut self,
        candidate: &Candidate,
        placement: Arc<[TaskPlacement]>,
        shape: Arc<Shape>,
        evict: Vec<Eviction>,
    ) {
        let (leaf, user, element) = (candidate.leaf, candidate.user, candidate.element);
        let gpus = gpus_by_model(&self.state.pool, &placement);
        let (promise, milli) = (self.promise(candidate.duration), shape.milli());
        self.state.policy.try_hold(leaf, user, &gpus);
        self.state.policy.try_promise(leaf, user, milli, promise);
        self.state.slate.planned.push(Planned::Came { leaf, user, gpus, milli, promise });
        let until = candidate.duration.map_or(Time::NEVER, |span| self.now + span);
        self.keep(Kept { element, until, shape, placement: Arc::clone(&placement), fresh: None });
        self.decisions.push(Decision::Claim { element, placement, evict });
    }

    /// The largest size beyond `size` in which a gang has a place now; held on scratch. More tasks
    /// never fit where fewer do not, up to how several groups get in each other's way: so the sizes
    /// are halved, not tried one by one.
    fn larger(&mut self, candidate: &Candidate, elastic: Elastic, size: u32) -> Option<Larger> {
        let steps = (elastic.max - size) / elastic.step;
        if let Some(larger) = self.sized(candidate, elastic, size + steps * elastic.step) {
            return Some(larger);
        }
        let (mut fits, mut fails) = (0, steps);
        while fails > fits + 1 {
            let middle = fits + (fails - fits) / 2;
            let checkpoint = self.state.pool.checkpoint();
            match self.sized(candidate, elastic, size + middle * elastic.step) {
                Some(_) => fits = middle,
                None => fails = middle,
            }
            self.state.pool.rollback(checkpoint);
        }
        (fits > 0).then(|| self.sized(candidate, elastic, size + fits * elastic.step)).flatten()
    }

    /// Places a gang with so many tasks, on scratch.
    fn sized(&mut self, candidate: &Candidate, elastic: Elastic, tasks: u32) -> Option<Larger> {
        let shape = Arc::new(candidate.shape.resized(elastic.group, tasks));
        let (key, placement) =
            self.settled(&Candidate { shape: Arc::clone(&shape), ..candidate.clone() })?;
        Some(Larger { key, placement, shape })
    }

    /// Places somebody in the size that its shape says, within its limits and quota; held on
    /// scratch.
    pub(super) fn settled(
        &mut self,
        candidate: &Candidate,
    ) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
        let (eligible, shape) = (self.memo(candidate.class).eligible.clone(), &candidate.shape);
        let weighs = self.state.policy.tree().placement != PlacementPolicy::Pack;
        let picks = picks(&self.state.pool, shape, weighs);
        let promise = self.promise(candidate.duration);
        let tries =
            terms::admitted(&self.state.policy, candidate.whose(), shape, promise, &picks).ok()?;
        tries
            .iter()
            .find_map(|one| self.hold(candidate.seat(), shape, one, &eligible, candidate.duration))
    }
}

/// Does it run, with fewer tasks than it could have?
fn may_grow(run: &Run, elastic: Elastic) -> bool {
    run.stage == RunStage::Running && run.fate.is_none() && size_of(run, elastic) < elastic.max
}

/// Tasks of the group that grows.
pub(super) fn size_of(run: &Run, elastic: Elastic) -> u32 {
    run.placement.iter().filter(|task| task.group == elastic.group).count() as u32
}
