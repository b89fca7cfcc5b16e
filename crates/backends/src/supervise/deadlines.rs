//! Deadlines of a task, and the pauses between rounds of reaping. What happens at each is in
//! `life.rs`.

use std::time::Duration;

use super::clock;

/// Longest pause between two rounds of reaping: orphans of the task become the supervisor's
/// children.
pub(crate) const REAP_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Shortest pause between two rounds of reaping while the task runs.
const REAP_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Pause between two checks for remaining processes while the task is being ended.
const ENDING_PAUSE: Duration = Duration::from_millis(10);
/// Deadlines of a task, as time since boot; `None` where there is none.
#[derive(Debug)]
pub(super) struct Deadlines {
    pub(super) checkpoint_at: Option<Duration>,
    pub(super) limit_at: Option<Duration>,
    /// Set while the task waits for Go and no daemon is connected.
    pub(super) go_timeout_at: Option<Duration>,
    /// Set while the start of the user's program has not been reported.
    pub(super) report_start_at: Option<Duration>,
    pub(super) kill_at: Option<Duration>,
    pub(super) kill_pause: Duration,
    reap_at: Duration,
    reap_pause: Duration,
}

impl Deadlines {
    /// Returns the deadlines of a task that does not run yet.
    pub(super) fn new() -> Self {
        Self {
            checkpoint_at: None,
            limit_at: None,
            go_timeout_at: None,
            report_start_at: None,
            kill_at: None,
            kill_pause: ENDING_PAUSE,
            reap_at: clock::now() + REAP_PAUSE_MIN,
            reap_pause: REAP_PAUSE_MIN,
        }
    }

    /// Returns the earliest deadline.
    pub(super) fn next(&self) -> Duration {
        let others = [
            self.checkpoint_at,
            self.limit_at,
            self.go_timeout_at,
            self.report_start_at,
            self.kill_at,
        ];
        others.into_iter().flatten().fold(self.reap_at, Duration::min)
    }

    /// Returns true when a round of reaping is due.
    pub(super) fn is_reaping_due(&self, now: Duration) -> bool {
        now >= self.reap_at
    }

    /// Schedules the next round of reaping: the pause doubles while no child ends.
    pub(super) fn schedule_reaping(&mut self, now: Duration, reaped: bool, is_ending: bool) {
        self.reap_pause = match (is_ending, reaped, self.is_reaping_due(now)) {
            (true, ..) => ENDING_PAUSE,
            (false, true, _) => REAP_PAUSE_MIN,
            (false, false, true) => (self.reap_pause * 2).min(REAP_PAUSE_MAX),
            (false, false, false) => return,
        };
        self.reap_at = now + self.reap_pause;
    }
}
