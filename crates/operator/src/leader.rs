//! The loop of the active process: reports in, one step, actions out.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kube::Client;
use muster_model::Time;
use muster_scheduler::Scheduler;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::Settings;
use crate::actions::Executor;
use crate::error::{OperatorError, message};
use crate::health::Health;
use crate::sources::{Report, Served, Sources};

/// Longest time without a step, so that the health check sees the loop alive.
const IDLE: Duration = Duration::from_secs(5);
/// Time between two counts for the metrics.
const COUNT: Duration = Duration::from_secs(1);
/// Time between two looks for new kinds of gang objects.
const DISCOVER: Duration = Duration::from_secs(30);

/// Schedules until an error.
pub(crate) async fn run(
    client: Client,
    settings: &Settings,
    health: &Arc<Health>,
) -> Result<(), OperatorError> {
    let mut scheduler = Scheduler::new(settings.levels.clone(), settings.queues.clone())
        .map_err(|error| OperatorError::Queues(error.to_string()))?;
    let (sender, mut reports) = unbounded_channel();
    let served = Served::default();
    let executor = Executor::new(client.clone(), sender.clone(), served.clone());
    let mut sources = Sources::new(client, sender, served);

    // 1. Everything is listed before anything is decided.
    let mut unlisted = sources.start_core() + sources.start_groups().await?;
    while unlisted > 0 {
        match reports.recv().await {
            Some(Report::Listed) => unlisted -= 1,
            Some(Report::Seen(observation)) => scheduler.observe(observation),
            None => return Ok(()),
        }
    }
    tracing::info!("the cluster is listed");

    // 2. One step for all reports that have come, and whenever the scheduler asks for one.
    let mut discovered = Instant::now();
    let mut counted = None;
    loop {
        let started = Instant::now();
        for action in scheduler.step(now()) {
            executor.start(action);
        }
        health.note_step(started.elapsed());
        // Counting looks at every pod.
        if counted.is_none_or(|counted: Instant| counted.elapsed() >= COUNT) {
            counted = Some(Instant::now());
            health.note_counts(scheduler.counts());
        }
        if discovered.elapsed() >= DISCOVER {
            discovered = Instant::now();
            if let Err(error) = sources.start_groups().await {
                tracing::warn!("cannot look for gang objects: {}", message(&error));
            }
        }
        let wait = scheduler.next_wake().map_or(IDLE, until).min(IDLE);
        if !take_reports(&mut reports, &mut scheduler, wait).await {
            return Ok(());
        }
    }
}

/// Takes the next reports, all that are there; false when there will be none.
async fn take_reports(
    reports: &mut UnboundedReceiver<Report>,
    scheduler: &mut Scheduler,
    wait: Duration,
) -> bool {
    let first = match tokio::time::timeout(wait, reports.recv()).await {
        Ok(Some(report)) => report,
        Ok(None) => return false,
        Err(_) => return true,
    };
    let mut next = Some(first);
    while let Some(report) = next {
        if let Report::Seen(observation) = report {
            scheduler.observe(observation);
        }
        next = reports.try_recv().ok();
    }
    true
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn until(at: Time) -> Duration {
    Duration::from_millis(at.since(now()).0)
}
