//! Kinds of nodes are kept while a policy weighs places, and made anew after nodes came or changed
//! their terms.

use muster_model::NodeId;

use super::Pool;
use crate::state::kind::Kinds;

/// Whether places are weighed.
#[derive(Clone, Debug, Default)]
pub(super) enum Weighing {
    /// They are not: nothing is kept.
    #[default]
    No,
    /// They are, and the kinds are to be made before the next time.
    Stale,
    Ready(Box<Kinds>),
}

impl Pool {
    /// Places are weighed from now on, or no more.
    pub(crate) fn set_weighing(&mut self, weighs: bool) {
        self.kinds = if weighs { Weighing::Stale } else { Weighing::No };
    }

    /// Weights that were worked out hold no more.
    pub(crate) fn forget_weights(&mut self) {
        if let Weighing::Ready(kinds) = &mut self.kinds {
            kinds.forget();
        }
    }

    /// The kinds of nodes as they are now.
    pub(crate) fn kinds(&mut self) -> &mut Kinds {
        self.refresh();
        if !matches!(&self.kinds, Weighing::Ready(kinds) if !kinds.is_worn()) {
            self.kinds = Weighing::Ready(Box::new(Kinds::of(&self.nodes)));
        }
        let Weighing::Ready(kinds) = &mut self.kinds else { unreachable!("made above") };
        kinds
    }

    /// Nodes or their terms changed: ranks may be others, and what there is.
    pub(super) fn kinds_are_stale(&mut self) {
        if let Weighing::Ready(_) = self.kinds {
            self.kinds = Weighing::Stale;
        }
    }

    /// What is held of a node changed.
    pub(super) fn update_kind(&mut self, id: NodeId) {
        if let Weighing::Ready(kinds) = &mut self.kinds {
            kinds.moved(id, &self.nodes[id.0 as usize]);
        }
    }
}
