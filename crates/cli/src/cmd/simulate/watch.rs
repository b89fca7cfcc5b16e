//! Runs simulations in parallel and waits for them, with a progress line on a terminal. Ctrl-C
//! stops the runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use muster_model::{Span, Time};
use muster_sim::fleet::{Fleet, SchedulerError};
use tokio::task::JoinHandle;

use crate::app::App;

/// Time between two updates of the progress line.
const TICK: Duration = Duration::from_millis(200);
/// Number of simulated instants between two updates of the progress.
const STRIDE: usize = 256;

/// Progress shared by the running simulations and their display.
#[derive(Debug, Default)]
pub struct SimulationProgress {
    stop: Arc<AtomicBool>,
    /// Number of jobs that have arrived, in all runs together.
    arrived: AtomicU64,
    /// Simulated time in milliseconds of the most advanced run.
    now_ms: AtomicU64,
}

impl SimulationProgress {
    /// Returns whether the runs are to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Stops all runs at their next step, as Ctrl-C does.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns the flag that says whether the runs are to stop.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Adds jobs that have arrived, or will not arrive because their run ended.
    pub fn count(&self, jobs: usize) {
        self.arrived.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Returns the progress line: percentage, simulated time, speed and remaining time.
    fn progress(&self, total: u64, spent: Duration) -> String {
        let arrived = self.arrived.load(Ordering::Relaxed);
        let day = Span(self.now_ms.load(Ordering::Relaxed));
        let per_sec = arrived as f64 / spent.as_secs_f64().max(0.001);
        let left = match arrived {
            0 => "…".to_owned(),
            _ => {
                Span::from_secs((total.saturating_sub(arrived) as f64 / per_sec) as u64).to_string()
            }
        };
        // The total is that of the first seed; the load of another seed may have a few more jobs.
        let percent = (arrived * 100 / total.max(1)).min(100);
        format!("{percent} % of the jobs, at {day} of the trace, {per_sec:.0} jobs/s, {left} left")
    }
}

/// Runs a fleet to its end, to an instant, or until it is stopped. Returns whether it was not
/// stopped. Calls `each` after every stride.
pub fn play(
    watch: &SimulationProgress,
    fleet: &mut Fleet,
    until: Option<Time>,
    mut each: impl FnMut(&mut Fleet) -> Result<()>,
) -> Result<bool> {
    let mut counted = 0;
    let mut goes_on = true;
    while goes_on && !watch.is_stopped() {
        for _ in 0..STRIDE {
            // An instant of an external policy may take seconds.
            if watch.is_stopped() {
                break;
            }
            let is_beyond = |until: Time| fleet.next_instant().is_none_or(|next| next > until);
            goes_on = !until.is_some_and(is_beyond)
                && match fleet.step() {
                    // The loop sees the stop flag.
                    Err(SchedulerError::Interrupted) => true,
                    stepped => stepped?,
                };
            if !goes_on {
                break;
            }
        }
        let arrived = fleet.cluster().jobs().len();
        watch.count(arrived - counted);
        counted = arrived;
        watch.now_ms.fetch_max(fleet.cluster().now().0, Ordering::Relaxed);
        each(fleet)?;
    }
    Ok(!goes_on)
}

/// Returns the result of each task, in their order; runs as many at once as there are cores.
pub fn on_all_cores<T: Sync, R: Send>(tasks: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(at) else { return done };
            done.push((at, one(task)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().expect("a run ends without a panic"));
        ended.flatten().collect::<Vec<_>>()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

/// Runs simulations with `total` arriving jobs on another thread and returns their result. They
/// must check regularly whether they are to stop.
pub async fn with_progress<T: Send + 'static>(
    app: &App,
    total: u64,
    runs: impl FnOnce(&SimulationProgress) -> T + Send + 'static,
) -> Result<T> {
    within(app, total, None, runs).await
}

/// Runs simulations as [`with_progress`] does, and stops them after `budget` as Ctrl-C would.
pub async fn within<T: Send + 'static>(
    app: &App,
    total: u64,
    budget: Option<Duration>,
    runs: impl FnOnce(&SimulationProgress) -> T + Send + 'static,
) -> Result<T> {
    let watch = Arc::new(SimulationProgress::default());
    let timer = budget.map(|budget| {
        let watch = Arc::clone(&watch);
        tokio::spawn(async move {
            tokio::time::sleep(budget).await;
            watch.stop();
        })
    });
    let began = Instant::now();
    let shared = Arc::clone(&watch);
    let ended = tokio::task::spawn_blocking(move || runs(&shared));
    let ended =
        until_ended(app, &watch.stop, || watch.progress(total, began.elapsed()), ended).await;
    if let Some(timer) = timer {
        timer.abort();
    }
    ended
}

/// Waits for the runs and returns their result. Ctrl-C sets `stop`, which the runs check. `line`
/// returns the progress line.
pub async fn until_ended<T>(
    app: &App,
    stop: &AtomicBool,
    line: impl Fn() -> String,
    mut runs: JoinHandle<T>,
) -> Result<T> {
    let mut tick = tokio::time::interval(TICK);
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let shows = app.ui.status_is_terminal();
    loop {
        tokio::select! {
            ended = &mut runs => {
                if shows {
                    app.ui.prompt("\r\x1b[K");
                }
                return Ok(ended?);
            }
            _ = &mut interrupted, if !stop.load(Ordering::Relaxed) => stop.store(true, Ordering::Relaxed),
            _ = tick.tick(), if shows => app.ui.prompt(&format!("\r\x1b[K{}", line())),
        }
    }
}
