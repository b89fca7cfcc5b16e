//! The loop of the active process: reports in, one step, actions out.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kube::Client;
use muster_model::{QueueTree, Span, Time};
use muster_scheduler::{Level, Observation, Scheduler, UsageRecord};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::actions::Executor;
use crate::error::{OperatorError, message};
use crate::health::Health;
use crate::queue_source::Queues;
use crate::reservations::ReservationStatuses;
use crate::sources::{Report, Served, Sources};
use crate::usage::{PublishedSettings, UsageStore};
use crate::writes::Writes;
use crate::{QueueSource, Settings};

/// Longest time without a step, so that the health check sees the loop alive.
const IDLE: Duration = Duration::from_secs(5);
/// Shortest time between two steps. A step looks at whole gangs, and while a large one is bound a report of each of its
/// pods arrives: together they cost one look. The first report after a pause is not delayed.
const GATHER: Duration = Duration::from_millis(5);
/// Time between two looks for new kinds of gang objects.
const DISCOVER: Duration = Duration::from_secs(30);

/// Time between two statuses of the queue objects.
const STATUS: Duration = Duration::from_secs(5);
/// Time between two statuses of which only the used GPU time differs: it grows while anything runs.
const USAGE_STATUS: Duration = Duration::from_secs(60);
/// Time between two records of usage, which is the most that a killed process forgets.
const RECORD: Duration = Duration::from_secs(15);

/// Step back of the clock after which the process starts anew: the time of the scheduler never goes
/// back, so that until the clock has caught up nothing that is due would happen.
const CLOCK_STEP: Span = Span::from_secs(10);

/// The active process: the scheduler with all that it talks to.
struct Leader<'a> {
    scheduler: Scheduler,
    queues: Queues,
    reservations: ReservationStatuses,
    /// True if an advance reservation was observed whose status is out of date: its user may be waiting for it.
    has_new_reservation: bool,
    sources: Sources,
    executor: Executor,
    /// Record of usage; `None` for a process without a lease, which has no namespace.
    usage: Option<UsageStore>,
    published: PublishedSettings,
    health: &'a Health,
    reports: UnboundedReceiver<Report>,
    /// Begin of the last step.
    stepped: Instant,
}

/// Schedules until an error.
pub(crate) async fn run(
    client: Client,
    settings: &Settings,
    health: &Arc<Health>,
    writes: Arc<Writes>,
) -> Result<(), OperatorError> {
    let (sender, reports) = unbounded_channel();
    let usage = settings.lease.as_ref();
    let usage = usage.map(|(namespace, _)| UsageStore::new(client.clone(), namespace));
    let served = Served::default();
    let published = PublishedSettings::of(settings);
    let leader = Leader {
        scheduler: start_scheduler(settings, usage.as_ref(), published.holders.as_deref()).await?,
        queues: Queues::of(&settings.queues),
        reservations: ReservationStatuses::default(),
        has_new_reservation: false,
        executor: Executor::new(
            client.clone(),
            sender.clone(),
            writes,
            served.clone(),
            settings.holders.clone(),
        ),
        sources: Sources::new(client, sender, served, &settings.queues),
        usage,
        published,
        health,
        reports,
        stepped: Instant::now(),
    };
    leader.run().await
}

/// Makes the scheduler, with the usage that was recorded last.
async fn start_scheduler(
    settings: &Settings,
    usage: Option<&UsageStore>,
    holders: Option<&str>,
) -> Result<Scheduler, OperatorError> {
    let record = match usage {
        Some(usage) => usage.load().await?.record,
        None => Ok(None),
    };
    let (scheduler, defect) = resume(settings.levels.clone(), record)?;
    if let Some(defect) = defect {
        tracing::error!("{defect}");
    }
    let scheduler = with_queues(scheduler, &settings.queues)?;
    Ok(match holders {
        Some(namespace) => scheduler.with_holders(namespace),
        None => scheduler,
    })
}

/// Makes a scheduler that goes on from recorded usage, with the reason if a record cannot be used.
pub(crate) fn resume(
    levels: Vec<Level>,
    record: Result<Option<UsageRecord>, String>,
) -> Result<(Scheduler, Option<String>), OperatorError> {
    let resumed = record.and_then(|record| {
        let resumed = record.map(|record| Scheduler::with_usage(levels.clone(), record));
        resumed.transpose().map_err(|error| error.to_string())
    });
    let defect = match resumed {
        Ok(Some(scheduler)) => return Ok((scheduler, None)),
        Ok(None) => None,
        Err(error) => Some(format!(
            "the recorded usage cannot be read, so fair share starts from zero: {error}"
        )),
    };
    let scheduler = Scheduler::new(levels, QueueTree::single());
    scheduler
        .map(|scheduler| (scheduler, defect))
        .map_err(|error| OperatorError::Queues(error.to_string()))
}

/// Sets the source from which a scheduler takes its queues.
pub(crate) fn with_queues(
    mut scheduler: Scheduler,
    queues: &QueueSource,
) -> Result<Scheduler, OperatorError> {
    match queues {
        QueueSource::Tree(tree) => {
            scheduler.check_queues(tree).map_err(OperatorError::Queues)?;
            scheduler.observe(Observation::Queues(tree.clone()));
        }
        QueueSource::Kueue => scheduler = scheduler.by_local_queues(),
        QueueSource::Objects => {}
    }
    Ok(scheduler)
}

impl Leader<'_> {
    async fn run(mut self) -> Result<(), OperatorError> {
        // 1. Everything is listed before anything is decided.
        let mut unlisted = self.sources.start_core() + self.sources.start_served().await?;
        while unlisted > 0 {
            match self.reports.recv().await {
                Some(Report::Listed) => unlisted -= 1,
                Some(report) => self.take_in(report),
                None => return Ok(()),
            }
        }
        tracing::info!("the cluster is listed");

        // 2. One step for all reports that have come, and whenever the scheduler asks for one.
        // What is served was asked for just now.
        let mut discover_timer = Timer::started(DISCOVER);
        let mut status_timer = Timer::new(STATUS);
        let mut usage_timer = Timer::new(USAGE_STATUS);
        let mut record_timer = Timer::new(RECORD);
        let mut last = now();
        loop {
            last = check_clock(last, now())?;
            self.step();
            if status_timer.take_due() {
                self.write_statuses(&mut usage_timer);
            }
            if std::mem::take(&mut self.has_new_reservation) {
                self.write_reservation_statuses();
            }
            if record_timer.take_due()
                && let Some(usage) = self.usage.clone()
            {
                let record = self.scheduler.usage_record(now());
                let published = self.published.clone();
                tokio::spawn(async move { usage.save(record, published).await });
            }
            if discover_timer.take_due()
                && let Err(error) = self.sources.start_served().await
            {
                tracing::warn!("cannot look for gang and queue objects: {}", message(&error));
            }
            let wait = self.scheduler.next_wake().map_or(IDLE, until).min(IDLE);
            if !self.take_reports(wait).await {
                return Ok(());
            }
        }
    }

    /// Writes the statuses of queues and advance reservations that have changed.
    fn write_statuses(&mut self, usage_timer: &mut Timer) {
        let views = |scheduler: &Scheduler| scheduler.queues(now());
        let statuses = match &mut self.queues {
            Queues::Fixed => Vec::new(),
            Queues::Objects(objects) => {
                let models = self.scheduler.gpu_models();
                objects.take_statuses(&views(&self.scheduler), &models, usage_timer.take_due())
            }
            Queues::Kueue(kueue) => {
                for note in kueue.take_notes() {
                    self.executor.tell_cohort(kueue.version().to_owned(), note);
                }
                kueue.take_statuses(&views(&self.scheduler), &self.scheduler.counts_of_queues())
            }
        };
        for (address, status) in statuses {
            self.executor.write_status(address, status);
        }
        self.write_reservation_statuses();
    }

    fn write_reservation_statuses(&mut self) {
        for (address, status) in self.reservations.take(&self.scheduler.reservations(now())) {
            self.executor.write_status(address, status);
        }
    }

    fn step(&mut self) {
        let started = Instant::now();
        self.stepped = started;
        self.queues.take_in_all(&mut self.scheduler, now());
        for action in self.scheduler.step(now()) {
            self.executor.start(action);
        }
        self.health.note_step(started.elapsed());
    }

    /// Takes the next reports: all that are there once the next step may begin; false when there will be none.
    async fn take_reports(&mut self, wait: Duration) -> bool {
        let first = tokio::select! {
            report = self.reports.recv() => match report {
                Some(report) => report,
                None => return false,
            },
            () = self.health.figures_asked() => {
                self.health.answer_figures(self.scheduler.metrics(now()));
                return true;
            }
            () = tokio::time::sleep(wait) => return true,
        };
        tokio::time::sleep(GATHER.saturating_sub(self.stepped.elapsed())).await;
        let mut next = Some(first);
        while let Some(report) = next {
            self.take_in(report);
            next = self.reports.try_recv().ok();
        }
        true
    }

    fn take_in(&mut self, report: Report) {
        match report {
            Report::Seen(observation) => {
                if let Observation::Reservation(facts) = &observation
                    && !facts.is_status_current
                {
                    self.reservations.forget_object(&facts.name);
                    self.has_new_reservation = true;
                }
                self.scheduler.observe(observation);
            }
            Report::StatusLost(address) => {
                self.reservations.forget(&address);
                match &mut self.queues {
                    Queues::Fixed => {}
                    Queues::Objects(objects) => objects.forget_status(&address),
                    Queues::Kueue(kueue) => kueue.forget_status(&address),
                }
            }
            // Watches try again by themselves.
            Report::Listed | Report::Unlisted(..) => {}
            other => self.queues.take_in(other),
        }
    }
}

/// Returns the latest time that was seen.
///
/// # Errors
/// If the clock was set back by more than [`CLOCK_STEP`].
fn check_clock(last: Time, present: Time) -> Result<Time, OperatorError> {
    if present + CLOCK_STEP < last {
        return Err(OperatorError::ClockSetBack(last.since(present)));
    }
    Ok(last.max(present))
}

/// Period of some work.
struct Timer {
    period: Duration,
    last: Option<Instant>,
}

impl Timer {
    /// Makes a timer that is due at once.
    fn new(period: Duration) -> Self {
        Self { period, last: None }
    }

    /// Makes a timer that is due after a period.
    fn started(period: Duration) -> Self {
        Self { period, last: Some(Instant::now()) }
    }

    /// Returns true once per period.
    fn take_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= self.period);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}

pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn until(at: Time) -> Duration {
    Duration::from_millis(at.since(now()).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_large_step_back_of_the_clock_is_an_error() {
        let noon = Time(3_600_000);
        let check = |secs_back: u64| check_clock(noon, Time(noon.0 - secs_back * 1_000));
        assert_eq!(check_clock(noon, Time(noon.0 + 5)).unwrap(), Time(noon.0 + 5));
        assert_eq!(check(10).unwrap(), noon, "time stands still until the clock has caught up");
        let error = check(60).unwrap_err();
        assert!(error.to_string().contains("set back by 1m"), "{error}");
    }
}
