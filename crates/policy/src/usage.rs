//! Decayed GPU usage: one number per queue (or user) and GPU model, updated only when its rate
//! changes.
//!
//! Reading never writes, so usage does not depend on how often it is read.

use muster_model::Time;
use serde::{Deserialize, Serialize};

use crate::decay;

/// Usage in thousandths of GPUs × milliseconds, as of an instant, and its rate since. `u64` holds
/// more than half a million GPU-years; beyond that it saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DecayedUsage {
    /// Usage at the instant `at`.
    value: u64,
    /// Time of the last change of the rate.
    at: Time,
    /// Thousandths of GPUs held since `at`. Rebuilt from what runs, never stored.
    #[serde(skip)]
    rate: u64,
}

impl DecayedUsage {
    /// Returns the value at `now`. An instant before the last change reads as that change.
    pub(crate) fn at(&self, now: Time, half_life_ms: u64) -> u64 {
        decay::advanced(self.value, self.rate, now.since(self.at).0, half_life_ms)
    }

    /// Increases the rate by `milli` from `now` on.
    pub(crate) fn increase_rate(&mut self, now: Time, milli: u64, half_life_ms: u64) {
        self.accrue_until(now, half_life_ms);
        self.rate = self.rate.saturating_add(milli);
    }

    /// Decreases the rate by `milli` from `now` on.
    pub(crate) fn decrease_rate(&mut self, now: Time, milli: u64, half_life_ms: u64) {
        self.accrue_until(now, half_life_ms);
        debug_assert!(self.rate >= milli, "released more GPUs than were held");
        self.rate = self.rate.saturating_sub(milli);
        self.reset_if_blank();
    }

    /// Increases the rate by `milli` since the last change: restores the rate, which a snapshot
    /// leaves out.
    pub(crate) fn restore_rate(&mut self, milli: u64) {
        self.rate = self.rate.saturating_add(milli);
    }

    /// Folds what has accrued into the value.
    pub(crate) fn accrue_until(&mut self, now: Time, half_life_ms: u64) {
        self.value = self.at(now, half_life_ms);
        self.at = self.at.max(now);
    }

    /// Returns the same usage with rate 0.
    pub(crate) fn stopped(mut self) -> Self {
        self.rate = 0;
        self.reset_if_blank();
        self
    }

    /// Resets a blank usage to the default, including its instant: a snapshot leaves it out.
    fn reset_if_blank(&mut self) {
        if self.is_blank() {
            *self = Self::default();
        }
    }

    /// Returns true if value and rate are 0, so that it may be dropped.
    pub(crate) fn is_blank(&self) -> bool {
        self.value == 0 && self.rate == 0
    }

    /// Returns the thousandths of GPUs by which it grows per millisecond.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }
}
