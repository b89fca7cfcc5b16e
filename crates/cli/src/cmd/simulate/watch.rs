//! Runs side by side, and waiting for them: a line of progress where somebody looks, and Ctrl-C,
//! which ends them where they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use muster_model::{Span, Time};
use muster_sim::fleet::Fleet;
use tokio::task::JoinHandle;

use crate::app::App;

/// Time between two lines of progress.
const TICK: Duration = Duration::from_millis(200);
/// Instants between two looks at whether to go on.
const STRIDE: usize = 256;

/// What runs and who watches share.
#[derive(Debug, Default)]
pub struct Watch {
    stop: AtomicBool,
    /// Jobs that have arrived, in all runs together.
    arrived: AtomicU64,
    /// Simulated time of the run that is furthest.
    now_ms: AtomicU64,
}

impl Watch {
    /// Runs are to end where they are.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// So many more jobs have arrived, or will not.
    pub fn count(&self, jobs: usize) {
        self.arrived.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// How far, simulated time, speed, and what is left.
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
        // A load that is drawn anew may have some more jobs than the one that the total is made of.
        let percent = (arrived * 100 / total.max(1)).min(100);
        format!("{percent} % of the jobs, at {day} of the trace, {per_sec:.0} jobs/s, {left} left")
    }
}

/// Runs a fleet to its end, to an instant, or until it is to stop. True when it was not stopped.
/// `each` sees it after every stride.
pub fn play(
    watch: &Watch,
    fleet: &mut Fleet,
    until: Option<Time>,
    mut each: impl FnMut(&mut Fleet) -> Result<()>,
) -> Result<bool> {
    let mut counted = 0;
    let mut goes_on = true;
    while goes_on && !watch.is_stopped() {
        for _ in 0..STRIDE {
            let is_beyond = |until: Time| fleet.next_instant().is_none_or(|next| next > until);
            goes_on = !until.is_some_and(is_beyond) && fleet.step()?;
            if !goes_on {
                break;
            }
        }
        let arrived = fleet.desk().jobs().len();
        watch.count(arrived - counted);
        counted = arrived;
        watch.now_ms.fetch_max(fleet.desk().now().0, Ordering::Relaxed);
        each(fleet)?;
    }
    Ok(!goes_on)
}

/// What each task comes to, in their order; as many at once as there are cores.
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

/// What runs come to in which so many jobs arrive, all together. They look at the watch now and
/// then.
pub async fn jobs<T: Send + 'static>(
    app: &App,
    total: u64,
    runs: impl FnOnce(&Watch) -> T + Send + 'static,
) -> Result<T> {
    let watch = Arc::new(Watch::default());
    let began = Instant::now();
    let shared = Arc::clone(&watch);
    let ended = tokio::task::spawn_blocking(move || runs(&shared));
    until_ended(app, &watch.stop, || watch.progress(total, began.elapsed()), ended).await
}

/// What the runs answer. `stop` is set by Ctrl-C; they look at it and end where they are. `line`
/// says how far they are.
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
