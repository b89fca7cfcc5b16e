//! Workloads that wait in a cluster queue: by priority, then by when they came. Those that were
//! tried and did not fit are set aside until quota is given back, and do not block those behind
//! them (BestEffortFIFO, which is what a queue has unless told otherwise).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_model::Time;

use crate::fleet::JobNo;

/// Place in a queue: higher priority first, then who came first.
pub(super) type Turn = (Reverse<i32>, Time, JobNo);

/// A cluster queue's workloads.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    active: BTreeSet<Turn>,
    aside: BTreeSet<Turn>,
}

impl Pending {
    pub(super) fn push(&mut self, turn: Turn) {
        self.active.insert(turn);
    }

    /// The next to be tried.
    pub(super) fn head(&self) -> Option<Turn> {
        self.active.first().copied()
    }

    /// It did not fit.
    pub(super) fn set_aside(&mut self, turn: Turn) {
        self.active.remove(&turn);
        self.aside.insert(turn);
    }

    /// It was admitted.
    pub(super) fn remove(&mut self, turn: Turn) {
        self.active.remove(&turn);
        self.aside.remove(&turn);
    }

    /// Something was given back: all are tried again.
    pub(super) fn flush(&mut self) {
        self.active.append(&mut self.aside);
    }
}
