//! Checks topology constraints of gangs, from the domain names in the nodes' own records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{DeviceSet, ElementId, NodeId, Plan, TaskPlacement, Topology, TopologyRule};
use rustc_hash::FxHashMap;

use super::Violation;
use super::counted::model_of;
use crate::pool::node::Node;
use crate::state::State;
use crate::state::job::Job;

/// Returns the domain of a node at a level: the names of all levels down to it, or the node's own
/// name. `None` if it is in no domain.
fn domain<'n>(state: &State, node: &'n Node, level: &str) -> Option<Vec<&'n str>> {
    let levels = state.pool.domains.levels();
    if level == Topology::NODE {
        return Some(vec![node.spec.name.as_str()]);
    }
    let at = levels.iter().position(|known| **known == *level)?;
    let names = &node.spec.domains;
    (names.len() >= levels.len()).then(|| names[..=at].iter().map(|name| &**name).collect())
}

/// Checks the topology rule of a gang, and its segments.
pub(super) fn check(
    state: &State,
    job: &Job,
    element: ElementId,
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    let Some(wish) = &job.record.spec.constraint.topology else { return };
    let of = |task: &TaskPlacement, level: &Arc<str>| {
        state.pool.get(task.node).and_then(|node| domain(state, node, level))
    };
    let is_together = |tasks: &[TaskPlacement], level| {
        let first = tasks.first().and_then(|task| of(task, level));
        tasks.is_empty() || first.is_some() && tasks.iter().all(|task| of(task, level) == first)
    };
    if let TopologyRule::Required(level) = &wish.rule
        && !is_together(placement, level)
    {
        found.push(Violation::Apart { element, level: Arc::clone(level) });
    }
    let Some(segment) = &wish.segment else { return };
    for group in 0..job.record.spec.groups.len() {
        let tasks: Vec<TaskPlacement> =
            placement.iter().filter(|task| usize::from(task.group) == group).cloned().collect();
        let slices = tasks.chunks(segment.tasks.max(1) as usize);
        if let Some(at) = slices.clone().position(|slice| !is_together(slice, &segment.level)) {
            let level = Arc::clone(&segment.level);
            found.push(Violation::SplitSegment {
                element,
                group: group as u16,
                slice: at as u32,
                level,
            });
        }
    }
}

/// Checks the reservations of a plan.
pub(super) fn check_reserved(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    for one in &plan.reservations {
        if let Some(job) = state.jobs.get(&one.element.job) {
            check(state, job, one.element, &one.placement, found);
        }
    }
}

/// Checks a gang of one group of whole devices that must be spread: no domain may have two tasks
/// more than another one in which one more task would fit. Capacity free after the plan was free at
/// the start, too. Gangs that passed reservations, advance reservations or planned drains are not
/// checked, since free capacity may be reserved for others; nor are gangs that avoid nodes on which
/// they failed.
pub(super) fn check_spread(
    state: &State,
    job: &Job,
    element: ElementId,
    placement: &[TaskPlacement],
    plan: &Plan,
    found: &mut Vec<Violation>,
) {
    let spec = &job.record.spec;
    let (Some(TopologyRule::Spread(level)), [group]) =
        (spec.constraint.topology.as_ref().map(|wish| &wish.rule), &spec.groups[..])
    else {
        return;
    };
    // 1. Skip what cannot be checked by counting.
    let is_backfill = plan.starts().any(|(id, _, backfilled)| id.element == element && backfilled);
    let known = job.record.ordinal_of(element.index).and_then(|at| job.record.elements.get(&at));
    let block = group.tasks_per_node.unwrap_or(1);
    let devices = group.task.gpu.devices;
    let is_plain =
        group.task.cpus.0 == 0 && group.task.memory.0 == 0 && group.task.extras.is_empty();
    if is_backfill
        || state.pool.has_upcoming_drains()
        || !state.pending_allocations.elements.is_empty()
        || plan.decisions.len() > plan.starts().count()
        || !state.advance_reservations.is_empty()
        || known.is_some_and(|known| !known.avoid.is_empty())
        || devices == 0
        || !is_plain
    {
        return;
    }
    let models: BTreeSet<_> = placement.iter().filter_map(|task| model_of(state, task)).collect();
    let Some(model) = models.first().filter(|_| models.len() == 1) else { return };
    // 2. Count what the plan takes of each node, and the tasks of this gang.
    let mut taken: FxHashMap<NodeId, DeviceSet> = FxHashMap::default();
    for task in plan.starts().flat_map(|(_, placement, _)| placement.iter()) {
        let devices = taken.entry(task.node).or_default();
        *devices = devices.or(task.devices);
    }
    let mut own: FxHashMap<NodeId, u32> = FxHashMap::default();
    placement.iter().for_each(|task| *own.entry(task.node).or_default() += 1);
    // 3. By domain: number of tasks, and whether one more fits.
    let mut counts: BTreeMap<Vec<&str>, (u32, bool)> = BTreeMap::new();
    for (index, node) in state.pool.nodes().iter().enumerate() {
        let Some(domain) = domain(state, node, level) else { continue };
        let id = NodeId(index as u32);
        let own = own.get(&id).copied().unwrap_or(0);
        let mut labels = spec.constraint.labels.iter();
        let may_use = node.accepts_work()
            && !spec.constraint.exclude.contains(&node.spec.name)
            && labels.all(|(key, value)| node.spec.labels.get(key) == Some(value))
            && (group.tasks_per_node.is_none() || own == 0);
        let taken = node.touched.or(taken.get(&id).copied().unwrap_or_default());
        let is_wanted =
            |device: &usize| node.spec.devices.get(*device).map(|one| &one.model) == Some(*model);
        let free = node.usable.minus(taken).iter().filter(is_wanted).count();
        let entry = counts.entry(domain).or_default();
        *entry = (entry.0 + own, entry.1 || may_use && free as u32 >= block * devices);
    }
    let most = counts.values().map(|(count, _)| *count).max().unwrap_or(0);
    let least = counts.values().filter(|(_, is_free)| *is_free).map(|(count, _)| *count).min();
    if least.is_some_and(|least| most >= least + 2 * block) {
        found.push(Violation::Uneven { element, level: Arc::clone(level) });
    }
}
