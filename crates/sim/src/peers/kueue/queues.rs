//! Pending workloads of a cluster queue: by priority, then by arrival. Those that did not fit are
//! set aside until quota is freed, and do not block those behind them (BestEffortFIFO, the
//! default). A workload that is preempting others stays at the head until it is admitted or does not
//! fit any more (preemptorWorkload in pkg/cache/queue/cluster_queue.go): else one that is ahead of it
//! and does not fit would let other queues take what was freed for it.

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
    preemptor: Option<WorkloadPosition>,
}

impl Pending {
    pub(super) fn push(&mut self, turn: WorkloadPosition) {
        self.active.insert(turn);
    }

    /// Returns the next workload to be tried.
    pub(super) fn head(&self) -> Option<WorkloadPosition> {
        self.preemptor.or_else(|| self.active.first().copied())
    }

    /// Keeps the head, which is preempting others, at the head.
    pub(super) fn preempts(&mut self, turn: WorkloadPosition) {
        self.preemptor = Some(turn);
    }

    /// Sets a workload aside that did not fit.
    pub(super) fn set_aside(&mut self, turn: WorkloadPosition) {
        self.remove(turn);
        self.aside.insert(turn);
    }

    /// Removes an admitted workload.
    pub(super) fn remove(&mut self, turn: WorkloadPosition) {
        self.active.remove(&turn);
        self.aside.remove(&turn);
        self.preemptor = self.preemptor.filter(|preemptor| *preemptor != turn);
    }

    /// Makes all workloads active after quota was freed.
    pub(super) fn flush(&mut self) {
        self.active.append(&mut self.aside);
    }
}
