//! Placement of an element, and its quality: computed from the placement, the cluster and present
//! plans, so that only the placement is stored. It must not guess which alternatives existed at the
//! start.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::view::{
    LevelRequest, LevelUse, NextStart, PlacedOn, PlacementView, PreemptedView, device_indices,
};
use muster_model::{
    DeviceSet, ElementId, GpuMilli, NodeId, TaskPlacement, Time, Topology, TopologyRule,
};

use super::preemption;
use crate::place::gap::{self, CountMode};
use crate::plan::Outlook;
use crate::pool::Pool;
use crate::pool::scope::Scope;
use crate::pool::shape::Shape;
use crate::state::State;
use crate::state::job::{Job, Phase};
use crate::state::view::element_view;

/// Maximum number of nodes, and of domains of a level, that are named.
const MAX_NAMED: usize = 16;

/// Returns the placement of an element; `None` if it holds nothing.
pub(super) fn of(state: &State, outlook: &Outlook, id: ElementId) -> Option<PlacementView> {
    let job = state.jobs.get(&id.job)?;
    let element = job.record.elements.get(&job.record.ordinal_of(id.index)?)?;
    let run = element.run.as_ref().filter(|_| element.phase == Phase::Active)?;
    Some(PlacementView {
        tasks: run.placement.len() as u32,
        nodes: run.placement.iter().map(|task| task.node).collect::<BTreeSet<_>>().len() as u32,
        places: places(&state.pool, &run.placement),
        levels: levels(state, job, &run.placement),
        since: run.since(),
        backfilled: run.backfilled,
        predicted: run.expected.is_some(),
        next: next(state, outlook, id, &run.placement),
    })
}

/// Returns the places by name of the node.
fn places(pool: &Pool, placement: &[TaskPlacement]) -> Vec<PlacedOn> {
    let mut on: BTreeMap<u32, (DeviceSet, GpuMilli, u32)> = BTreeMap::new();
    for task in placement {
        let (devices, share, tasks) = on.entry(pool.node(task.node).rank).or_default();
        (*devices, *share) = (devices.or(task.devices), task.share);
        *tasks += 1;
    }
    let named = on.into_iter().take(MAX_NAMED);
    named
        .map(|(rank, (devices, share, tasks))| PlacedOn {
            node: pool.node(pool.at_rank(rank)).spec.name.clone(),
            tasks,
            devices: device_indices(devices),
            share,
        })
        .collect()
}

/// Returns the domains that it uses, level by level, the nodes last.
fn levels(state: &State, job: &Job, placement: &[TaskPlacement]) -> Vec<LevelUse> {
    let pool = &state.pool;
    let shape = state.classes.shape(job.class);
    let wide = pool.domains.levels().iter().map(|name| &**name);
    let used = |level: usize| -> BTreeSet<(String, Option<NodeId>)> {
        let domain = |task: &TaskPlacement| {
            let node = pool.node(task.node);
            match node.domains.get(level) {
                Some((id, _)) => (pool.domains.get(*id).name.to_string(), None),
                // A node outside of any domain counts as its own domain.
                None => (node.spec.name.to_string(), Some(task.node)),
            }
        };
        placement.iter().map(domain).collect()
    };
    let name_all = |(level, name): (usize, &str)| {
        let used = used(level);
        LevelUse {
            level: name.to_owned(),
            domains: used.len() as u32,
            names: used.into_iter().map(|(name, _)| name).take(MAX_NAMED).collect(),
            least: least(pool, shape, level, name),
            asked: asked(shape, name),
        }
    };
    wide.chain([Topology::NODE]).enumerate().map(name_all).collect()
}

/// Returns what the job asks for at a level.
fn asked(shape: &Shape, level: &str) -> Option<LevelRequest> {
    let wish = shape.topology.as_ref()?;
    match &wish.rule {
        TopologyRule::Required(name) if **name == *level => Some(LevelRequest::Required),
        TopologyRule::Preferred(name) if **name == *level => Some(LevelRequest::Preferred),
        TopologyRule::Spread(name) if **name == *level => Some(LevelRequest::Spread),
        _ if wish.segment.as_ref().is_some_and(|segment| *segment.level == *level) => {
            Some(LevelRequest::Segments)
        }
        _ => None,
    }
}

/// Returns the minimum number of domains of a level that could host it on an idle cluster; `None`
/// if groups or segments would need a search.
fn least(pool: &Pool, shape: &Shape, level: usize, name: &str) -> Option<u32> {
    let [group] = &shape.groups[..] else { return None };
    let segment = shape.topology.as_ref().and_then(|wish| wish.segment.as_ref());
    if segment.is_some_and(|segment| *segment.level != *name) {
        return None;
    }
    let slice = segment.map_or(1, |segment| u64::from(segment.tasks.max(1)));
    let mut scopes = pool.scopes_in(Scope::Cluster, level);
    if level < pool.domains.levels().len() {
        scopes.extend(pool.nodes_without_domain().map(Scope::Node));
    }
    let capacity = |id: NodeId| match pool.node(id) {
        node if node.accepts_work() && shape.admits(node) => {
            gap::group_tasks_on_node(node, group, CountMode::WhenIdle)
        }
        _ => 0,
    };
    let sum = |scope| pool.nodes_in(scope).into_iter().map(capacity).fold(0, u64::saturating_add);
    let mut takes: Vec<u64> = scopes.into_iter().map(|scope| sum(scope) / slice * slice).collect();
    takes.sort_unstable_by(|one, other| other.cmp(one));
    let mut left = u64::from(group.tasks);
    let needed = takes.into_iter().take_while(|takes| {
        let is_needed = left > 0 && *takes > 0;
        left = left.saturating_sub(*takes);
        is_needed
    });
    let count = needed.count() as u32;
    (left == 0).then_some(count)
}

/// Returns the first planned start on its nodes.
fn next(
    state: &State,
    outlook: &Outlook,
    id: ElementId,
    placement: &[TaskPlacement],
) -> Option<NextStart> {
    let nodes: BTreeSet<NodeId> = placement.iter().map(|task| task.node).collect();
    let is_here = |tasks: &[TaskPlacement]| tasks.iter().any(|task| nodes.contains(&task.node));
    let others =
        outlook.reservations.iter().filter(|one| one.element != id && is_here(&one.placement));
    let first = others.min_by_key(|one| (one.start, one.element))?;
    let job = state.jobs.get(&first.element.job)?;
    Some(NextStart {
        element: first.element,
        name: job.record.spec.name.to_string(),
        start: first.start,
        predicted: state.plans_by_predictions(),
    })
}

/// Returns the preemption of the present or last attempt.
pub(super) fn preempted(state: &State, now: Time, id: ElementId) -> Option<PreemptedView> {
    let record = &state.jobs.get(&id.job)?.record;
    let element = record.elements.get(&record.ordinal_of(id.index)?)?;
    let run = element.run.as_ref()?;
    let eviction = run.eviction?;
    let preemptor = state.jobs.get(&eviction.by.job);
    Some(PreemptedView {
        by: eviction.by,
        name: preemptor.map(|job| job.record.spec.name.to_string()),
        queue: preemptor.map(|job| state.policy.queues().leaf_name(job.record.leaf).clone()),
        cause: eviction.cause,
        at: eviction.at,
        saves_until: preemption::saves_until(run).filter(|_| element.phase == Phase::Active),
        checkpoint: element_view(state, now, id).and_then(|view| view.checkpoint),
    })
}
