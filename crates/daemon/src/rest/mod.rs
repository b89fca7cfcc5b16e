//! REST handlers: one module per resource, each a thin translation between HTTP and the dispatcher.
//! The router is built from the API's route table, so the two always agree.

mod advance_reservations;
mod attach;
mod daemon;
mod elements;
mod enforcement;
mod extract;
mod jobs;
mod list;
mod loads;
mod logs;
mod nodes;
mod queues;
mod saved;
mod snapshot;
mod submit;
pub(crate) mod task;
mod timeline;
mod usage;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use muster_api::routes::{Method, ROUTES, Route, RouteId};
use muster_backends::driver::Backend;
use tokio::sync::{Semaphore, watch};

use crate::auth::DaemonMode;
use crate::clock::Clock;
use crate::dispatch::{Handle, SiteFacts};
use crate::failure::ApiFailure;
use crate::idle::IdleWatch;
use crate::store::HistoryReader;

pub(crate) use muster_api::MAX_BODY_BYTES;

/// State of all handlers. Clones are cheap.
#[derive(Clone)]
pub(crate) struct ApiState {
    pub(crate) handle: Handle,
    pub(crate) reader: HistoryReader,
    pub(crate) site: watch::Receiver<Arc<SiteFacts>>,
    pub(crate) revision: watch::Receiver<u64>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) about: Arc<About>,
    /// Set to true to stop the daemon.
    pub(crate) stop: watch::Sender<bool>,
    /// Loads of the GPUs of this machine.
    pub(crate) loads: Arc<GpuLoads>,
    /// Jobs that leave their GPUs idle.
    pub(crate) idle: Arc<IdleWatch>,
    /// Permit for one snapshot at a time, since each holds a copy of the state.
    pub(crate) snapshots: Arc<Semaphore>,
}

/// Properties that do not change while the daemon runs.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) mode: DaemonMode,
    pub(crate) host: String,
    pub(crate) state_dir: PathBuf,
    pub(crate) virtual_gpus: u32,
    /// Queue file that the daemon was started with.
    pub(crate) queues_file: Option<PathBuf>,
    /// Socket that its clients use.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) started: muster_model::Time,
}

/// Returns the router of API version 1.
pub(crate) fn router(app: ApiState) -> Router {
    let router =
        ROUTES.iter().fold(Router::new(), |router, route| router.route(route.path, handler(route)));
    router
        .fallback(|| async { ApiFailure::NotFound("no such path".to_owned()) })
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app)
}

/// Returns the handler of a route. Exhaustive: a route without a handler does not compile.
fn handler(route: &Route) -> MethodRouter<ApiState> {
    let filter = match route.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
    };
    match route.id {
        RouteId::Daemon => on(filter, daemon::info),
        RouteId::StopDaemon => on(filter, daemon::stop),
        RouteId::Submit => on(filter, submit::submit),
        RouteId::Jobs => on(filter, list::list),
        RouteId::Job => on(filter, jobs::one),
        RouteId::Elements => on(filter, elements::list),
        RouteId::Explain => on(filter, jobs::explain),
        RouteId::Cancel => on(filter, jobs::cancel),
        RouteId::Hold => on(filter, jobs::hold),
        RouteId::Release => on(filter, jobs::release),
        RouteId::Requeue => on(filter, jobs::requeue),
        RouteId::Bulk => on(filter, jobs::bulk),
        RouteId::Checkpoint => on(filter, jobs::checkpoint),
        RouteId::Saved => on(filter, saved::saved),
        RouteId::Scale => on(filter, jobs::scale),
        RouteId::Logs => on(filter, logs::read),
        RouteId::Attach => on(filter, attach::attach),
        RouteId::Queues => on(filter, queues::list),
        RouteId::SetQueues => on(filter, queues::set),
        RouteId::Usage => on(filter, usage::list),
        RouteId::UsageReport => on(filter, usage::report),
        RouteId::Nodes => on(filter, nodes::list),
        RouteId::GpuLoads => on(filter, loads::list),
        RouteId::Drain => on(filter, nodes::drain),
        RouteId::Resume => on(filter, nodes::resume),
        RouteId::Reservations => on(filter, advance_reservations::list),
        RouteId::Reserve => on(filter, advance_reservations::reserve),
        RouteId::DropReservation => on(filter, advance_reservations::delete),
        RouteId::Timeline => on(filter, timeline::timeline),
        RouteId::Snapshot => on(filter, snapshot::snapshot),
        RouteId::Changes => on(filter, timeline::changes),
        RouteId::OpenApi => on(filter, daemon::openapi),
    }
}

async fn method_not_allowed() -> Response {
    let failure = ApiFailure::InvalidRequest {
        status: StatusCode::METHOD_NOT_ALLOWED,
        message: "this path requires another method".to_owned(),
    };
    failure.into_response()
}

pub(crate) use extract::{JobPath, Params};
pub(crate) use jobs::{owner, read as read_store};
pub(crate) use loads::GpuLoads;

use extract::{JsonBody, OptionalBody};
