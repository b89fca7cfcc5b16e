//! A node as it is, whether the daemon knows it or not, and what a daemon that comes back does
//! first. Shared with `storm/`. It must not decide when a node changes.

use muster_model::{Effect, Event, Foreign, NodeSpec};
use muster_runtime::engine::Engine;

use super::command::Starts;

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) spec: NodeSpec,
    pub(crate) up: bool,
    pub(crate) foreign: Foreign,
    pub(crate) starts: Starts,
}

impl Host {
    /// Up, with nothing of others on it.
    pub(crate) fn new(spec: NodeSpec) -> Self {
        Self { spec, up: true, foreign: Foreign::default(), starts: Starts::Works }
    }

    /// What a daemon has to hear of it that last had it up or lost (`None`: never heard of it), or
    /// as `another` spec.
    pub(crate) fn news(&self, was_up: Option<bool>, another: bool) -> Option<Event> {
        match (was_up, self.up) {
            (Some(true), false) => {
                let (node, reason) = (self.spec.name.clone(), "it does not answer".into());
                Some(Event::NodeLost { node, reason })
            }
            (Some(true), true) if !another => None,
            (_, true) => Some(Event::NodeJoined(Box::new(self.spec.clone()))),
            (_, false) => None,
        }
    }
}

/// Orders that the state stands for: those to prepare, which come first as at the start of the
/// daemon, and the others.
pub(crate) fn outstanding(engine: &Engine) -> (Vec<Effect>, Vec<Effect>) {
    engine.outstanding().into_iter().partition(|effect| matches!(effect, Effect::Prepare { .. }))
}
