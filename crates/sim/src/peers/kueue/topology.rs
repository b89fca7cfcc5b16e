//! Kueue's topology-aware placement of a gang that prefers to be close: in the narrowest domain
//! that holds all of it, of several the fullest; on its nodes, those with most room first, and for
//! the rest the fullest that is enough.
//!
//! Source: pkg/cache/scheduler/tas_flavor_snapshot.go and the page on topology-aware scheduling
//! (BestFit), Kueue 0.19.2. Slices and balanced placement are not modelled.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::NodeId;

use crate::fleet::{FleetJob, Pool, PoolNode};

/// Returns a node for each task; `None` if not all of them fit at once.
pub(super) fn places(pool: &Pool, job: &FleetJob) -> Option<Vec<NodeId>> {
    let capacities: Vec<(NodeId, u32)> = pool
        .nodes()
        .map(|(id, node)| (id, node.capacity(&job.task, job.tasks)))
        .filter(|(_, capacity)| *capacity > 0)
        .collect();
    if capacities.iter().map(|(_, capacity)| u64::from(*capacity)).sum::<u64>()
        < u64::from(job.tasks)
    {
        return None;
    }
    if let Some((id, _)) = capacities
        .iter()
        .filter(|(_, capacity)| *capacity >= job.tasks)
        .min_by_key(|(id, _)| tightness(pool.node(*id)))
    {
        return Some(vec![*id; job.tasks as usize]);
    }
    // From the narrowest level up; above all levels is the cluster.
    let levels = pool.nodes().map(|(_, node)| node.spec.domains.len()).max().unwrap_or(0);
    let narrow = (1..=levels).rev().find_map(|level| domain(pool, &capacities, level, job.tasks));
    Some(spread(narrow.unwrap_or(capacities), job.tasks))
}

/// Sort key of nodes: the less is free, the better the fit.
fn tightness(node: &PoolNode) -> (u32, u32) {
    (node.whole.len(), node.cpus)
}

/// Returns the domain of a level that holds all with the least to spare.
fn domain(
    pool: &Pool,
    capacities: &[(NodeId, u32)],
    level: usize,
    tasks: u32,
) -> Option<Vec<(NodeId, u32)>> {
    let mut domains: BTreeMap<&[Arc<str>], Vec<(NodeId, u32)>> = BTreeMap::new();
    for (id, capacity) in capacities {
        if let Some(path) = pool.node(*id).spec.domains.get(..level) {
            domains.entry(path).or_default().push((*id, *capacity));
        }
    }
    let capacity = |nodes: &Vec<(NodeId, u32)>| {
        nodes.iter().map(|(_, capacity)| u64::from(*capacity)).sum::<u64>()
    };
    domains.into_values().filter(|nodes| capacity(nodes) >= u64::from(tasks)).min_by_key(capacity)
}

fn spread(mut capacities: Vec<(NodeId, u32)>, tasks: u32) -> Vec<NodeId> {
    capacities.sort_by_key(|(id, capacity)| (std::cmp::Reverse(*capacity), *id));
    let mut places = Vec::with_capacity(tasks as usize);
    while places.len() < tasks as usize {
        let left = tasks - places.len() as u32;
        let best = capacities.iter().rposition(|(_, capacity)| *capacity >= left).unwrap_or(0);
        let (id, capacity) = capacities.remove(best);
        places.extend(std::iter::repeat_n(id, capacity.min(left) as usize));
    }
    places
}
