//! One session: actions enqueue, allocate and, where it is configured, gangreclaim. Action backfill
//! is for pods that ask for nothing, of which a trace has none.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::amounts::Amounts;
use super::{Phase, Volcano, nodes, queues};
use crate::fleet::{Desk, JobNo, PlaneError, Pool};
use crate::peers::gang;
use crate::peers::line::ShapeNo;

/// Pods that wait and pods that run ask for at most so much of the cluster together
/// (plugins/overcommit, defaultOverCommitFactor 1.2).
const OVERCOMMIT: (u64, u64) = (12, 10);

/// Queues and shapes that have been found to have no chance in this session: nothing is freed in
/// it, so they have none later.
#[derive(Default)]
struct Hopeless {
    queues: BTreeSet<usize>,
    of_queue: BTreeSet<(usize, ShapeNo)>,
    of_all: BTreeSet<ShapeNo>,
}

impl Hopeless {
    fn has(&self, queue: usize, shape: ShapeNo) -> bool {
        self.of_all.contains(&shape) || self.of_queue.contains(&(queue, shape))
    }
}

impl Volcano {
    /// The session of this instant.
    pub(super) fn hold_session(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let total = Amounts::there(desk.pool());
        // 1. What each queue deserves, by the pods that there are.
        queues::divide(total, &mut self.queues);
        // 2. Which pod groups are let in; the job controller creates their pods for the next
        //    session.
        let let_in = if self.reclaims { self.everybody() } else { self.enqueue(total) };
        // 3. Gangs that find room.
        self.allocate(desk)?;
        // 4. Gangs that others make room for.
        if self.reclaims {
            self.reclaim(desk)?;
        }
        for job in let_in {
            self.enter(job, Phase::Inqueue);
        }
        Ok(())
    }

    /// Queues in their order: higher share later, and of equals the first in the tree.
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.queues.len()).collect();
        order.sort_by_key(|at| (self.queues[*at].share(), *at));
        order
    }

    /// Without action enqueue all pod groups are let in (actions/allocate, buildAllocateContext).
    fn everybody(&self) -> Vec<JobNo> {
        let pending = self.queues.iter().flat_map(|queue| queue.pending.by_shape());
        pending.flat_map(|(_, turns)| turns.iter().map(|(_, job)| *job)).collect()
    }

    /// Lets pod groups in while the cluster, overcommitted, and the queue have room for them
    /// (actions/enqueue, with JobEnqueueable of overcommit and proportion). One that is too large
    /// is passed over.
    fn enqueue(&mut self, total: Amounts) -> Vec<JobNo> {
        let sum = |of: fn(&queues::Queue) -> Amounts| {
            self.queues.iter().map(of).fold(Amounts::default(), |sum, amounts| sum + amounts)
        };
        let used = sum(|queue| queue.allocated);
        let mut waiting = sum(|queue| queue.asked);
        let room = total.each(total, |amount, _| amount * OVERCOMMIT.0 / OVERCOMMIT.1).less(used);
        let guaranteed = queues::guaranteed(&self.queues);
        let mut let_in = Vec::new();
        for at in self.in_order() {
            let most = self.queues[at].real_capability(total, guaranteed);
            let mut claimed = self.queues[at].asked + self.queues[at].allocated;
            let mut hopeless = BTreeSet::new();
            while let Some((shape, turn)) =
                self.queues[at].pending.first(|shape| !hopeless.contains(&shape))
            {
                let asks = self.jobs[turn.1.at()].asks;
                if !(waiting + asks).within_for(room, asks)
                    || !(claimed + asks).within_for(most, asks)
                {
                    hopeless.insert(shape);
                    continue;
                }
                (waiting, claimed) = (waiting + asks, claimed + asks);
                self.queues[at].pending.remove(shape, turn);
                let_in.push(turn.1);
            }
        }
        let_in
    }

    /// The next job to be tried: of the queue with the lowest share the first, queues that have
    /// what they deserve left out.
    fn next(&self, hopeless: &mut Hopeless) -> Option<(usize, ShapeNo, JobNo)> {
        for at in self.in_order() {
            let queue = &self.queues[at];
            if hopeless.queues.contains(&at) || queue.inqueue.is_empty() {
                continue;
            }
            if queue.is_overused() {
                hopeless.queues.insert(at);
                continue;
            }
            match queue.inqueue.first(|shape| !hopeless.has(at, shape)) {
                Some((shape, (_, job))) => return Some((at, shape, job)),
                None => drop(hopeless.queues.insert(at)),
            }
        }
        None
    }

    /// Places gangs, each whole or not at all (actions/allocate): after each the queues are put in
    /// order anew.
    fn allocate(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let mut hopeless = Hopeless::default();
        while let Some((queue, shape, job)) = self.next(&mut hopeless) {
            if !self.queues[queue].has_share_for(self.jobs[job.at()].asks) {
                hopeless.of_queue.insert((queue, shape));
                continue;
            }
            match self.places(desk.pool(), shape) {
                Some(places) => {
                    gang::seat(desk, job, &places)?;
                    self.enter(job, Phase::Running);
                }
                None => drop(hopeless.of_all.insert(shape)),
            }
        }
        Ok(())
    }

    /// A node for each pod of a gang; of the best any.
    fn places(&mut self, pool: &Pool, shape: ShapeNo) -> Option<Vec<muster_model::NodeId>> {
        let (pods, pod) = self.shapes.get(shape);
        let dice = &mut self.dice;
        gang::places(
            pool,
            pod,
            pods,
            |node, placed| nodes::score(node, pod, placed),
            |sides| dice.roll(sides),
        )
    }

    /// Makes whole jobs of queues that have more than they deserve go for gangs of queues that have
    /// less (actions/gangreclaim).
    fn reclaim(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        for at in self.in_order() {
            if self.queues[at].is_overused() {
                continue;
            }
            let mut hopeless = BTreeSet::new();
            while let Some((shape, (_, job))) =
                self.queues[at].inqueue.first(|shape| !hopeless.contains(&shape))
            {
                let victims = match self.queues[at].has_share_for(self.jobs[job.at()].asks) {
                    true => self.victims(desk, at, shape),
                    false => None,
                };
                let Some(victims) = victims else {
                    hopeless.insert(shape);
                    continue;
                };
                for victim in victims {
                    self.restart(desk, victim);
                }
                // Its pods are nominated to the nodes, which in this world are free at once.
                let Some(places) = self.places(desk.pool(), shape) else { break };
                gang::seat(desk, job, &places)?;
                self.enter(job, Phase::Running);
            }
        }
        Ok(())
    }

    /// Jobs of other queues after which the gang fits: those of queues with the highest share
    /// first, of a queue those first that hold no more than is needed, until they are enough
    /// (actions/utils, SortBundlesForReclaim). No queue is left with less than its guarantee, and
    /// none that has only what it deserves loses anything: so plugin `capacity` answers, and
    /// `proportion` has no answer (UnifiedEvictableFn); without one queues would take the same GPUs
    /// from each other for ever. What was placed in this session is none: only pods that run are
    /// reclaimed.
    fn victims(&self, desk: &Desk, reclaimer: usize, shape: ShapeNo) -> Option<Vec<JobNo>> {
        let (pods, pod) = self.shapes.get(shape);
        let need = Amounts::of(pods, pod);
        let mut left: Vec<Amounts> = self.queues.iter().map(|queue| queue.allocated).collect();
        let may_lose = |at: usize, left: Amounts, asks: Amounts| {
            let queue = &self.queues[at];
            at != reclaimer
                && !left.within_for(queue.deserved, asks)
                && queue.guarantee.within(left.less(asks))
        };
        if (0..left.len()).all(|at| !may_lose(at, left[at], left[at])) {
            return None;
        }
        let shares: Vec<u64> = self.queues.iter().map(queues::Queue::share).collect();
        let is_bound = |job: &&JobNo| desk.runs_since(**job) != Some(desk.now());
        let mut running: Vec<JobNo> = self.running.iter().filter(is_bound).copied().collect();
        running.sort_by_cached_key(|number| {
            let job = &self.jobs[number.at()];
            (Reverse((shares[job.queue], job.queue)), Reverse(worth(job.asks, need)), *number)
        });
        let mut scratch = desk.pool().clone();
        let mut victims = Vec::new();
        for number in running {
            let job = &self.jobs[number.at()];
            if !may_lose(job.queue, left[job.queue], job.asks) {
                continue;
            }
            left[job.queue] -= job.asks;
            release(desk, &mut scratch, number);
            victims.push(number);
            if scratch.has_room(pod, pods) {
                return Some(victims);
            }
        }
        None
    }
}

/// What of a victim the gang can use, in millionths of what the victim holds of what is needed.
fn worth(holds: Amounts, need: Amounts) -> u64 {
    const ALL: u64 = 1_000_000;
    let part =
        |holds: u64, need: u64| (u128::from(holds) * u128::from(ALL)).checked_div(u128::from(need));
    let sum = |holds: Amounts| {
        [
            (holds.cpu_milli, need.cpu_milli),
            (holds.memory_bytes, need.memory_bytes),
            (holds.gpu_milli, need.gpu_milli),
        ]
        .into_iter()
        .filter_map(|(holds, need)| part(holds, need))
        .sum::<u128>()
    };
    let useful = sum(holds.min(need)) * u128::from(ALL);
    useful.checked_div(sum(holds)).map_or(u64::MAX, |worth| worth as u64)
}

/// On the copy, what a job holds is free.
fn release(desk: &Desk, scratch: &mut Pool, job: JobNo) {
    let there = desk.job(job);
    for (node, devices) in (0..there.tasks).filter_map(|rank| desk.place_of(job, rank)) {
        scratch.give(node, &there.task, devices);
    }
}
