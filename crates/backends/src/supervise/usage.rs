//! Reaps ended children and counts what they used. The kernel's own sum is of all children that a
//! process ever had; a supervisor that stays for another task must tell their figures apart, so
//! each child is counted as it is reaped.

use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use super::finish::Died;
use crate::record::Usage;

/// Result of a look for an ended child.
#[derive(Debug)]
pub(super) enum Reaped {
    /// The child with this pid has ended like this, and was reaped.
    One(i32, Died),
    /// Every child still runs.
    NoneEnded,
    /// There are no children.
    NoChildren,
}

/// Sums over the children that were reaped since the task began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    max_rss_bytes: u64,
    cpu: Duration,
}

impl Used {
    /// Reaps one ended child, if there is one, and counts it with what it has waited for itself.
    pub(super) fn reap(&mut self) -> Reaped {
        loop {
            // Only finds the pid: the call that reports the resource usage needs one.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            let pid = match waitid(Id::All, flags) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) => pid.as_raw(),
                Ok(_) => return Reaped::NoneEnded,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(_) => return Reaped::NoChildren,
            };
            if let Ok(Some(ended)) = wait4::try_wait4_pid(pid.unsigned_abs()) {
                self.max_rss_bytes = self.max_rss_bytes.max(ended.rusage.maxrss);
                self.cpu += ended.rusage.utime + ended.rusage.stime;
                return Reaped::One(pid, Died::from(ended.status));
            }
        }
    }

    /// Returns the sums, in the units of a record.
    pub(super) fn total(&self) -> Usage {
        Usage { max_rss_bytes: self.max_rss_bytes, cpu_ms: self.cpu.as_millis() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Other tests of this process have children, too, and must not lose them to this one: it runs
    /// alone in a process.
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
            let mut used = Used::default();
            loop {
                match used.reap() {
                    Reaped::One(pid, died) => {
                        assert_eq!(pid, child.id() as i32);
                        return (died, used.total());
                    }
                    Reaped::NoneEnded => std::thread::yield_now(),
                    Reaped::NoChildren => panic!("it has not been reaped yet"),
                }
            }
        };
        let (died, busy) = run("x=$(head -c 50000000 /dev/zero | tr '\\0' x); exit 3");
        assert_eq!(died, Died::Code(3));
        assert!(busy.max_rss_bytes > 40_000_000, "{busy:?}");
        let (died, idle) = run("kill -9 $$");
        assert_eq!(died, Died::Signal(9));
        assert!(
            idle.max_rss_bytes < 20_000_000,
            "the first child's memory is not the second's: {idle:?}"
        );
        assert!(idle.cpu_ms < busy.cpu_ms, "{idle:?} {busy:?}");
        assert!(matches!(Used::default().reap(), Reaped::NoChildren));
    }
}
