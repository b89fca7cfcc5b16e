//! Verdicts on submissions and starts, with the numbers that decided. Nothing here changes
//! anything.
//!
//! Every queue of the path from the leaf to the root is checked, nearest first. A start is checked
//! for running jobs, then GPUs per user, then quota; the first refusal is returned.

use std::collections::BTreeSet;

use muster_model::job::GpuRequest;
use muster_model::{GpuMilli, JobSpec, Reason, Span, TaskGroup, UserName};

use crate::budget_charge::check_budget_ever;
use crate::intern::{LeafId, ModelId, UserId};
use crate::ledger::total_milli;
use crate::queues::Queues;
use crate::quota::{ModelQuota, headroom};
use crate::{Policy, tree::QueueNode};

impl Policy {
    /// Checks that a job with this spec could ever start in `leaf`, alone in the cluster: its time
    /// limit, priority, and minimum GPUs against limits, budgets and quota. A job that accepts
    /// several models is refused only if all of them together do not suffice.
    ///
    /// # Errors
    /// The first condition that can never be met.
    pub fn check_submission(&self, leaf: LeafId, spec: &JobSpec) -> Result<(), Reason> {
        for node in self.queues.path(leaf) {
            check_spec(node, spec)?;
            check_budget_ever(node, spec)?;
        }
        self.check_quota_ever(leaf, &spec.groups, None)?;
        let length = spec.time_limit.map(|limit| limit + spec.grace);
        self.check_quota_ever(leaf, &spec.groups, Some(length))
    }

    /// Checks that `user` may have one more pending job in `leaf`, beside others just accepted in
    /// `beside`. Every queue of the path counts its subtree; an array is one job, since it is one
    /// entry however many elements it has, and one file of its user.
    ///
    /// # Errors
    /// The nearest queue whose limit is reached.
    pub fn check_pending_limit(
        &self,
        leaf: LeafId,
        user: &UserName,
        beside: &[LeafId],
    ) -> Result<(), Reason> {
        let id = self.users.find(user);
        for node in self.queues.path(leaf) {
            let Some(limit) = node.limits.pending_jobs else { continue };
            let inside =
                |leaf: &&LeafId| self.queues.path(**leaf).any(|other| std::ptr::eq(other, node));
            let waiting = id.and_then(|id| node.pending_jobs.get(&id)).copied().unwrap_or(0);
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

    /// Checks that `user` may start an element with `gpus` (thousandths by model) in `leaf` now,
    /// for `length`; `None` is unlimited.
    ///
    /// # Errors
    /// The first limit or quota that refuses it.
    pub fn check_start(
        &self,
        leaf: LeafId,
        user: UserId,
        gpus: &[(ModelId, u64)],
        length: Option<Span>,
    ) -> Result<(), Reason> {
        for node in self.queues.path(leaf) {
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
        self.check_user(leaf, user, total_milli(gpus))?;
        for (index, (model, milli)) in gpus.iter().enumerate() {
            // A model listed more than once is checked as one, at its first position.
            if gpus[..index].iter().any(|(seen, _)| seen == model) {
                continue;
            }
            let again: u64 = gpus[index + 1..]
                .iter()
                .filter(|(other, _)| other == model)
                .map(|(_, more)| more)
                .sum();
            self.check_quota(leaf, *model, milli + again, length)?;
        }
        Ok(())
    }

    /// Checks that `user` may hold this many thousandths of GPUs more in `leaf`, whatever other
    /// users hold.
    ///
    /// # Errors
    /// The nearest queue of the path that limits its users to fewer.
    pub fn check_user(&self, leaf: LeafId, user: UserId, asked_milli: u64) -> Result<(), Reason> {
        self.queues.path(leaf).try_for_each(|node| self.check_user_in(node, user, asked_milli))
    }

    /// Checks that an element with `gpus` may start in `leaf` without borrowing, as required of
    /// elements that cannot be preempted.
    ///
    /// # Errors
    /// The nearest queue of the path that would use more than its nominal quota.
    pub fn check_owned(&self, leaf: LeafId, gpus: &[(ModelId, u64)]) -> Result<(), Reason> {
        for (model, milli) in gpus {
            let at = usize::from(model.0);
            let beyond = |node: &&QueueNode| {
                let quota = &node.quota[at];
                quota.is_set && node.held[at].saturating_add(*milli) > quota.nominal
            };
            if let Some(node) = self.queues.path(leaf).find(beyond).filter(|_| *milli > 0) {
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

    fn check_user_in(&self, node: &QueueNode, user: UserId, asked: u64) -> Result<(), Reason> {
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

    fn check_quota(
        &self,
        leaf: LeafId,
        model: ModelId,
        milli: u64,
        length: Option<Span>,
    ) -> Result<(), Reason> {
        let at = usize::from(model.0);
        let mut growth = milli;
        for (depth, node) in self.queues.path(leaf).chain([self.queues.root()]).enumerate() {
            let quota = &node.quota[at];
            if growth == 0 || (depth == 0 && !quota.is_bounded) {
                return Ok(());
            }
            if quota.taken.saturating_add(growth) > quota.ceiling {
                let available = headroom(self.queues.quotas(leaf, model).into_iter());
                return Err(self.quota_reason(leaf, model, milli, available, |node| node.held[at]));
            }
            if let Some(limit) = node.borrows_for_less_than(model, length)
                && quota.taken.saturating_add(growth) > quota.nominal
            {
                let asked = (growth, quota.taken);
                return Err(self.borrowed_reason(node, model, asked, length, limit));
            }
            growth = quota.charge_to_parent_with(growth) - quota.charge_to_parent();
        }
        Ok(())
    }

    /// Rejects what does not fit even with nothing held; with a `length`, what fits only if held
    /// for less long.
    fn check_quota_ever(
        &self,
        leaf: LeafId,
        groups: &[TaskGroup],
        length: Option<Option<Span>>,
    ) -> Result<(), Reason> {
        if length.is_some() && !self.queues.limits_duration(leaf) {
            return Ok(());
        }
        // 1. The most of each model that this leaf can ever hold: unlimited where no quota bounds
        //    it.
        let is_bounded = |quota: &ModelQuota| quota.is_bounded;
        if !self.queues.nodes[self.queues.node_of(leaf)].quota.iter().any(is_bounded) {
            return Ok(());
        }
        let most: Vec<u64> =
            self.models.ids().map(|model| self.queues.max_of_model(leaf, model, length)).collect();
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

    /// Returns the models that a request accepts; `None` if one of them is not known, so that
    /// nothing can be said.
    fn accepted(&self, request: &GpuRequest) -> Option<BTreeSet<ModelId>> {
        if request.models.is_empty() {
            return Some(self.models.ids().collect());
        }
        request.models.iter().map(|name| self.models.find(name)).collect()
    }

    /// Returns how much of each model a leaf could hold for this long with nothing else held, where
    /// quota bounds it.
    #[must_use]
    pub fn max_by_model(&self, leaf: LeafId, length: Option<Span>) -> Vec<(ModelId, u64)> {
        let most = self
            .models
            .ids()
            .map(|model| (model, self.queues.max_of_model(leaf, model, Some(length))));
        most.filter(|(_, most)| *most < u64::MAX).collect()
    }

    /// Returns the refusal of a run that is longer than borrowing is allowed for, by the first
    /// queue of the path that refuses it.
    fn borrowed_ever(
        &self,
        leaf: LeafId,
        model: ModelId,
        asked: u64,
        length: Option<Span>,
    ) -> Option<Reason> {
        let nominal = |node: &QueueNode| node.quota[usize::from(model.0)].nominal;
        let refuses = |node: &&QueueNode| node.borrows_for_less_than(model, length).is_some();
        let mut path = self.queues.path(leaf).filter(refuses);
        let node = path.find(|node| asked > nominal(node))?;
        let limit = node.limits.borrowed_time?;
        Some(self.borrowed_reason(node, model, (asked, 0), length, limit))
    }

    /// Returns the reason that borrowed quota would be held for too long.
    fn borrowed_reason(
        &self,
        node: &QueueNode,
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

    /// Returns the refusal with the numbers of the nearest queue that sets a quota.
    fn quota_reason(
        &self,
        leaf: LeafId,
        model: ModelId,
        asked: u64,
        available: u64,
        used: impl Fn(&QueueNode) -> u64,
    ) -> Reason {
        let at = usize::from(model.0);
        let mut path = self.queues.path(leaf);
        let node = path.find(|node| node.quota[at].is_set).unwrap_or(self.queues.root());
        let used = used(node);
        let nominal = node.quota[at].nominal;
        let reachable = used.saturating_add(available);
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

impl Queues {
    /// Returns how much the leaf could hold with nothing else held, all of it for `length` if
    /// given; `u64::MAX` is unlimited.
    fn max_of_model(&self, leaf: LeafId, model: ModelId, length: Option<Option<Span>>) -> u64 {
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

    /// Returns the quotas from the leaf up to and including the root.
    fn quotas(&self, leaf: LeafId, model: ModelId) -> Vec<ModelQuota> {
        self.path(leaf).chain([self.root()]).map(|node| node.quota[usize::from(model.0)]).collect()
    }
}

impl QueueNode {
    /// Returns the limit on borrowed time of a model, if it is less than `length`.
    fn borrows_for_less_than(&self, model: ModelId, length: Option<Span>) -> Option<Span> {
        let limit =
            self.limits.borrowed_time.filter(|_| self.quota[usize::from(model.0)].is_set)?;
        length.is_none_or(|length| length > limit).then_some(limit)
    }
}

/// Checks the limits of a queue that do not depend on what runs.
fn check_spec(node: &QueueNode, spec: &JobSpec) -> Result<(), Reason> {
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

/// Converts thousandths of GPUs for display; saturates at four million GPUs.
pub(crate) fn gpu_milli(milli: u64) -> GpuMilli {
    GpuMilli(u32::try_from(milli).unwrap_or(u32::MAX))
}
