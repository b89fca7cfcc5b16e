//! Checks whether a shape could ever be placed with nothing held. Submissions that certainly cannot
//! are rejected.

use std::sync::Arc;

use muster_model::{DeviceSet, ElementId, JobId, NodeId, Time};

use super::closest::closest;
use super::gang::{self, PlacementOutcome};
use super::request::{ModelCaps, PlacementRequest, model_choices};
use crate::pool::Pool;
use crate::pool::ends::HoldingEnd;
use crate::pool::node::{Interval, Node};
use crate::pool::scalars::Scalars;
use crate::pool::scope::Scope;
use crate::pool::shape::{GroupNeed, Shape};

/// Most search steps for a gang of several groups at its submission: some ten milliseconds, once
/// per class and change of the cluster.
const MAX_SUBMISSION_STEPS: u32 = 16 * super::gang::search::MAX_STEPS;

/// Result of a feasibility check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feasibility {
    Yes,
    No,
    /// No placement was found, and not everything was tried.
    Unknown,
}

/// Returns false only if a shape certainly does not fit on all known nodes, including lost and
/// drained ones, with nothing held.
pub(crate) fn fits_empty_cluster(pool: &Pool, shape: &Shape) -> bool {
    feasibility(pool, shape, &[], CapacityBasis::Known) != Feasibility::No
}

/// Returns true only if a shape fits on the nodes that are in service and stay so, except those to
/// avoid, with at most these amounts of some models.
pub(crate) fn fits_in_service(
    pool: &Pool,
    shape: &Shape,
    avoid: &[NodeId],
    caps: &ModelCaps,
) -> bool {
    feasibility(pool, shape, avoid, CapacityBasis::InService(caps)) == Feasibility::Yes
}

/// Capacity that is considered.
#[derive(Clone, Copy)]
enum CapacityBasis<'a> {
    /// All known nodes, in service or not.
    Known,
    /// Nodes that are in service and have no planned drain, with caps on the GPUs of some models.
    InService(&'a ModelCaps),
}

fn feasibility(
    pool: &Pool,
    shape: &Shape,
    avoid: &[NodeId],
    basis: CapacityBasis<'_>,
) -> Feasibility {
    let caps = match basis {
        CapacityBasis::Known => &[][..],
        CapacityBasis::InService(caps) => caps,
    };
    let inside = shape.reservation.as_ref().map(|name| pool.copy_inside(name));
    let pool = inside.as_ref().unwrap_or(pool);
    if let [group] = &shape.groups[..]
        && caps.is_empty()
    {
        let fits = group_fits(pool, shape, group, avoid, basis);
        return if fits { Feasibility::Yes } else { Feasibility::No };
    }
    // Several groups compete, and so do models with a cap: only an attempt to place them
    // decides. The last choice, each task on any model it accepts, includes all others, which are
    // tried first because they find a placement sooner.
    let mut idle = pool.clone();
    idle.make_idle(matches!(basis, CapacityBasis::InService(_)));
    let pool = &mut idle;
    let eligible = shape.eligible(pool);
    let interval = Interval { now: Time(0), from: Time(0), until: Time::NEVER };
    let shape = Arc::new(shape.clone());
    let mut found = Feasibility::No;
    for choice in &model_choices(pool, &shape, false) {
        let request = PlacementRequest {
            shape: &shape,
            scope: Scope::Cluster,
            choice,
            caps,
            eligible: &eligible,
            avoid,
            last_nodes: &[],
            interval,
            released: None,
            max_steps: MAX_SUBMISSION_STEPS,
            scoring: None,
        };
        match gang::try_place(pool, request, ElementId::single(JobId(0)), HoldingEnd::Never, &shape)
        {
            PlacementOutcome::Placed(..) => return Feasibility::Yes,
            PlacementOutcome::Impossible => {}
            PlacementOutcome::GaveUp => found = Feasibility::Unknown,
        }
    }
    found
}

/// Returns true if the only group of a shape fits with nothing held; exact.
fn group_fits(
    pool: &Pool,
    shape: &Shape,
    group: &GroupNeed,
    avoid: &[NodeId],
    basis: CapacityBasis<'_>,
) -> bool {
    let capacity = |id: NodeId, group: &GroupNeed| match pool.node(id) {
        node if shape.admits(node) && !avoid.contains(&id) => max_tasks_on_node(node, group, basis),
        _ => 0,
    };
    let requested = u64::from(group.tasks);
    match &shape.topology {
        None => {
            // This runs for every new shape: stops at the first nodes that suffice.
            let ids = (0..pool.nodes().len() as u32).map(NodeId);
            let mut sums = ids.scan(0u64, |sum, id| {
                *sum = sum.saturating_add(capacity(id, group));
                Some(*sum)
            });
            requested == 0 || sums.any(|sum| sum >= requested)
        }
        Some(topology) => {
            closest(pool, topology, std::slice::from_ref(group), capacity).tasks >= requested
        }
    }
}

/// Returns how many tasks of a group a node could host with nothing held (whole blocks where it has
/// blocks).
fn max_tasks_on_node(node: &Node, group: &GroupNeed, basis: CapacityBasis<'_>) -> u64 {
    let (devices, quantities) = match (basis, node.availability.ever_unavailable()) {
        (CapacityBasis::Known, _) => {
            (DeviceSet(u128::MAX).minus(node.availability.outside), &node.capacity)
        }
        (CapacityBasis::InService(_), Some(closed)) if node.accepts_work() => {
            (node.usable.minus(closed), &node.limit)
        }
        (CapacityBasis::InService(_), _) => return 0,
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
