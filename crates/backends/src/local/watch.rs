//! A look at a supervisor now and then: where supervisors run as the user, a job can stop its own
//! (SIGSTOP), which then neither hears the daemon nor enforces the time limit. It is continued, and
//! killed when that does not help.

use std::time::Duration;

use rustix::process::Signal;

use crate::process::{self, ProcessKey};
use crate::record::TaskDir;

/// How often a supervisor is looked at.
pub(super) const WATCH_PAUSE: Duration = Duration::from_secs(5);
/// A supervisor that is found stopped so often, one look after the other, is killed: its task is
/// lost, and what is left of it is ended as after any death of a supervisor.
const MOST_STOPS: u32 = 6;

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// It runs, or was continued.
    Fine,
    /// It was killed.
    Killed,
}

/// The looks at one supervisor.
#[derive(Debug, Default)]
pub(super) struct Watch {
    supervisor: Option<ProcessKey>,
    stops: u32,
}

impl Watch {
    /// Looks at the supervisor that has claimed the task in `dir`.
    pub(super) fn look(&mut self, dir: &TaskDir) -> Watched {
        let claimed = || dir.claimed().ok().flatten().map(|claim| claim.supervisor);
        let Some(key) = self.supervisor.take().or_else(claimed) else { return Watched::Fine };
        let is_stopped = process::is_stopped(key.pid) && key.is_alive();
        self.stops = if is_stopped { self.stops + 1 } else { 0 };
        let is_lost = self.stops >= MOST_STOPS;
        if is_stopped {
            let pid = key.pid;
            tracing::warn!(task = %dir.path().display(), pid, kill = is_lost, "a supervisor was stopped by a signal");
            let signal = if is_lost { Signal::KILL } else { Signal::CONT };
            process::signal_checked(pid, signal, |_| key.is_alive());
        }
        self.supervisor = Some(key);
        if is_lost { Watched::Killed } else { Watched::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_stopped_goes_on_and_who_stays_stopped_is_killed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = TaskDir::at(temp.path().to_owned());
        let mut watch = Watch::default();
        assert_eq!(watch.look(&dir), Watched::Fine, "nobody has claimed it yet");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id() as i32;
        dir.claim(ProcessKey::of(pid).unwrap()).unwrap();
        let stop = || {
            process::signal(pid, Signal::STOP);
            assert!(process::until_empty(Duration::from_secs(30), || process::is_stopped(pid)));
        };
        for _ in 0..2 {
            stop();
            for _ in 1..MOST_STOPS {
                stop();
                assert_eq!(watch.look(&dir), Watched::Fine);
            }
            assert!(process::until_empty(Duration::from_secs(30), || !process::is_stopped(pid)));
            assert_eq!(watch.look(&dir), Watched::Fine);
        }
        for look in 1..=MOST_STOPS {
            stop();
            assert_eq!(
                watch.look(&dir),
                if look < MOST_STOPS { Watched::Fine } else { Watched::Killed }
            );
        }
        assert!(!child.wait().unwrap().success());
    }
}
