//! Checks quotas by their definition in docs/queues.md, with borrowing and lending, computed anew
//! from everything that counts: placements that are held and not being evicted, and nominated ones.
//! It shares no code with the policy.

use std::collections::BTreeMap;

use muster_model::{AttemptId, GpuModel, Protection, QueueSpec, TaskPlacement};

use super::nodes::model_of;
use super::queue_path::path_of;
use super::{Ledger, LedgerJob};

/// Use of one model by leaf queue, in thousandths of GPUs.
type LeafUse<'a> = BTreeMap<&'a str, u64>;

/// Checks a start or a nomination against everything else that counts, as if the attempts in `gone`
/// had been evicted.
pub(crate) fn check(
    ledger: &Ledger,
    (job, index): (&LedgerJob, u32),
    placement: &[TaskPlacement],
    gone: &[AttemptId],
) -> Result<(), String> {
    let owns = protection(job, index) != Protection::None;
    for (model, milli) in by_model(ledger, placement) {
        let mut used = LeafUse::new();
        for (other, places) in ledger.counted_without(gone) {
            let held = by_model(ledger, places).get(&model).copied().unwrap_or(0);
            *used.entry(ledger.leaf_of(other)).or_default() += held;
        }
        check_model(ledger, (job, owns), &model, milli, &used)?;
    }
    Ok(())
}

/// Returns the thousandths of GPUs of each model that a placement holds.
pub(crate) fn by_model(ledger: &Ledger, placement: &[TaskPlacement]) -> BTreeMap<GpuModel, u64> {
    let mut sums = BTreeMap::new();
    for place in placement {
        if let Some(model) = model_of(ledger, place) {
            *sums.entry(model.clone()).or_default() +=
                u64::from(place.devices.len()) * u64::from(place.share.0);
        }
    }
    sums
}

/// Returns the protection of an element by its own terms: guaranteed replicas are always protected,
/// opportunistic ones never.
pub(crate) fn protection(job: &LedgerJob, index: u32) -> Protection {
    match job.spec.service() {
        Some(service) if index < service.replicas.guaranteed => Protection::Always,
        Some(_) => Protection::None,
        None => job.spec.protect,
    }
}

/// Checks whether a job may hold this much more of a model. If `owns`, it may not use borrowed
/// quota.
fn check_model(
    ledger: &Ledger,
    (job, owns): (&LedgerJob, bool),
    model: &GpuModel,
    milli: u64,
    used: &LeafUse<'_>,
) -> Result<(), String> {
    let path = path_of(ledger, job);
    // 1. A leaf without a quota on its path is not limited.
    if !path.iter().any(|(_, queue)| queue.quota.contains_key(model)) {
        return Ok(());
    }
    // 2. From the leaf up: use after the start stays within quota plus borrowing limit.
    let mut growth = milli;
    for (name, queue) in path.iter().rev() {
        let above = path.iter().take_while(|(other, _)| other != name);
        let is_below_one = above.into_iter().any(|(_, queue)| queue.quota.contains_key(model));
        let taken = taken(queue, name, model, used, is_below_one);
        let nominal = nominal(queue, model);
        let is_set = queue.quota.contains_key(model);
        let most =
            queue.borrow.filter(|_| is_set).map_or(u64::MAX, |borrow| nominal + borrow * 1000);
        if taken + growth > most {
            return Err(format!("the quota of {name} for {model}, with all that it may borrow"));
        }
        let length = job.spec.time_limit.map(|limit| limit + job.spec.grace);
        let is_long = |limit| length.is_none_or(|length| length > limit);
        if is_set && queue.limits.borrowed_time.is_some_and(is_long) && taken + growth > nominal {
            return Err(format!("the longest time for which {name} may borrow {model}"));
        }
        let plain: u64 =
            used.iter().filter(|(leaf, _)| is_below(leaf, name)).map(|(_, milli)| milli).sum();
        if is_set && owns && plain + milli > nominal {
            return Err(format!(
                "the quota of {name} for {model}, though a protected job may not borrow"
            ));
        }
        let kept = kept(queue, model);
        growth = (taken + growth).max(kept) - taken.max(kept);
        if growth == 0 {
            return Ok(());
        }
    }
    // 3. All queues together hold no more than the sum of all quotas.
    let queues = &ledger.queues.queues;
    let claimed =
        |queue: &QueueSpec| taken(queue, &queue.name, model, used, false).max(kept(queue, model));
    let all: u64 = queues.iter().map(claimed).sum();
    let most: u64 = queues.iter().map(|queue| nominal(queue, model)).sum();
    if all + growth > most { Err(format!("all quotas for {model} together")) } else { Ok(()) }
}

fn is_below(leaf: &str, queue: &str) -> bool {
    leaf.strip_prefix(queue).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a queue's own quota, or the sum of its children's.
pub(crate) fn nominal(queue: &QueueSpec, model: &GpuModel) -> u64 {
    let own = queue.quota.get(model).map(|gpus| gpus * 1000);
    own.unwrap_or_else(|| queue.queues.iter().map(|child| nominal(child, model)).sum())
}

/// Returns the part of its quota that a queue never lends.
fn kept(queue: &QueueSpec, model: &GpuModel) -> u64 {
    let own = queue.quota.get(model).map_or(0, |gpus| gpus * 1000);
    queue.lend.map_or(0, |lend| own.saturating_sub(lend * 1000))
}

/// Returns the counted use of a queue: of a parent, what its children use or never lend; of a leaf
/// without a quota on its path, 0.
fn taken(queue: &QueueSpec, name: &str, model: &GpuModel, used: &LeafUse<'_>, above: bool) -> u64 {
    let is_bounded = above || queue.quota.contains_key(model);
    if queue.queues.is_empty() {
        return if is_bounded { used.get(name).copied().unwrap_or(0) } else { 0 };
    }
    let child = |child: &QueueSpec| {
        let name = format!("{name}/{}", child.name);
        taken(child, &name, model, used, is_bounded).max(kept(child, model))
    };
    queue.queues.iter().map(child).sum()
}
