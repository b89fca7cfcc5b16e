//! May it be submitted, may it start: the verdicts, with the numbers that decided. Nothing here
//! changes anything.
//!
//! Every queue of the path from the leaf to the root is asked, nearest first. A start is judged for
//! running jobs, then GPUs per user, then quota; the first refusal is the answer.

use std::collections::BTreeSet;

use muster_model::job::GpuRequest;
use muster_model::{GpuMilli, JobSpec, Protection, Reason, Span, TaskGroup, UserName};

use crate::intern::{LeafId, ModelId, UserId};
use crate::ledger::total_milli;
use crate::promise::judge_budget_ever;
use crate::quota::{Quota, headroom};
use crate::{Policy, tree::Node};

impl Policy {
    /// Could a job with this spec ever start in `leaf`, were it alone in the cluster? Judges time
    /// limit, priority, and the least GPUs it needs against limits, budgets and quota. A job that
    /// may take several models is refused only if all of them together are not enough.
    ///
    /// # Errors
    /// The first thing that will never be met.
    pub fn judge_submission(&self, leaf: LeafId, spec: &JobSpec) -> Result<(), Reason> {
        for node in self.path(leaf) {
            judge_shape(node, spec)?;
            judge_budget_ever(node, spec)?;
        }
        self.judge_quota_ever(leaf, &spec.groups, None)?;
        let length = spec.time_limit.map(|limit| limit + spec.grace);
        self.judge_quota_ever(leaf, &spec.groups, Some(length))
    }

    /// May `user` have one more job waiting in `leaf`, beside others of theirs that were just
    /// accepted in `beside`? Every queue of the path counts its subtree; an array is one job, since
    /// it is one entry however many elements it has, and one file of its user.
    ///
    /// # Errors
    /// The nearest queue in which as many wait as may.
    pub fn judge_one_more(
        &self,
        leaf: LeafId,
        user: &UserName,
        beside: &[LeafId],
    ) -> Result<(), Reason> {
        let id = self.users.find(user);
        for node in self.path(leaf) {
            let Some(limit) = node.limits.pending_jobs else { continue };
            let inside = |leaf: &&LeafId| self.path(**leaf).any(|other| std::ptr::eq(other, node));
            let waiting = id.and_then(|id| node.waiting_jobs.get(&id)).copied().unwrap_or(0);
            let pending = waiting + beside.iter().filter(inside).count() as u32;
            if pending >= limit {
                return Err(Reason::PendingJobs {
                    queue: node.name.clone(),
                    user: user.clone(),
                    pending,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// May `user` start an element with `gpus` (thousandths by model) in `leaf` now, to hold them
    /// for `length`? `None` is endless.
    ///
    /// # Errors
    /// The first limit or quota that stands against it.
    pub fn judge_start(
        &self,
        leaf: LeafId,
        user: UserId,
        gpus: &[(ModelId, u64)],
        length: Option<Span>,
    ) -> Result<(), Reason> {
        for node in self.path(leaf) {
            if let Some(limit) = node.limits.running_jobs
                && node.running >= limit
            {
                return Err(Reason::RunningJobs {
                    queue: node.name.clone(),
                    running: node.running,
                    limit,
                });
            }
        }
        self.judge_user(leaf, user, total_milli(gpus))?;
        for (index, (model, milli)) in gpus.iter().enumerate() {
            // The same model may be listed more than once: judged as one, where it is first seen.
            if gpus[..index].iter().any(|(seen, _)| seen == model) {
                continue;
            }
            let again: u64 = gpus[index + 1..]
                .iter()
                .filter(|(other, _)| other == model)
                .map(|(_, more)| more)
                .sum();
            self.judge_quota(leaf, *model, milli + again, length)?;
        }
        Ok(())
    }

    /// May `user` hold so many thousandths of GPUs more in `leaf`? What others hold has no part in
    /// it.
    ///
    /// # Errors
    /// The nearest queue of the path that limits its users to fewer.
    pub fn judge_user(&self, leaf: LeafId, user: UserId, asked_milli: u64) -> Result<(), Reason> {
        self.path(leaf).try_for_each(|node| self.judge_user_in(node, user, asked_milli))
    }

    /// May an element with `gpus` start in `leaf` without borrowing? What may not be taken back may
    /// not be borrowed.
    ///
    /// # Errors
    /// The nearest queue of the path that would use more than its nominal quota.
    pub fn judge_owned(&self, leaf: LeafId, gpus: &[(ModelId, u64)]) -> Result<(), Reason> {
        for (model, milli) in gpus {
            let at = usize::from(model.0);
            let beyond = |node: &&Node| {
                let quota = &node.quota[at];
                quota.is_set && node.held[at].saturating_add(*milli) > quota.nominal
            };
            if let Some(node) = self.path(leaf).find(beyond).filter(|_| *milli > 0) {
                return Err(Reason::MayNotBorrow {
                    queue: node.name.clone(),
                    model: self.models.name(*model).clone(),
                    asked: gpu_milli(*milli),
                    used: gpu_milli(node.held[at]),
                    nominal: gpu_milli(node.quota[at].nominal),
                });
            }
        }
        Ok(())
    }

    /// How long what runs in a leaf is safe from preemption by its queues' terms: as the nearest
    /// says that says anything.
    #[must_use]
    pub fn protection(&self, leaf: LeafId) -> Protection {
        self.path(leaf).find_map(|node| node.protect).unwrap_or_default()
    }

    fn judge_user_in(&self, node: &Node, user: UserId, asked: u64) -> Result<(), Reason> {
        let Some(gpus) = node.limits.gpus_per_user else { return Ok(()) };
        let limit = gpus.saturating_mul(1000);
        let used = node.held_by_user.get(&user).copied().unwrap_or(0);
        if asked == 0 || used.saturating_add(asked) <= limit {
            return Ok(());
        }
        Err(Reason::GpusPerUser {
            queue: node.name.clone(),
            user: self.user_name(user).clone(),
            asked: gpu_milli(asked),
            used: gpu_milli(used),
            limit: gpu_milli(limit),
        })
    }

    /// True when how long an element lasts matters to [`Policy::judge_start`] in a leaf.
    #[must_use]
    pub fn is_timed(&self, leaf: LeafId) -> bool {
        self.path(leaf).any(|node| node.limits.borrowed_time.is_some())
    }

    fn judge_quota(
        &self,
        leaf: LeafId,
        model: ModelId,
        milli: u64,
        length: Option<Span>,
    ) -> Result<(), Reason> {
        let at = usize::from(model.0);
        let mut growth = milli;
        for (depth, node) in self.path(leaf).chain([self.root()]).enumerate() {
            let quota = &node.quota[at];
            if growth == 0 || (depth == 0 && !quota.is_bounded) {
                return Ok(());
            }
            if quota.taken.saturating_add(growth) > quota.ceiling {
                let room = headroom(self.quotas(leaf, model).into_iter());
                return Err(self.quota_reason(leaf, model, milli, room, |node| node.held[at]));
            }
            if let Some(limit) = node.borrows_for_less_than(model, length)
                && quota.taken.saturating_add(growth) > quota.nominal
            {
                let asked = (growth, quota.taken);
                return Err(self.borrowed_reason(node, model, asked, length, limit));
            }
            growth = quota.claim_with(growth) - quota.claim();
        }
        Ok(())
    }

    /// Refuses what does not fit even if nobody else holds anything; with a `length`, what fits
    /// only where nothing may be held for so long.
    fn judge_quota_ever(
        &self,
        leaf: LeafId,
        groups: &[TaskGroup],
        length: Option<Option<Span>>,
    ) -> Result<(), Reason> {
        if length.is_some() && !self.is_timed(leaf) {
            return Ok(());
        }
        // 1. The most of each model that this leaf can ever hold: endless where no quota bounds it.
        let is_bounded = |quota: &Quota| quota.is_bounded;
        if !self.nodes[self.node_of(leaf)].quota.iter().any(is_bounded) {
            return Ok(());
        }
        let most: Vec<u64> =
            self.models.ids().map(|model| self.most_ever(leaf, model, length)).collect();
        let refusal = |model: ModelId, asked: u64| {
            let timed = length.and_then(|length| self.borrowed_ever(leaf, model, asked, length));
            timed.unwrap_or_else(|| {
                self.quota_reason(leaf, model, asked, most[usize::from(model.0)], |_| 0)
            })
        };
        let mut pinned = vec![0u64; most.len()];
        for group in groups.iter().filter(|group| !group.task.gpu.is_none()) {
            // 2. Each group alone, over all models that it accepts.
            let per_task = u64::from(group.task.gpu.milli().0);
            let asked = per_task.saturating_mul(u64::from(group.min_tasks));
            let Some(models) = self.accepted(&group.task.gpu) else { continue };
            let most_of = |model: &ModelId| most[usize::from(model.0)];
            let Some(widest) = models.iter().copied().max_by_key(most_of) else { continue };
            let tasks = models
                .iter()
                .fold(0u64, |sum, model| sum.saturating_add(most_of(model) / per_task));
            if tasks < u64::from(group.min_tasks) {
                return Err(refusal(widest, asked));
            }
            // 3. Groups that accept a single model, together.
            if models.len() == 1 {
                let sum = &mut pinned[usize::from(widest.0)];
                *sum = sum.saturating_add(asked);
                if *sum > most_of(&widest) {
                    return Err(refusal(widest, *sum));
                }
            }
        }
        Ok(())
    }

    /// Models that a request accepts; `None` when one of them is not known here, so that nothing
    /// can be said.
    fn accepted(&self, request: &GpuRequest) -> Option<BTreeSet<ModelId>> {
        if request.models.is_empty() {
            return Some(self.models.ids().collect());
        }
        request.models.iter().map(|name| self.models.find(name)).collect()
    }

    /// What a leaf could hold of each model for so long if nobody else held anything, where quota
    /// bounds it.
    #[must_use]
    pub fn most_ever_of(&self, leaf: LeafId, length: Option<Span>) -> Vec<(ModelId, u64)> {
        let most =
            self.models.ids().map(|model| (model, self.most_ever(leaf, model, Some(length))));
        most.filter(|(_, most)| *most < u64::MAX).collect()
    }

    /// What the leaf could hold if nobody else held anything, all of it for `length` where that is
    /// given; `u64::MAX` is endless.
    fn most_ever(&self, leaf: LeafId, model: ModelId, length: Option<Option<Span>>) -> u64 {
        if !self.nodes[self.node_of(leaf)].quota[usize::from(model.0)].is_bounded {
            return u64::MAX;
        }
        let mut quotas = self.quotas(leaf, model);
        for (quota, node) in quotas.iter_mut().zip(self.path(leaf).chain([self.root()])) {
            quota.taken = quota.taken_idle;
            if length.is_some_and(|length| node.borrows_for_less_than(model, length).is_some()) {
                quota.ceiling = quota.ceiling.min(quota.nominal);
            }
        }
        headroom(quotas.into_iter())
    }

    /// Quotas from the leaf up to and including the root.
    fn quotas(&self, leaf: LeafId, model: ModelId) -> Vec<Quota> {
        self.path(leaf).chain([self.root()]).map(|node| node.quota[usize::from(model.0)]).collect()
    }

    /// The refusal of what is held for longer than it may be borrowed, by the first queue of the
    /// path that refuses it.
    fn borrowed_ever(
        &self,
        leaf: LeafId,
        model: ModelId,
        asked: u64,
        length: Option<Span>,
    ) -> Option<Reason> {
        let nominal = |node: &Node| node.quota[usize::from(model.0)].nominal;
        let refuses = |node: &&Node| node.borrows_for_less_than(model, length).is_some();
        let mut path = self.path(leaf).filter(refuses);
        let node = path.find(|node| asked > nominal(node))?;
        let limit = node.limits.borrowed_time?;
        Some(self.borrowed_reason(node, model, (asked, 0), length, limit))
    }

    /// It would be held for too long where it is borrowed.
    fn borrowed_reason(
        &self,
        node: &Node,
        model: ModelId,
        (asked, used): (u64, u64),
        length: Option<Span>,
        limit: Span,
    ) -> Reason {
        Reason::BorrowedTime {
            queue: node.name.clone(),
            model: self.models.name(model).clone(),
            asked: gpu_milli(asked),
            used: gpu_milli(used),
            nominal: gpu_milli(node.quota[usize::from(model.0)].nominal),
            length,
            limit,
        }
    }

    /// The refusal in the terms of the nearest queue that sets a quota.
    fn quota_reason(
        &self,
        leaf: LeafId,
        model: ModelId,
        asked: u64,
        room: u64,
        used: impl Fn(&Node) -> u64,
    ) -> Reason {
        let at = usize::from(model.0);
        let mut path = self.path(leaf);
        let node = path.find(|node| node.quota[at].is_set).unwrap_or(self.root());
        let used = used(node);
        let nominal = node.quota[at].nominal;
        let reachable = used.saturating_add(room);
        Reason::Quota {
            queue: node.name.clone(),
            model: self.models.name(model).clone(),
            asked: gpu_milli(asked),
            used: gpu_milli(used),
            nominal: gpu_milli(nominal),
            borrowable: gpu_milli(reachable.saturating_sub(nominal)),
            lent: gpu_milli(nominal.saturating_sub(reachable)),
        }
    }
}

impl Node {
    /// How long it borrows a model for, when that is less than `length`.
    fn borrows_for_less_than(&self, model: ModelId, length: Option<Span>) -> Option<Span> {
        let limit =
            self.limits.borrowed_time.filter(|_| self.quota[usize::from(model.0)].is_set)?;
        length.is_none_or(|length| length > limit).then_some(limit)
    }
}

/// What a queue admits whatever runs.
fn judge_shape(node: &Node, spec: &JobSpec) -> Result<(), Reason> {
    let queue = || node.name.clone();
    if let Some(limit) = node.limits.time
        && spec.time_limit.is_none_or(|asked| asked > limit)
    {
        return Err(Reason::TimeLimit { queue: queue(), asked: spec.time_limit, limit });
    }
    if let Some(range) = node.priority
        && !(range.0..=range.1).contains(&spec.priority)
    {
        return Err(Reason::Priority { queue: queue(), asked: spec.priority, range });
    }
    if node.limits.running_jobs == Some(0) {
        return Err(Reason::RunningJobs { queue: queue(), running: 0, limit: 0 });
    }
    if let Some(gpus) = node.limits.gpus_per_user {
        let limit = gpus.saturating_mul(1000);
        if spec.min_gpus() > limit {
            return Err(Reason::GpusPerUser {
                queue: queue(),
                user: spec.user.clone(),
                asked: gpu_milli(spec.min_gpus()),
                used: GpuMilli(0),
                limit: gpu_milli(limit),
            });
        }
    }
    Ok(())
}

/// For people: saturates at four million GPUs.
pub(crate) fn gpu_milli(milli: u64) -> GpuMilli {
    GpuMilli(u32::try_from(milli).unwrap_or(u32::MAX))
}
