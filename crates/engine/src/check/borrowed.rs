//! Is borrowed quota given back in time? Each start of a plan, in the order of its decisions, against what is held at that
//! moment, by the definition in `policy`. What is held is counted holding by holding; no number is taken from there.

use std::collections::BTreeMap;

use muster_model::reason::Reason;
use muster_model::{Decision, GpuMilli, GpuModel, Plan, QueueName, QueueSpec, Span, TaskPlacement};

use super::Violation;
use super::quota::{is_within, join};
use crate::state::State;

/// Thousandths of GPUs by leaf and model.
type Use = BTreeMap<(QueueName, GpuModel), u64>;

pub(super) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let queues = &state.policy.tree().queues;
    if plan.decisions.is_empty() || !queues.iter().any(has_limit) {
        return;
    }
    let leaf_of = |job| state.jobs.get(&job).map(|job| state.policy.leaf_name(job.record.leaf).clone());
    let mut used = Use::new();
    for holding in state.pool.holdings() {
        if let Some(leaf) = leaf_of(holding.element.job) {
            add(state, &leaf, &holding.placement, &mut used);
        }
    }
    for decision in &plan.decisions {
        let Decision::Start { id, placement, .. } = decision;
        let Some(job) = state.jobs.get(&id.element.job) else { continue };
        let (spec, leaf) = (&job.record.spec, state.policy.leaf_name(job.record.leaf));
        let before = used.clone();
        add(state, leaf, placement, &mut used);
        let length = spec.time_limit.map(|limit| limit + spec.grace);
        for queue in queues {
            judge(queue, &QueueName::from(&*queue.name), leaf, length, (&before, &used), found);
        }
    }
}

fn has_limit(queue: &QueueSpec) -> bool {
    queue.limits.borrowed_time.is_some() || queue.queues.iter().any(has_limit)
}

fn add(state: &State, leaf: &QueueName, placement: &[TaskPlacement], used: &mut Use) {
    for task in placement {
        let Some(node) = state.pool.get(task.node) else { continue };
        for device in task.devices.iter().filter_map(|device| node.spec.devices.get(device)) {
            *used.entry((leaf.clone(), device.model.clone())).or_default() += u64::from(task.share.0);
        }
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

/// Use of a subtree with a quota: of a leaf its own, of a parent that of its children, who take at least what they never
/// lend.
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
