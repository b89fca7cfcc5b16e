//! Parts of the cluster in which places are searched: all of it, a topology domain, or one node.

use muster_model::NodeId;

/// Key of a domain. It has no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DomainId(pub(crate) u32);

/// Index of a level, from the widest; that of the nodes equals the number of levels.
pub(crate) type LevelIndex = usize;

/// Part of the cluster in which places are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Domain(DomainId),
    Node(NodeId),
}
