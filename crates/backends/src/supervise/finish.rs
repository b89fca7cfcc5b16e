//! Ending a task: who is signalled, how everything is killed, and what its end is called.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use muster_model::TaskExit;
use rustix::process::Signal;

use super::supervisor::{Supervisor, Why};
use crate::cgroup::CgroupPlan;
use crate::process;

/// How long to keep killing before giving up on a process that does not die.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Died {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl From<ExitStatus> for Died {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // Stops and continues are not asked for when waiting.
            (None, None) => Self::Code(255),
        }
    }
}

impl Died {
    /// Exit code as shells give it.
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Everything of the task that runs now.
pub(super) fn targets(supervisor: &Supervisor) -> Vec<i32> {
    match supervisor.order.cgroup.can_kill() {
        true => supervisor.order.cgroup.processes(),
        false => process::descendants(std::process::id() as i32),
    }
}

/// SIGTERM to everything, and SIGCONT so that stopped processes hear it.
pub(super) fn terminate(supervisor: &Supervisor) {
    for pid in targets(supervisor) {
        process::signal(pid, Signal::TERM);
        process::signal(pid, Signal::CONT);
    }
}

/// One round of killing. Without a cgroup, everything is stopped first so that nothing forks away
/// meanwhile.
pub(super) fn kill_round(supervisor: &Supervisor) {
    let cgroup = &supervisor.order.cgroup;
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

/// Removes the task's groups; what has come into them from elsewhere is killed too.
pub(super) fn remove_groups(cgroup: &CgroupPlan) {
    let _ = process::until_empty(KILL_PATIENCE, || {
        cgroup.remove() || {
            let _ = cgroup.kill_round();
            false
        }
    });
}

/// What the end of the main process is called. A stop or a time-out that was under way explains it
/// whatever its status; memory explains every status but success, because the program's other
/// processes are killed too.
pub(super) fn exit_of(died: Died, ending: Option<Why>, oom_kills: u64) -> TaskExit {
    match (ending, died) {
        (Some(Why::Stop), _) => TaskExit::Stopped,
        (Some(Why::Limit), _) => TaskExit::TimedOut,
        (Some(Why::Idle(after)), _) => TaskExit::Idle { after },
        (_, Died::Code(0)) => TaskExit::Code { code: 0 },
        _ if oom_kills > 0 => TaskExit::OutOfMemory,
        (_, Died::Code(code)) => TaskExit::Code { code },
        (_, Died::Signal(signal)) => TaskExit::Signal { signal },
    }
}

/// The exit code that a terminal session of the task's own terminal ends with; numbers as in
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
    use muster_model::Span;

    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let (code, signal) = (Died::Code, Died::Signal);
        for (status, ending, oom, expected) in [
            (code(0), None, 0, TaskExit::Code { code: 0 }),
            (code(3), None, 0, TaskExit::Code { code: 3 }),
            (signal(11), None, 0, TaskExit::Signal { signal: 11 }),
            (signal(9), None, 1, TaskExit::OutOfMemory),
            (code(1), None, 2, TaskExit::OutOfMemory),
            (code(0), None, 1, TaskExit::Code { code: 0 }),
            (signal(15), Some(Why::Stop), 0, TaskExit::Stopped),
            (code(0), Some(Why::Stop), 0, TaskExit::Stopped),
            (signal(9), Some(Why::Limit), 0, TaskExit::TimedOut),
            (signal(15), Some(Why::Idle(Span(5))), 0, TaskExit::Idle { after: Span(5) }),
        ] {
            assert_eq!(exit_of(status, ending, oom), expected);
        }
    }
}
