//! The what-if view: what can be changed on this site, and the answer of `muster whatif` for a change. One question
//! at a time, each bounded in time, on threads of this process; the daemon only writes a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use muster_model::simulation::WhatIf;
use muster_model::{GpuModel, QueueSpec, SiteSnapshot, Span, Time};
use muster_report::RenderContext;
use muster_report::whatif::{WhatIfWords, words};
use muster_sim::whatif::Situation;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::refusal::Refusal;
use super::state::PageState;
use super::texts::zone;
use crate::cmd::simulate::watch::SimulationProgress;
use crate::cmd::whatif::{
    ChangeArgs, DEFAULT_SINCE, Runtimes, WhatIfQuestion, take_snapshot, with_names,
};

/// Longest wait for the question before, and for a snapshot: the daemon writes one at a time.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Longest simulation. A user at a slider does not wait longer; the command has no limit.
const MAX_SIMULATION: Duration = Duration::from_secs(20);

/// Returns the router of this view.
pub(super) fn router() -> Router<PageState> {
    Router::new().route("/page/whatif", get(answer)).route("/page/whatif/site", get(site))
}

/// Ranges of the changes that the page offers.
#[derive(Serialize)]
struct ChangeableSite {
    taken: Time,
    /// Nodes of the most common kind; `None` when no node is in service.
    nodes: Option<UsualNodes>,
    /// GPUs in service by model.
    models: BTreeMap<GpuModel, u64>,
    queues: Vec<QueueQuotas>,
}

#[derive(Serialize)]
struct UsualNodes {
    /// Number of such nodes, as many as can be removed.
    count: usize,
    gpus: usize,
    model: Option<GpuModel>,
}

#[derive(Serialize)]
struct QueueQuotas {
    /// Path of the queue: `research/vision`.
    name: String,
    /// GPUs by model; a model that is not there has no quota.
    quota: BTreeMap<GpuModel, u64>,
}

impl ChangeableSite {
    fn of(situation: &Situation) -> Self {
        let site = situation.site();
        let mut models = BTreeMap::new();
        for device in site.nodes.iter().flat_map(|node| &node.devices) {
            *models.entry(device.model.clone()).or_default() += 1;
        }
        let nodes = situation.usual_nodes().map(|(node, count)| UsualNodes {
            count,
            gpus: node.devices.len(),
            model: node.devices.first().map(|device| device.model.clone()),
        });
        let mut queues = Vec::new();
        collect_quotas(&site.tree.queues, "", &mut queues);
        Self { taken: situation.taken, nodes, models, queues }
    }
}

fn collect_quotas(queues: &[QueueSpec], above: &str, found: &mut Vec<QueueQuotas>) {
    for queue in queues {
        let name = format!("{above}{}", queue.name);
        let below = format!("{name}/");
        found.push(QueueQuotas { name, quota: queue.quota.clone() });
        collect_quotas(&queue.queues, &below, found);
    }
}

async fn site(State(state): State<PageState>) -> Result<Json<ChangeableSite>, Refusal> {
    let _turn = turn(&state).await?;
    let snapshot = snapshot(&state, Span(0)).await?;
    let read = tokio::task::spawn_blocking(|| Situation::read(snapshot));
    let situation = read.await.map_err(anyhow::Error::from)?.map_err(anyhow::Error::from)?;
    Ok(Json(ChangeableSite::of(&situation)))
}

/// Change to the site, each part as the option of the command has it, and time zone of the reader.
#[derive(Deserialize)]
struct WhatIfQuery {
    add_nodes: Option<String>,
    remove_nodes: Option<String>,
    quota: Option<String>,
    #[serde(default)]
    zone: String,
}

/// Answer of the command, and its words.
#[derive(Serialize)]
struct WhatIfSheet {
    answer: WhatIf,
    words: WhatIfWords,
}

async fn answer(
    State(state): State<PageState>,
    Query(query): Query<WhatIfQuery>,
) -> Result<Json<WhatIfSheet>, Refusal> {
    let WhatIfQuery { add_nodes, remove_nodes, quota, zone: zone_name } = query;
    let change =
        ChangeArgs::of_texts(add_nodes.as_deref(), remove_nodes.as_deref(), quota.as_deref())
            .map_err(Refusal::invalid)?;
    if change.is_none() {
        return Err(Refusal::invalid("no change is given"));
    }
    let turn = turn(&state).await?;
    let mut snapshot = snapshot(&state, DEFAULT_SINCE).await?;
    let names = std::mem::take(&mut snapshot.names);
    let answer = simulate(turn, snapshot, change).await?;
    let answer = with_names(&state.client, answer, &names).await?;
    let context = RenderContext { zone: zone(&zone_name), ..RenderContext::plain() };
    let words = words(&answer, context);
    Ok(Json(WhatIfSheet { answer, words }))
}

/// Waits until no other question is being answered.
async fn turn(state: &PageState) -> Result<OwnedSemaphorePermit, Refusal> {
    let busy = |_| Refusal::busy("another what-if question is still being answered");
    let turn = timeout(MAX_WAIT, state.questions.clone().acquire_owned()).await.map_err(busy)?;
    Ok(turn.expect("the semaphore is never closed"))
}

async fn snapshot(state: &PageState, since: Span) -> Result<SiteSnapshot, Refusal> {
    if !state.is_local() {
        let refusal =
            format!("what-if questions are about this machine's daemon, not {}", state.cluster);
        return Err(Refusal::invalid(refusal).hint("run `muster ui` without --on"));
    }
    let late = |_| Refusal::busy("the daemon has sent no snapshot of the site in time");
    Ok(timeout(MAX_WAIT, take_snapshot(&state.client, since)).await.map_err(late)??)
}

/// Runs the simulations on another thread, and stops them when their time is over or no reader waits for the answer.
/// The next question has its turn when they have ended.
async fn simulate(
    turn: OwnedSemaphorePermit,
    snapshot: SiteSnapshot,
    change: ChangeArgs,
) -> anyhow::Result<WhatIf> {
    let guard = StopOnDrop(Arc::new(SimulationProgress::default()));
    let progress = Arc::clone(&guard.0);
    let mut runs = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        WhatIfQuestion::new(snapshot, DEFAULT_SINCE, &change, Runtimes::Usual)?
            .simulate_both(&progress)
    });
    match timeout(MAX_SIMULATION, &mut runs).await {
        Ok(ended) => ended?,
        Err(_) => {
            guard.0.stop();
            runs.await?
        }
    }
}

/// Stops simulations whose request has ended: the handler of a closed connection is dropped.
struct StopOnDrop(Arc<SimulationProgress>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use muster_api::Client;

    use super::*;

    #[tokio::test]
    async fn another_scheduler_is_not_asked() {
        let client = Client::new("/nowhere/muster.sock".into());
        let state = PageState::new(client, "slurm".to_owned(), Arc::default(), 1);
        let refused = snapshot(&state, Span(0)).await.unwrap_err();
        assert!(format!("{refused:?}").contains("this machine's daemon, not slurm"), "{refused:?}");
    }
}
