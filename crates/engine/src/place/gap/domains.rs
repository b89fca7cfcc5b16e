//! Missing capacity in the domain that came closest: the numbers behind "not together". Counts
//! only.

use muster_model::reason::TopologyGap;
use muster_model::{GpuMilli, NodeId, Topology, TopologyRule};

use super::{CountMode, group_tasks_on_node, is_in_service, milli_for};
use crate::place::closest::closest;
use crate::pool::Pool;
use crate::pool::node::Node;
use crate::pool::scope::Scope;
use crate::pool::shape::{Eligible, Shape};

/// Returns what is missing now; `None` for a gang without topology constraints.
pub(crate) fn now(pool: &Pool, shape: &Shape, eligible: &Eligible) -> Option<TopologyGap> {
    let admits = |id: NodeId, node: &Node| {
        is_in_service(node)
            && eligible
                .as_ref()
                .is_none_or(|eligible| eligible.get(id.0 as usize).copied() == Some(true))
    };
    missing(pool, shape, CountMode::FreeNow, admits)
}

/// Returns what would be missing on an idle cluster.
pub(crate) fn when_idle(pool: &Pool, shape: &Shape) -> Option<TopologyGap> {
    missing(pool, shape, CountMode::WhenIdle, |_, node| shape.admits(node))
}

/// True when the closest domain is too small.
pub(crate) fn is_short(gap: &TopologyGap) -> bool {
    gap.tasks_placeable < gap.tasks_needed
}

fn missing(
    pool: &Pool,
    shape: &Shape,
    count: CountMode,
    admits: impl Fn(NodeId, &Node) -> bool,
) -> Option<TopologyGap> {
    let wish = shape.topology.as_ref()?;
    let capacity = |id: NodeId, group: &_| {
        if admits(id, pool.node(id)) { group_tasks_on_node(pool.node(id), group, count) } else { 0 }
    };
    let needed: u64 = shape.groups.iter().map(|group| u64::from(group.tasks)).sum();
    // 1. One domain for the whole gang.
    let whole = Topology { segment: None, ..wish.clone() };
    let mut found = closest(pool, &whole, &shape.groups, capacity);
    let mut level = match &wish.rule {
        TopologyRule::Required(level) => Some(level),
        TopologyRule::Anywhere | TopologyRule::Preferred(_) | TopologyRule::Spread(_) => None,
    };
    let mut segment_tasks = None;
    // 2. Segments, if one domain would be large enough.
    if let Some(segment) = wish.segment.as_ref().filter(|_| found.tasks >= needed) {
        level = Some(&segment.level);
        segment_tasks = Some(segment.tasks);
        found = closest(pool, wish, &shape.groups, capacity);
    }
    let gpus = |count| {
        let nodes = found.scope.map_or_else(Vec::new, |scope| pool.nodes_in(scope)).into_iter();
        let milli = nodes
            .filter(|id| admits(*id, pool.node(*id)))
            .map(|id| milli_for(pool.node(id), shape, count));
        GpuMilli(u32::try_from(milli.sum::<u64>()).unwrap_or(u32::MAX))
    };
    Some(TopologyGap {
        level: level?.to_string(),
        segment_tasks,
        domain: found.scope.map(|scope| name(pool, scope)),
        tasks_needed: u32::try_from(needed).unwrap_or(u32::MAX),
        tasks_placeable: u32::try_from(found.tasks).unwrap_or(u32::MAX),
        gpus_needed: GpuMilli(u32::try_from(shape.milli()).unwrap_or(u32::MAX)),
        gpus_free: gpus(count),
        gpus_total: gpus(CountMode::WhenIdle),
    })
}

fn name(pool: &Pool, scope: Scope) -> String {
    match scope {
        Scope::Cluster => "the cluster".to_owned(),
        Scope::Domain(id) => pool.domains.get(id).name.to_string(),
        Scope::Node(id) => pool.node(id).spec.name.to_string(),
    }
}
