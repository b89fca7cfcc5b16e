//! State of a node, whether the daemon knows it or not, and the first orders of a daemon that
//! restarts. Shared with `dst/`.

use muster_model::{Effect, Event, Foreign, NodeSpec};
use muster_runtime::engine::Engine;

use super::command::StartBehaviour;

/// A node of the simulated cluster.
#[derive(Clone, Debug)]
pub(crate) struct SimHost {
    pub(crate) spec: NodeSpec,
    pub(crate) up: bool,
    pub(crate) foreign: Foreign,
    pub(crate) starts: StartBehaviour,
}

impl SimHost {
    /// Creates a node that is up and unused by other processes.
    pub(crate) fn new(spec: NodeSpec) -> Self {
        Self { spec, up: true, foreign: Foreign::default(), starts: StartBehaviour::Works }
    }

    /// Returns the event for a daemon that last knew the node as up or lost (`None`: not at all),
    /// or with `another` spec.
    pub(crate) fn news(&self, was_up: Option<bool>, another: bool) -> Option<Event> {
        match (was_up, self.up) {
            (Some(true), false) => {
                let node = self.spec.name.clone();
                let reason = "it does not answer".into();
                Some(Event::NodeLost { node, reason })
            }
            (Some(true), true) if !another => None,
            (_, true) => Some(Event::NodeJoined(Box::new(self.spec.clone()))),
            (_, false) => None,
        }
    }
}

/// Returns the outstanding orders: those to prepare, which come first as when the daemon starts,
/// and the others.
pub(crate) fn outstanding(engine: &Engine) -> (Vec<Effect>, Vec<Effect>) {
    engine.outstanding().into_iter().partition(|effect| matches!(effect, Effect::Prepare { .. }))
}
