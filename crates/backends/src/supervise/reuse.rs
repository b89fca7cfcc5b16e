//! Reuse of supervisors: after a short task a supervisor stays idle for a moment and takes another
//! task. Short tasks often come in large numbers, and starting a supervisor costs more than running
//! one of them.
//!
//! While a supervisor is idle, the exit record of its last task may be unsynced: the daemon writes
//! the task's end to its journal and confirms that it is durable. Without that confirmation the
//! supervisor syncs the exit record itself.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::clock;
use super::control::ControlConnections;
use crate::record::TaskDir;
use crate::wire::ToSupervisor;

/// Longest run of a task after which its supervisor is reused; after a longer one the cost of a new
/// process does not matter.
pub(super) const SHORT_TASK_TIME: Duration = Duration::from_secs(5);
/// Time that an idle supervisor waits for the confirmation that the end is durable, and then again
/// for another task. The daemon assigns tasks for half as long (`local::idle_supervisors`).
pub(crate) const REUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for the next task after the one in `dir`. On return the end of the latter is durable, or
/// cannot be made so.
pub(super) fn await_task(dir: &TaskDir, connections: &mut ControlConnections) -> Option<TaskDir> {
    let mut is_durable = false;
    let mut until = clock::now() + REUSE_TIMEOUT;
    let mut next = None;
    while next.is_none() && connections.has_daemon() && wait(connections, until) {
        for command in connections.commands() {
            match command {
                ToSupervisor::EndDurable if !is_durable => {
                    is_durable = true;
                    until = clock::now() + REUSE_TIMEOUT;
                }
                ToSupervisor::Next { dir } => {
                    is_durable = true;
                    next = Some(TaskDir::at(dir));
                }
                // Commands for the task that is over.
                _ => {}
            }
        }
        connections.sweep();
    }
    if !is_durable {
        // On failure the record still exists for a later daemon; only a power loss could destroy
        // it.
        let _ = dir.sync_exit();
    }
    next
}

/// Waits until a connection is readable. Returns false when the time is up.
fn wait(connections: &ControlConnections, until: Duration) -> bool {
    let left = until.saturating_sub(clock::now());
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    let mut fds: Vec<PollFd<'_>> =
        connections.streams().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    match poll(&mut fds, Some(&left)) {
        Ok(ready) => ready > 0,
        Err(error) => error == rustix::io::Errno::INTR,
    }
}
