//! Is no budget overrun? By its definition in docs/queues.md, from below: what runs is counted as
//! its time limit and grace promise, what has ended with the time that it has run, and what nobody
//! can know from the journal not at all. It shares no code with the policy.

use muster_model::{Span, TaskPlacement, Time, UserName};

use super::book::{Book, Job};
use super::holdings::path_of;

/// Milliseconds × thousandths of a GPU in a GPU-hour.
const GPU_HOUR: u128 = 3_600_000 * 1000;

/// What an attempt that has ended took, as long as the queues are the same.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    pub(crate) leaf: String,
    pub(crate) user: UserName,
    pub(crate) milli: u64,
    pub(crate) from: Time,
    pub(crate) ran: Span,
}

/// Thousandths of GPUs that places hold.
pub(crate) fn milli(placement: &[TaskPlacement]) -> u64 {
    placement.iter().map(|place| u64::from(place.devices.len()) * u64::from(place.share.0)).sum()
}

/// What it may take from an instant on; endless ones of this window, which ends then.
fn promise(job: &Job, milli: u64, from: Time, over: Time) -> u128 {
    let length = job.spec.time_limit.map_or(over.since(from), |limit| limit + job.spec.grace);
    u128::from(milli) * u128::from(length.0)
}

/// May a job take these places at an instant?
pub(crate) fn judge(
    book: &Book,
    job: &Job,
    placement: &[TaskPlacement],
    at: Time,
) -> Result<(), String> {
    let own = milli(placement);
    for (path, queue) in path_of(book, job).into_iter().filter(|_| own > 0) {
        let Some(budget) = &queue.budget else { continue };
        // 1. The window that it would start in.
        let every = budget.every.0.max(1);
        let phase = budget.start.0 % every;
        if at.0 < phase {
            continue;
        }
        let begin = Time(at.0 - (at.0 - phase) % every);
        let over = begin + Span(every);
        // 2. What others have taken of it, and it would.
        let sum = |of: &dyn Fn(&UserName) -> bool| {
            let is_below = |leaf: &str| {
                leaf.strip_prefix(&*path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let spent = book
                .spent
                .iter()
                .filter(|one| one.from >= begin && is_below(&one.leaf) && of(&one.user));
            let spent: u128 = spent.map(|one| u128::from(one.milli) * u128::from(one.ran.0)).sum();
            let runs = book
                .counted_since()
                .filter(|(job, ..)| is_below(book.leaf_of(job)) && of(&job.spec.user));
            let runs: u128 = runs
                .map(|(job, places, from)| match job.spec.time_limit {
                    Some(_) if from < begin => 0,
                    _ => promise(job, milli(places), from.max(begin), over),
                })
                .sum();
            spent + runs + promise(job, own, at, over)
        };
        let checks = [
            (budget.gpu_hours, sum(&|_| true)),
            (budget.gpu_hours_per_user, sum(&|user| *user == job.spec.user)),
        ];
        for (hours, sum) in checks {
            if hours.is_some_and(|hours| sum > u128::from(hours) * GPU_HOUR) {
                return Err(format!("the budget of {path}"));
            }
        }
    }
    Ok(())
}

/// Is what a job promises at the least more than a whole budget?
pub(crate) fn is_beyond(book: &Book, job: &Job) -> bool {
    path_of(book, job).into_iter().any(|(_, queue)| {
        let Some(budget) = &queue.budget else { return false };
        let least = [budget.gpu_hours, budget.gpu_hours_per_user].into_iter().flatten().min();
        let length = job.spec.time_limit.map_or(budget.every, |limit| limit + job.spec.grace);
        let asked = u128::from(job.spec.min_gpus()) * u128::from(length.0);
        least.is_some_and(|hours| asked > u128::from(hours) * GPU_HOUR)
    })
}
