//! Node kinds: kept while the placement policy scores places, and rebuilt after nodes joined or
//! changed their capacity.

use muster_model::NodeId;

use super::Pool;
use super::node_kind::NodeKinds;

/// Cache of node kinds for scored placement.
#[derive(Clone, Debug, Default)]
pub(crate) enum KindCache {
    /// Places are not scored: nothing is kept.
    #[default]
    No,
    /// Places are scored; the kinds must be rebuilt before the next use.
    Stale,
    Ready(Box<NodeKinds>),
}

impl Pool {
    /// Switches scored placement on or off.
    pub(crate) fn set_scored_placement(&mut self, weighs: bool) {
        self.kinds = if weighs { KindCache::Stale } else { KindCache::No };
    }

    /// Drops all cached scores.
    pub(crate) fn forget_weights(&mut self) {
        if let KindCache::Ready(kinds) = &mut self.kinds {
            kinds.forget();
        }
    }

    /// Returns the up-to-date kinds of nodes.
    pub(crate) fn kinds(&mut self) -> &mut NodeKinds {
        self.refresh();
        if !matches!(&self.kinds, KindCache::Ready(kinds) if !kinds.needs_rebuild()) {
            self.kinds = KindCache::Ready(Box::new(NodeKinds::of(&self.nodes)));
        }
        let KindCache::Ready(kinds) = &mut self.kinds else { unreachable!("made above") };
        kinds
    }

    /// Marks the kinds as stale after nodes or their capacity changed: ranks may differ.
    pub(crate) fn mark_kinds_stale(&mut self) {
        if let KindCache::Ready(_) = self.kinds {
            self.kinds = KindCache::Stale;
        }
    }

    /// Updates the kind of a node after its holdings changed.
    pub(crate) fn update_kind(&mut self, id: NodeId) {
        if let KindCache::Ready(kinds) = &mut self.kinds {
            kinds.moved(id, &self.nodes[id.0 as usize]);
        }
    }
}
