//! Time line of the daemon: it starts at the wall clock or at the last journalled instant,
//! whichever is later, and then follows the boot-time clock, which includes suspend and cannot be
//! set.

use muster_model::unit::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// Source of the present time.
pub trait Clock: Send + Sync {
    /// Returns the present instant. The runtime tolerates one that goes back.
    fn now(&self) -> Time;
}

/// Clock of the machine, anchored at the start.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    anchor: Time,
    boot_ms: u64,
}

impl SystemClock {
    /// Makes a clock anchored at the present moment, not before `last`.
    #[must_use]
    pub fn anchored(last: Time) -> Self {
        Self { anchor: wall().max(last), boot_ms: millis(ClockId::Boottime) }
    }

    /// Returns the instant at which the machine booted, on this time line.
    #[must_use]
    pub fn booted(&self) -> Time {
        Time(self.anchor.0.saturating_sub(self.boot_ms))
    }

    /// Returns how far this time line is ahead of the wall clock.
    #[must_use]
    pub fn ahead_of_wall(&self) -> Span {
        self.now().since(wall())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        self.anchor + Span(millis(ClockId::Boottime).saturating_sub(self.boot_ms))
    }
}

/// Returns the time of the wall clock.
fn wall() -> Time {
    Time(millis(ClockId::Realtime))
}

fn millis(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    secs * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_starts_before_the_journal_and_never_goes_back() {
        let future = wall() + Span::from_secs(3600);
        let clock = SystemClock::anchored(future);
        let first = clock.now();
        assert!(first >= future);
        assert!(clock.now() >= first);
        assert!(clock.ahead_of_wall() >= Span::from_secs(3590));
        assert!(clock.booted() + Span(millis(ClockId::Boottime)) >= first);
        assert!(SystemClock::anchored(Time(0)).now() >= wall() - Span::from_secs(1));
    }
}
