//! Pending workloads of a cluster queue: by priority, then by arrival. Those that did not fit are
//! set aside until quota is freed, and do not block those behind them (BestEffortFIFO, the
//! default).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_model::Time;

use crate::fleet::JobNo;

/// Position in a queue: higher priority first, then earlier arrival.
pub(super) type WorkloadPosition = (Reverse<i32>, Time, JobNo);

/// Pending workloads of a cluster queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    active: BTreeSet<WorkloadPosition>,
    aside: BTreeSet<WorkloadPosition>,
}

impl Pending {
    pub(super) fn push(&mut self, turn: WorkloadPosition) {
        self.active.insert(turn);
    }

    /// Returns the next workload to be tried.
    pub(super) fn head(&self) -> Option<WorkloadPosition> {
        self.active.first().copied()
    }

    /// Sets a workload aside that did not fit.
    pub(super) fn set_aside(&mut self, turn: WorkloadPosition) {
        self.active.remove(&turn);
        self.aside.insert(turn);
    }

    /// Removes an admitted workload.
    pub(super) fn remove(&mut self, turn: WorkloadPosition) {
        self.active.remove(&turn);
        self.aside.remove(&turn);
    }

    /// Makes all workloads active after quota was freed.
    pub(super) fn flush(&mut self) {
        self.active.append(&mut self.aside);
    }
}
