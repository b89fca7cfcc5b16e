//! The daemon's time line: it starts at the wall clock or at the last journalled instant, whichever
//! is later, and then follows boot time, which runs on through suspend and which nobody can set.

use muster_model::unit::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// Where the daemon takes the time from.
pub trait Clock: Send + Sync {
    /// The present instant. The runtime tolerates one that goes back.
    fn now(&self) -> Time;
}

/// The machine's clock, anchored once.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    anchor: Time,
    boot_ms: u64,
}

impl SystemClock {
    /// Anchors at the present moment, not before `last`.
    #[must_use]
    pub fn anchored(last: Time) -> Self {
        Self { anchor: wall().max(last), boot_ms: millis(ClockId::Boottime) }
    }

    /// When the machine booted, on this time line.
    #[must_use]
    pub fn booted(&self) -> Time {
        Time(self.anchor.0.saturating_sub(self.boot_ms))
    }

    /// How far this time line is ahead of the wall clock now.
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

/// The wall clock.
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
