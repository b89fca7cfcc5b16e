//! Reaps ended children and sums their resource usage. The kernel's own sum covers all children
//! that a process ever had; a reused supervisor needs the figures of each task, so each child is
//! counted as it is reaped.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use crate::record::TaskUsage;

/// Exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessExit {
    /// The process exited with this code.
    Code(i32),
    /// The process was killed by this signal.
    Signal(i32),
}

impl From<ExitStatus> for ProcessExit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // Waiting does not report stops and continues.
            (None, None) => Self::Code(255),
        }
    }
}

impl ProcessExit {
    /// Returns the exit code by the convention of shells.
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Result of an attempt to reap one child.
#[derive(Debug)]
pub(super) enum ReapResult {
    /// The child with this pid was reaped, with this exit.
    One(i32, ProcessExit),
    /// All children still run.
    NoneEnded,
    /// This process has no children.
    NoChildren,
}

/// Resource usage of the children that were reaped since the task began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReapedUsage {
    max_rss_bytes: u64,
    cpu: Duration,
}

impl ReapedUsage {
    /// Reaps one ended child, if there is one, and adds its usage, with that of the children that
    /// it has waited for.
    pub(super) fn reap(&mut self) -> ReapResult {
        loop {
            // Finds the pid without reaping: the call that reports resource usage needs a pid.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            let pid = match waitid(Id::All, flags) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) => pid.as_raw(),
                Ok(_) => return ReapResult::NoneEnded,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(_) => return ReapResult::NoChildren,
            };
            if let Ok(Some(ended)) = wait4::try_wait4_pid(pid.unsigned_abs()) {
                self.max_rss_bytes = self.max_rss_bytes.max(ended.rusage.maxrss);
                self.cpu += ended.rusage.utime + ended.rusage.stime;
                return ReapResult::One(pid, ProcessExit::from(ended.status));
            }
        }
    }

    /// Returns the sums in the units of the exit record.
    pub(super) fn total(&self) -> TaskUsage {
        TaskUsage { max_rss_bytes: self.max_rss_bytes, cpu_ms: self.cpu.as_millis() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs in a process of its own: other tests have children too, which this one would reap.
    #[test]
    #[expect(clippy::zombie_processes, reason = "the code under test reaps it")]
    fn each_child_is_counted_once_and_by_itself() {
        const ALONE: &str = "MUSTER_TEST_REAPS_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "supervise::usage::tests::each_child_is_counted_once_and_by_itself";
            let own = std::env::current_exe().unwrap();
            let status =
                Command::new(own).args(["--exact", name]).env(ALONE, "1").status().unwrap();
            assert!(status.success());
            return;
        }
        let run = |script: &str| {
            let child = Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
            let mut used = ReapedUsage::default();
            loop {
                match used.reap() {
                    ReapResult::One(pid, died) => {
                        assert_eq!(pid, child.id() as i32);
                        return (died, used.total());
                    }
                    ReapResult::NoneEnded => std::thread::yield_now(),
                    ReapResult::NoChildren => panic!("it has not been reaped yet"),
                }
            }
        };
        let (died, busy) = run("x=$(head -c 50000000 /dev/zero | tr '\\0' x); exit 3");
        assert_eq!(died, ProcessExit::Code(3));
        assert!(busy.max_rss_bytes > 40_000_000, "{busy:?}");
        let (died, idle) = run("kill -9 $$");
        assert_eq!(died, ProcessExit::Signal(9));
        assert!(
            idle.max_rss_bytes < 20_000_000,
            "the first child's memory is not the second's: {idle:?}"
        );
        assert!(idle.cpu_ms < busy.cpu_ms, "{idle:?} {busy:?}");
        assert!(matches!(ReapedUsage::default().reap(), ReapResult::NoChildren));
    }
}
