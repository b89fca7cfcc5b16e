//! Looks at loads and times now and then, for the events that no report brings.

use std::sync::Arc;
use std::time::Duration;

use muster_model::JobId;
use muster_model::notice::NoticeEvent;
use muster_model::unit::Time;
use muster_model::view::IdleView;
use tokio::sync::watch;

use super::limit;
use crate::clock::Clock;
use crate::dispatch::{Handle, SiteFacts};
use crate::failure::ApiFailure;
use crate::idle::{IDLE_BELOW_PERCENT, IdleWatch};
use crate::rest::GpuLoads;
use crate::store::{HistoryReader, TimedEvent};

/// Time between two looks, and so the exactness of notices about times.
const EVERY: Duration = Duration::from_secs(20);

/// Parts that look for events.
pub(super) struct Look {
    /// Reader of the rules.
    pub(super) reader: HistoryReader,
    /// Dispatcher, which knows the jobs and writes notices.
    pub(super) handle: Handle,
    /// Clock of the daemon.
    pub(super) clock: Arc<dyn Clock>,
    /// Nodes of the site.
    pub(super) site: watch::Receiver<Arc<SiteFacts>>,
    /// Reader of the loads, which keeps them for a second.
    pub(super) loads: Arc<GpuLoads>,
    /// Jobs that leave their GPUs idle.
    pub(super) idle: Arc<IdleWatch>,
}

impl Look {
    /// Repeats the look until the task is dropped.
    pub(super) async fn run(self) {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.look().await {
                tracing::debug!(?error, "a look at loads and times failed");
            }
        }
    }

    async fn look(&self) -> Result<(), ApiFailure> {
        self.look_at_loads().await?;
        let reader = self.reader.clone();
        let rules = tokio::task::spawn_blocking(move || reader.jobs_with_notices())
            .await
            .map_err(|error| ApiFailure::Internal(error.to_string()))?
            .map_err(ApiFailure::Store)?;
        if rules.is_empty() {
            return Ok(());
        }
        let ids: Vec<JobId> = rules.iter().map(|(job, _)| *job).collect();
        let jobs = self.handle.jobs(ids).await?;
        let now = self.clock.now();
        let mut events = limit::near(now, &jobs, &rules);
        for marked in self.idle.marked(now) {
            let job = jobs.iter().find(|job| job.job == marked.element.job);
            events.extend(job.map(|job| idle_event(now, &marked, job.array.is_some())));
        }
        if events.is_empty() { Ok(()) } else { self.handle.timed_events(events).await }
    }

    /// Reads the loads, if there is a real GPU that may have one.
    async fn look_at_loads(&self) -> Result<(), ApiFailure> {
        let site = self.site.borrow().clone();
        let mut devices = site.nodes.iter().flat_map(|node| &node.devices);
        if devices.all(|device| device.is_virtual) {
            return Ok(());
        }
        let nodes = self.handle.nodes().await?;
        let loads = Arc::clone(&self.loads);
        let read = tokio::task::spawn_blocking(move || loads.of(&site.nodes)).await;
        let read = read.map_err(|error| ApiFailure::Internal(error.to_string()))?;
        self.idle.observe(self.clock.now(), &nodes, &read);
        Ok(())
    }
}

/// Returns the event of an element that is marked as idle; each stretch of idleness has one.
fn idle_event(now: Time, idle: &IdleView, is_array: bool) -> TimedEvent {
    let place = if is_array { format!("element {}: ", idle.element.index) } else { String::new() };
    let gpus = if idle.gpus == 1 {
        "its GPU has".to_owned()
    } else {
        format!("its {} GPUs have", idle.gpus)
    };
    TimedEvent {
        job: idle.element.job,
        event: NoticeEvent::Idle,
        rule: None,
        mark: format!("{}.{}", idle.element.index, idle.since.0),
        text: format!(
            "{place}{gpus} been under {IDLE_BELOW_PERCENT} % busy for {}",
            now.since(idle.since)
        ),
    }
}
