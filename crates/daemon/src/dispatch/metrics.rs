//! Metrics of sweeps: compares what elements report, stops those that do too badly, and stores both. The engine does
//! not know metrics; it gets an event for each stop.

use std::collections::BTreeMap;

use muster_model::sweep::MetricReport;
use muster_model::{AttemptId, Event, JobId, PayloadId};
use muster_runtime::StoreError;
use muster_sweep::Standing;

use super::Dispatcher;
use crate::store::{StateStore, StoredReport};

/// Comparisons of the sweeps that have reported since the start of the daemon; `None` for one without early stops.
#[derive(Debug, Default)]
pub(crate) struct Comparisons {
    by_job: BTreeMap<JobId, Option<Standing>>,
}

impl<S: StateStore> Dispatcher<S> {
    /// Compares reports; returns what to store, and the stops of elements, which belong to the step.
    pub(super) fn compare_reports(
        &mut self,
        reports: Vec<(AttemptId, MetricReport)>,
    ) -> (Vec<StoredReport>, Vec<Event>) {
        let mut stored = Vec::with_capacity(reports.len());
        let mut stops = Vec::new();
        for (id, report) in reports {
            match self.compare(id, report, &mut stops) {
                Ok(one) => stored.extend(one),
                Err(error) => tracing::warn!(%error, %id, "a metric could not be compared"),
            }
        }
        (stored, stops)
    }

    /// Stores reports, after the step that has their stops: an element whose comparison was lost in a crash reports
    /// again and is compared again. A report that cannot be stored is lost, and the next one of its element takes its
    /// place.
    pub(super) fn store_reports(&mut self, stored: &[StoredReport]) {
        if stored.is_empty() {
            return;
        }
        if let Err(error) = self.runtime.store_mut().write_reports(stored) {
            tracing::warn!(%error, "metrics could not be written");
        }
    }

    /// Compares a report with those of other elements; returns what to store, `None` for an attempt that is over.
    fn compare(
        &mut self,
        id: AttemptId,
        report: MetricReport,
        stops: &mut Vec<Event>,
    ) -> Result<Option<StoredReport>, StoreError> {
        let Some(engine) = self.runtime.engine() else { return Ok(None) };
        // An element that has ended may have left memory: its last report counts.
        if engine.attempt(id.element).is_some_and(|current| current != id.attempt.0) {
            return Ok(None);
        }
        let job = id.element.job;
        if !self.comparisons.by_job.contains_key(&job) {
            let standing = self.standing(job)?;
            let engine = self.runtime.engine();
            let is_known = |job: JobId| engine.is_some_and(|engine| engine.job_spec(job).is_some());
            self.comparisons.by_job.retain(|job, _| is_known(*job));
            self.comparisons.by_job.insert(job, standing);
        }
        let index = id.element.index;
        let mut stored =
            StoredReport { element: id.element, report, progress: None, compared: None };
        let standing = self.comparisons.by_job.get_mut(&job).and_then(Option::as_mut);
        if let Some(standing) = standing {
            let found = standing.report(index, report);
            stored.progress = standing.progress(index);
            stored.compared = found.as_ref().map(|found| (found.mark, found.value));
            let why = found.and_then(|found| found.stop);
            let stop = |why: String| Event::StopEarly { id, step: report.step, why: why.into() };
            stops.extend(why.map(stop));
        }
        Ok(Some(stored))
    }

    /// Returns the comparison of a sweep as the store has it.
    fn standing(&mut self, job: JobId) -> Result<Option<Standing>, StoreError> {
        let payload = self.payloads.get(self.runtime.store(), PayloadId(job.0))?;
        let terms = payload.as_ref().and_then(|payload| {
            let sweep = payload.sweep.as_ref()?;
            Some((sweep.early_stop?, sweep.metric.as_ref()?.goal))
        });
        let Some((rule, goal)) = terms else { return Ok(None) };
        let mut standing = Standing::new(rule, goal);
        for (index, progress) in self.reader.progress(job)? {
            standing.restore(index, progress);
        }
        for stored in self.reader.marks(job)? {
            standing.restore_mark(stored.index, stored.mark, stored.value);
        }
        Ok(Some(standing))
    }
}
