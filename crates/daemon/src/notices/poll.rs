//! Polls loads and times: for events that no report brings (GPUs that are idle, a time limit that is near), and for the
//! use of GPUs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_model::JobId;
use muster_model::notice::NoticeEvent;
use muster_model::queue::{IdleAction, IdlePolicy};
use muster_model::unit::Time;
use muster_model::view::{GpuLoadView, IdleView, JobView};
use muster_report::ps::holds;
use muster_report::top::IDLE_BELOW_PERCENT;
use muster_spec::access::idle_policy;
use tokio::sync::watch;

use super::idle_action::{IdleActions, action};
use super::limit;
use crate::clock::Clock;
use crate::dispatch::{Handle, SiteFacts};
use crate::failure::ApiFailure;
use crate::gpu_use::GpuUseMeter;
use crate::idle::IdleWatch;
use crate::rest::GpuLoads;
use crate::store::{HistoryReader, TimedEvent};

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
    /// Time between two polls.
    pub(super) every: Duration,
    /// Use of GPUs that is not written yet.
    pub(super) gpu_use: GpuUseMeter,
    /// Actions of queues on idle jobs that are not finished.
    pub(super) actions: IdleActions,
}

impl EventPoller {
    /// Polls until the task is dropped.
    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(self.every).await;
            if let Err(error) = self.poll().await {
                tracing::debug!(?error, "loads and times could not be polled");
            }
        }
    }

    async fn poll(&mut self) -> Result<(), ApiFailure> {
        // 1. Loads, and what they say of jobs.
        let holders = self.poll_loads().await?;
        let now = self.clock.now();
        let idle = self.idle.marked_by_policy(now);
        // 2. Notices, before their jobs may end.
        self.write_events(now, &holders, &idle).await?;
        // 3. Actions of queues.
        self.actions.act(&self.handle, now, &holders, &idle).await
    }

    /// Writes the events of jobs with rules for notices.
    async fn write_events(
        &self,
        now: Time,
        holders: &[JobView],
        idle: &[(IdleView, IdlePolicy)],
    ) -> Result<(), ApiFailure> {
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
        let mut events = limit::near(now, &jobs, &rules);
        for (marked, policy) in idle {
            let job = holders.iter().find(|job| job.job == marked.element.job);
            events.extend(job.map(|job| idle_event(now, job, marked, *policy)));
        }
        if events.is_empty() { Ok(()) } else { self.handle.timed_events(events).await }
    }

    /// Reads the loads, if a job holds a GPU, and sums the use of those that have one. Returns the jobs that hold GPUs
    /// with a load.
    async fn poll_loads(&mut self) -> Result<Vec<JobView>, ApiFailure> {
        let nodes = self.handle.nodes().await?;
        let devices = nodes.iter().flat_map(|node| &node.devices);
        let holders: BTreeSet<JobId> =
            devices.flat_map(|device| &device.elements).map(|element| element.job).collect();
        let read = if holders.is_empty() { Vec::new() } else { self.read_loads().await? };
        let jobs = if read.iter().any(|gpu| gpu.load.is_some()) {
            self.handle.jobs(holders.into_iter().collect()).await?
        } else {
            Vec::new()
        };
        let now = self.clock.now();
        let site = self.site.borrow().clone();
        let policy = |job: &JobView| Some((job.job, idle_policy(&site.queues, &job.queue)?));
        self.idle.observe(now, &nodes, &read, &jobs.iter().filter_map(policy).collect());
        let elements = jobs.iter().flat_map(|job| &job.elements);
        let holding = elements.filter(|element| holds(element.state)).cloned().collect::<Vec<_>>();
        self.gpu_use.observe(now, &holding, &read);
        let due = self.gpu_use.due(now);
        if !due.is_empty() {
            self.handle.gpu_use(due).await?;
            self.gpu_use.written();
        }
        Ok(jobs)
    }

    async fn read_loads(&self) -> Result<Vec<GpuLoadView>, ApiFailure> {
        let site = self.site.borrow().clone();
        let loads = Arc::clone(&self.loads);
        tokio::task::spawn_blocking(move || loads.of(&site.nodes))
            .await
            .map_err(|error| ApiFailure::Internal(error.to_string()))
    }
}

/// Returns the event of an element that is marked as idle; each stretch of idleness has one.
fn idle_event(now: Time, job: &JobView, idle: &IdleView, policy: IdlePolicy) -> TimedEvent {
    let index = idle.element.index;
    let place = if job.array.is_some() { format!("element {index}: ") } else { String::new() };
    let gpus = if idle.gpus == 1 {
        "its GPU has".to_owned()
    } else {
        format!("its {} GPUs have", idle.gpus)
    };
    let follows = match action(job, policy) {
        IdleAction::Notify => String::new(),
        IdleAction::Requeue => format!("; queue {} requeues it", job.queue),
        IdleAction::Cancel => format!("; queue {} cancels it", job.queue),
    };
    TimedEvent {
        job: idle.element.job,
        event: NoticeEvent::Idle,
        rule: None,
        mark: format!("{index}.{}", idle.since.0),
        text: format!(
            "{place}{gpus} been under {IDLE_BELOW_PERCENT} % busy for {}{follows}",
            now.since(idle.since)
        ),
    }
}
