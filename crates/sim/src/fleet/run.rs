//! Time passes: from one instant at which something happens to the next.

use std::sync::Arc;

use muster_model::{Span, Time};

use super::desk::{Desk, Terms};
use super::failures::{Failures, Weather};
use super::load::FleetJob;
use super::plane::{Plane, PlaneError};
use super::record::Happening;
use super::site::Site;

/// A run under way.
#[derive(Debug)]
pub struct Fleet {
    desk: Desk,
    plane: Box<dyn Plane>,
    weather: Weather,
    unfinished: usize,
}

impl Fleet {
    /// An idle site, and jobs in order of arrival.
    #[must_use]
    pub fn new(
        site: &Site,
        plane: Box<dyn Plane>,
        jobs: impl Into<Arc<Vec<FleetJob>>>,
        terms: Terms,
        failures: Failures,
    ) -> Self {
        let jobs = jobs.into();
        let start = jobs.first().map_or(Time(0), |job| job.submit);
        Self {
            desk: Desk::new(site, terms, jobs),
            plane,
            weather: Weather::new(failures, &site.nodes, start),
            unfinished: 0,
        }
    }

    /// From here on it is kept who held what, and when.
    pub fn keep_bars(&mut self) {
        self.desk.record_mut().bars = Some(Vec::new());
    }

    /// From here on it is kept what happens, until it is taken.
    pub fn follow(&mut self) {
        self.desk.record_mut().happenings = Some(Vec::new());
    }

    /// What happened since this was asked last.
    pub fn take_happenings(&mut self) -> Vec<(Time, Happening)> {
        self.desk.record_mut().happenings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Goes on to the next instant at which something happens, and takes it whole. False when
    /// nothing will: all jobs have ended, or those that are left wait for what never comes.
    ///
    /// # Errors
    /// A defect of whoever decides.
    pub fn step(&mut self) -> Result<bool, PlaneError> {
        let Some((next, stirs)) = self.next() else { return Ok(false) };
        let now = next.max(self.desk.now());
        self.desk.pass(now);
        self.plane.turn(now);
        // 1. Ends.
        while let Some(job) = self.desk.end_next() {
            self.unfinished -= 1;
            self.plane.ended(&self.desk, job);
        }
        // 2. What breaks and what is mended.
        while let Some(part) = self.weather.mend_next(now) {
            self.desk.mend(part.node, part.device);
            self.plane.mended(&self.desk, part.node, part.device);
        }
        if !stirs {
            self.weather.put_off(now);
        }
        while let Some(part) = self.weather.break_next(now) {
            let lost = self.desk.break_down(part.node, part.device);
            self.plane.lost(&self.desk, part.node, part.device, &lost);
        }
        // 3. Arrivals.
        while self.desk.next_arrival().is_some_and(|submit| submit <= now) {
            let number = self.desk.arrive();
            self.unfinished += 1;
            self.plane.arrived(&self.desk, number)?;
            if self.plane.refuses(number) {
                self.desk.refuse(number);
                self.unfinished -= 1;
            }
        }
        // 4. Decisions.
        self.plane.decide(&mut self.desk)?;
        Ok(true)
    }

    /// When something happens next.
    pub fn next_instant(&mut self) -> Option<Time> {
        self.next().map(|(next, _)| next)
    }

    /// When something happens next, and whether anything stirs. Where nothing runs or comes and
    /// nobody wants to be asked, what is broken is still mended, but nothing breaks any more:
    /// failures alone do not keep time going.
    fn next(&mut self) -> Option<(Time, bool)> {
        if self.desk.next_arrival().is_none() && self.unfinished == 0 {
            return None;
        }
        let mend = self.weather.next_mend();
        match self.next_stir() {
            Some(stir) => {
                let instants = [Some(stir), mend, self.weather.next_break()];
                instants.into_iter().flatten().min().map(|next| (next, true))
            }
            None => mend.map(|next| (next, false)),
        }
    }

    /// When a job arrives or ends next, or whoever decides wants to be asked.
    fn next_stir(&mut self) -> Option<Time> {
        let now = self.desk.now();
        let arrival = self.desk.next_arrival();
        let wake = self.plane.next_wake(now).map(|wake| wake.max(now + Span(1)));
        [arrival, self.desk.next_end(), wake].into_iter().flatten().min()
    }

    /// Time passes up to an instant before which nothing more happens.
    pub fn rest_until(&mut self, until: Time) {
        if until > self.desk.now() {
            self.desk.pass(until);
        }
    }

    /// What there is to see.
    #[must_use]
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Why a job waits, in the words of whoever decides.
    pub fn why(&mut self, job: super::load::JobNo) -> String {
        self.plane.why(&self.desk, job)
    }
}
