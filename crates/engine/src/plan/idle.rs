//! Could a shape ever be placed, were nothing held? What this refuses is refused at submission.

use std::sync::Arc;

use muster_model::{ElementId, JobId, NodeId, Time};

use super::ask::{Ask, picks};
use super::gang;
use crate::state::ends::End;
use crate::state::node::{Node, Window};
use crate::state::pool::Pool;
use crate::state::scalars::Scalars;
use crate::state::shape::{GroupNeed, Shape};

/// On all nodes that are known, lost and drained ones included, as if nobody used anything.
pub(crate) fn fits_idle(pool: &Pool, shape: &Shape, avoid: &[NodeId]) -> bool {
    fits(pool, shape, avoid, false)
}

/// On the nodes that take work now.
pub(crate) fn fits_working(pool: &Pool, shape: &Shape, avoid: &[NodeId]) -> bool {
    fits(pool, shape, avoid, true)
}

fn fits(pool: &Pool, shape: &Shape, avoid: &[NodeId], working: bool) -> bool {
    if let [group] = &shape.groups[..] {
        return tasks_when_idle(pool, shape, group, avoid, working) >= u64::from(group.tasks);
    }
    // Several groups compete: only placing them tells.
    let mut idle = pool.clone();
    idle.make_idle(working);
    let pool = &mut idle;
    let eligible = shape.eligible(pool);
    let window = Window { now: Time(0), from: Time(0), until: Time::NEVER };
    let shape = Arc::new(shape.clone());
    picks(pool, &shape).iter().any(|pick| {
        let ask = Ask { shape: &shape, pick, caps: &[], eligible: &eligible, avoid, window, freed: None };
        gang::place(pool, ask, ElementId::single(JobId(0)), End::Never, &shape).is_some()
    })
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
