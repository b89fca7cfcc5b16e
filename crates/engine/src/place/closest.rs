//! Finds the domain that comes closest to hosting a gang, by plain sums over nodes, group by group.
//! Exact for one group; several groups compete and may need more. It places nothing.

use muster_model::{NodeId, Topology, TopologyRule};

use crate::pool::Pool;
use crate::pool::scope::Scope;
use crate::pool::shape::GroupNeed;

/// Domain that comes closest to hosting a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosestDomain {
    /// The domain; `None` if the level has no domain.
    pub(crate) scope: Option<Scope>,
    /// Number of tasks, over all groups, that fit in it.
    pub(crate) tasks: u64,
}

/// Returns the first domain of those that take the most tasks; `capacity` returns how many tasks of
/// a group a node takes. Stops at the first domain that takes all.
pub(crate) fn closest(
    pool: &Pool,
    topology: &Topology,
    groups: &[GroupNeed],
    capacity: impl Fn(NodeId, &GroupNeed) -> u64,
) -> ClosestDomain {
    let scopes = match &topology.rule {
        TopologyRule::Required(name) => pool
            .domains
            .level(name)
            .map_or_else(Vec::new, |level| pool.scopes_in(Scope::Cluster, level)),
        TopologyRule::Anywhere | TopologyRule::Preferred(_) | TopologyRule::Spread(_) => {
            vec![Scope::Cluster]
        }
    };
    let sum = |scope: Scope, group: &GroupNeed| {
        let nodes = pool.nodes_in(scope).into_iter();
        nodes.map(|node| capacity(node, group)).fold(0u64, u64::saturating_add)
    };
    let takes = |scope: Scope, group: &GroupNeed| {
        let Some(segment) = &topology.segment else { return sum(scope, group) };
        let Some(level) = pool.domains.level(&segment.level) else { return 0 };
        let slice = u64::from(segment.tasks.max(1));
        let narrow = pool.scopes_in(scope, level).into_iter();
        narrow.map(|one| sum(one, group) / slice * slice).fold(0u64, u64::saturating_add)
    };
    let all = groups.iter().map(|group| u64::from(group.tasks)).sum();
    let mut best = ClosestDomain { scope: None, tasks: 0 };
    for scope in scopes {
        let tasks =
            groups.iter().map(|group| takes(scope, group).min(u64::from(group.tasks))).sum();
        if best.scope.is_none() || tasks > best.tasks {
            best = ClosestDomain { scope: Some(scope), tasks };
        }
        if best.tasks >= all {
            break;
        }
    }
    best
}
