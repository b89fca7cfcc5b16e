//! Checks that no budget is overrun, by its definition in docs/queues.md and from below: running
//! jobs count with their time limit plus grace, ended ones with the time they ran, and what the
//! journal does not tell counts as 0. It shares no code with the policy.

use muster_model::{Span, TaskPlacement, Time, UserName};

use super::queue_path::path_of;
use super::{Ledger, LedgerJob};

/// Thousandths of a GPU × milliseconds in a GPU-hour.
const GPU_HOUR: u128 = 3_600_000 * 1000;

/// GPU time of an ended attempt, kept until the queues change.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    pub(crate) leaf: String,
    pub(crate) user: UserName,
    pub(crate) milli: u64,
    pub(crate) from: Time,
    pub(crate) ran: Span,
}

/// Returns the thousandths of GPUs that a placement holds.
pub(crate) fn milli(placement: &[TaskPlacement]) -> u64 {
    placement.iter().map(|place| u64::from(place.devices.len()) * u64::from(place.share.0)).sum()
}

/// Returns the most a job may use from an instant on; without a time limit, until the budget period
/// ends at `over`.
fn most_use(job: &LedgerJob, milli: u64, from: Time, over: Time) -> u128 {
    let length = job.spec.time_limit.map_or(over.since(from), |limit| limit + job.spec.grace);
    u128::from(milli) * u128::from(length.0)
}

/// Checks whether a job may take a placement at an instant.
pub(crate) fn check(
    ledger: &Ledger,
    job: &LedgerJob,
    placement: &[TaskPlacement],
    at: Time,
) -> Result<(), String> {
    let own = milli(placement);
    for (path, queue) in path_of(ledger, job).into_iter().filter(|_| own > 0) {
        let Some(budget) = &queue.budget else { continue };
        // 1. The budget period that it would start in.
        let every = budget.every.0.max(1);
        let phase = budget.start.0 % every;
        if at.0 < phase {
            continue;
        }
        let begin = Time(at.0 - (at.0 - phase) % every);
        let over = begin + Span(every);
        // 2. Use by other jobs in this period, plus this one.
        let sum = |of: &dyn Fn(&UserName) -> bool| {
            let is_below = |leaf: &str| {
                leaf.strip_prefix(&*path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let spent = ledger
                .spent
                .iter()
                .filter(|one| one.from >= begin && is_below(&one.leaf) && of(&one.user));
            let spent: u128 = spent.map(|one| u128::from(one.milli) * u128::from(one.ran.0)).sum();
            let runs = ledger
                .counted_since()
                .filter(|(job, ..)| is_below(ledger.leaf_of(job)) && of(&job.spec.user));
            let runs: u128 = runs
                .map(|(job, places, from)| match job.spec.time_limit {
                    Some(_) if from < begin => 0,
                    _ => most_use(job, milli(places), from.max(begin), over),
                })
                .sum();
            spent + runs + most_use(job, own, at, over)
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

/// Returns whether the least a job must be charged exceeds a whole budget.
pub(crate) fn is_beyond(ledger: &Ledger, job: &LedgerJob) -> bool {
    path_of(ledger, job).into_iter().any(|(_, queue)| {
        let Some(budget) = &queue.budget else { return false };
        let least = [budget.gpu_hours, budget.gpu_hours_per_user].into_iter().flatten().min();
        let length = job.spec.time_limit.map_or(budget.every, |limit| limit + job.spec.grace);
        let requested = u128::from(job.spec.min_gpus()) * u128::from(length.0);
        least.is_some_and(|hours| requested > u128::from(hours) * GPU_HOUR)
    })
}
