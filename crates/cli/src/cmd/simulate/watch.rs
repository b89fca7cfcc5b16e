//! Waits for runs that work in threads of their own: a line of progress where a person looks, and Ctrl-C asks them to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

use crate::app::App;

/// Time between two lines of progress.
const TICK: Duration = Duration::from_millis(200);

/// What the runs answer. `stop` is set by Ctrl-C; they look at it and end where they are. `line` says how far they are.
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
