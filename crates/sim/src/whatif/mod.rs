//! What-if forecasts of a site with other nodes, quotas or policies. It starts from the state of a
//! real engine, forecasts, and repeats that after the change.
//!
//! * `change.rs`: changes
//! * `forecast.rs`: when pending jobs start
//! * `runtime_estimates.rs`: runtimes, estimated from the past jobs of each user
//! * `past.rs`: replay of past jobs
//!
//! It makes no decisions: the engine does, and its check validates every plan.

mod change;
mod forecast;
mod past;
mod runtime_estimates;

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_engine::{Engine, EventRefusal, RestoreError, Snapshot, Violation};
use muster_model::{NodeId, NodeName, NodeSpec, PastRun, SiteSnapshot, Span, Time};
use muster_runtime::JOURNAL_VERSION;

use crate::fleet::{FleetSite, SchedulerError, idle_engine};

pub use change::{ChangeError, NodeKind, SiteChange};
pub use forecast::StartForecast;
pub use past::Replays;
pub use runtime_estimates::RuntimeEstimates;

/// A site at an instant.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Time of the snapshot.
    pub taken: Time,
    /// Start of `past`: earlier submissions are not in it.
    pub since: Time,
    /// Jobs that have run since then.
    pub past: Arc<[PastRun]>,
    engine: Engine,
}

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// The snapshot is of a later version.
    #[error(
        "it was written by a newer muster: version {found}, and this one knows up to {JOURNAL_VERSION}"
    )]
    Newer {
        /// Version of the snapshot.
        found: u32,
    },
    /// The snapshot cannot be parsed.
    #[error("its state cannot be read: {0}")]
    Malformed(String),
    /// The snapshot is inconsistent.
    #[error("its state contradicts itself: {0}")]
    Contradicts(RestoreError),
    /// The engine rejects the change.
    #[error("{what}: {refusal}")]
    Refused {
        /// The rejected part of the change.
        what: String,
        /// Reason of the rejection.
        refusal: EventRefusal,
    },
    /// The engine's check rejects the engine's own plan: a defect of the engine.
    #[error("the engine made a plan that its check rejects: {0:?}")]
    BadPlan(Vec<Violation>),
}

impl Situation {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// It cannot be parsed, or is inconsistent.
    pub fn read(snapshot: SiteSnapshot) -> Result<Self, WhatIfError> {
        let SiteSnapshot { version, taken, since, state, past, names: _ } = snapshot;
        if version > JOURNAL_VERSION {
            return Err(WhatIfError::Newer { found: version });
        }
        let state: Snapshot = serde_json::from_str(state.get())
            .map_err(|error| WhatIfError::Malformed(error.to_string()))?;
        let engine = Engine::restore(state).map_err(WhatIfError::Contradicts)?;
        Ok(Self { taken, since, past: past.into(), engine })
    }

    /// Returns a site without jobs and without a past, whose jobs a trace has.
    ///
    /// # Errors
    /// The engine rejects the site.
    pub fn idle(site: &FleetSite) -> Result<Self, SchedulerError> {
        let start = Time(0);
        Ok(Self { taken: start, since: start, past: Arc::default(), engine: idle_engine(site)? })
    }

    /// Restricts the past to submissions since this long ago.
    #[must_use]
    pub fn since(self, ago: Span) -> Self {
        let since = self.since.max(self.taken - ago);
        let past = self.past.iter().filter(|run| run.submitted >= since).cloned().collect();
        Self { since, past, ..self }
    }

    /// Returns the engine of the situation.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the nodes in service, the levels and the queues.
    #[must_use]
    pub fn site(&self) -> FleetSite {
        let views = self.engine.nodes().into_iter();
        let serving: BTreeSet<NodeName> =
            views.filter(|view| view.up && view.drained.is_none()).map(|view| view.name).collect();
        FleetSite {
            nodes: self.nodes().filter(|node| serving.contains(&node.name)).cloned().collect(),
            levels: self.engine.levels().to_vec(),
            tree: self.engine.tree().clone(),
        }
    }

    /// Returns all nodes, by number.
    fn nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        (0..).map_while(|node| self.engine.node_spec(NodeId(node)))
    }
}
