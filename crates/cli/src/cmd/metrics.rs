//! `muster metrics`.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_report::metrics::{JobFigures, SiteState, metrics};
use tokio::net::TcpListener;

use crate::app::App;
use crate::connect;
use crate::exit::Failure;

/// Media type of the format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Print figures of the site for Prometheus
///
/// Jobs by state, queue and reason, quota and its use, GPUs and their loads, and the work of the daemon, in the text
/// format of Prometheus. With --listen, serves them at /metrics until Ctrl-C, as the user that runs it: the daemon
/// itself listens on no port. docs/operations.md has alert rules and a dashboard.
#[derive(Debug, clap::Args)]
pub struct MetricsArgs {
    /// Serve the figures over HTTP at this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

/// Runs `muster metrics`; returns its exit code.
pub async fn run(app: &App, args: MetricsArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let Some(address) = args.listen else {
        app.ui.data(&read(&client).await?)?;
        return Ok(0);
    };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}"))
            .hint("another port: --listen 127.0.0.1:0 takes a free one")
    })?;
    let address = listener.local_addr().map_err(|error| Failure::new(error.to_string()))?;
    app.ui.status(&format!("serving http://{address}/metrics; Ctrl-C ends it"));
    let answer = move || {
        let client = client.clone();
        async move {
            match read(&client).await {
                Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, MEDIA_TYPE)], text),
                // Prometheus then counts the site as down.
                Err(failure) => {
                    let text = format!("{}\n", failure.message);
                    (StatusCode::BAD_GATEWAY, [(CONTENT_TYPE, "text/plain; charset=utf-8")], text)
                }
            }
        }
    };
    let served = axum::serve(listener, Router::new().route("/metrics", get(answer)));
    tokio::select! {
        ended = served.into_future() => ended.map_err(|error| Failure::new(error.to_string()))?,
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(0)
}

/// Reads the state of the site; returns its metrics.
async fn read(client: &Client) -> Result<String, Failure> {
    let jobs = client.jobs(JobFilter::default()).await?;
    let queues = client.queues().await?;
    let nodes = client.nodes().await?;
    // Other schedulers know neither the loads of their GPUs nor a daemon.
    let loads = client.gpu_loads().await.ok();
    let info = client.info().await.ok();
    let site = SiteState {
        now: jobs.now,
        queues: &queues.queues,
        nodes: &nodes.nodes,
        loads: loads.as_ref().map_or(&[], |loads| &loads.gpus),
        counters: info.as_ref().filter(|_| client.socket().is_some()).map(|info| &info.counters),
        warnings: info.as_ref().map_or(0, |info| info.warnings.len()),
    };
    let idle = loads.as_ref().map_or(&[][..], |loads| &loads.idle);
    Ok(metrics(&site, jobs.jobs.iter().map(|job| JobFigures::of(job, idle))).into_text())
}
