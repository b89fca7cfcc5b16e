//! Permission to change the cluster: for a few requests at a time, only while the lease is held by the
//! own clock, and for none once the process stops. A process that was paused for longer than its lease
//! sends nothing when it goes on, since another one may be active by then.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Requests at the same time: more brought no higher rate of bindings on one API server.
const AT_ONCE: usize = 32;
/// Longest wait for requests on their way when the process stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Pause between two looks at them.
const LOOK: Duration = Duration::from_millis(20);

/// Permission of one process.
#[derive(Debug)]
pub(crate) struct Writes {
    slots: Semaphore,
    /// End of the permission; `None` for a process without a lease.
    until: Option<Mutex<Instant>>,
}

impl Writes {
    /// Makes a permission that lasts without a lease.
    pub(crate) fn without_lease() -> Self {
        Self { slots: Semaphore::new(AT_ONCE), until: None }
    }

    /// Makes a permission that lasts until an instant, unless it is prolonged.
    pub(crate) fn with_lease(until: Instant) -> Self {
        Self { until: Some(Mutex::new(until)), ..Self::without_lease() }
    }

    /// Lets requests be sent until this instant.
    pub(crate) fn prolong(&self, until: Instant) {
        if let Some(end) = &self.until {
            *end.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
    }

    /// Waits for the turn of a request; `None` if it must not be sent.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let permit = self.slots.acquire().await.ok()?;
        self.is_held().then_some(permit)
    }

    /// Returns once a request may be repeated: never, if the lease has run out meanwhile. The process ends
    /// then, and what became of the request is for the next one to see.
    pub(crate) async fn again(&self) {
        if !self.is_held() {
            std::future::pending::<()>().await;
        }
    }

    fn is_held(&self) -> bool {
        let end = |until: &Mutex<Instant>| *until.lock().unwrap_or_else(PoisonError::into_inner);
        self.until.as_ref().is_none_or(|until| Instant::now() < end(until))
    }

    /// Refuses further requests, and waits for those on their way; false if some take too long.
    pub(crate) async fn stop(&self) -> bool {
        self.slots.close();
        let limit = Instant::now() + DRAIN;
        while self.slots.available_permits() < AT_ONCE {
            if Instant::now() >= limit {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn nothing_is_sent_after_the_lease() {
        let now = Instant::now();
        let writes = Writes::with_lease(now);
        assert!(writes.turn().await.is_none());
        assert!(writes.again().now_or_never().is_none(), "nor is a request repeated");
        writes.prolong(now + Duration::from_secs(60));
        assert!(writes.turn().await.is_some());
        assert!(writes.again().now_or_never().is_some());
        assert!(Writes::without_lease().turn().await.is_some());
    }

    #[tokio::test]
    async fn a_stop_waits_for_what_is_on_its_way_and_lets_nothing_follow() {
        let writes = Arc::new(Writes::without_lease());
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let (sent, is_sent) = tokio::sync::oneshot::channel::<()>();
        let other = Arc::clone(&writes);
        let request = tokio::spawn(async move {
            let _turn = other.turn().await.unwrap();
            sent.send(()).unwrap();
            answered.await.unwrap();
        });
        is_sent.await.unwrap();
        let stopping = Arc::clone(&writes);
        let stop = tokio::spawn(async move { stopping.stop().await });
        while writes.slots.try_acquire().is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(writes.turn().await.is_none());
        assert!(!stop.is_finished());
        answer.send(()).unwrap();
        request.await.unwrap();
        assert!(stop.await.unwrap());
    }
}
