//! What lies between tasks and the daemon: reports come late, twice, in another order, or not at
//! all; what is lost is said again when somebody asks. It must not invent a report.

use std::collections::BTreeMap;

use muster_model::{Span, TaskReport, Time};

use super::cover::Cover;
use crate::dice::Dice;

/// Reports under way, by when they arrive and the order in which they left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    under_way: BTreeMap<(Time, u64), TaskReport>,
    sent: u64,
}

impl Wire {
    /// A report leaves; on a calm day it arrives at once.
    pub(crate) fn send(
        &mut self,
        now: Time,
        report: TaskReport,
        dice: &mut Dice,
        cover: &mut Cover,
        calm: bool,
    ) {
        if calm {
            return self.put(now, report);
        }
        match dice.roll(20) {
            0 => cover.lost += 1,
            1 | 2 => {
                cover.late += 1;
                self.put(now + Span(dice.roll(60_000)), report);
            }
            3 => {
                cover.doubled += 1;
                self.put(now, report.clone());
                self.put(now + Span(dice.roll(90_000)), report);
            }
            _ => self.put(now, report),
        }
    }

    fn put(&mut self, at: Time, report: TaskReport) {
        self.sent += 1;
        self.under_way.insert((at, self.sent), report);
    }

    /// When the next arrives.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.under_way.keys().next().map(|(at, _)| *at)
    }

    /// What has arrived.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<TaskReport> {
        let later = self.under_way.split_off(&(now + Span(1), 0));
        std::mem::replace(&mut self.under_way, later).into_values().collect()
    }

    /// Nobody is there to receive what is under way.
    pub(crate) fn cut(&mut self) {
        self.under_way.clear();
    }
}
