//! Runs of one load under several schedulers at once, each in a thread of its own. Ctrl-C ends them where they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use muster_model::Span;
use muster_model::simulation::ScheduleFigures;
use muster_sim::flat::{FlatJob, FlatScheduler, Run, figures};
use muster_sim::replay::{Ran, ReplayError};

use super::watch;
use crate::app::App;

/// Instants between two looks at whether to go on.
const STRIDE: usize = 256;

/// A run that has ended.
#[derive(Debug)]
pub struct Played {
    scheduler: FlatScheduler,
    /// When each job ran, in order of arrival.
    pub ran: Vec<Option<Ran>>,
}

impl Played {
    /// It was interrupted.
    pub fn is_partial(&self) -> bool {
        self.ran.iter().any(Option::is_none)
    }

    /// What it came to.
    pub fn figures(&self, procs: u32, jobs: &[FlatJob]) -> ScheduleFigures {
        figures(self.scheduler, procs, jobs, &self.ran, self.is_partial())
    }
}

/// What runs and who watches share.
#[derive(Debug)]
struct Watch {
    stop: AtomicBool,
    /// Jobs that have arrived, in all runs together.
    arrived: AtomicU64,
    /// Simulated time of the run that is furthest.
    now_ms: AtomicU64,
    next: AtomicUsize,
}

/// Runs them all, as many at once as there are cores.
pub async fn all(
    app: &App,
    procs: u32,
    jobs: &[FlatJob],
    schedulers: &[FlatScheduler],
) -> Result<Vec<Played>> {
    let watch = Watch {
        stop: AtomicBool::new(false),
        arrived: AtomicU64::new(0),
        now_ms: AtomicU64::new(0),
        next: AtomicUsize::new(0),
    };
    let total = (jobs.len() * schedulers.len()) as u64;
    let (watch, jobs, schedulers) = (Arc::new(watch), jobs.to_vec(), schedulers.to_vec());
    let runs = {
        let watch = Arc::clone(&watch);
        tokio::task::spawn_blocking(move || side_by_side(&watch, procs, &jobs, &schedulers))
    };
    let began = Instant::now();
    watch::until_ended(app, &watch.stop, || progress(&watch, total, began.elapsed()), runs).await?
}

/// How far, simulated time, speed, and what is left.
fn progress(watch: &Watch, total: u64, spent: Duration) -> String {
    let arrived = watch.arrived.load(Ordering::Relaxed);
    let day = Span(watch.now_ms.load(Ordering::Relaxed));
    let per_sec = arrived as f64 / spent.as_secs_f64().max(0.001);
    let left = match arrived {
        0 => "…".to_owned(),
        _ => Span::from_secs((total.saturating_sub(arrived) as f64 / per_sec) as u64).to_string(),
    };
    let percent = arrived * 100 / total.max(1);
    format!("{percent} % of the jobs, at {day} of the trace, {per_sec:.0} jobs/s, {left} left")
}

fn side_by_side(
    watch: &Watch,
    procs: u32,
    jobs: &[FlatJob],
    schedulers: &[FlatScheduler],
) -> Result<Vec<Played>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(schedulers.len());
    let work = || {
        let mut played = Vec::new();
        loop {
            let at = watch.next.fetch_add(1, Ordering::Relaxed);
            let Some(&scheduler) = schedulers.get(at) else { return played };
            let ran = one(watch, procs, jobs, scheduler);
            played.push((at, ran.map(|ran| Played { scheduler, ran })));
        }
    };
    let mut played = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("a run ends without a panic"));
        ended.flatten().collect::<Vec<_>>()
    });
    played.sort_by_key(|(at, _)| *at);
    Ok(played.into_iter().map(|(_, played)| played).collect::<Result<_, _>>()?)
}

fn one(
    watch: &Watch,
    procs: u32,
    jobs: &[FlatJob],
    scheduler: FlatScheduler,
) -> Result<Vec<Option<Ran>>, ReplayError> {
    let mut replay = match scheduler.begin(procs, jobs)? {
        Run::Model(ran) => {
            watch.arrived.fetch_add(jobs.len() as u64, Ordering::Relaxed);
            return Ok(ran);
        }
        Run::Engine(replay) => replay,
    };
    let mut counted = 0;
    'run: while !watch.stop.load(Ordering::Relaxed) {
        for _ in 0..STRIDE {
            if !replay.step()? {
                break 'run;
            }
        }
        watch.arrived.fetch_add((replay.arrived() - counted) as u64, Ordering::Relaxed);
        counted = replay.arrived();
        watch.now_ms.fetch_max(replay.now().0, Ordering::Relaxed);
    }
    watch.arrived.fetch_add((jobs.len() - counted) as u64, Ordering::Relaxed);
    let mut ran = replay.into_ran();
    ran.resize(jobs.len(), None);
    Ok(ran)
}
