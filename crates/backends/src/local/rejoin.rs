//! Keeps joining a control group cheap while many tasks start.
//!
//! The kernel guards the moves of processes between groups by a lock whose first use waits until
//! every processor has passed a quiet point, some 10 ms, and which stays cheap as long as it is
//! used again within such a time. Starts that follow each other a little more slowly than that
//! would each wait. So this process moves itself to the group that it is in, which changes nothing,
//! for as long as starts come quickly.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Starts count as quick when the one before was so long ago at most.
const QUICK: Duration = Duration::from_millis(200);
/// Between two uses of the lock: less than it takes the kernel to forget the last.
const PAUSE: Duration = Duration::from_millis(4);

/// Uses the lock while tasks start quickly.
#[derive(Debug)]
pub(super) struct Rejoin {
    /// Membership file of this process's own group; `None` where tasks have no groups.
    own: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_start: Option<Instant>,
    is_running: bool,
}

impl Rejoin {
    /// Uses the group whose membership file this is.
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
        while self.goes_on() {
            let rejoin = Arc::clone(&self);
            let moved = tokio::task::spawn_blocking(move || {
                rejoin.own.as_ref().map(|own| std::fs::write(own, "0"))
            });
            if !matches!(moved.await, Ok(Some(Ok(())))) {
                // It may not: then starts take as long as they take, and this is not tried again.
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn goes_on(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_running = state.last_start.is_some_and(|last| last.elapsed() < QUICK);
        state.is_running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_quick_starts_are_followed_and_it_ends_after_them() {
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
