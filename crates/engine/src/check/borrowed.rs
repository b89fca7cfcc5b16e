//! Is borrowed quota given back in time, and does nobody borrow who may not be made to go? Each
//! start of a plan, in the order of its decisions, against what is held at that moment, by the
//! definition in `policy`. What is held is counted holding by holding; no number is taken from
//! there.

use std::collections::BTreeMap;

use muster_model::reason::Reason;
use muster_model::{
    Decision, ElementId, GpuMilli, GpuModel, Plan, Protection, QueueName, QueueSpec, Span,
    TaskPlacement,
};

use super::claims::terms_of;
use super::quota::{is_within, join};
use super::{Violation, counted};
use crate::state::State;
use crate::state::job::Job;

/// Thousandths of GPUs by leaf and model.
type Use = BTreeMap<(QueueName, GpuModel), u64>;

pub(super) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let queues = &state.policy.tree().queues;
    let is_protected = |element: ElementId| {
        let job = state.jobs.get(&element.job);
        job.is_some_and(|job| terms_of(job, element).1 != Protection::None)
    };
    let comes = |decision: &Decision| match decision {
        Decision::Start { id, .. } => is_protected(id.element),
        Decision::Claim { element, .. } => is_protected(*element),
        Decision::Unclaim { .. } => false,
    };
    if plan.decisions.is_empty()
        || !queues.iter().any(has_limit) && !plan.decisions.iter().any(comes)
    {
        return;
    }
    let leaf_of = |job: &Job| state.policy.leaf_name(job.record.leaf).clone();
    let mut used = Use::new();
    for one in counted::before(state) {
        change(state, &leaf_of(one.job), one.placement, &mut used, true);
    }
    for decision in &plan.decisions {
        // 1. Who goes first; what was promised counts already.
        let (element, placement, gone) = match decision {
            Decision::Start { id, .. } if counted::kept(state, plan, id.element).is_some() => {
                continue;
            }
            Decision::Start { id, placement, .. } => (id.element, Some(placement), Vec::new()),
            Decision::Claim { element, placement, evict } => {
                let going =
                    evict.iter().filter_map(|eviction| counted::running(state, eviction.id));
                (*element, Some(placement), going.collect())
            }
            Decision::Unclaim { element } => {
                (*element, None, counted::promised(state, *element).into_iter().collect())
            }
        };
        for one in gone {
            change(state, &leaf_of(one.job), one.placement, &mut used, false);
        }
        // 2. Who comes.
        let (Some(job), Some(placement)) = (state.jobs.get(&element.job), placement) else {
            continue;
        };
        let (spec, leaf) = (&job.record.spec, leaf_of(job));
        let before = used.clone();
        change(state, &leaf, placement, &mut used, true);
        let length = spec.time_limit.map(|limit| limit + spec.grace);
        for queue in queues {
            let path = QueueName::from(&*queue.name);
            judge(queue, &path, &leaf, length, (&before, &used), found);
            if is_protected(element) {
                judge_owned(queue, &path, &leaf, (&before, &used), found);
            }
        }
    }
}

/// Who may not be made to go starts within what is each queue's own, all the way up.
fn judge_owned(
    queue: &QueueSpec,
    path: &QueueName,
    leaf: &QueueName,
    (before, after): (&Use, &Use),
    found: &mut Vec<Violation>,
) {
    if !is_within(leaf, path) {
        return;
    }
    for child in &queue.queues {
        judge_owned(child, &join(path, child), leaf, (before, after), found);
    }
    let milli = |value: u64| GpuMilli(u32::try_from(value).unwrap_or(u32::MAX));
    for (model, gpus) in &queue.quota {
        let below = |used: &Use| -> u64 {
            let own =
                used.iter().filter(|((leaf, other), _)| other == model && is_within(leaf, path));
            own.map(|(_, sum)| *sum).sum()
        };
        let (had, has, nominal) = (below(before), below(after), gpus.saturating_mul(1000));
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
    used: &mut Use,
    comes: bool,
) {
    for task in placement {
        let Some(model) = counted::model_of(state, task) else { continue };
        let milli = u64::from(task.devices.len()) * u64::from(task.share.0);
        let sum = used.entry((leaf.clone(), model.clone())).or_default();
        *sum = if comes { *sum + milli } else { sum.saturating_sub(milli) };
    }
}

/// Every queue of the path to `leaf` that limits borrowed time.
fn judge(
    queue: &QueueSpec,
    path: &QueueName,
    leaf: &QueueName,
    length: Option<Span>,
    (before, after): (&Use, &Use),
    found: &mut Vec<Violation>,
) {
    if !is_within(leaf, path) {
        return;
    }
    for child in &queue.queues {
        judge(child, &join(path, child), leaf, length, (before, after), found);
    }
    let Some(limit) = queue.limits.borrowed_time else { return };
    if length.is_some_and(|length| length <= limit) {
        return;
    }
    for (model, gpus) in &queue.quota {
        let nominal = gpus.saturating_mul(1000);
        let (had, has) = (taken(queue, path, model, before), taken(queue, path, model, after));
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

/// Use of a subtree with a quota: of a leaf its own, of a parent that of its children, who take at
/// least what they never lend.
fn taken(queue: &QueueSpec, path: &QueueName, model: &GpuModel, used: &Use) -> u64 {
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
