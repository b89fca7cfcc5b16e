//! Checks budgets: allocations are summed job by job by the definition in `policy`, for the sum of
//! a whole plan; only the use of ended jobs is taken from the policy, since nothing else stores it.

use std::collections::BTreeMap;

use muster_model::queue::QueueBudget;
use muster_model::reason::Reason;
use muster_model::{Decision, Plan, QueueName, QueueSpec, Span, TaskPlacement, Time, UserName};

use super::quota::{is_within, join};
use super::{Violation, counted};
use crate::state::State;

/// Milliseconds × thousandths of a GPU in a GPU-second.
const PER_GPU_SEC: u128 = 1_000_000;

/// Element that holds GPUs, or is to hold them.
struct BudgetStake {
    leaf: QueueName,
    user: UserName,
    milli: u128,
    from: Time,
    length: Option<Span>,
    is_new: bool,
}

/// Charges to one budget period, and the rate of elements without a time limit.
#[derive(Clone, Copy, Default)]
struct BudgetSum {
    before: u128,
    added: u128,
    endless: u128,
    adds_endless: bool,
}

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    let queues = &state.policy.tree().queues;
    if plan.decisions.is_empty() || !queues.iter().any(has_budget) {
        return;
    }
    let stakes = stakes(state, now, plan);
    for queue in queues {
        check_queue(state, now, queue, &QueueName::from(&*queue.name), &stakes, found);
    }
}

fn has_budget(queue: &QueueSpec) -> bool {
    queue.budget.is_some() || queue.queues.iter().any(has_budget)
}

/// Returns all allocations that count, and all that the plan starts or nominates. Victims are
/// charged until they are evicted, as in the planner.
fn stakes(state: &State, now: Time, plan: &Plan) -> Vec<BudgetStake> {
    let before = counted::before(state);
    let mut stakes: Vec<BudgetStake> =
        before.map(|one| stake(state, one.job, u128::from(one.milli()), one.from, false)).collect();
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
        if let Some(job) = state.jobs.get(&element.job) {
            let of_task =
                |task: &TaskPlacement| task.devices.len() as u128 * u128::from(task.share.0);
            stakes.push(stake(state, job, placement.iter().map(of_task).sum(), now, true));
        }
    }
    stakes
}

fn stake(
    state: &State,
    job: &crate::state::job::Job,
    milli: u128,
    from: Time,
    is_new: bool,
) -> BudgetStake {
    let spec = &job.record.spec;
    BudgetStake {
        leaf: state.policy.queues().leaf_name(job.record.leaf).clone(),
        user: spec.user.clone(),
        milli,
        from,
        length: spec.time_limit.map(|limit| limit + spec.grace),
        is_new,
    }
}

fn check_queue(
    state: &State,
    now: Time,
    queue: &QueueSpec,
    path: &QueueName,
    stakes: &[BudgetStake],
    found: &mut Vec<Violation>,
) {
    for child in &queue.queues {
        check_queue(state, now, child, &join(path, child), stakes, found);
    }
    let (Some(budget), Some(taken)) = (&queue.budget, state.policy.budget_use(now, path)) else {
        return;
    };
    // 1. Charges of present and new allocations to the current budget period.
    let mut all = BudgetSum::default();
    let mut users = BTreeMap::<UserName, BudgetSum>::new();
    for stake in stakes.iter().filter(|stake| stake.milli > 0 && is_within(&stake.leaf, path)) {
        all.add(budget, now, stake);
        users.entry(stake.user.clone()).or_default().add(budget, now, stake);
    }
    // 2. The policy's account of present allocations must agree.
    if all.before != u128::from(taken.all.1) {
        let what = format!("queue {path} has {} charged, not {}", all.before, taken.all.1);
        found.push(Violation::State(what));
    }
    // 3. Compare with the limits.
    let mut check = |user: Option<&UserName>, sum: BudgetSum, used: u64, hours: Option<u64>| {
        let limit = hours.map_or(u128::MAX, |hours| u128::from(hours) * 3600 * PER_GPU_SEC);
        let total = u128::from(used) + sum.before + sum.added;
        let whole = sum.endless * u128::from(budget.every.0);
        if sum.added > 0 && total > limit || sum.adds_endless && whole > limit {
            let secs =
                |amount: u128| u64::try_from(amount.div_ceil(PER_GPU_SEC)).unwrap_or(u64::MAX);
            found.push(Violation::Limit(Box::new(Reason::Budget {
                queue: path.clone(),
                user: user.cloned(),
                asked_gpu_secs: secs(sum.added),
                used_gpu_secs: secs(u128::from(used)),
                promised_gpu_secs: secs(sum.before),
                budget_gpu_secs: secs(limit),
                refills_at: period(budget, now).1,
            })));
        }
    };
    check(None, all, taken.all.0, budget.gpu_hours);
    for (user, sum) in &users {
        let own = taken.users.iter().find(|(other, _)| other == user);
        check(Some(user), *sum, own.map_or(0, |(_, (used, _))| *used), budget.gpu_hours_per_user);
    }
}

impl BudgetSum {
    fn add(&mut self, budget: &QueueBudget, now: Time, stake: &BudgetStake) {
        let (begin, end) = period(budget, now);
        let takes = match stake.length {
            Some(_) if stake.from < begin => 0,
            Some(length) => stake.milli * u128::from(length.0),
            None => stake.milli * u128::from(end.since(stake.from.max(begin)).0),
        };
        *(if stake.is_new { &mut self.added } else { &mut self.before }) += takes;
        if stake.length.is_none() {
            self.endless += stake.milli;
            self.adds_endless |= stake.is_new;
        }
    }
}

/// Returns the budget period that contains an instant, counted from the first one.
fn period(budget: &QueueBudget, at: Time) -> (Time, Time) {
    let every = budget.every.0.max(1);
    let first = budget.start.0 % every;
    match at.0.checked_sub(first) {
        None => (Time(0), Time(first)),
        Some(past) => {
            let begin = first + past / every * every;
            (Time(begin), Time(begin) + budget.every)
        }
    }
}
