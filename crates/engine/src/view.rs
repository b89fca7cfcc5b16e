//! Views of jobs as users see them: what the state tells, why a job waits, and when it starts.

use std::collections::BTreeMap;

use muster_model::view::JobView;
use muster_model::{ElementId, JobId, Time};

use crate::explain::reasons::{GapCache, PendingReasons};
use crate::plan::Outlook;
use crate::state::State;
use crate::state::job::Job;
use crate::state::view::job_view;

/// Returns the views of these jobs, in their order.
pub(crate) fn of_jobs<'a>(
    state: &State,
    outlook: &Outlook,
    now: Time,
    jobs: impl Iterator<Item = (&'a JobId, &'a Job)>,
) -> Vec<JobView> {
    // Reserved starts by element, and missing capacity, computed once for all jobs.
    let starts: BTreeMap<ElementId, Time> =
        outlook.reservations.iter().map(|one| (one.element, one.start)).collect();
    let mut gaps = GapCache::default();
    let reasons = PendingReasons { state, outlook };
    let view = |(id, job): (&JobId, &Job)| {
        let mut view = job_view(state, now, *id, job);
        if let Some(ordinal) = job.record.first_waiting() {
            let first = ElementId { job: *id, index: job.record.index_of(ordinal) };
            view.waiting_for = reasons.first(now, *id, job, ordinal, &mut gaps);
            view.eta = starts.get(&first).copied();
            view.eta_predicted = view.eta.is_some() && state.plans_by_predictions();
        }
        view
    };
    jobs.map(view).collect()
}
