//! May a queue hold so much? Quota with borrowing and lending by its definition in docs/queues.md,
//! worked out anew from everything that counts: what holds its places and was not told to go, and
//! what was promised places. It shares no code with the policy.

use std::collections::BTreeMap;

use muster_model::{AttemptId, GpuModel, Protection, QueueSpec, TaskPlacement};

use super::book::{Book, Job};
use super::holdings::{model_of, path_of};

/// Use of one model by leaf, in thousandths.
type Use<'a> = BTreeMap<&'a str, u64>;

/// Judges a start (or a promise) against all that counts beside it, as if some attempts had been
/// told to go.
pub(crate) fn judge(
    book: &Book,
    (job, index): (&Job, u32),
    placement: &[TaskPlacement],
    gone: &[AttemptId],
) -> Result<(), String> {
    let owns = protection(job, index) != Protection::None;
    for (model, milli) in by_model(book, placement) {
        let mut used = Use::new();
        for (other, places) in book.counted_without(gone) {
            let held = by_model(book, places).get(&model).copied().unwrap_or(0);
            *used.entry(book.leaf_of(other)).or_default() += held;
        }
        judge_model(book, (job, owns), &model, milli, &used)?;
    }
    Ok(())
}

/// Thousandths of GPUs by model that places hold.
pub(crate) fn by_model(book: &Book, placement: &[TaskPlacement]) -> BTreeMap<GpuModel, u64> {
    let mut sums = BTreeMap::new();
    for place in placement {
        if let Some(model) = model_of(book, place) {
            *sums.entry(model.clone()).or_default() +=
                u64::from(place.devices.len()) * u64::from(place.share.0);
        }
    }
    sums
}

/// How safe an element is by its own terms: what a service has promised to be always is, and its
/// burst never.
pub(crate) fn protection(job: &Job, index: u32) -> Protection {
    match job.spec.service() {
        Some(service) if index < service.replicas.floor => Protection::Always,
        Some(_) => Protection::None,
        None => job.spec.protect,
    }
}

/// May it hold so much more of a model? What `owns` runs on its queues' own only.
fn judge_model(
    book: &Book,
    (job, owns): (&Job, bool),
    model: &GpuModel,
    milli: u64,
    used: &Use<'_>,
) -> Result<(), String> {
    let path = path_of(book, job);
    // 1. A leaf that no quota reaches uses what it likes.
    if !path.iter().any(|(_, queue)| queue.quota.contains_key(model)) {
        return Ok(());
    }
    // 2. From the leaf up: what counts after the start stays within what the queue has and may
    //    borrow.
    let mut growth = milli;
    for (name, queue) in path.iter().rev() {
        let above = path.iter().take_while(|(other, _)| other != name);
        let is_below_one = above.into_iter().any(|(_, queue)| queue.quota.contains_key(model));
        let (taken, nominal) =
            (taken(queue, name, model, used, is_below_one), nominal(queue, model));
        let is_set = queue.quota.contains_key(model);
        let most =
            queue.borrow.filter(|_| is_set).map_or(u64::MAX, |borrow| nominal + borrow * 1000);
        if taken + growth > most {
            return Err(format!("the quota of {name} for {model}, with all that it may borrow"));
        }
        let length = job.spec.time_limit.map(|limit| limit + job.spec.grace);
        let is_long = |limit| length.is_none_or(|length| length > limit);
        if is_set && queue.limits.borrowed_time.is_some_and(is_long) && taken + growth > nominal {
            return Err(format!("the time for which {name} may borrow {model}"));
        }
        let plain: u64 =
            used.iter().filter(|(leaf, _)| is_below(leaf, name)).map(|(_, milli)| milli).sum();
        if is_set && owns && plain + milli > nominal {
            return Err(format!("what {name} owns of {model}, though it cannot be taken back"));
        }
        let kept = kept(queue, model);
        growth = (taken + growth).max(kept) - taken.max(kept);
        if growth == 0 {
            return Ok(());
        }
    }
    // 3. All queues together hold no more than all their quotas.
    let queues = &book.queues.queues;
    let claimed =
        |queue: &QueueSpec| taken(queue, &queue.name, model, used, false).max(kept(queue, model));
    let all: u64 = queues.iter().map(claimed).sum();
    let most: u64 = queues.iter().map(|queue| nominal(queue, model)).sum();
    match all + growth > most {
        true => Err(format!("all quotas for {model} together")),
        false => Ok(()),
    }
}

fn is_below(leaf: &str, queue: &str) -> bool {
    leaf.strip_prefix(queue).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a queue sets, or what its children have together.
pub(crate) fn nominal(queue: &QueueSpec, model: &GpuModel) -> u64 {
    let own = queue.quota.get(model).map(|gpus| gpus * 1000);
    own.unwrap_or_else(|| queue.queues.iter().map(|child| nominal(child, model)).sum())
}

/// What a queue never lends.
fn kept(queue: &QueueSpec, model: &GpuModel) -> u64 {
    let own = queue.quota.get(model).map_or(0, |gpus| gpus * 1000);
    queue.lend.map_or(0, |lend| own.saturating_sub(lend * 1000))
}

/// What counts as used of a queue: of a parent, what its children use or never lend; of a leaf that
/// no quota reaches, nothing.
fn taken(queue: &QueueSpec, name: &str, model: &GpuModel, used: &Use<'_>, above: bool) -> u64 {
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
