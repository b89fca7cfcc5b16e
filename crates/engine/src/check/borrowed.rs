//! Checks borrowing: borrowed quota is returned within the time limit, and jobs that cannot be
//! preempted do not borrow. Each start of a plan is checked in the order of decisions against the
//! holdings at that moment, by the definition in `policy`. Holdings are summed one by one; no
//! number is taken from the policy.

use std::collections::BTreeMap;

use muster_model::reason::Reason;
use muster_model::{
    Decision, ElementId, GpuMilli, GpuModel, Plan, Protection, QueueName, QueueSpec, Span,
    TaskPlacement,
};

use super::gang::priority_and_protection;
use super::quota::{is_within, join};
use super::{Violation, counted};
use crate::state::State;
use crate::state::job::Job;

/// Use in thousandths of GPUs, by leaf and model.
type QueueUse = BTreeMap<(QueueName, GpuModel), u64>;

pub(super) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let queues = &state.policy.tree().queues;
    let is_protected = |element: ElementId| {
        let job = state.jobs.get(&element.job);
        job.is_some_and(|job| priority_and_protection(job, element).1 != Protection::None)
    };
    let starts_protected = |decision: &Decision| match decision {
        Decision::Start { id, .. } => is_protected(id.element),
        Decision::Nominate { element, .. } => is_protected(*element),
        Decision::Revoke { .. } => false,
    };
    if plan.decisions.is_empty()
        || !queues.iter().any(has_limit) && !plan.decisions.iter().any(starts_protected)
    {
        return;
    }
    let leaf_of = |job: &Job| state.policy.queues().leaf_name(job.record.leaf).clone();
    let mut used = QueueUse::new();
    for one in counted::before(state) {
        change(state, &leaf_of(one.job), one.placement, &mut used, true);
    }
    for decision in &plan.decisions {
        // 1. Evictions first; a start of a pending allocation counts already.
        let (element, placement, gone) = match decision {
            Decision::Start { id, .. }
                if counted::pending_unless_revoked(state, plan, id.element).is_some() =>
            {
                continue;
            }
            Decision::Start { id, placement, .. } => (id.element, Some(placement), Vec::new()),
            Decision::Nominate { element, placement, evict } => {
                let evicted =
                    evict.iter().filter_map(|eviction| counted::running(state, eviction.id));
                (*element, Some(placement), evicted.collect())
            }
            Decision::Revoke { element } => {
                (*element, None, counted::pending(state, *element).into_iter().collect())
            }
        };
        for one in gone {
            change(state, &leaf_of(one.job), one.placement, &mut used, false);
        }
        // 2. The start.
        let (Some(job), Some(placement)) = (state.jobs.get(&element.job), placement) else {
            continue;
        };
        let spec = &job.record.spec;
        let leaf = leaf_of(job);
        let before = used.clone();
        change(state, &leaf, placement, &mut used, true);
        let length = spec.time_limit.map(|limit| limit + spec.grace);
        for queue in queues {
            let path = QueueName::from(&*queue.name);
            check_path(queue, &path, &leaf, length, (&before, &used), found);
            if is_protected(element) {
                check_own_quota(queue, &path, &leaf, (&before, &used), found);
            }
        }
    }
}

/// A job that cannot be preempted must start within the own quota of each queue up to the root.
fn check_own_quota(
    queue: &QueueSpec,
    path: &QueueName,
    leaf: &QueueName,
    (before, after): (&QueueUse, &QueueUse),
    found: &mut Vec<Violation>,
) {
    if !is_within(leaf, path) {
        return;
    }
    for child in &queue.queues {
        check_own_quota(child, &join(path, child), leaf, (before, after), found);
    }
    let milli = |value: u64| GpuMilli(u32::try_from(value).unwrap_or(u32::MAX));
    for (model, gpus) in &queue.quota {
        let below = |used: &QueueUse| -> u64 {
            let own =
                used.iter().filter(|((leaf, other), _)| other == model && is_within(leaf, path));
            own.map(|(_, sum)| *sum).sum()
        };
        let had = below(before);
        let has = below(after);
        let nominal = gpus.saturating_mul(1000);
        if has > had && has > nominal {
            found.push(Violation::Limit(Box::new(Reason::MayNotBorrow {
                queue: path.clone(),
                model: model.clone(),
                asked: milli(has - had),
                used: milli(had),
                nominal: milli(nominal),
            })));
        }
    }
}

fn has_limit(queue: &QueueSpec) -> bool {
    queue.limits.borrowed_time.is_some() || queue.queues.iter().any(has_limit)
}

fn change(
    state: &State,
    leaf: &QueueName,
    placement: &[TaskPlacement],
    used: &mut QueueUse,
    adds: bool,
) {
    for task in placement {
        let Some(model) = counted::model_of(state, task) else { continue };
        let milli = u64::from(task.devices.len()) * u64::from(task.share.0);
        let sum = used.entry((leaf.clone(), model.clone())).or_default();
        *sum = if adds { *sum + milli } else { sum.saturating_sub(milli) };
    }
}

/// Checks every queue on the path to `leaf` that limits borrowed time.
fn check_path(
    queue: &QueueSpec,
    path: &QueueName,
    leaf: &QueueName,
    length: Option<Span>,
    (before, after): (&QueueUse, &QueueUse),
    found: &mut Vec<Violation>,
) {
    if !is_within(leaf, path) {
        return;
    }
    for child in &queue.queues {
        check_path(child, &join(path, child), leaf, length, (before, after), found);
    }
    let Some(limit) = queue.limits.borrowed_time else { return };
    if length.is_some_and(|length| length <= limit) {
        return;
    }
    for (model, gpus) in &queue.quota {
        let nominal = gpus.saturating_mul(1000);
        let had = taken(queue, path, model, before);
        let has = taken(queue, path, model, after);
        if has > had && has > nominal {
            let milli = |value: u64| GpuMilli(u32::try_from(value).unwrap_or(u32::MAX));
            found.push(Violation::Limit(Box::new(Reason::BorrowedTime {
                queue: path.clone(),
                model: model.clone(),
                asked: milli(has - had),
                used: milli(had),
                nominal: milli(nominal),
                length,
                limit,
            })));
        }
    }
}

/// Returns the use of a subtree with a quota: that of a leaf, or the sum of its children, each at
/// least the quota that it never lends.
fn taken(queue: &QueueSpec, path: &QueueName, model: &GpuModel, used: &QueueUse) -> u64 {
    if queue.queues.is_empty() {
        return used.get(&(path.clone(), model.clone())).copied().unwrap_or(0);
    }
    let of_child = |child: &QueueSpec| {
        let own = child.quota.get(model).map_or(0, |gpus| gpus.saturating_mul(1000));
        let lent = child.lend.map_or(own, |lend| lend.saturating_mul(1000).min(own));
        taken(child, &join(path, child), model, used).max(own - lent)
    };
    queue.queues.iter().map(of_child).sum()
}
