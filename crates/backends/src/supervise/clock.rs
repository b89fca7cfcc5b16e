//! Deadlines on boot time: that clock only moves forward and counts suspension, so neither a
//! changed wall clock nor a suspended machine changes a time limit.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Returns the time since boot.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Timer that becomes readable once its deadline has passed.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    set_to: Option<Duration>,
}

impl Alarm {
    /// Creates a timer without a deadline.
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        Ok(Self { timer, set_to: None })
    }

    /// Sets the deadline; `None` disarms the timer.
    pub(super) fn set(&mut self, deadline: Option<Duration>) -> io::Result<()> {
        if self.set_to == deadline {
            return Ok(());
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // All zero disarms; a deadline at boot itself has passed and any instant after it will do.
        let value = deadline.map_or(zero, |at| Timespec {
            tv_sec: at.as_secs() as i64,
            tv_nsec: i64::from(at.subsec_nanos()).max(1),
        });
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::ABSTIME,
            &Itimerspec { it_interval: zero, it_value: value },
        )?;
        self.set_to = deadline;
        Ok(())
    }

    /// Returns the descriptor to poll.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.timer
    }

    /// Notes that the timer fired, so that the next `set` arms it again.
    pub(super) fn fired(&mut self) {
        self.set_to = None;
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn an_alarm_fires_at_its_deadline_and_can_be_disarmed() {
        let mut alarm = Alarm::new().unwrap();
        let readable = |alarm: &Alarm, millis: i64| {
            let limit = Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
            poll(&mut [PollFd::new(alarm.fd(), PollFlags::IN)], Some(&limit)).unwrap() == 1
        };
        assert!(!readable(&alarm, 1));
        alarm.set(Some(Duration::ZERO)).unwrap();
        assert!(readable(&alarm, 500));
        alarm.set(None).unwrap();
        assert!(!readable(&alarm, 1));
        let start = now();
        alarm.set(Some(start + Duration::from_millis(20))).unwrap();
        assert!(readable(&alarm, 900));
        assert!(now() - start >= Duration::from_millis(20));
    }
}
