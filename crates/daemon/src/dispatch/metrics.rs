//! Metrics of sweeps: stores what elements report, and stops those that do too badly. The engine does not know
//! metrics; it gets an event for each stop.

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
    /// Takes the reports of a step: stores them, and makes events for the elements that stop. A report that cannot be
    /// stored is lost, and the next one of its element takes its place.
    pub(super) fn take_reports(&mut self, reports: Vec<(AttemptId, MetricReport)>) {
        if reports.is_empty() {
            return;
        }
        let mut stored = Vec::with_capacity(reports.len());
        for (id, report) in reports {
            match self.compare(id, report) {
                Ok(one) => stored.extend(one),
                Err(error) => tracing::warn!(%error, %id, "a metric could not be compared"),
            }
        }
        if let Err(error) = self.runtime.store_mut().write_reports(&stored) {
            tracing::warn!(%error, "metrics could not be written");
        }
    }

    /// Compares a report with those of other elements; returns what to store, `None` for an attempt that is over.
    fn compare(
        &mut self,
        id: AttemptId,
        report: MetricReport,
    ) -> Result<Option<StoredReport>, StoreError> {
        let now = self.now();
        let Some(engine) = self.runtime.engine() else { return Ok(None) };
        let current = engine.element(now, id.element);
        if current.is_some_and(|element| element.attempt != id.attempt.0) {
            return Ok(None);
        }
        let job = id.element.job;
        if !self.comparisons.by_job.contains_key(&job) {
            let standing = self.standing(job)?;
            self.comparisons.by_job.retain(|job, _| engine_has(&self.runtime, *job));
            self.comparisons.by_job.insert(job, standing);
        }
        let standing = self.comparisons.by_job.get_mut(&job).and_then(Option::as_mut);
        let found = standing.and_then(|standing| standing.report(id.element.index, report));
        let compared = found.as_ref().map(|found| (found.mark, found.value));
        if let Some(why) = found.and_then(|found| found.stop) {
            let why = why.into();
            self.pending.push(Event::StopEarly { id, step: report.step, why });
        }
        Ok(Some(StoredReport { element: id.element, report, compared }))
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
        for stored in self.reader.marks(job)? {
            standing.restore(stored.index, stored.mark, stored.value);
        }
        Ok(Some(standing))
    }
}

/// Returns true while a job is in memory.
fn engine_has<S: StateStore>(runtime: &muster_runtime::Runtime<S>, job: JobId) -> bool {
    runtime.engine().is_some_and(|engine| engine.job_spec(job).is_some())
}
