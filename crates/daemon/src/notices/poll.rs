//! Polls loads and times, for events that no report brings: GPUs that are idle, a time limit that is near.

use std::sync::Arc;
use std::time::Duration;

use muster_model::JobId;
use muster_model::notice::NoticeEvent;
use muster_model::unit::Time;
use muster_model::view::IdleView;
use muster_report::top::IDLE_BELOW_PERCENT;
use tokio::sync::watch;

use super::limit;
use crate::clock::Clock;
use crate::dispatch::{Handle, SiteFacts};
use crate::failure::ApiFailure;
use crate::idle::IdleWatch;
use crate::rest::GpuLoads;
use crate::store::{HistoryReader, TimedEvent};

/// Time between two polls: notices about times come at most this late.
const EVERY: Duration = Duration::from_secs(20);

/// Task that polls for events.
pub(super) struct EventPoller {
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

impl EventPoller {
    /// Polls until the task is dropped.
    pub(super) async fn run(self) {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.poll().await {
                tracing::debug!(?error, "loads and times could not be polled");
            }
        }
    }

    async fn poll(&self) -> Result<(), ApiFailure> {
        self.poll_loads().await?;
        let reader = self.reader.clone();
        let rules = tokio::task::spawn_blocking(move || reader.running_with_notices())
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

    /// Reads the loads, if there is a real GPU.
    async fn poll_loads(&self) -> Result<(), ApiFailure> {
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
