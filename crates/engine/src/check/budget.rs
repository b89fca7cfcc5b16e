//! Are budgets kept? What runs is added up job by job by the definition in `policy`, for the sum of
//! a whole plan; only what ended jobs used is taken from there, since nothing else remembers it.

use std::collections::BTreeMap;

use muster_model::queue::Budget;
use muster_model::reason::Reason;
use muster_model::{Decision, Plan, QueueName, QueueSpec, Span, TaskPlacement, Time, UserName};

use super::quota::{is_within, join};
use super::{Violation, counted};
use crate::state::State;

/// Milliseconds × thousandths of a GPU in a GPU-second.
const PER_GPU_SEC: u128 = 1_000_000;

/// One element that holds GPUs, or is to.
struct Stake {
    leaf: QueueName,
    user: UserName,
    milli: u128,
    from: Time,
    length: Option<Span>,
    is_new: bool,
}

/// What elements take of a window, and what endless ones would take of a whole one.
#[derive(Clone, Copy, Default)]
struct Sum {
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

/// Everything that counts, and everything that the plan starts or promises. Who goes has his
/// promise until he is told to, which the planner has not done either.
fn stakes(state: &State, now: Time, plan: &Plan) -> Vec<Stake> {
    let before = counted::before(state);
    let mut stakes: Vec<Stake> =
        before.map(|one| stake(state, one.job, u128::from(one.milli()), one.from, false)).collect();
    for decision in &plan.decisions {
        let (element, placement) = match decision {
            Decision::Start { id, placement, .. }
                if counted::kept(state, plan, id.element).is_none() =>
            {
                (id.element, placement)
            }
            Decision::Claim { element, placement, .. } => (*element, placement),
            Decision::Start { .. } | Decision::Unclaim { .. } => continue,
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
) -> Stake {
    let spec = &job.record.spec;
    Stake {
        leaf: state.policy.leaf_name(job.record.leaf).clone(),
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
    stakes: &[Stake],
    found: &mut Vec<Violation>,
) {
    for child in &queue.queues {
        check_queue(state, now, child, &join(path, child), stakes, found);
    }
    let (Some(budget), Some(taken)) = (&queue.budget, state.policy.taken(now, path)) else {
        return;
    };
    // 1. What runs and what is to start takes so much of the window that `now` lies in.
    let (mut all, mut users) = (Sum::default(), BTreeMap::<UserName, Sum>::new());
    for stake in stakes.iter().filter(|stake| stake.milli > 0 && is_within(&stake.leaf, path)) {
        all.add(budget, now, stake);
        users.entry(stake.user.clone()).or_default().add(budget, now, stake);
    }
    // 2. The planner's account must say the same of what runs.
    if all.before != u128::from(taken.all.1) {
        let what = format!("queue {path} has promised {}, not {}", all.before, taken.all.1);
        found.push(Violation::State(what));
    }
    // 3. The ceilings.
    let mut judge = |user: Option<&UserName>, sum: Sum, used: u64, hours: Option<u64>| {
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
                refills_at: window(budget, now).1,
            })));
        }
    };
    judge(None, all, taken.all.0, budget.gpu_hours);
    for (user, sum) in &users {
        let own = taken.users.iter().find(|(other, _)| other == user);
        judge(Some(user), *sum, own.map_or(0, |(_, (used, _))| *used), budget.gpu_hours_per_user);
    }
}

impl Sum {
    fn add(&mut self, budget: &Budget, now: Time, stake: &Stake) {
        let (begin, end) = window(budget, now);
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

/// The window that an instant lies in, stepping from the first instant at which one begins.
fn window(budget: &Budget, at: Time) -> (Time, Time) {
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
