//! Budget for moving jobs in order to defragment: the cost of a move, and the part of the present
//! period's budget that is left. Whether a job is moved is decided in `plan/defragment.rs`.

use muster_model::{ElementId, Span, Time};
use muster_policy::PER_GPU_HOUR;
use serde::{Deserialize, Serialize};

use super::State;
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
}

impl PreemptableAttempt {
    /// Returns the GPU time that a move loses at most, in thousandths of a GPU times milliseconds:
    /// unsaved work, and the time until the attempt has ended.
    pub(crate) fn cost_of_move(&self, now: Time) -> u64 {
        let milli: u64 = self.gpus.iter().map(|(_, milli)| milli).sum();
        self.unsaved_gpu_time(now).saturating_add(milli.saturating_mul(self.delay.0))
    }
}

impl State {
    /// Returns the budget for moves that is left in the present period; 0 if moves are disabled.
    pub(crate) fn move_budget_left(&self, now: Time) -> u64 {
        let Some(terms) = self.policy.tree().defragment else { return 0 };
        let spent = if self.move_budget.period == period_of(now, terms.every) {
            self.move_budget.spent
        } else {
            0
        };
        terms.gpu_hours.saturating_mul(PER_GPU_HOUR).saturating_sub(spent)
    }

    /// Returns the begin of the next budget period.
    pub(crate) fn move_budget_refill(&self, now: Time) -> Option<Time> {
        let every = self.policy.tree().defragment?.every;
        Some(period_of(now, every) + every)
    }

    /// Charges a move to the budget.
    pub(super) fn charge_move(&mut self, now: Time, id: ElementId) {
        let Some(terms) = self.policy.tree().defragment else { return };
        let cost = self.preemptable_attempt(id).map_or(0, |(_, runner)| runner.cost_of_move(now));
        let period = period_of(now, terms.every);
        if self.move_budget.period != period {
            self.move_budget = MoveBudget { period, spent: 0 };
        }
        self.move_budget.spent = self.move_budget.spent.saturating_add(cost);
    }
}

/// Returns the begin of the period that contains an instant.
fn period_of(at: Time, every: Span) -> Time {
    Time(at.0 - at.0 % every.0.max(1))
}
