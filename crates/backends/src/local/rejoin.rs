//! Keeps joining a control group cheap while many tasks start.
//!
//! The kernel guards moves of processes between groups by a lock (`cgroup_threadgroup_rwsem`) whose
//! first use waits for an RCU grace period, some 10 ms; it stays cheap while it is used again
//! within that time. Without help, starts slightly further apart would each wait. So while tasks
//! start quickly, this process moves itself into the group that it is already in, which changes
//! nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time between two starts that count as quick.
const QUICK: Duration = Duration::from_millis(200);
/// Pause between two uses of the lock: shorter than the time after which it becomes slow again.
const PAUSE: Duration = Duration::from_millis(4);

/// Uses the lock while tasks start quickly.
#[derive(Debug)]
pub(super) struct Rejoin {
    /// Membership file of this process's own group; `None` where tasks have no groups.
    own: Option<PathBuf>,
    state: Mutex<RejoinState>,
}

#[derive(Debug, Default)]
struct RejoinState {
    last_start: Option<Instant>,
    is_running: bool,
}

impl Rejoin {
    /// Creates it for the group with this membership file.
    pub(super) fn new(own: Option<PathBuf>) -> Self {
        Self { own, state: Mutex::default() }
    }

    /// Notes that a task is being started. Must be called within a tokio runtime.
    pub(super) fn note_start(self: &Arc<Self>) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.last_start.replace(now);
        let is_quick = before.is_some_and(|before| now.duration_since(before) < QUICK);
        if self.own.is_some() && is_quick && !std::mem::replace(&mut state.is_running, true) {
            tokio::spawn(Arc::clone(self).run());
        }
    }

    async fn run(self: Arc<Self>) {
        while self.should_continue() {
            let rejoin = Arc::clone(&self);
            let moved = tokio::task::spawn_blocking(move || {
                rejoin.own.as_ref().map(|own| std::fs::write(own, "0"))
            });
            if !matches!(moved.await, Ok(Some(Ok(())))) {
                // Not permitted: starts stay slow, and this is not tried again.
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn should_continue(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_running = state.last_start.is_some_and(|last| last.elapsed() < QUICK);
        state.is_running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_runs_only_while_tasks_start_quickly() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("cgroup.procs");
        let rejoin = Arc::new(Rejoin::new(Some(file.clone())));
        rejoin.note_start();
        assert!(!rejoin.state.lock().unwrap().is_running, "one start is not many");
        rejoin.note_start();
        let ended = async {
            while !file.exists() || rejoin.state.lock().unwrap().is_running {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "0");
    }
}
