//! Decayed GPU usage: one number per queue (or user) and GPU model, brought up to date only when
//! its rate changes.
//!
//! Reading never writes, so usage does not depend on how often it is looked at.

use muster_model::Time;
use serde::{Deserialize, Serialize};

use crate::decay;

/// Usage in thousandths of GPUs × milliseconds, as of an instant, and how fast it grows since.
/// `u64` holds more than half a million GPU-years; beyond that it saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// At `at`.
    value: u64,
    /// When the rate last changed.
    at: Time,
    /// Thousandths of GPUs held since `at`. Rebuilt from what runs, never stored.
    #[serde(skip)]
    rate: u64,
}

impl Usage {
    /// Value at `now`. An instant before the last change reads as that change.
    pub(crate) fn at(&self, now: Time, half_life_ms: u64) -> u64 {
        decay::advanced(self.value, self.rate, now.since(self.at).0, half_life_ms)
    }

    /// From `now` on it grows by `milli` more.
    pub(crate) fn speed_up(&mut self, now: Time, milli: u64, half_life_ms: u64) {
        self.settle(now, half_life_ms);
        self.rate = self.rate.saturating_add(milli);
    }

    /// From `now` on it grows by `milli` less.
    pub(crate) fn slow_down(&mut self, now: Time, milli: u64, half_life_ms: u64) {
        self.settle(now, half_life_ms);
        debug_assert!(self.rate >= milli, "released more GPUs than were held");
        self.rate = self.rate.saturating_sub(milli);
        self.forget_nothing();
    }

    /// It grew by `milli` more since its last change: rebuilds the rate that a snapshot leaves out.
    pub(crate) fn resume(&mut self, milli: u64) {
        self.rate = self.rate.saturating_add(milli);
    }

    /// Folds what has accrued into the value.
    pub(crate) fn settle(&mut self, now: Time, half_life_ms: u64) {
        self.value = self.at(now, half_life_ms);
        self.at = self.at.max(now);
    }

    /// The same usage with nothing running.
    pub(crate) fn stopped(mut self) -> Self {
        self.rate = 0;
        self.forget_nothing();
        self
    }

    /// What came to nothing is as if it never was, instant included: a snapshot leaves it out.
    fn forget_nothing(&mut self) {
        if self.is_blank() {
            *self = Self::default();
        }
    }

    /// Nothing counts and nothing grows: may be forgotten.
    pub(crate) fn is_blank(&self) -> bool {
        self.value == 0 && self.rate == 0
    }

    /// Thousandths of GPUs that it grows by per millisecond.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }
}
