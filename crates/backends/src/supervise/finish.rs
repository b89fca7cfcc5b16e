//! Ends a task: which processes are signalled, how all of them are killed, and which
//! [`TaskExit`] is reported.

use std::time::Duration;

use muster_model::{Span, TaskExit};
use rustix::process::Signal;

use super::usage::ProcessExit;
use crate::cgroup::CgroupPlan;
use crate::process;

/// Time after which killing gives up on a process that does not die.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Reason for which the supervisor is ending the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The daemon sent Stop.
    Stop,
    /// The task reached its time limit.
    Limit,
    /// The task was idle for this long.
    Idle(Span),
    /// The main process exited by itself and left other processes running.
    Leftovers,
}

/// Returns the pids of all processes of the task that run now.
pub(super) fn task_processes(cgroup: &CgroupPlan) -> Vec<i32> {
    if cgroup.can_kill() {
        cgroup.processes()
    } else {
        process::descendants(std::process::id() as i32)
    }
}

/// Sends SIGTERM to processes, and SIGCONT so that stopped ones handle it.
pub(super) fn terminate(pids: &[i32]) {
    for pid in pids.iter().copied() {
        process::signal(pid, Signal::TERM);
        process::signal(pid, Signal::CONT);
    }
}

/// Kills every process of the task once. Without a cgroup all of them are stopped first, so that
/// none forks in between.
pub(super) fn kill_round(cgroup: &CgroupPlan) {
    if cgroup.can_kill() && !cgroup.kill_round() {
        return;
    }
    let own = std::process::id() as i32;
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in process::descendants(own) {
            process::signal(pid, signal);
        }
    }
}

/// Removes the task's cgroups; processes that were moved into them from elsewhere are killed too.
pub(super) fn remove_groups(cgroup: &CgroupPlan) {
    let _ = process::poll_until(KILL_PATIENCE, || {
        cgroup.remove() || {
            let _ = cgroup.kill_round();
            false
        }
    });
}

/// Returns the exit to report for the main process. A stop or time-out in progress takes precedence
/// over any status; an out-of-memory kill takes precedence over every status but success, because
/// the kernel may have killed another process of the program.
pub(super) fn exit_of(died: ProcessExit, ending: Option<EndReason>, oom_kills: u64) -> TaskExit {
    match (ending, died) {
        (Some(EndReason::Stop), _) => TaskExit::Stopped,
        (Some(EndReason::Limit), _) => TaskExit::TimedOut,
        (Some(EndReason::Idle(after)), _) => TaskExit::Idle { after },
        (_, ProcessExit::Code(0)) => TaskExit::Code { code: 0 },
        _ if oom_kills > 0 => TaskExit::OutOfMemory,
        (_, ProcessExit::Code(code)) => TaskExit::Code { code },
        (_, ProcessExit::Signal(signal)) => TaskExit::Signal { signal },
    }
}

/// Returns the exit code with which sessions on the task's own terminal end; numbers as in
/// [`muster_model::Outcome::exit_code`].
pub(super) fn session_code(exit: &TaskExit) -> i32 {
    match exit {
        TaskExit::Code { code } => *code,
        TaskExit::Idle { .. } => 0,
        TaskExit::Signal { signal } => 128 + signal,
        TaskExit::OutOfMemory => 137,
        TaskExit::TimedOut => 124,
        TaskExit::Stopped => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_exit_are_distinguished() {
        let code = ProcessExit::Code;
        let signal = ProcessExit::Signal;
        for (status, ending, oom, expected) in [
            (code(0), None, 0, TaskExit::Code { code: 0 }),
            (code(3), None, 0, TaskExit::Code { code: 3 }),
            (signal(11), None, 0, TaskExit::Signal { signal: 11 }),
            (signal(9), None, 1, TaskExit::OutOfMemory),
            (code(1), None, 2, TaskExit::OutOfMemory),
            (code(0), None, 1, TaskExit::Code { code: 0 }),
            (signal(15), Some(EndReason::Stop), 0, TaskExit::Stopped),
            (code(0), Some(EndReason::Stop), 0, TaskExit::Stopped),
            (signal(9), Some(EndReason::Limit), 0, TaskExit::TimedOut),
            (signal(15), Some(EndReason::Idle(Span(5))), 0, TaskExit::Idle { after: Span(5) }),
        ] {
            assert_eq!(exit_of(status, ending, oom), expected);
        }
    }
}
