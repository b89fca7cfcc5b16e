//! Handler for the loads of GPUs, which are read when somebody asks, at most once a second for all who do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use muster_api::types::GpuLoadList;
use muster_backends::driver::Backend;
use muster_model::NodeSpec;
use muster_model::view::GpuLoadView;

use super::ApiState;
use crate::failure::ApiFailure;

/// Age up to which loads are given out again: they are those of about a second.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Loads as the backend gives them, with those that it gave last. Nothing is read before the first question.
pub(crate) struct GpuLoads {
    backend: Arc<dyn Backend>,
    read: Mutex<Option<(Instant, Vec<GpuLoadView>)>>,
}

impl GpuLoads {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, read: Mutex::default() }
    }

    /// Returns the loads of the devices of these nodes.
    pub(crate) fn of(&self, nodes: &[NodeSpec]) -> Vec<GpuLoadView> {
        // A reader that panicked has changed nothing.
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, loads)) if at.elapsed() < MAX_AGE => loads.clone(),
            _ => {
                let loads: Vec<GpuLoadView> =
                    nodes.iter().flat_map(|node| read(&*self.backend, node)).collect();
                *last = Some((Instant::now(), loads.clone()));
                loads
            }
        }
    }
}

fn read(backend: &dyn Backend, node: &NodeSpec) -> Vec<GpuLoadView> {
    let loads = backend.gpu_loads(node).into_iter();
    let view = |(index, load)| GpuLoadView { node: node.name.clone(), index, load };
    (0..).zip(loads).map(view).collect()
}

/// Serves `GET /v1/gpus`: every device of every node, virtual ones too.
pub(super) async fn list(State(app): State<ApiState>) -> Result<Json<GpuLoadList>, ApiFailure> {
    let now = app.handle.status().await?.now;
    let site = app.site.borrow().clone();
    let loads = Arc::clone(&app.loads);
    let gpus = tokio::task::spawn_blocking(move || loads.of(&site.nodes)).await;
    let gpus = gpus.map_err(|error| ApiFailure::Internal(error.to_string()))?;
    Ok(Json(GpuLoadList { now, gpus, idle: app.idle.marked(now) }))
}
