//! Which jobs go or move for one that waits: one after the other is taken away on a copy of the
//! cluster, until the one that waits fits. Those that it would fit without are put back; the others
//! look for another place. Nothing happens before all of that has been found to work.

use muster_model::{DeviceSet, NodeId};

use super::{Kai, nodes};
use crate::fleet::{Desk, JobNo, PlaneError, Pool};
use crate::peers::gang;
use crate::peers::line::Turn;

/// Most jobs that are moved for one (cmd/scheduler/app/options, defaultMaxConsolidationPreemptees).
const MOST_MOVED: usize = 16;

/// What jobs go or move for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Room in one place: all of them find another.
    Consolidate,
    /// What a queue has a right to.
    Reclaim,
    /// Somebody of the same queue with a higher priority.
    Preempt,
}

/// Where the pods of a job go.
type Places = Vec<(NodeId, DeviceSet)>;

/// What is to happen.
#[derive(Debug)]
pub(super) struct Scenario {
    places: Places,
    moved: Vec<(JobNo, Places)>,
    gone: Vec<JobNo>,
}

/// Jobs in the order in which they are taken away; the same for all who ask for it in one action,
/// until something happens.
#[derive(Debug, Default)]
pub(super) struct Bystanders(Option<Vec<JobNo>>);

impl Kai {
    /// What lets a job in; `None` where nothing does.
    pub(super) fn scenario(
        &self,
        desk: &Desk,
        job: JobNo,
        aim: Aim,
        bystanders: &mut Bystanders,
    ) -> Option<Scenario> {
        let waiting = &self.jobs[job.at()];
        let may_be = match aim {
            Aim::Consolidate => self.idle_milli(desk) >= waiting.lacking_milli(),
            Aim::Reclaim => self.may_reclaim(waiting.leaf, waiting.lacking_milli()),
            Aim::Preempt => self.has_lower(waiting.leaf, waiting.turn),
        };
        if !may_be {
            return None;
        }
        let order = bystanders.0.get_or_insert_with(|| self.in_victim_order(desk));
        let victims =
            order.iter().copied().filter(|victim| self.is_victim(desk, job, *victim, aim));
        let most = if aim == Aim::Consolidate { MOST_MOVED } else { usize::MAX };
        self.search(desk, job, aim, victims.take(most))
    }

    fn search(
        &self,
        desk: &Desk,
        job: JobNo,
        aim: Aim,
        victims: impl Iterator<Item = JobNo>,
    ) -> Option<Scenario> {
        let (pods, pod) = self.shapes.get(self.jobs[job.at()].shape);
        let mut scratch = desk.pool().clone();
        let mut taken: Vec<JobNo> = Vec::new();
        for victim in victims {
            each_place(desk, victim, |node, devices| {
                scratch.give(node, &desk.job(victim).task, devices)
            });
            taken.push(victim);
            if scratch.has_room(pod, pods)
                && let Some(scenario) = self.settle(desk, job, aim, &taken, scratch.clone())
            {
                return Some(scenario);
            }
        }
        None
    }

    /// Puts back who need not go, places the job, and then those who were in its way, as far as
    /// they fit.
    fn settle(
        &self,
        desk: &Desk,
        job: JobNo,
        aim: Aim,
        taken: &[JobNo],
        mut pool: Pool,
    ) -> Option<Scenario> {
        let (pods, pod) = self.shapes.get(self.jobs[job.at()].shape);
        let mut needed = Vec::new();
        for victim in taken {
            let task = &desk.job(*victim).task;
            let mut is_back = true;
            each_place(desk, *victim, |node, devices| is_back &= pool.take(node, task, devices));
            debug_assert!(is_back, "what was taken away a moment ago is free");
            if !pool.has_room(pod, pods) {
                each_place(desk, *victim, |node, devices| pool.give(node, task, devices));
                needed.push(*victim);
            }
        }
        let places = self.place(&mut pool, job, pods)?;
        let (mut moved, mut gone) = (Vec::new(), Vec::new());
        for victim in needed.into_iter().rev() {
            match self.place(&mut pool, victim, desk.job(victim).tasks) {
                Some(places) => moved.push((victim, places)),
                None if aim == Aim::Consolidate => return None,
                None => gone.push(victim),
            }
        }
        // The order in which they were taken away is that in which a queue is asked whether it may
        // lose them.
        gone.reverse();
        let leaf = self.jobs[job.at()].leaf;
        let milli = self.jobs[job.at()].lacking_milli();
        let is_right = match aim {
            Aim::Reclaim => self.is_right_to_reclaim(leaf, milli, &gone),
            Aim::Consolidate | Aim::Preempt => true,
        };
        (is_right && self.is_within_limits(leaf, milli, &gone)).then_some(Scenario {
            places,
            moved,
            gone,
        })
    }

    /// Places pods of a job on the copy.
    fn place(&self, pool: &mut Pool, job: JobNo, pods: u32) -> Option<Places> {
        let pod = &self.jobs[job.at()].task;
        let score = |node: &crate::fleet::PoolNode, placed| nodes::score(node, pod, placed);
        let nodes = gang::places(pool, pod, pods, score, |_| 0)?;
        let mut take = |node| {
            let devices = pool.node(node).choose(pod)?;
            pool.take(node, pod, devices).then_some((node, devices))
        };
        nodes.into_iter().map(&mut take).collect()
    }

    /// Does what was found.
    pub(super) fn carry_out(
        &mut self,
        desk: &mut Desk,
        job: JobNo,
        scenario: Scenario,
    ) -> Result<(), PlaneError> {
        for victim in scenario.moved.iter().map(|(victim, _)| victim).chain(&scenario.gone) {
            self.evict(desk, *victim);
        }
        self.evicted.extend(scenario.gone);
        for (job, places) in std::iter::once((job, scenario.places)).chain(scenario.moved) {
            for (rank, (node, devices)) in gang::missing(desk, job).into_iter().zip(places) {
                desk.place_on(job, rank, node, devices)?;
            }
            self.has_all(desk, job);
        }
        Ok(())
    }

    /// Idle GPUs or CPUs of all nodes together (actions/utils, IsEnoughGPUsAllocatableForJob).
    fn idle_milli(&self, desk: &Desk) -> u64 {
        desk.pool().nodes().map(|(_, node)| node.idle_milli(self.has_gpus)).sum()
    }

    fn has_lower(&self, leaf: usize, than: Turn) -> bool {
        self.running.get(&leaf).and_then(|turns| turns.last()).is_some_and(|last| last.0 > than.0)
    }

    fn is_victim(&self, desk: &Desk, job: JobNo, victim: JobNo, aim: Aim) -> bool {
        let (waiting, other) = (&self.jobs[job.at()], &self.jobs[victim.at()]);
        match aim {
            Aim::Consolidate => true,
            Aim::Reclaim => {
                other.leaf != waiting.leaf
                    && self.may_lose(waiting.leaf, waiting.lacking_milli(), other.leaf)
                    && self.safe_until(desk, victim, waiting.leaf) <= desk.now()
            }
            Aim::Preempt => {
                other.leaf == waiting.leaf
                    && other.turn.0 > waiting.turn.0
                    && self.safe_until(desk, victim, waiting.leaf) <= desk.now()
            }
        }
    }

    /// Jobs that run, in the order in which they are taken away: the reverse of the order in which
    /// jobs are placed, with what was taken from a queue no longer counted (actions/utils,
    /// JobsOrderByQueues with VictimQueue). What was placed in this session is not among them: its
    /// pods are not bound before the session is over.
    fn in_victim_order(&self, desk: &Desk) -> Vec<JobNo> {
        let mut left: Vec<u64> = self.queues.all.iter().map(|queue| queue.allocated).collect();
        let mut running: Vec<Vec<Turn>> = vec![Vec::new(); self.queues.all.len()];
        for (leaf, turns) in &self.running {
            let is_bound = |turn: &&Turn| desk.runs_since(turn.1) != Some(desk.now());
            running[*leaf] = turns.iter().filter(is_bound).copied().collect();
        }
        let mut order = Vec::new();
        while let Some((_, job)) = self.last(&self.queues.tops, &left, &running) {
            let leaf = self.jobs[job.at()].leaf;
            running[leaf].pop();
            for at in self.queues.upwards(leaf) {
                left[at] -= self.jobs[job.at()].held_milli();
            }
            order.push(job);
        }
        order
    }

    fn last(&self, among: &[usize], left: &[u64], running: &[Vec<Turn>]) -> Option<Turn> {
        let of = |at: &usize| {
            let turn = match self.queues.all[*at].children.is_empty() {
                true => running[*at].last().copied(),
                false => self.last(&self.queues.all[*at].children, left, running),
            }?;
            let without = left[*at] - self.jobs[turn.1.at()].held_milli();
            Some((self.queues.order(*at, without, 0), turn))
        };
        among.iter().filter_map(of).max_by_key(|(order, _)| *order).map(|(_, turn)| turn)
    }
}

/// Every place that a job holds.
fn each_place(desk: &Desk, job: JobNo, mut what: impl FnMut(NodeId, DeviceSet)) {
    for (node, devices) in (0..desk.job(job).tasks).filter_map(|rank| desk.place_of(job, rank)) {
        what(node, devices);
    }
}
