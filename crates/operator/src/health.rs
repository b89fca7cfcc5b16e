//! Health checks and metrics, over HTTP.

use std::fmt::Write as _;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::sync::{Notify, watch};

use crate::error::OperatorError;

/// Time without a step after which the active process counts as stuck.
const STUCK: Duration = Duration::from_secs(60);

/// Longest time that a reader of metrics waits for the figures of the cluster.
const PATIENCE: Duration = Duration::from_secs(2);

/// Age up to which figures are served again. The scheduling loop makes them, and plans nothing meanwhile.
const FRESH: Duration = Duration::from_secs(1);

/// Media type of metrics: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// State of the process, for checks and metrics.
#[derive(Debug, Default)]
pub(crate) struct Health {
    steps: Mutex<Steps>,
    /// Last figures of the cluster that were asked for.
    figures: watch::Sender<Option<Figures>>,
    asked: Notify,
}

/// Figures of the cluster in the text format of Prometheus.
#[derive(Debug)]
struct Figures {
    made: Instant,
    text: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    number: u64,
    total: Duration,
    longest: Duration,
    last: Option<Instant>,
}

impl Health {
    /// Notes a step of the scheduler.
    pub(crate) fn note_step(&self, took: Duration) {
        let mut steps = lock(&self.steps);
        steps.number += 1;
        steps.total += took;
        steps.longest = steps.longest.max(took);
        steps.last = Some(Instant::now());
    }

    /// Waits until somebody asks for the figures of the cluster.
    pub(crate) async fn figures_asked(&self) {
        self.asked.notified().await;
    }

    /// Answers those who ask for the figures of the cluster, in the text format of Prometheus.
    pub(crate) fn answer_figures(&self, text: String) {
        self.figures.send_replace(Some(Figures { made: Instant::now(), text }));
    }

    /// Returns the figures of the cluster, made now or within the last second. Empty if this process is not active, or its
    /// scheduling loop does not answer.
    async fn figures(&self) -> String {
        let text = |figures: &Option<Figures>| {
            let fresh = figures.as_ref().filter(|figures| figures.made.elapsed() < FRESH);
            fresh.map(|figures| figures.text.clone())
        };
        let mut answer = self.figures.subscribe();
        if lock(&self.steps).last.is_some() && text(&answer.borrow()).is_none() {
            self.asked.notify_one();
            // After a time-out only the figures of the process itself are served.
            let _ = tokio::time::timeout(PATIENCE, answer.changed()).await;
        }
        text(&answer.borrow()).unwrap_or_default()
    }

    /// Returns false if the process is active and its loop stands still.
    fn is_alive(&self) -> bool {
        lock(&self.steps).last.is_none_or(|last| last.elapsed() < STUCK)
    }

    /// Returns the metrics in the text format of Prometheus.
    async fn metrics(&self) -> String {
        let mut text = self.figures().await;
        let steps = *lock(&self.steps);
        let mut add = |name: &str, kind: &str, help: &str, value: String| {
            let _ = writeln!(
                text,
                "# HELP muster_{name} {help}\n# TYPE muster_{name} {kind}\nmuster_{name} {value}"
            );
        };
        let active = u8::from(steps.last.is_some());
        add(
            "active",
            "gauge",
            "1 in the process that schedules, 0 in one that waits for the lease.",
            active.to_string(),
        );
        add(
            "passes_total",
            "counter",
            "Scheduling passes since the process started.",
            steps.number.to_string(),
        );
        add(
            "pass_seconds_total",
            "counter",
            "Time spent in them.",
            format!("{:.6}", steps.total.as_secs_f64()),
        );
        add(
            "pass_seconds_max",
            "gauge",
            "Longest pass since the process started.",
            format!("{:.6}", steps.longest.as_secs_f64()),
        );
        text
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens, and returns the server.
///
/// # Errors
/// If the address cannot be used.
pub(crate) async fn serve(
    address: SocketAddr,
    health: Arc<Health>,
) -> Result<impl Future<Output = ()>, OperatorError> {
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| OperatorError::Listen(address, error))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!("serving http://{address}/metrics");
    }
    let check = |State(health): State<Arc<Health>>| async move {
        if health.is_alive() {
            (StatusCode::OK, "ok\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "the scheduling loop stands still\n")
        }
    };
    let routes = Router::new()
        .route("/healthz", get(check))
        .route("/readyz", get(check))
        .route(
            "/metrics",
            get(|State(health): State<Arc<Health>>| async move {
                ([(CONTENT_TYPE, MEDIA_TYPE)], health.metrics().await)
            }),
        )
        .with_state(health);
    Ok(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!("health checks and metrics are not served any more: {error}");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn figures_are_made_when_asked_for_and_served_while_fresh() {
        let health = Health::default();
        health.note_step(Duration::ZERO);
        let answer = async {
            health.figures_asked().await;
            health.answer_figures("muster_jobs 1\n".to_owned());
        };
        let (first, ()) = tokio::join!(health.metrics(), answer);
        assert!(first.starts_with("muster_jobs 1\n"), "{first}");
        let again = health.metrics().await;
        assert!(again.starts_with("muster_jobs 1\n"), "{again}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_has_no_figures() {
        let health = Health::default();
        health.note_step(Duration::ZERO);
        let text = health.metrics().await;
        assert!(text.starts_with("# HELP muster_active"), "{text}");
    }
}
