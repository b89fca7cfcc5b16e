//! Staying for the next task. A task that is over within seconds is often one of many, and starting
//! a supervisor costs more than such a task does. So its supervisor waits a moment for another one
//! before it ends.
//!
//! While it waits, the record of the end may be unsynced: the daemon's journal makes the end
//! durable, and the daemon says so. A supervisor that is not told syncs the record itself.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::clock;
use super::control::Links;
use crate::record::TaskDir;
use crate::wire::ToSupervisor;

/// A supervisor stays after a task that was over within this time; after a longer one a new process
/// costs little.
pub(super) const SHORT_TASK: Duration = Duration::from_secs(5);
/// How long it waits to be told that the end is durable, and then again for another task. The
/// daemon offers tasks for half as long (`local::idle`).
pub(crate) const STAY: Duration = Duration::from_secs(1);

/// Waits for the next task after the one in `dir`. On return the end of that one is durable, or
/// cannot be made so.
pub(super) fn next(dir: &TaskDir, links: &mut Links) -> Option<TaskDir> {
    let mut is_durable = false;
    let mut until = clock::now() + STAY;
    let mut next = None;
    while next.is_none() && links.has_daemon() && wait(links, until) {
        for command in links.commands() {
            match command {
                ToSupervisor::Noted if !is_durable => {
                    is_durable = true;
                    until = clock::now() + STAY;
                }
                ToSupervisor::Next { dir } => {
                    is_durable = true;
                    next = Some(TaskDir::at(dir));
                }
                // Meant for the task that is over.
                _ => {}
            }
        }
        links.sweep();
    }
    if !is_durable {
        // The record is there and tells a daemon that comes later; only a power loss could still
        // take it away.
        let _ = dir.sync_ended();
    }
    next
}

/// Waits until a connection has something to say. False when the time is up.
fn wait(links: &Links, until: Duration) -> bool {
    let left = until.saturating_sub(clock::now());
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    let mut fds: Vec<PollFd<'_>> =
        links.streams().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    match poll(&mut fds, Some(&left)) {
        Ok(ready) => ready > 0,
        Err(error) => error == rustix::io::Errno::INTR,
    }
}
