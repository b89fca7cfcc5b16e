//! Attempts that are evicted and continue by the same plan, checked from the journal alone: a
//! shrinking gang keeps some of its places, a growing one is evicted for itself, a moved one keeps
//! its size, and the cost of all moves stays within its budget. It shares no code with the engine.

use muster_model::{Elastic, JobSpec, QueueTree, Span, TaskPlacement, Time, WorkloadKind};

use super::budget;
use super::queue_path::path_of;
use super::{Ledger, LedgerJob};
use crate::dst::attempt::LedgerAttempt;

/// Thousandths of a GPU × milliseconds in a GPU-hour.
const GPU_HOUR: u128 = 3_600_000 * 1000;

/// Cost of moves, for the current length of budget windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct MoveCosts {
    every: Option<Span>,
    spent: Vec<(Time, u128)>,
}

impl MoveCosts {
    /// Starts new budget windows if their length changed; a queue file without moves changes
    /// nothing.
    pub(crate) fn queues_set(&mut self, tree: &QueueTree) {
        let Some(terms) = &tree.defragment else { return };
        if self.every.is_some_and(|every| every != terms.every) {
            self.spent.clear();
        }
        self.every = Some(terms.every);
    }

    pub(crate) fn pay(&mut self, at: Time, cost: u128) {
        self.spent.push((at, cost));
    }
}

/// Returns the number of tasks of the elastic group.
pub(crate) fn size(elastic: Elastic, placement: &[TaskPlacement]) -> u32 {
    placement.iter().filter(|place| place.group == elastic.group).count() as u32
}

/// Returns the places of the elastic group.
pub(crate) fn elastic_places(spec: &JobSpec, placement: &[TaskPlacement]) -> Vec<TaskPlacement> {
    let elastic = spec.elastic().map(|elastic| elastic.group);
    placement.iter().filter(|place| Some(place.group) == elastic).cloned().collect()
}

/// Returns whether a gang may have this number of tasks: within the range of every group, and in
/// whole steps.
pub(crate) fn is_size(spec: &JobSpec, placement: &[TaskPlacement]) -> bool {
    let step = spec.elastic().map_or(1, |elastic| elastic.step);
    (0u16..).zip(&spec.groups).all(|(at, group)| {
        let tasks = placement.iter().filter(|place| place.group == at).count() as u32;
        (group.min_tasks..=group.max_tasks).contains(&tasks)
            && (tasks - group.min_tasks).is_multiple_of(step)
    })
}

/// Returns whether a queue of the job has a budget. Every start is charged for a whole run there,
/// so such a job restarts only if it must.
pub(crate) fn is_budgeted(ledger: &Ledger, job: &LedgerJob) -> bool {
    path_of(ledger, job).iter().any(|(_, queue)| queue.budget.is_some())
}

/// Checks whether an attempt may be evicted to restart its own element on these places.
pub(crate) fn check_growth(
    ledger: &Ledger,
    (job, attempt): (&LedgerJob, &LedgerAttempt),
    gets: &[TaskPlacement],
    at: Time,
) -> Result<(), &'static str> {
    let spec = &job.spec;
    let elastic = spec.elastic().ok_or("it is not elastic")?;
    let ran_for = attempt.ran_from.map(|from| at.since(from));
    match () {
        () if !is_size(spec, gets) => Err("that size is not allowed for it"),
        () if size(elastic, gets) <= size(elastic, &attempt.placement) => Err("it does not grow"),
        () if !attempt.is_running() || attempt.leaving.is_some() => Err("it does not run"),
        () if spec.checkpoint.is_none() => Err("it cannot save its progress"),
        () if job.is_held() => Err("it is on hold, and would not start again"),
        () if spec.grow_after.is_none_or(|after| ran_for.is_none_or(|ran| ran < after)) => {
            Err("it has not run long enough")
        }
        () if is_budgeted(ledger, job) => Err("its budget would be charged again"),
        () => Ok(()),
    }
}

/// Checks whether an attempt may continue with only these of its places.
pub(crate) fn check_shrink(
    ledger: &Ledger,
    (job, attempt): (&LedgerJob, &LedgerAttempt),
    keeps: &[TaskPlacement],
) -> Result<(), &'static str> {
    let mut left: Vec<&TaskPlacement> = attempt.placement.iter().collect();
    for place in keeps {
        let at = left
            .iter()
            .position(|known| *known == place)
            .ok_or("it would continue on other places")?;
        left.remove(at);
    }
    match () {
        () if left.is_empty() => Err("it does not shrink"),
        () if !is_size(&job.spec, keeps) => Err("that size is not allowed for it"),
        () if job.is_held() => Err("it is on hold, and would not start again"),
        () if is_budgeted(ledger, job) => Err("its budget would be charged again"),
        () => Ok(()),
    }
}

/// Checks whether an attempt may be moved to free nominated places of another element.
pub(crate) fn check_move(
    ledger: &Ledger,
    (job, attempt): (&LedgerJob, &LedgerAttempt),
    wanted: &[TaskPlacement],
    at: Time,
) -> Result<(), &'static str> {
    let is_there =
        |place: &TaskPlacement| attempt.placement.iter().any(|own| own.node == place.node);
    match () {
        () if ledger.queues.defragment.is_none() => Err("defragmentation is off"),
        () if job.spec.kind != WorkloadKind::Task => Err("it is a service or a notebook"),
        () if job.spec.checkpoint.is_none() => Err("it cannot save its progress"),
        () if !attempt.is_running() => Err("it does not run"),
        () if job.is_held() => Err("it is on hold, and would not start again"),
        () if is_budgeted(ledger, job) => Err("its budget would be charged again"),
        () if !wanted.iter().any(is_there) => Err("none of the nominated places is on its nodes"),
        () if left(ledger, at).is_none_or(|left| cost(job, attempt, at) > left) => {
            Err("the budget for moves is used up")
        }
        () => Ok(()),
    }
}

/// Checks whether a moved attempt may continue on these places.
pub(crate) fn check_new_place(
    attempt: &LedgerAttempt,
    gets: &[TaskPlacement],
) -> Result<(), &'static str> {
    let groups =
        |places: &[TaskPlacement]| places.iter().map(|place| place.group).collect::<Vec<_>>();
    match () {
        () if groups(gets) != groups(&attempt.placement) => Err("it continues with another size"),
        () if *gets == *attempt.placement => Err("it is moved to its own place"),
        () => Ok(()),
    }
}

/// Returns the most GPU time that a move costs: unsaved work, and the time until the attempt has
/// stopped.
pub(crate) fn cost(job: &LedgerJob, attempt: &LedgerAttempt, at: Time) -> u128 {
    let unsaved = attempt.unsaved_since().map_or(Span(0), |since| at.since(since));
    let lead = job.spec.checkpoint.map_or(Span(0), |terms| terms.lead);
    let length = u128::from(unsaved.0) + u128::from(lead.0) + u128::from(job.spec.grace.0);
    u128::from(budget::milli(&attempt.placement)) * length
}

/// Returns what may still be spent on moves in the budget window of an instant; windows follow each
/// other from 1970 on.
fn left(ledger: &Ledger, at: Time) -> Option<u128> {
    let terms = ledger.queues.defragment.as_ref()?;
    let begin = Time(at.0 - at.0 % terms.every.0);
    let spent: u128 =
        ledger.moves.spent.iter().filter(|(then, _)| *then >= begin).map(|(_, cost)| cost).sum();
    (u128::from(terms.gpu_hours) * GPU_HOUR).checked_sub(spent)
}
