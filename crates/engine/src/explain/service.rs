//! What an element could use, and an administrator took out of service or set aside for others.

use muster_model::view::{OutOfService, SetAside, device_indices};

use crate::state::State;
use crate::state::node::Node;
use crate::state::shape::Shape;
use crate::state::window::times;

/// At most this many are named.
const MOST: usize = 10;

/// By name of the node: the node as a whole, then devices of it.
pub(super) fn of(state: &State, shape: &Shape) -> Vec<OutOfService> {
    let by_name =
        (0..state.pool.nodes().len() as u32).map(|rank| state.pool.node(state.pool.at_rank(rank)));
    let usable = by_name.filter(|node| node.up && !node.drains.is_empty() && shape.admits(node));
    usable.flat_map(|node| of_node(node, shape)).take(MOST).collect()
}

/// By name of the node and of the window: what windows of others keep now.
pub(super) fn set_aside(state: &State, shape: &Shape) -> Vec<SetAside> {
    let by_name =
        (0..state.pool.nodes().len() as u32).map(|rank| state.pool.node(state.pool.at_rank(rank)));
    let claimed = by_name.filter(|node| node.up && shape.admits(node));
    let claims = claimed.flat_map(|node| node.claims.iter().map(move |claim| (node, claim)));
    let kept = claims.filter_map(|(node, claim)| {
        let window = &claim.window;
        let (_, ends) = times::open_at(&window.times, state.pool.seen())?;
        let devices = claim.devices.map(device_indices).unwrap_or_default();
        let is_others = shape.window.as_ref() != Some(&window.name);
        let (node, window) = (node.spec.name.clone(), window.name.clone());
        is_others.then_some(SetAside { node, devices, window, ends })
    });
    kept.take(MOST).collect()
}

fn of_node(node: &Node, shape: &Shape) -> Vec<OutOfService> {
    let name = &node.spec.name;
    let whole = node.drains.node.iter();
    let mut found: Vec<OutOfService> = whole
        .map(|drain| OutOfService { node: name.clone(), devices: Vec::new(), drain: drain.clone() })
        .collect();
    for device in 0..node.spec.devices.len() {
        let model = node.model_of(device);
        let is_wanted = shape
            .groups
            .iter()
            .any(|group| group.wants_gpu() && model.is_some_and(|model| group.accepts(model)));
        let Some(drain) = node.drains.of_device(&node.spec, device).filter(|_| is_wanted) else {
            continue;
        };
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
