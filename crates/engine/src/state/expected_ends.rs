//! Expected ends: where a job states its expected run time, planning goes by that instead of by its
//! time limit. Limits stay hard: what must be over by an instant (a drain, an advance reservation, a
//! budget) is planned by them, and a job that runs longer than expected only gets a later expected end.

use std::collections::BTreeSet;

use muster_model::queue::PlannedRuntimes;
use muster_model::{JobId, Span, Time};

use super::State;
use super::job::{JobRecord, Run, RunEnd, RunStage};
use crate::pool::Holding;
use crate::pool::ends::HoldingEnd;

/// Minutes by which the expected run time of a job grows each time it runs longer: the corrections of
/// Tsafrir, Etsion and Feitelson (2007), "Backfilling using system-generated predictions rather than
/// user runtime estimates", section 4. After the last, it doubles.
const EXTENSIONS_MINS: [u64; 11] = [1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000];

/// Expected ends of running attempts, soonest first. Some are outdated: an attempt counts only if its holding
/// still ends then.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedEnds(BTreeSet<(Time, JobId, u32)>);

/// Returns the run time that is expected of an attempt once it has run for `ran`: always longer.
fn extended(expected: Span, ran: Span) -> Span {
    let mut total = expected;
    for minutes in EXTENSIONS_MINS {
        if total > ran {
            return total;
        }
        total = total + Span::from_secs(60 * minutes);
    }
    while total <= ran {
        total = total + total;
    }
    total
}

impl Run {
    /// Returns the end by which planning goes, if it comes from a predicted run time; `None` if planning goes by
    /// its limit.
    pub(crate) fn expected_end(&self, now: Time) -> Option<Time> {
        let planned = self.planned_end(now);
        (planned != HoldingEnd::from(self.end)).then(|| planned.at(now))
    }

    /// Returns the end by which planning goes.
    pub(crate) fn planned_end(&self, now: Time) -> HoldingEnd {
        let is_ending = self.eviction.is_some() || matches!(self.stage, RunStage::Stopping(_));
        let Some(expected) = self.expected.filter(|_| !is_ending) else { return self.end.into() };
        let Some(started) = self.started else { return HoldingEnd::After(expected) };
        let end = started + extended(expected, now.since(started));
        match self.end {
            RunEnd::At(limit) => HoldingEnd::At(end.min(limit)),
            RunEnd::After(_) | RunEnd::Never => HoldingEnd::At(end),
        }
    }
}

impl State {
    /// Returns true if predicted run times are used for what starts now.
    pub(crate) fn trusts_predictions(&self) -> bool {
        self.policy.tree().estimates == PlannedRuntimes::Predicted
    }

    /// Returns true if planned starts depend on predicted run times: also after the setting was changed, while
    /// attempts run that started before.
    pub(crate) fn plans_by_predictions(&self) -> bool {
        self.trusts_predictions() || !self.expected_ends.0.is_empty()
    }

    /// Returns the time for which planning takes an element to hold resources that starts now: its
    /// expected run time, or its limit where a drain or an advance reservation begins or ends before that.
    pub(crate) fn planned_duration(&self, now: Time, record: &JobRecord) -> Option<Span> {
        self.expected_from(now, record).or_else(|| record.duration())
    }

    /// Returns the expected run time of an element that starts now; `None` if planning goes by its
    /// limit.
    pub(super) fn expected_from(&self, now: Time, record: &JobRecord) -> Option<Span> {
        let expected = record.expected_duration().filter(|_| self.trusts_predictions())?;
        let latest = record.duration().map_or(Time::NEVER, |limit| now + limit);
        let edges = [self.pool.next_drain(), self.pool.next_reservation_edge(now)];
        edges.into_iter().flatten().all(|edge| edge >= latest).then_some(expected)
    }

    /// Returns the latest end of a holding, whatever is expected.
    pub(crate) fn latest_end(&self, now: Time, holding: &Holding) -> Time {
        let run = self.jobs.element(holding.element).and_then(|element| element.run.as_ref());
        let run = run.filter(|run| run.ended.is_none());
        run.map_or(holding.end, |run| run.end.into()).at(now)
    }

    /// Sets the end by which planning goes, once the processes of an attempt run, or later.
    pub(super) fn update_planned_end(&mut self, now: Time, job: JobId, ordinal: u32) {
        let Some(run) = self.jobs.run(job, ordinal).filter(|run| run.ended.is_none()) else {
            return;
        };
        let end = run.planned_end(now);
        self.pool.set_end(run.key, end);
        if let HoldingEnd::At(at) = end
            && run.expected.is_some()
            && end != run.end.into()
        {
            self.expected_ends.0.insert((at, job, ordinal));
        }
    }

    /// Extends the expected ends that have passed.
    pub(super) fn extend_expected_ends(&mut self, now: Time) {
        while let Some((at, job, ordinal)) = self.expected_ends.0.first().copied()
            && at <= now
        {
            self.expected_ends.0.pop_first();
            let run = self.jobs.run(job, ordinal).filter(|run| run.ended.is_none());
            let is_up_to_date = |run: &Run| self.pool.holding(run.key).end == HoldingEnd::At(at);
            if run.is_some_and(is_up_to_date) {
                self.update_planned_end(now, job, ordinal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_that_was_exceeded_grows_step_by_step() {
        let mins = |mins: u64| Span::from_secs(60 * mins);
        for (ran, expected) in [
            (0, 10),
            (9, 10),
            (10, 11),
            (11, 16),
            (15, 16),
            (16, 31),
            (31, 61),
            (100, 121),
            (11_340, 11_341),
            (11_341, 22_682),
            (30_000, 45_364),
        ] {
            assert_eq!(extended(mins(10), mins(ran)), mins(expected), "after {ran} minutes");
        }
    }
}
