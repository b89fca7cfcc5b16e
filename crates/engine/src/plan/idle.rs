//! Could a shape ever be placed, were nothing held? What certainly cannot is refused at submission.

use std::sync::Arc;

use muster_model::{DeviceSet, ElementId, JobId, NodeId, Time};

use super::ask::{Ask, Caps, picks};
use super::closest::closest;
use super::gang::{self, Placing};
use crate::state::ends::End;
use crate::state::node::{Node, Window};
use crate::state::pool::Pool;
use crate::state::scalars::Scalars;
use crate::state::shape::{GroupNeed, Shape};
use crate::state::topology::Scope;

/// Steps of search for a gang of several groups at its submission: some ten milliseconds, once per
/// class and change of the cluster.
const EFFORT: u32 = 16 * super::search::EFFORT;

/// Whether there is a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    /// None was found, and not everything was tried.
    Unknown,
}

/// On all nodes that are known, lost and drained ones included, as if nobody used anything. False
/// only when it is certain that there is no way.
pub(crate) fn fits_idle(pool: &Pool, shape: &Shape) -> bool {
    fit(pool, shape, &[], Site::Known) != Fit::No
}

/// On what takes work now and goes on to do so, but for nodes to avoid, with at most so much of
/// some models. True only when there is a way.
pub(crate) fn fits_working(pool: &Pool, shape: &Shape, avoid: &[NodeId], caps: &Caps) -> bool {
    fit(pool, shape, avoid, Site::Working(caps)) == Fit::Yes
}

/// What there is to place on.
#[derive(Clone, Copy)]
enum Site<'a> {
    /// Everything that is known.
    Known,
    /// What is in service and will stay so, and how much of some models may be held of it.
    Working(&'a Caps),
}

fn fit(pool: &Pool, shape: &Shape, avoid: &[NodeId], site: Site<'_>) -> Fit {
    let caps = match site {
        Site::Known => &[][..],
        Site::Working(caps) => caps,
    };
    let inside = shape.window.as_ref().map(|window| pool.inside(window));
    let pool = inside.as_ref().unwrap_or(pool);
    if let [group] = &shape.groups[..]
        && caps.is_empty()
    {
        let room = |id: NodeId, group: &GroupNeed| match pool.node(id) {
            node if shape.admits(node) && !avoid.contains(&id) => tasks_on_idle(node, group, site),
            _ => 0,
        };
        let asked = u64::from(group.tasks);
        let fits = match &shape.topology {
            None => {
                // Every new shape asks this: no more nodes are looked at than are enough.
                let ids = (0..pool.nodes().len() as u32).map(NodeId);
                let mut sums = ids.scan(0u64, |sum, id| {
                    *sum = sum.saturating_add(room(id, group));
                    Some(*sum)
                });
                asked == 0 || sums.any(|sum| sum >= asked)
            }
            Some(wish) => closest(pool, wish, std::slice::from_ref(group), room).tasks >= asked,
        };
        return if fits { Fit::Yes } else { Fit::No };
    }
    // Several groups compete, and so do models with a cap: only placing them tells. The last try,
    // each task on whichever model it accepts, covers all others; the others only find a way
    // sooner.
    let mut idle = pool.clone();
    idle.make_idle(matches!(site, Site::Working(_)));
    let pool = &mut idle;
    let eligible = shape.eligible(pool);
    let window = Window { now: Time(0), from: Time(0), until: Time::NEVER };
    let shape = Arc::new(shape.clone());
    let mut found = Fit::No;
    for pick in &picks(pool, &shape, false) {
        let (eligible, effort) = (&eligible, EFFORT);
        let ask = Ask {
            shape: &shape,
            scope: Scope::Cluster,
            pick,
            caps,
            eligible,
            avoid,
            home: &[],
            window,
            freed: None,
            effort,
            scoring: None,
        };
        match gang::try_place(pool, ask, ElementId::single(JobId(0)), End::Never, &shape) {
            Placing::Placed(..) => return Fit::Yes,
            Placing::Impossible => {}
            Placing::GaveUp => found = Fit::Unknown,
        }
    }
    found
}

/// How many tasks of a group a node could host, were nothing held (whole blocks where it has
/// blocks).
fn tasks_on_idle(node: &Node, group: &GroupNeed, site: Site<'_>) -> u64 {
    let (devices, quantities) = match (site, node.walls.ever()) {
        (Site::Known, _) => (DeviceSet(u128::MAX).minus(node.walls.outside), &node.capacity),
        (Site::Working(_), Some(closed)) if node.hosts() => {
            (node.usable.minus(closed), &node.limit)
        }
        (Site::Working(_), _) => return 0,
    };
    let on_model = |devices: u64| match (group.devices, group.share) {
        (0, share) => devices * (1000 / u64::from(share)),
        (per_task, _) => devices / u64::from(per_task),
    };
    let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
    let by_model = accepted.map(|(_, of_model)| u64::from(of_model.and(devices).len()));
    let by_gpu = match group.per_node {
        _ if !group.wants_gpu() => u64::MAX,
        None => by_model.map(on_model).sum(),
        // All tasks of a block are of one model.
        Some(_) => by_model.map(on_model).max().unwrap_or(0),
    };
    let tasks = by_gpu.min(quantities.fits(&Scalars::default(), &group.scalars));
    match group.per_node {
        None => tasks,
        Some(block) if tasks >= u64::from(block) => u64::from(block),
        Some(_) => 0,
    }
}
