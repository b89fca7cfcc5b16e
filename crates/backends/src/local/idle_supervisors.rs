//! Idle supervisors: their task is over and they wait a moment for another one; see
//! `supervise::reuse`.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::supervise::REUSE_TIMEOUT;
use crate::wire::{ToSupervisor, line};

/// Time after its last task in which a supervisor is assigned tasks: half of its own timeout, so
/// that it is still waiting.
const OFFER_TIME: Duration = REUSE_TIMEOUT.checked_div(2).expect("two is not zero");

/// Connection to a supervisor without a task.
#[derive(Debug)]
pub(super) struct IdleSupervisor {
    stream: UnixStream,
    since: Instant,
}

impl IdleSupervisor {
    /// Wraps the connection of a supervisor that has just reported the end of its task.
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, since: Instant::now() }
    }

    fn is_available(&self) -> bool {
        self.since.elapsed() < OFFER_TIME
    }

    /// Sends a message. Returns false when the supervisor has exited.
    fn send(&self, message: &ToSupervisor) -> bool {
        (&self.stream).write_all(&line(message)).is_ok()
    }
}

/// The supervisors that wait for a task.
#[derive(Debug, Default)]
pub(super) struct IdleSupervisors {
    waiting: Vec<IdleSupervisor>,
}

impl IdleSupervisors {
    /// Confirms to a supervisor that the end of its task is durable, and adds it.
    pub(super) fn add(&mut self, idle: IdleSupervisor) {
        self.prune();
        if idle.is_available() && idle.send(&ToSupervisor::EndDurable) {
            self.waiting.push(IdleSupervisor { since: Instant::now(), ..idle });
        }
    }

    /// Assigns the task whose records are in `dir` to a supervisor, and returns the connection to
    /// it; `None` when none is waiting.
    pub(super) fn assign(&mut self, dir: &Path) -> Option<UnixStream> {
        self.prune();
        while let Some(idle) = self.waiting.pop() {
            if idle.send(&ToSupervisor::Next { dir: dir.to_owned() }) {
                return Some(idle.stream);
            }
        }
        None
    }

    /// Returns true when no supervisor is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops supervisors that have waited longer than [`OFFER_TIME`]; each then exits.
    pub(super) fn prune(&mut self) {
        self.waiting.retain(IdleSupervisor::is_available);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_task_is_assigned_to_a_live_supervisor() {
        let mut idle = IdleSupervisors::default();
        let pair = || UnixStream::pair().unwrap();
        let ((alive, peer), (dead, gone)) = (pair(), pair());
        idle.add(IdleSupervisor::new(alive));
        idle.add(IdleSupervisor::new(dead));
        drop(gone);
        assert!(idle.assign(Path::new("/jobs/7")).is_some());
        let received: Vec<ToSupervisor> = BufReader::new(peer)
            .lines()
            .take(2)
            .map(|text| serde_json::from_str(&text.unwrap()).unwrap())
            .collect();
        assert_eq!(
            received,
            [ToSupervisor::EndDurable, ToSupervisor::Next { dir: "/jobs/7".into() }]
        );
        assert!(idle.assign(Path::new("/jobs/8")).is_none());
    }

    #[test]
    fn a_supervisor_that_has_waited_too_long_is_assigned_no_task() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut idle = IdleSupervisors::default();
        let long_ago = Instant::now().checked_sub(OFFER_TIME).unwrap();
        idle.waiting.push(IdleSupervisor { stream: ours, since: long_ago });
        assert!(idle.assign(Path::new("/jobs/7")).is_none());
    }
}
