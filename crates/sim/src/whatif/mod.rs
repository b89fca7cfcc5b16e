//! What would become of a site if something about it were different: more nodes, another quota,
//! another policy. It begins with the state of a real engine, asks it what comes next, and asks the
//! same again after the change.
//!
//! * `change.rs`: what is different
//! * `forecast.rs`: what waits now, and when it starts
//! * `usual.rs`: how long jobs run, by what their users' jobs did
//! * `past.rs`: what has run, once more
//!
//! It decides nothing: the engine does, and its judge looks at every plan.

mod change;
mod forecast;
mod past;
mod usual;

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_engine::{Engine, Refusal, RestoreError, Snapshot, Violation};
use muster_model::{NodeId, NodeName, NodeSpec, PastRun, SiteSnapshot, Span, Time};
use muster_runtime::JOURNAL_VERSION;

use crate::fleet::Site;

pub use change::{Change, ChangeError, NodeKind};
pub use forecast::Forecast;
pub use past::Replays;
pub use usual::Usual;

/// A site at an instant.
#[derive(Clone, Debug)]
pub struct Situation {
    /// When.
    pub taken: Time,
    /// What was submitted before is not in `past`.
    pub since: Time,
    /// What has run since.
    pub past: Arc<[PastRun]>,
    engine: Engine,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// The snapshot is of a later version.
    #[error(
        "it was written by a newer muster: version {found}, and this one knows up to {JOURNAL_VERSION}"
    )]
    Newer {
        /// Which.
        found: u32,
    },
    /// It is no snapshot, or is damaged.
    #[error("its state cannot be read: {0}")]
    Malformed(String),
    /// It contradicts itself.
    #[error("its state contradicts itself: {0}")]
    Contradicts(RestoreError),
    /// The engine does not accept the change.
    #[error("{what}: {refusal}")]
    Refused {
        /// What of it.
        what: String,
        /// Why not.
        refusal: Refusal,
    },
    /// The engine's own judge does not accept the engine's plan: a defect of the engine.
    #[error("the engine made a plan that its judge refuses: {0:?}")]
    BadPlan(Vec<Violation>),
}

impl Situation {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// It cannot be read, or contradicts itself.
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

    /// The same with no more of the past than was submitted so long ago, and since.
    #[must_use]
    pub fn since(self, ago: Span) -> Self {
        let since = self.since.max(self.taken - ago);
        let past = self.past.iter().filter(|run| run.submitted >= since).cloned().collect();
        Self { since, past, ..self }
    }

    /// What it knows.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Its nodes that are there and in service, its levels and its queues.
    #[must_use]
    pub fn site(&self) -> Site {
        let views = self.engine.nodes().into_iter();
        let serving: BTreeSet<NodeName> =
            views.filter(|view| view.up && view.drained.is_none()).map(|view| view.name).collect();
        Site {
            nodes: self.nodes().filter(|node| serving.contains(&node.name)).cloned().collect(),
            levels: self.engine.levels().to_vec(),
            tree: self.engine.tree().clone(),
        }
    }

    /// All nodes, by number.
    fn nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        (0..).map_while(|node| self.engine.node_spec(NodeId(node)))
    }
}
