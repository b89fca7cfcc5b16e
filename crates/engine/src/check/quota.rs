//! Checks limits and quotas: computed from the configured tree by the definition in `policy`, for
//! the sum of a whole plan, not start by start.

use std::collections::BTreeMap;

use muster_model::reason::Reason;
use muster_model::view::QueueView;
use muster_model::{
    Decision, GpuMilli, GpuModel, Plan, QueueName, QueueSpec, TaskPlacement, Time, UserName,
};

use super::Violation;
use super::counted::{self, CountedAllocation};
use crate::state::State;
use crate::state::job::Job;

/// Change of one leaf by a plan.
#[derive(Default)]
struct LeafChange {
    elements: u32,
    by_model: BTreeMap<GpuModel, u64>,
    by_user: BTreeMap<UserName, u64>,
    /// Number of elements that the plan evicts or that give up an allocation.
    gone: u32,
    gone_by_model: BTreeMap<GpuModel, u64>,
}

/// Use of a subtree before and after the plan, as its parent counts it.
#[derive(Clone, Copy, Default)]
struct QuotaUse {
    before: u64,
    after: u64,
}

struct QuotaChecker<'a> {
    state: &'a State,
    plan: &'a Plan,
    views: BTreeMap<QueueName, QueueView>,
    added: BTreeMap<QueueName, LeafChange>,
    found: &'a mut Vec<Violation>,
}

pub(super) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let queues = &state.policy.tree().queues;
    if plan.decisions.is_empty() || !queues.iter().any(has_terms) {
        return;
    }
    let views = state
        .policy
        .queue_views(Time(0))
        .into_iter()
        .map(|view| (view.name.clone(), view))
        .collect();
    let mut checker = QuotaChecker { state, plan, views, added: added(state, plan), found };
    for model in state.policy.models().ids().map(|id| state.policy.models().name(id).clone()) {
        let mut nominal = 0;
        let mut quota_use = QuotaUse::default();
        let mut is_bounded = false;
        for queue in queues {
            let (own, sum) = checker.quota(queue, &QueueName::from(&*queue.name), &model, false);
            is_bounded |= has_quota(queue, &model);
            nominal += own;
            quota_use = QuotaUse {
                before: quota_use.before + sum.before,
                after: quota_use.after + sum.after,
            };
        }
        if is_bounded && quota_use.after > quota_use.before && quota_use.after > nominal {
            checker.report_quota("", &model, quota_use, nominal);
        }
    }
    for queue in queues {
        checker.limits(queue, &QueueName::from(&*queue.name));
    }
}

fn has_terms(queue: &QueueSpec) -> bool {
    !queue.quota.is_empty()
        || queue.limits.running_jobs.is_some()
        || queue.limits.gpus_per_user.is_some()
        || queue.queues.iter().any(has_terms)
}

fn has_quota(queue: &QueueSpec, model: &GpuModel) -> bool {
    queue.quota.contains_key(model) || queue.queues.iter().any(|child| has_quota(child, model))
}

/// Returns what the plan adds and removes, by leaf. The start of a pending allocation adds nothing:
/// it counts already.
fn added(state: &State, plan: &Plan) -> BTreeMap<QueueName, LeafChange> {
    let mut added: BTreeMap<QueueName, LeafChange> = BTreeMap::new();
    let leaf = |job: &Job| state.policy.queues().leaf_name(job.record.leaf).clone();
    let milli = |task: &TaskPlacement| u64::from(task.devices.len()) * u64::from(task.share.0);
    for decision in &plan.decisions {
        let (element, placement) = match decision {
            Decision::Start { id, placement, .. }
                if counted::pending_unless_revoked(state, plan, id.element).is_none() =>
            {
                (id.element, placement)
            }
            Decision::Nominate { element, placement, .. } => (*element, placement),
            Decision::Start { .. } | Decision::Revoke { .. } => continue,
        };
        let Some(job) = state.jobs.get(&element.job) else { continue };
        let entry = added.entry(leaf(job)).or_default();
        entry.elements += 1;
        for task in placement.iter() {
            let Some(model) = counted::model_of(state, task) else { continue };
            *entry.by_model.entry(model.clone()).or_default() += milli(task);
            *entry.by_user.entry(job.record.spec.user.clone()).or_default() += milli(task);
        }
    }
    for one in counted::removed(state, plan) {
        let entry = added.entry(leaf(one.job)).or_default();
        entry.gone += 1;
        for task in one.placement.iter() {
            let Some(model) = counted::model_of(state, task) else { continue };
            *entry.gone_by_model.entry(model.clone()).or_default() += milli(task);
        }
    }
    added
}

impl QuotaChecker<'_> {
    /// Returns the nominal quota of a queue, and its use as its parent counts it.
    fn quota(
        &mut self,
        queue: &QueueSpec,
        path: &QueueName,
        model: &GpuModel,
        bounded: bool,
    ) -> (u64, QuotaUse) {
        let bounded = bounded || queue.quota.contains_key(model);
        let own = queue.quota.get(model).map(|gpus| gpus.saturating_mul(1000));
        // 1. Use: of a leaf its own, of a parent the sum over its children with a quota.
        let mut nominal = 0;
        let mut taken = QuotaUse::default();
        if queue.queues.is_empty() && bounded {
            let used = |view: &QueueView| {
                view.gpus
                    .iter()
                    .find(|row| row.model == *model)
                    .map_or(0, |row| u64::from(row.used.0))
            };
            let gone = self
                .added
                .get(path)
                .and_then(|added| added.gone_by_model.get(model))
                .copied()
                .unwrap_or(0);
            let before = self.views.get(path).map_or(0, used).saturating_sub(gone);
            let more = self
                .added
                .get(path)
                .and_then(|added| added.by_model.get(model))
                .copied()
                .unwrap_or(0);
            taken = QuotaUse { before, after: before + more };
        }
        for child in &queue.queues {
            let (below, quota_use) = self.quota(child, &join(path, child), model, bounded);
            nominal += below;
            taken = QuotaUse {
                before: taken.before + quota_use.before,
                after: taken.after + quota_use.after,
            };
        }
        let nominal = own.unwrap_or(nominal);
        // 2. Borrowing limit, if it has one.
        let ceiling =
            own.and(queue.borrow).map(|borrow| nominal.saturating_add(borrow.saturating_mul(1000)));
        if taken.after > taken.before && ceiling.is_some_and(|ceiling| taken.after > ceiling) {
            self.report_quota(path.as_str(), model, taken, nominal);
        }
        // 3. Quota that it never lends counts as used.
        let unlent = match (own, queue.lend) {
            (Some(own), Some(lend)) => own - lend.saturating_mul(1000).min(own),
            _ => 0,
        };
        (nominal, QuotaUse { before: taken.before.max(unlent), after: taken.after.max(unlent) })
    }

    fn report_quota(&mut self, queue: &str, model: &GpuModel, quota_use: QuotaUse, nominal: u64) {
        let milli = |value: u64| GpuMilli(u32::try_from(value).unwrap_or(u32::MAX));
        self.found.push(Violation::Limit(Box::new(Reason::Quota {
            queue: queue.into(),
            model: model.clone(),
            asked: milli(quota_use.after - quota_use.before),
            used: milli(quota_use.before),
            nominal: milli(nominal),
            borrowable: GpuMilli(0),
            lent: GpuMilli(0),
        })));
    }

    /// Checks running elements and GPUs per user, in every queue of a subtree.
    fn limits(&mut self, queue: &QueueSpec, path: &QueueName) {
        let below: Vec<&LeafChange> = self
            .added
            .iter()
            .filter(|(leaf, _)| is_within(leaf, path))
            .map(|(_, added)| added)
            .collect();
        let elements: u32 = below.iter().map(|added| added.elements).sum();
        let gone: u32 = below.iter().map(|added| added.gone).sum();
        let running = self.views.get(path).map_or(0, |view| view.running).saturating_sub(gone);
        if let Some(limit) = queue.limits.running_jobs
            && elements > 0
            && running + elements > limit
        {
            let reason =
                Reason::RunningJobs { queue: path.clone(), running: running + elements, limit };
            self.found.push(Violation::Limit(Box::new(reason)));
        }
        if let Some(limit) = queue.limits.gpus_per_user {
            let mut by_user: BTreeMap<UserName, u64> = BTreeMap::new();
            for (user, milli) in below.iter().flat_map(|added| &added.by_user) {
                *by_user.entry(user.clone()).or_default() += milli;
            }
            for (user, more) in by_user {
                self.user_limit(path, &user, more, limit);
            }
        }
        for child in &queue.queues {
            self.limits(child, &join(path, child));
        }
    }

    fn user_limit(&mut self, path: &QueueName, user: &UserName, more: u64, limit: u64) {
        let is_theirs = |one: &CountedAllocation<'_>| {
            let leaf = self.state.policy.queues().leaf_name(one.job.record.leaf);
            one.job.record.spec.user == *user && is_within(leaf, path)
        };
        let staying = counted::remaining(self.state, self.plan);
        let used: u64 = staying.filter(is_theirs).map(|one| one.milli()).sum();
        if used + more > limit.saturating_mul(1000) {
            let milli = |value: u64| GpuMilli(u32::try_from(value).unwrap_or(u32::MAX));
            self.found.push(Violation::Limit(Box::new(Reason::GpusPerUser {
                queue: path.clone(),
                user: user.clone(),
                asked: milli(more),
                used: milli(used),
                limit: milli(limit.saturating_mul(1000)),
            })));
        }
    }
}

pub(super) fn join(path: &QueueName, child: &QueueSpec) -> QueueName {
    format!("{path}/{}", child.name).into()
}

pub(super) fn is_within(leaf: &QueueName, queue: &QueueName) -> bool {
    leaf.as_str()
        .strip_prefix(queue.as_str())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
