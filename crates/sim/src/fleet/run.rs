//! Advances a fleet from one event to the next.

use std::sync::Arc;

use muster_model::{Span, Time};

use super::cluster::{ClusterState, StopCosts};
use super::error::SchedulerError;
use super::failures::{FailureGenerator, Failures};
use super::load::FleetJob;
use super::record::ClusterEvent;
use super::scheduler::Scheduler;
use super::site::FleetSite;

/// A run in progress.
#[derive(Debug)]
pub struct Fleet {
    cluster: ClusterState,
    scheduler: Box<dyn Scheduler>,
    failure_generator: FailureGenerator,
    unfinished: usize,
}

impl Fleet {
    /// Creates a run on an idle site, with jobs in order of arrival.
    #[must_use]
    pub fn new(
        site: &FleetSite,
        scheduler: Box<dyn Scheduler>,
        jobs: impl Into<Arc<Vec<FleetJob>>>,
        terms: StopCosts,
        failures: Failures,
    ) -> Self {
        let jobs = jobs.into();
        let start = jobs.first().map_or(Time(0), |job| job.submit);
        Self {
            cluster: ClusterState::new(site, terms, jobs),
            scheduler,
            failure_generator: FailureGenerator::new(failures, &site.nodes, start),
            unfinished: 0,
        }
    }

    /// Records from here on which devices are held when.
    pub fn record_bars(&mut self) {
        self.cluster.record_mut().bars = Some(Vec::new());
    }

    /// Records events from here on, until they are taken.
    pub fn record_events(&mut self) {
        self.cluster.record_mut().events = Some(Vec::new());
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<(Time, ClusterEvent)> {
        self.cluster.record_mut().events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Advances to the next event and handles all of that instant. False if there is none: all jobs
    /// have ended, or the others never start.
    ///
    /// # Errors
    /// A defect of the scheduler.
    pub fn step(&mut self) -> Result<bool, SchedulerError> {
        let Some((next, stirs)) = self.next() else { return Ok(false) };
        let now = next.max(self.cluster.now());
        self.cluster.pass(now);
        self.scheduler.turn(now);
        // 1. Ends.
        while let Some(job) = self.cluster.end_next() {
            self.unfinished -= 1;
            self.scheduler.ended(&self.cluster, job);
        }
        // 2. Repairs and failures.
        while let Some(part) = self.failure_generator.mend_next(now) {
            self.cluster.repair(part.node, part.device);
            self.scheduler.repaired(&self.cluster, part.node, part.device);
        }
        if !stirs {
            self.failure_generator.delay_due(now);
        }
        while let Some(part) = self.failure_generator.next_failed_part(now) {
            let lost = self.cluster.fail_part(part.node, part.device);
            self.scheduler.lost(&self.cluster, part.node, part.device, &lost);
        }
        // 3. Arrivals.
        while self.cluster.next_arrival().is_some_and(|submit| submit <= now) {
            let number = self.cluster.arrive();
            self.unfinished += 1;
            self.scheduler.arrived(&self.cluster, number)?;
            if self.scheduler.refuses(number) {
                self.cluster.refuse(number);
                self.unfinished -= 1;
            }
        }
        // 4. Decisions.
        self.scheduler.decide(&mut self.cluster)?;
        Ok(true)
    }

    /// Returns the time of the next event.
    pub fn next_instant(&mut self) -> Option<Time> {
        self.next().map(|(next, _)| next)
    }

    /// Returns the time of the next event, and whether anything is active. While no job runs or
    /// arrives and the scheduler has no wake-up, repairs still happen, but no failures: failures
    /// alone do not advance time.
    fn next(&mut self) -> Option<(Time, bool)> {
        if self.cluster.next_arrival().is_none() && self.unfinished == 0 {
            return None;
        }
        let mend = self.failure_generator.next_repair();
        match self.next_event() {
            Some(stir) => {
                let instants = [Some(stir), mend, self.failure_generator.next_failure()];
                instants.into_iter().flatten().min().map(|next| (next, true))
            }
            None => mend.map(|next| (next, false)),
        }
    }

    /// Returns the next arrival, end or wake-up of the scheduler.
    fn next_event(&mut self) -> Option<Time> {
        let now = self.cluster.now();
        let arrival = self.cluster.next_arrival();
        let wake = self.scheduler.next_wake(now).map(|wake| wake.max(now + Span(1)));
        [arrival, self.cluster.next_end(), wake].into_iter().flatten().min()
    }

    /// Advances time to an instant before which no event happens.
    pub fn rest_until(&mut self, until: Time) {
        if until > self.cluster.now() {
            self.cluster.pass(until);
        }
    }

    /// Returns the state of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &ClusterState {
        &self.cluster
    }

    /// Explains why a job is pending, in the scheduler's terms.
    pub fn why(&mut self, job: super::load::JobNo) -> String {
        self.scheduler.why(&self.cluster, job)
    }
}
