//! Health checks and metrics, over HTTP.

use std::fmt::Write as _;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use muster_scheduler::Counts;

use crate::error::OperatorError;

/// Time without a step after which the active process counts as stuck.
const STUCK: Duration = Duration::from_secs(60);

/// State of the process, for checks and metrics.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Steps>);

#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    counts: Counts,
    number: u64,
    total: Duration,
    longest: Duration,
    last: Option<Instant>,
}

impl Health {
    /// Notes a step of the scheduler.
    pub(crate) fn note_step(&self, took: Duration) {
        let mut steps = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        steps.number += 1;
        steps.total += took;
        steps.longest = steps.longest.max(took);
        steps.last = Some(Instant::now());
    }

    /// Notes the numbers of the scheduler.
    pub(crate) fn note_counts(&self, counts: Counts) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).counts = counts;
    }

    fn steps(&self) -> Steps {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns false if the process is active and its loop stands still.
    fn is_alive(&self) -> bool {
        self.steps().last.is_none_or(|last| last.elapsed() < STUCK)
    }

    /// Returns the metrics in the text format of Prometheus.
    fn metrics(&self) -> String {
        let steps = self.steps();
        let counts = steps.counts;
        let mut text = String::new();
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
        for (name, help, value) in [
            ("nodes", "Nodes of the cluster.", counts.nodes),
            ("waiting_pods", "Pods that wait for a node.", counts.waiting_pods),
            (
                "waiting_gangs",
                "Gangs of which a pod waits, and suspended workloads.",
                counts.waiting_gangs,
            ),
            ("placed_jobs", "Gangs, or parts of them, that hold resources.", counts.placed_jobs),
        ] {
            add(name, "gauge", help, value.to_string());
        }
        for (name, help, value) in [
            ("bindings_total", "Bindings that the API server confirmed.", counts.bound),
            ("bindings_refused_total", "Bindings that the API server refused.", counts.refused),
            ("evictions_total", "Pods whose deletion was requested.", counts.evicted),
            (
                "roll_backs_total",
                "Half-started gangs whose bound pods were deleted.",
                counts.rolled_back,
            ),
            ("resumptions_total", "Suspended workloads that were resumed.", counts.resumed),
            (
                "suspensions_total",
                "Workloads that were suspended again: preempted, or without pods.",
                counts.suspended,
            ),
            (
                "plans_refused_total",
                "Plans that failed their check; each is a defect.",
                counts.bad_plans,
            ),
            ("steps_total", "Scheduling passes.", steps.number),
        ] {
            add(name, "counter", help, value.to_string());
        }
        add(
            "step_seconds_total",
            "counter",
            "Time spent in scheduling passes.",
            format!("{:.6}", steps.total.as_secs_f64()),
        );
        add(
            "step_seconds_max",
            "gauge",
            "Longest scheduling pass since the start.",
            format!("{:.6}", steps.longest.as_secs_f64()),
        );
        text
    }
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
        .route("/metrics", get(|State(health): State<Arc<Health>>| async move { health.metrics() }))
        .with_state(health);
    Ok(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!("health checks and metrics are not served any more: {error}");
        }
    })
}
