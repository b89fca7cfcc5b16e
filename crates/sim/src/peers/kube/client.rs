//! Rate limits of clients of the API server: scheduler and controllers have a budget of requests,
//! and that is the limit of real clusters (measured on a real control plane at stock settings: 50
//! pods/s bound, exactly the budget).

use muster_model::{Span, Time};

/// Requests per second of the scheduler, and burst after a pause (defaults of kube-scheduler's
/// `clientConnection.qps` and `.burst`).
const BINDS_PER_SECOND: i64 = 50;
const BIND_BURST: i64 = 100;

/// Token bucket with one token per request, in thousandths.
#[derive(Clone, Debug)]
pub(super) struct RateLimiter {
    per_second: i64,
    burst: i64,
    milli: i64,
    at: Time,
}

impl RateLimiter {
    pub(super) fn new(per_second: i64, burst: i64) -> Self {
        Self { per_second, burst, milli: burst * 1000, at: Time(0) }
    }

    /// Creates the limiter of the scheduler.
    pub(super) fn of_bindings() -> Self {
        Self::new(BINDS_PER_SECOND, BIND_BURST)
    }

    /// Takes a token; false if there is none.
    pub(super) fn take(&mut self, now: Time) -> bool {
        let has_one = self.refill(now);
        if has_one {
            self.milli -= 1000;
        }
        has_one
    }

    /// Returns whether there is a token now.
    pub(super) fn refill(&mut self, now: Time) -> bool {
        self.fill(now);
        self.has_budget()
    }

    /// Takes a token, even a future one: once begun, the binding of a gang is completed.
    pub(super) fn take_ahead(&mut self, now: Time) {
        self.fill(now);
        self.milli -= 1000;
    }

    /// Returns whether there is a token.
    pub(super) fn has_budget(&self) -> bool {
        self.milli >= 1000
    }

    /// Returns when there is a token, at the latest.
    pub(super) fn ready(&self) -> Time {
        self.at
            + Span(
                (1000 - self.milli)
                    .max(0)
                    .cast_unsigned()
                    .div_ceil(self.per_second.cast_unsigned()),
            )
    }

    fn fill(&mut self, now: Time) {
        // Thousandths of a token per millisecond are tokens per second.
        let passed = i64::try_from(now.since(self.at).0).unwrap_or(i64::MAX);
        let more = passed.saturating_mul(self.per_second).saturating_add(self.milli);
        self.milli = more.min(self.burst * 1000);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_at_once_and_then_fifty_a_second() {
        let mut client = RateLimiter::of_bindings();
        let taken = (0..200).take_while(|_| client.take(Time(1_000))).count();
        assert_eq!((taken, client.ready()), (100, Time(1_020)));
        let later = (0..200).take_while(|_| client.take(Time(2_000))).count();
        assert_eq!(later, 50);
    }
}
