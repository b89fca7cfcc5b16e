//! Periodic check of a supervisor. Where supervisors run as the user, a job can stop its own
//! (SIGSTOP), which then neither handles commands nor enforces the time limit. A stopped supervisor
//! is continued, and killed when it is found stopped too often.

use std::time::Duration;

use rustix::process::Signal;

use crate::process::{self, ProcessKey};
use crate::record::TaskDir;

/// Pause between two checks of a supervisor.
pub(super) const WATCH_PAUSE: Duration = Duration::from_secs(5);
/// Number of consecutive checks after which a stopped supervisor is killed: its task is lost, and
/// its processes are killed as after any death of a supervisor.
const MAX_STOPS: u32 = 6;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchResult {
    /// The supervisor runs, or was continued.
    Fine,
    /// The supervisor was killed.
    Killed,
}

/// Checks of one supervisor.
#[derive(Debug, Default)]
pub(super) struct SupervisorWatch {
    supervisor: Option<ProcessKey>,
    stops: u32,
}

impl SupervisorWatch {
    /// Checks the supervisor that has claimed the task in `dir`.
    pub(super) fn check(&mut self, dir: &TaskDir) -> WatchResult {
        let claimed = || dir.claimed().ok().flatten().map(|claim| claim.supervisor);
        let Some(key) = self.supervisor.take().or_else(claimed) else { return WatchResult::Fine };
        let is_stopped = process::is_stopped(key.pid) && key.is_alive();
        self.stops = if is_stopped { self.stops + 1 } else { 0 };
        let is_lost = self.stops >= MAX_STOPS;
        if is_stopped {
            let pid = key.pid;
            tracing::warn!(task = %dir.path().display(), pid, kill = is_lost, "a supervisor was stopped by a signal");
            let signal = if is_lost { Signal::KILL } else { Signal::CONT };
            process::signal_checked(pid, signal, |_| key.is_alive());
        }
        self.supervisor = Some(key);
        if is_lost { WatchResult::Killed } else { WatchResult::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_supervisor_is_continued_and_later_killed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = TaskDir::at(temp.path().to_owned());
        let mut watch = SupervisorWatch::default();
        assert_eq!(watch.check(&dir), WatchResult::Fine, "it is not claimed yet");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id() as i32;
        dir.claim(ProcessKey::of(pid).unwrap()).unwrap();
        let stop = || {
            process::signal(pid, Signal::STOP);
            assert!(process::poll_until(Duration::from_secs(30), || process::is_stopped(pid)));
        };
        for _ in 0..2 {
            stop();
            for _ in 1..MAX_STOPS {
                stop();
                assert_eq!(watch.check(&dir), WatchResult::Fine);
            }
            assert!(process::poll_until(Duration::from_secs(30), || !process::is_stopped(pid)));
            assert_eq!(watch.check(&dir), WatchResult::Fine);
        }
        for look in 1..=MAX_STOPS {
            stop();
            assert_eq!(
                watch.check(&dir),
                if look < MAX_STOPS { WatchResult::Fine } else { WatchResult::Killed }
            );
        }
        assert!(!child.wait().unwrap().success());
    }
}
