//! Who goes and goes on by the same plan, from the journal alone: a gang that shrinks keeps some of
//! its places, one that grows goes for itself, who is moved is as large as he was, and what all
//! moves cost stays within their budget. It shares no code with the engine.

use muster_model::{Elastic, JobSpec, Kind, QueueTree, Span, TaskPlacement, Time};

use super::attempt::Attempt;
use super::book::{Book, Job};
use super::budget;
use super::holdings::path_of;

/// Milliseconds × thousandths of a GPU in a GPU-hour.
const GPU_HOUR: u128 = 3_600_000 * 1000;

/// What moves have cost, since windows are as long as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    every: Option<Span>,
    spent: Vec<(Time, u128)>,
}

impl Moves {
    /// Other windows begin anew; a queue file without moves changes nothing.
    pub(crate) fn queues_set(&mut self, tree: &QueueTree) {
        let Some(terms) = &tree.defragment else { return };
        if self.every.is_some_and(|every| every != terms.every) {
            self.spent.clear();
        }
        self.every = Some(terms.every);
    }

    /// A move is paid for.
    pub(crate) fn pay(&mut self, at: Time, cost: u128) {
        self.spent.push((at, cost));
    }
}

/// Tasks of the group that grows and shrinks.
pub(crate) fn size(elastic: Elastic, placement: &[TaskPlacement]) -> u32 {
    placement.iter().filter(|place| place.group == elastic.group).count() as u32
}

/// Places of the group that grows and shrinks.
pub(crate) fn stretched(spec: &JobSpec, placement: &[TaskPlacement]) -> Vec<TaskPlacement> {
    let elastic = spec.elastic().map(|elastic| elastic.group);
    placement.iter().filter(|place| Some(place.group) == elastic).cloned().collect()
}

/// True for a number of tasks that a gang may have: in every group within its range, and by whole
/// steps.
pub(crate) fn is_size(spec: &JobSpec, placement: &[TaskPlacement]) -> bool {
    let step = spec.elastic().map_or(1, |elastic| elastic.step);
    (0u16..).zip(&spec.groups).all(|(at, group)| {
        let tasks = placement.iter().filter(|place| place.group == at).count() as u32;
        (group.min_tasks..=group.max_tasks).contains(&tasks)
            && (tasks - group.min_tasks).is_multiple_of(step)
    })
}

/// True where every start promises a whole run anew to a budget: nobody is started again there but
/// by need.
pub(crate) fn is_budgeted(book: &Book, job: &Job) -> bool {
    path_of(book, job).iter().any(|(_, queue)| queue.budget.is_some())
}

/// May an attempt go for its own element, to have these places?
pub(crate) fn judge_growth(
    book: &Book,
    (job, attempt): (&Job, &Attempt),
    gets: &[TaskPlacement],
    at: Time,
) -> Result<(), &'static str> {
    let spec = &job.spec;
    let elastic = spec.elastic().ok_or("it has one size only")?;
    let ran_for = attempt.ran_from.map(|from| at.since(from));
    match () {
        () if !is_size(spec, gets) => Err("it may not have that size"),
        () if size(elastic, gets) <= size(elastic, &attempt.placement) => Err("it does not grow"),
        () if !attempt.is_running() || attempt.leaving.is_some() => Err("it does not run"),
        () if spec.checkpoint.is_none() => Err("it cannot save its progress"),
        () if job.is_held() => Err("it is on hold, and would not start again"),
        () if spec.grow_after.is_none_or(|after| ran_for.is_none_or(|ran| ran < after)) => {
            Err("it has not run for long enough")
        }
        () if is_budgeted(book, job) => Err("its budget would be charged again"),
        () => Ok(()),
    }
}

/// May an attempt go on with no more than these of its places?
pub(crate) fn judge_shrink(
    book: &Book,
    (job, attempt): (&Job, &Attempt),
    keeps: &[TaskPlacement],
) -> Result<(), &'static str> {
    let mut left: Vec<&TaskPlacement> = attempt.placement.iter().collect();
    for place in keeps {
        let at = left.iter().position(|known| *known == place).ok_or("it would go on elsewhere")?;
        left.remove(at);
    }
    match () {
        () if left.is_empty() => Err("it does not shrink"),
        () if !is_size(&job.spec, keeps) => Err("it may not have that size"),
        () if job.is_held() => Err("it is on hold, and would not start again"),
        () if is_budgeted(book, job) => Err("its budget would be charged again"),
        () => Ok(()),
    }
}

/// May an attempt be moved out of the way of what is promised to another?
pub(crate) fn judge_move(
    book: &Book,
    (job, attempt): (&Job, &Attempt),
    wanted: &[TaskPlacement],
    at: Time,
) -> Result<(), &'static str> {
    let is_there =
        |place: &TaskPlacement| attempt.placement.iter().any(|own| own.node == place.node);
    match () {
        () if book.queues.defragment.is_none() => Err("nobody is moved"),
        () if job.spec.kind != Kind::Task => Err("it is a service or a notebook"),
        () if job.spec.checkpoint.is_none() => Err("it cannot save its progress"),
        () if !attempt.is_running() => Err("it does not run"),
        () if job.is_held() => Err("it is on hold, and would not start again"),
        () if is_budgeted(book, job) => Err("its budget would be charged again"),
        () if !wanted.iter().any(is_there) => Err("it is in nobody's way"),
        () if left(book, at).is_none_or(|left| cost(job, attempt, at) > left) => {
            Err("nothing is left for moves")
        }
        () => Ok(()),
    }
}

/// May who is moved go on there?
pub(crate) fn judge_new_place(
    attempt: &Attempt,
    gets: &[TaskPlacement],
) -> Result<(), &'static str> {
    let groups =
        |places: &[TaskPlacement]| places.iter().map(|place| place.group).collect::<Vec<_>>();
    match () {
        () if groups(gets) != groups(&attempt.placement) => Err("it goes on with another size"),
        () if *gets == *attempt.placement => Err("it is moved to where it is"),
        () => Ok(()),
    }
}

/// GPU time that a move costs at most: what is not saved, and until it has gone.
pub(crate) fn cost(job: &Job, attempt: &Attempt, at: Time) -> u128 {
    let unsaved = attempt.unsaved_since().map_or(Span(0), |since| at.since(since));
    let lead = job.spec.checkpoint.map_or(Span(0), |terms| terms.lead);
    let length = u128::from(unsaved.0) + u128::from(lead.0) + u128::from(job.spec.grace.0);
    u128::from(budget::milli(&attempt.placement)) * length
}

/// What may still be spent on moves in the window of an instant; windows follow each other from
/// 1970 on.
fn left(book: &Book, at: Time) -> Option<u128> {
    let terms = book.queues.defragment.as_ref()?;
    let begin = Time(at.0 - at.0 % terms.every.0);
    let spent: u128 =
        book.moves.spent.iter().filter(|(then, _)| *then >= begin).map(|(_, cost)| cost).sum();
    (u128::from(terms.gpu_hours) * GPU_HOUR).checked_sub(spent)
}
