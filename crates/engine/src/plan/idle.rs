//! Could a shape ever be placed, were nothing held? What certainly cannot is refused at submission.

use std::sync::Arc;

use muster_model::{ElementId, JobId, NodeId, Time};

use super::ask::{Ask, picks};
use super::closest::closest;
use super::gang::{self, Placing};
use crate::state::ends::End;
use crate::state::node::{Node, Window};
use crate::state::pool::Pool;
use crate::state::scalars::Scalars;
use crate::state::shape::{GroupNeed, Shape};
use crate::state::topology::Scope;

/// Steps of search for a gang of several groups at its submission: some ten milliseconds, once per class and change of
/// the cluster.
const EFFORT: u32 = 16 * super::search::EFFORT;

/// Whether there is a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    /// None was found, and not everything was tried.
    Unknown,
}

/// On all nodes that are known, lost and drained ones included, as if nobody used anything. False only when it is
/// certain that there is no way.
pub(crate) fn fits_idle(pool: &Pool, shape: &Shape, avoid: &[NodeId]) -> bool {
    fit(pool, shape, avoid, false) != Fit::No
}

/// On the nodes that take work now. True only when there is a way.
pub(crate) fn fits_working(pool: &Pool, shape: &Shape, avoid: &[NodeId]) -> bool {
    fit(pool, shape, avoid, true) == Fit::Yes
}

fn fit(pool: &Pool, shape: &Shape, avoid: &[NodeId], working: bool) -> Fit {
    if let [group] = &shape.groups[..] {
        let most = match &shape.topology {
            None => tasks_when_idle(pool, shape, group, avoid, working),
            Some(wish) => {
                let is_usable = |id: NodeId, node: &Node| {
                    (!working || node.hosts()) && shape.admits(node) && !avoid.contains(&id)
                };
                let room = |id: NodeId, group: &GroupNeed| match pool.node(id) {
                    node if is_usable(id, node) => tasks_on_idle(node, group),
                    _ => 0,
                };
                closest(pool, wish, std::slice::from_ref(group), room).tasks
            }
        };
        let fits = most >= u64::from(group.tasks);
        return if fits { Fit::Yes } else { Fit::No };
    }
    // Several groups compete: only placing them tells. The last try, each task on whichever model it accepts, covers
    // all others; the others only find a way sooner.
    let mut idle = pool.clone();
    idle.make_idle(working);
    let pool = &mut idle;
    let eligible = shape.eligible(pool);
    let window = Window { now: Time(0), from: Time(0), until: Time::NEVER };
    let shape = Arc::new(shape.clone());
    let mut found = Fit::No;
    for pick in &picks(pool, &shape) {
        let (eligible, effort) = (&eligible, EFFORT);
        let ask = Ask {
            shape: &shape,
            scope: Scope::Cluster,
            pick,
            caps: &[],
            eligible,
            avoid,
            window,
            freed: None,
            effort,
        };
        match gang::try_place(pool, ask, ElementId::single(JobId(0)), End::Never, &shape) {
            Placing::Placed(..) => return Fit::Yes,
            Placing::Impossible => {}
            Placing::GaveUp => found = Fit::Unknown,
        }
    }
    found
}

/// How many tasks of one group all nodes together could host, were nothing held (whole blocks where it has blocks).
pub(crate) fn tasks_when_idle(
    pool: &Pool,
    shape: &Shape,
    group: &GroupNeed,
    avoid: &[NodeId],
    working: bool,
) -> u64 {
    let nodes = pool.nodes().iter().enumerate();
    let usable = nodes.filter(|(id, node)| {
        (!working || node.hosts()) && shape.admits(node) && !avoid.contains(&NodeId(*id as u32))
    });
    usable.fold(0u64, |sum, (_, node)| sum.saturating_add(tasks_on_idle(node, group)))
}

fn tasks_on_idle(node: &Node, group: &GroupNeed) -> u64 {
    let on_model = |devices: u64| match (group.devices, group.share) {
        (0, share) => devices * (1000 / u64::from(share)),
        (per_task, _) => devices / u64::from(per_task),
    };
    let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
    let by_model = accepted.map(|(_, devices)| u64::from(devices.len()));
    let by_gpu = match group.per_node {
        _ if !group.wants_gpu() => u64::MAX,
        None => by_model.map(on_model).sum(),
        // All tasks of a block are of one model.
        Some(_) => by_model.map(on_model).max().unwrap_or(0),
    };
    let tasks = by_gpu.min(node.capacity.fits(&Scalars::default(), &group.scalars));
    match group.per_node {
        None => tasks,
        Some(block) if tasks >= u64::from(block) => u64::from(block),
        Some(_) => 0,
    }
}
