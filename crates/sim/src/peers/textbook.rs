//! Textbook schedulers on a flat pool of processors, as the literature defines them: EASY (Lifka
//! 1995; Mu'alem and Feitelson 2001) with backfilling in order of arrival or shortest first
//! (Tsafrir, Etsion and Feitelson 2007), first come first served, and shortest remaining time
//! first.
//!
//! At one instant jobs end first, then jobs arrive, then there is one pass. Backfilled jobs are
//! tried once, in order: a job that fits now and is estimated to end by the time at which the first
//! pending job can start, or takes only what that one leaves over. Suspending a job costs nothing
//! in [`srtf`], which makes it a bound and no achievable schedule.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{Span, Time};

use crate::flat::{FlatJob, RunInterval};

/// Jobs that may pass the first pending job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// No job: first come, first served.
    Never,
    /// Jobs that do not delay it, in order of arrival.
    InTurn,
    /// Jobs that do not delay it, shortest estimate first; among equals in order of arrival.
    ShortestFirst,
}

/// Returns when each job ran. Jobs are in order of arrival and none is wider than the pool.
#[must_use]
pub fn easy(procs: u32, jobs: &[FlatJob], passing: Passing) -> Vec<Option<RunInterval>> {
    let mut pool = ProcessorPool {
        free: procs,
        ends: BTreeSet::new(),
        believed: BTreeSet::new(),
        ran: vec![None; jobs.len()],
    };
    let mut waiting = PendingJobs::default();
    let mut next = 0;
    loop {
        // 1. The next instant: ends, then arrivals.
        let arrival = jobs.get(next).map(|job| job.submit);
        let end = pool.ends.first().map(|(end, _)| *end);
        let Some(now) = arrival.into_iter().chain(end).min() else { return pool.ran };
        pool.end_until(now, jobs);
        while jobs.get(next).is_some_and(|job| job.submit <= now) {
            waiting.push(jobs, next);
            next += 1;
        }
        // 2. Start jobs in order, as long as they fit.
        while let Some(job) = waiting.first().filter(|job| jobs[*job].width <= pool.free) {
            waiting.remove(jobs, job);
            pool.start(now, jobs, job);
        }
        // 3. Backfill.
        if let Some(first) = waiting.first() {
            pool.backfill(now, jobs, &mut waiting, first, passing);
        }
    }
}

/// Pending jobs in the orders in which they are tried.
#[derive(Default)]
struct PendingJobs {
    in_turn: BTreeSet<usize>,
    /// Jobs of each width, shortest estimate first.
    by_width: BTreeMap<u32, BTreeSet<(Span, usize)>>,
}

impl PendingJobs {
    fn push(&mut self, jobs: &[FlatJob], job: usize) {
        let FlatJob { estimate, width, .. } = jobs[job];
        self.in_turn.insert(job);
        self.by_width.entry(width).or_default().insert((estimate, job));
    }

    fn remove(&mut self, jobs: &[FlatJob], job: usize) {
        let FlatJob { estimate, width, .. } = jobs[job];
        self.in_turn.remove(&job);
        let same = self.by_width.get_mut(&width).expect("a pending job is under its width");
        same.remove(&(estimate, job));
    }

    fn first(&self) -> Option<usize> {
        self.in_turn.first().copied()
    }

    /// Returns the first job that is no wider than this and may pass. Of two jobs of one width, the
    /// longer may pass only if the shorter may.
    fn next_to_pass(
        &self,
        jobs: &[FlatJob],
        free: u32,
        passing: Passing,
        may_pass: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match passing {
            Passing::Never => None,
            Passing::InTurn => {
                self.in_turn.iter().copied().find(|job| jobs[*job].width <= free && may_pass(*job))
            }
            Passing::ShortestFirst => {
                let shortest = self.by_width.range(..=free).filter_map(|(_, same)| same.first());
                shortest.filter(|(_, job)| may_pass(*job)).min().map(|(_, job)| *job)
            }
        }
    }
}

struct ProcessorPool {
    free: u32,
    /// Running jobs by their true ends.
    ends: BTreeSet<(Time, usize)>,
    /// Running jobs by their estimated ends.
    believed: BTreeSet<(Time, usize)>,
    ran: Vec<Option<RunInterval>>,
}

impl ProcessorPool {
    fn end_until(&mut self, now: Time, jobs: &[FlatJob]) {
        while let Some(&(end, job)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            let start = self.ran[job].expect("a job that ends has begun").start;
            self.believed.remove(&(start + jobs[job].estimate, job));
            self.free += jobs[job].width;
        }
    }

    fn start(&mut self, now: Time, jobs: &[FlatJob], job: usize) {
        let FlatJob { runtime, estimate, width, .. } = jobs[job];
        self.free -= width;
        self.ends.insert((now + runtime, job));
        self.believed.insert((now + estimate, job));
        self.ran[job] = Some(RunInterval { start: now, end: now + runtime });
    }

    /// Returns the estimated start of the first pending job, and the number of processors that are
    /// free beside it then.
    fn head_reservation(&self, jobs: &[FlatJob], first: usize) -> (Time, u32) {
        let mut free = self.free;
        let mut shadow = Time(0);
        for &(end, job) in &self.believed {
            // Jobs that end at the same instant free their processors, too.
            if free >= jobs[first].width && end > shadow {
                break;
            }
            (free, shadow) = (free + jobs[job].width, end);
        }
        (shadow, free - jobs[first].width)
    }

    /// Starts jobs beside the first pending one, which does not fit. A job that may not pass now may
    /// not pass later at this instant either, since starts only take from what is left.
    fn backfill(
        &mut self,
        now: Time,
        jobs: &[FlatJob],
        waiting: &mut PendingJobs,
        first: usize,
        passing: Passing,
    ) {
        let (shadow, mut extra) = self.head_reservation(jobs, first);
        let is_over_in_time = |job: usize| now + jobs[job].estimate <= shadow;
        loop {
            let may_pass = |job: usize| is_over_in_time(job) || jobs[job].width <= extra;
            let next = waiting.next_to_pass(jobs, self.free, passing, may_pass);
            let Some(job) = next else { return };
            if !is_over_in_time(job) {
                extra -= jobs[job].width;
            }
            waiting.remove(jobs, job);
            self.start(now, jobs, job);
        }
    }
}

/// Returns when each job began and when it had run in full. At each arrival and end, the job with
/// the least estimated remaining time runs, then the next as far as it fits; all others are
/// suspended.
#[must_use]
pub fn srtf(procs: u32, jobs: &[FlatJob]) -> Vec<Option<RunInterval>> {
    let mut ran: Vec<Option<RunInterval>> = vec![None; jobs.len()];
    let mut done: Vec<Span> = vec![Span(0); jobs.len()];
    // Arrived jobs by their estimated remaining time.
    let mut present: BTreeSet<(Span, usize)> = BTreeSet::new();
    let mut running: Vec<usize> = Vec::new();
    let mut now = Time(0);
    let mut next = 0;
    loop {
        // 1. Advance to the next arrival or end.
        let arrival = jobs.get(next).map(|job| job.submit);
        let end = running.iter().map(|job| now + left(jobs[*job].runtime, done[*job])).min();
        let Some(then) = arrival.into_iter().chain(end).min() else { return ran };
        for job in std::mem::take(&mut running) {
            present.remove(&(left(jobs[job].estimate, done[job]), job));
            done[job] = done[job] + then.since(now);
            if done[job] >= jobs[job].runtime {
                ran[job] = ran[job].map(|ran| RunInterval { end: then, ..ran })
            } else {
                _ = present.insert((left(jobs[job].estimate, done[job]), job))
            }
        }
        now = then;
        while jobs.get(next).is_some_and(|job| job.submit <= now) {
            present.insert((jobs[next].estimate, next));
            next += 1;
        }
        // 2. Choose the jobs that run from here on.
        let mut free = procs;
        for &(_, job) in &present {
            if jobs[job].width <= free {
                free -= jobs[job].width;
                ran[job] = ran[job].or(Some(RunInterval { start: now, end: now }));
                running.push(job);
            }
            if free == 0 {
                break;
            }
        }
    }
}

fn left(whole: Span, done: Span) -> Span {
    Span(whole.0.saturating_sub(done.0))
}
