//! Which domain comes closest to hosting a gang: plain sums over nodes, group by group. Where one
//! group is asked about it is exact; groups that compete may need more. It places nothing.

use muster_model::{NodeId, Topology, TopologyRule};

use crate::state::pool::Pool;
use crate::state::shape::GroupNeed;
use crate::state::topology::Scope;

/// The domain that comes closest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closest {
    /// `None` when there is no domain of the level.
    pub(crate) scope: Option<Scope>,
    /// Tasks that it takes, of all groups.
    pub(crate) tasks: u64,
}

/// The first of those that take the most tasks; `room` says what a node takes of a group. Once one
/// takes all, the rest is not looked at.
pub(crate) fn closest(
    pool: &Pool,
    wish: &Topology,
    groups: &[GroupNeed],
    room: impl Fn(NodeId, &GroupNeed) -> u64,
) -> Closest {
    let scopes = match &wish.rule {
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
        nodes.map(|node| room(node, group)).fold(0u64, u64::saturating_add)
    };
    let takes = |scope: Scope, group: &GroupNeed| {
        let Some(segment) = &wish.segment else { return sum(scope, group) };
        let Some(level) = pool.domains.level(&segment.level) else { return 0 };
        let slice = u64::from(segment.tasks.max(1));
        let narrow = pool.scopes_in(scope, level).into_iter();
        narrow.map(|one| sum(one, group) / slice * slice).fold(0u64, u64::saturating_add)
    };
    let all = groups.iter().map(|group| u64::from(group.tasks)).sum();
    let mut best = Closest { scope: None, tasks: 0 };
    for scope in scopes {
        let tasks =
            groups.iter().map(|group| takes(scope, group).min(u64::from(group.tasks))).sum();
        if best.scope.is_none() || tasks > best.tasks {
            best = Closest { scope: Some(scope), tasks };
        }
        if best.tasks >= all {
            break;
        }
    }
    best
}
