//! Budget for moving jobs in order to defragment: the cost of a move, and the part of the present
//! period's budget that is left. Whether a job is moved is decided in `plan/defragment.rs`.

use muster_model::queue::Defragment;
use muster_model::{Span, Time};
use muster_policy::PER_GPU_HOUR;
use serde::{Deserialize, Serialize};

use super::preemptable::PreemptableAttempt;

/// Spending in one budget period, in thousandths of GPUs times milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MoveBudget {
    /// Begin of the period.
    #[serde(rename = "window")]
    period: Time,
    spent: u64,
}

impl MoveBudget {
    pub(super) fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the budget that is left in the present period.
    pub(crate) fn left(&self, terms: Defragment, now: Time) -> u64 {
        let spent = if self.period == period_of(now, terms.every) { self.spent } else { 0 };
        terms.gpu_hours.saturating_mul(PER_GPU_HOUR).saturating_sub(spent)
    }

    /// Charges a move, in a new period if another one has begun.
    pub(super) fn charge(&mut self, terms: Defragment, now: Time, cost: u64) {
        let period = period_of(now, terms.every);
        if self.period != period {
            *self = Self { period, spent: 0 };
        }
        self.spent = self.spent.saturating_add(cost);
    }
}

impl PreemptableAttempt {
    /// Returns the GPU time that a move loses at most, in thousandths of a GPU times milliseconds:
    /// unsaved work, and the time until the attempt has ended.
    pub(crate) fn cost_of_move(&self, now: Time) -> u64 {
        let milli: u64 = self.gpus.iter().map(|(_, milli)| milli).sum();
        self.unsaved_gpu_time(now).saturating_add(milli.saturating_mul(self.delay.0))
    }
}

/// Returns the begin of the next budget period.
pub(crate) fn refill(terms: Defragment, now: Time) -> Time {
    period_of(now, terms.every) + terms.every
}

/// Returns the begin of the period that contains an instant.
fn period_of(at: Time, every: Span) -> Time {
    Time(at.0 - at.0 % every.0.max(1))
}
