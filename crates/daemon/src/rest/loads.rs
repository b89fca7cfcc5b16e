//! Handler for the loads of GPUs, which are read when somebody asks, at most once a second for all who do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use muster_api::types::GpuLoadList;
use muster_backends::gpu::load::LoadReader;
use muster_model::NodeSpec;
use muster_model::view::GpuLoadView;

use super::ApiState;
use crate::failure::ApiFailure;

/// Age up to which loads are given out again: they are those of about a second.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Reader of loads with what it has read last. Nothing is loaded or read before the first question.
#[derive(Debug, Default)]
pub(crate) struct GpuLoads {
    state: Mutex<Option<LoadState>>,
}

#[derive(Debug)]
struct LoadState {
    reader: LoadReader,
    read: Option<(Instant, Vec<GpuLoadView>)>,
}

impl GpuLoads {
    /// Returns the loads of the devices of these nodes.
    pub(crate) fn of(&self, nodes: &[NodeSpec]) -> Vec<GpuLoadView> {
        // A reader that panicked has changed nothing.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state =
            state.get_or_insert_with(|| LoadState { reader: LoadReader::new(), read: None });
        match &state.read {
            Some((at, loads)) if at.elapsed() < MAX_AGE => loads.clone(),
            _ => {
                let loads: Vec<GpuLoadView> =
                    nodes.iter().flat_map(|node| read(&state.reader, node)).collect();
                state.read = Some((Instant::now(), loads.clone()));
                loads
            }
        }
    }
}

fn read(reader: &LoadReader, node: &NodeSpec) -> Vec<GpuLoadView> {
    let loads = reader.read(&node.devices).into_iter();
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
