//! Resources that an element could use but that are drained, in use outside Muster, or reserved for
//! other jobs.

use muster_model::view::{OutOfService, ReservedCapacity, UsedOutside, device_indices};

use crate::pool::availability::times;
use crate::pool::node::Node;
use crate::pool::shape::Shape;
use crate::state::State;
use crate::state::view::foreign_processes;

/// Maximum number of entries that are named.
const MAX_NAMED: usize = 10;

/// Returns drained nodes and devices by name of the node: the whole node, then devices.
pub(super) fn of(state: &State, shape: &Shape) -> Vec<OutOfService> {
    let by_name =
        (0..state.pool.nodes().len() as u32).map(|rank| state.pool.node(state.pool.at_rank(rank)));
    let usable = by_name.filter(|node| node.up && !node.drains.is_empty() && shape.admits(node));
    usable.flat_map(|node| of_node(node, shape)).take(MAX_NAMED).collect()
}

/// Returns devices in use outside Muster, by name of the node.
pub(super) fn used_outside(state: &State, shape: &Shape) -> Vec<UsedOutside> {
    let by_name =
        (0..state.pool.nodes().len() as u32).map(|rank| state.pool.node(state.pool.at_rank(rank)));
    let used = by_name.filter(|node| node.up && shape.admits(node)).filter_map(|node| {
        let devices: Vec<u16> = (0..node.spec.devices.len())
            .filter(|device| node.foreign.devices.contains(*device) && wants(shape, node, *device))
            .map(|device| device as u16)
            .collect();
        let processes = foreign_processes(node, &devices);
        let node = node.spec.name.clone();
        (!devices.is_empty()).then_some(UsedOutside { node, devices, processes })
    });
    used.take(MAX_NAMED).collect()
}

/// Returns true when a task of the element could use this device of a node.
fn wants(shape: &Shape, node: &Node, device: usize) -> bool {
    let model = node.model_of(device);
    let mut groups = shape.groups.iter();
    groups.any(|group| group.wants_gpu() && model.is_some_and(|model| group.accepts(model)))
}

/// Returns what reservations of other jobs hold now, by name of the node and of the reservation.
pub(super) fn set_aside(state: &State, shape: &Shape) -> Vec<ReservedCapacity> {
    let by_name =
        (0..state.pool.nodes().len() as u32).map(|rank| state.pool.node(state.pool.at_rank(rank)));
    let nodes = by_name.filter(|node| node.up && shape.admits(node));
    let reservations =
        nodes.flat_map(|node| node.reservations.iter().map(move |reserved| (node, reserved)));
    let held = reservations.filter_map(|(node, reserved)| {
        let reservation = &reserved.reservation;
        let (_, ends) = times::active_at(&reservation.times, state.pool.in_force_until())?;
        let devices = reserved.devices.map(device_indices).unwrap_or_default();
        let is_others = shape.reservation.as_ref() != Some(&reservation.name);
        let node = node.spec.name.clone();
        let reservation = reservation.name.clone();
        is_others.then_some(ReservedCapacity {
            node,
            devices,
            advance_reservation: reservation,
            ends,
        })
    });
    held.take(MAX_NAMED).collect()
}

fn of_node(node: &Node, shape: &Shape) -> Vec<OutOfService> {
    let name = &node.spec.name;
    let whole = node.drains.node.iter();
    let mut found: Vec<OutOfService> = whole
        .map(|drain| OutOfService { node: name.clone(), devices: Vec::new(), drain: drain.clone() })
        .collect();
    for device in 0..node.spec.devices.len() {
        let drain = node.drains.of_device(&node.spec, device);
        let Some(drain) = drain.filter(|_| wants(shape, node, device)) else { continue };
        match found.iter_mut().find(|one| !one.devices.is_empty() && one.drain == *drain) {
            Some(one) => one.devices.push(device as u16),
            None => {
                let devices = vec![device as u16];
                found.push(OutOfService { node: name.clone(), devices, drain: drain.clone() });
            }
        }
    }
    found
}
