//! Supervisors whose task is over and that stay a moment for the next one; see `supervise::stay`.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::supervise::STAY;
use crate::wire::{ToSupervisor, line};

/// How long a supervisor is offered tasks after its last one: half as long as it waits, so that it
/// still listens.
const OFFERED: Duration = STAY.checked_div(2).expect("two is not zero");

/// A supervisor without a task, by its connection.
#[derive(Debug)]
pub(super) struct Idle {
    stream: UnixStream,
    since: Instant,
}

impl Idle {
    /// A supervisor that has just told the end of its task.
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, since: Instant::now() }
    }

    fn still_waits(&self) -> bool {
        self.since.elapsed() < OFFERED
    }

    /// Sends one line. False when the supervisor has gone.
    fn tell(&self, message: &ToSupervisor) -> bool {
        (&self.stream).write_all(&line(message)).is_ok()
    }
}

/// Supervisors that wait for a task.
#[derive(Debug, Default)]
pub(super) struct IdleSupervisors {
    waiting: Vec<Idle>,
}

impl IdleSupervisors {
    /// Tells a supervisor that the end of its task is durable, and offers it tasks from now on.
    pub(super) fn add(&mut self, idle: Idle) {
        self.prune();
        if idle.still_waits() && idle.tell(&ToSupervisor::Noted) {
            self.waiting.push(Idle { since: Instant::now(), ..idle });
        }
    }

    /// Hands the task whose records are in `dir` to a supervisor, and returns the connection to it.
    /// `None` when none waits.
    pub(super) fn hand(&mut self, dir: &Path) -> Option<UnixStream> {
        self.prune();
        while let Some(idle) = self.waiting.pop() {
            if idle.tell(&ToSupervisor::Next { dir: dir.to_owned() }) {
                return Some(idle.stream);
            }
        }
        None
    }

    /// True when none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets supervisors that have waited for long enough; each then ends.
    pub(super) fn prune(&mut self) {
        self.waiting.retain(Idle::still_waits);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_task_goes_to_a_supervisor_that_lives() {
        let mut idle = IdleSupervisors::default();
        let pair = || UnixStream::pair().unwrap();
        let ((alive, peer), (dead, gone)) = (pair(), pair());
        idle.add(Idle::new(alive));
        idle.add(Idle::new(dead));
        drop(gone);
        assert!(idle.hand(Path::new("/jobs/7")).is_some());
        let told: Vec<ToSupervisor> = BufReader::new(peer)
            .lines()
            .take(2)
            .map(|text| serde_json::from_str(&text.unwrap()).unwrap())
            .collect();
        assert_eq!(told, [ToSupervisor::Noted, ToSupervisor::Next { dir: "/jobs/7".into() }]);
        assert!(idle.hand(Path::new("/jobs/8")).is_none());
    }

    #[test]
    fn a_supervisor_that_has_waited_for_too_long_gets_none() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut idle = IdleSupervisors::default();
        let long_ago = Instant::now().checked_sub(OFFERED).unwrap();
        idle.waiting.push(Idle { stream: ours, since: long_ago });
        assert!(idle.hand(Path::new("/jobs/7")).is_none());
    }
}
