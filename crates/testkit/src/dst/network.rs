//! Network between tasks and the daemon: reports arrive late, twice, out of order, or not at all; a
//! lost report is sent again on recall. It must not invent a report.

use std::collections::BTreeMap;

use muster_model::{Span, TaskReport, Time};

use super::coverage::Coverage;
use crate::rng::SeededRng;

/// Reports in flight, by arrival time and sending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    under_way: BTreeMap<(Time, u64), TaskReport>,
    sent: u64,
}

impl Network {
    /// Sends a report; without faults it arrives at once.
    pub(crate) fn send(
        &mut self,
        now: Time,
        report: TaskReport,
        rng: &mut SeededRng,
        coverage: &mut Coverage,
        is_reliable: bool,
    ) {
        if is_reliable {
            return self.put(now, report);
        }
        match rng.roll(20) {
            0 => coverage.lost += 1,
            1 | 2 => {
                coverage.late += 1;
                self.put(now + Span(rng.roll(60_000)), report);
            }
            3 => {
                coverage.doubled += 1;
                self.put(now, report.clone());
                self.put(now + Span(rng.roll(90_000)), report);
            }
            _ => self.put(now, report),
        }
    }

    fn put(&mut self, at: Time, report: TaskReport) {
        self.sent += 1;
        self.under_way.insert((at, self.sent), report);
    }

    /// Returns the next arrival time.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.under_way.keys().next().map(|(at, _)| *at)
    }

    /// Returns the reports that have arrived.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<TaskReport> {
        let later = self.under_way.split_off(&(now + Span(1), 0));
        std::mem::replace(&mut self.under_way, later).into_values().collect()
    }

    /// Drops all reports in flight.
    pub(crate) fn cut(&mut self) {
        self.under_way.clear();
    }
}
