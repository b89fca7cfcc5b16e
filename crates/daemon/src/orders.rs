//! Orders for a backend: an effect joined with the job's spec and payload and the nodes' devices.
//! Makes no choices: every node and device comes from the effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_backends::order::{GangOrder, ReplicaOrder, TaskOrder};
use muster_model::{AttemptId, NodeId, NodeSpec, Payload, Rank, TaskPlacement};
use muster_runtime::engine::Engine;

/// Part that is missing for an order. Each is an internal error or a damaged store: the gang is
/// reported as refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MissingPart {
    /// The job is not in memory.
    #[error("the job is not known")]
    Job,
    /// Its command and environment are not in the store.
    #[error("its command and environment are missing from the store")]
    Payload,
    /// The node is unknown.
    #[error("node {0} is not known")]
    Node(NodeId),
    /// The task group has no command.
    #[error("group `{0}` has no command")]
    Command(Arc<str>),
}

/// Makes the order that carries out [`muster_model::Effect::Prepare`].
pub(crate) fn gang_order(
    engine: &Engine,
    id: AttemptId,
    placement: &[TaskPlacement],
    payload: Option<&Payload>,
) -> Result<GangOrder, MissingPart> {
    let spec = engine.job_spec(id.element.job).ok_or(MissingPart::Job)?;
    let payload = payload.ok_or(MissingPart::Payload)?;
    let index = id.element.index;
    let mut env = payload.env.clone();
    env.extend(payload.sweep.iter().flat_map(|sweep| muster_sweep::variables(sweep, index)));
    let mut hosts = GangNodes::of(placement);
    let mut tasks = Vec::with_capacity(placement.len());
    for (rank, place) in (0..).map(Rank).zip(placement) {
        let group = spec.groups.get(usize::from(place.group)).ok_or(MissingPart::Job)?;
        let command = payload.commands.get(&group.name);
        let command = command.ok_or_else(|| MissingPart::Command(group.name.clone()))?;
        let node = engine.node_spec(place.node).ok_or(MissingPart::Node(place.node))?;
        let (node_rank, local_rank, local_world_size) = hosts.assign(place.node);
        tasks.push(TaskOrder {
            rank,
            group: group.name.clone(),
            command: match &payload.sweep {
                Some(sweep) => muster_sweep::command(command, sweep, index),
                None => command.clone(),
            },
            node: node.name.clone(),
            node_rank,
            local_rank,
            local_world_size,
            devices: place.devices,
            device_names: device_names(node, place),
            virtual_devices: place
                .devices
                .iter()
                .any(|index| device(node, index).is_some_and(|found| found.is_virtual)),
            share: place.share,
            cpus: group.task.cpus,
            memory: group.task.memory,
        });
    }
    Ok(GangOrder {
        id,
        job_name: spec.name.clone(),
        array_index: spec.array.is_some().then_some(index),
        identity: payload.identity.clone(),
        env,
        workdir: payload.workdir.clone(),
        umask: payload.umask,
        interactive: payload.interactive,
        files: payload.files.clone(),
        environment: payload.environment.clone(),
        time_limit: spec.time_limit,
        grace: spec.grace,
        checkpoint: spec.checkpoint,
        last_checkpoint: engine.last_checkpoint(id.element),
        replica: spec.service().map(|service| ReplicaOrder { index, port: service.port_of(index) }),
        idle: spec.idle(),
        metric: payload.sweep.as_ref().and_then(|sweep| sweep.metric.clone()),
        // A single task waits for no other rank, so it needs no further step of the engine.
        starts_at_once: tasks.len() == 1,
        tasks,
    })
}

/// Returns the values for the visible-devices variables: the vendor's name of a device, or its
/// index when it has none.
fn device_names(node: &NodeSpec, place: &TaskPlacement) -> Vec<Arc<str>> {
    let name = |index: usize| match device(node, index) {
        Some(device) if !device.uuid.is_empty() => device.uuid.clone(),
        Some(_) | None => index.to_string().into(),
    };
    place.devices.iter().map(name).collect()
}

fn device(node: &NodeSpec, index: usize) -> Option<&muster_model::Device> {
    node.devices.get(index)
}

/// Nodes of a gang in order of first rank, with the number of tasks per node and of ranks assigned
/// so far.
struct GangNodes {
    by_node: BTreeMap<NodeId, NodeRanks>,
}

struct NodeRanks {
    node_rank: u32,
    tasks: u32,
    assigned: u32,
}

impl GangNodes {
    fn of(placement: &[TaskPlacement]) -> Self {
        let mut by_node: BTreeMap<NodeId, NodeRanks> = BTreeMap::new();
        for place in placement {
            let next = by_node.len() as u32;
            by_node
                .entry(place.node)
                .or_insert(NodeRanks { node_rank: next, tasks: 0, assigned: 0 })
                .tasks += 1;
        }
        Self { by_node }
    }

    /// Assigns the next task on a node; returns its node rank, local rank and local world size.
    fn assign(&mut self, node: NodeId) -> (u32, u32, u32) {
        let host = self.by_node.get_mut(&node).expect("every node of the placement was counted");
        host.assigned += 1;
        (host.node_rank, host.assigned - 1, host.tasks)
    }
}

#[cfg(test)]
mod tests {
    use muster_model::DeviceSet;
    use muster_model::unit::GpuMilli;

    use super::*;

    #[test]
    fn ranks_on_a_node_are_counted_in_order_of_rank() {
        let place = |node| TaskPlacement {
            group: 0,
            node: NodeId(node),
            devices: DeviceSet::EMPTY,
            share: GpuMilli(0),
        };
        let placement = [place(7), place(3), place(7), place(3), place(7)];
        let mut hosts = GangNodes::of(&placement);
        let seats: Vec<_> = placement.iter().map(|place| hosts.assign(place.node)).collect();
        assert_eq!(seats, [(0, 0, 3), (1, 0, 2), (0, 1, 3), (1, 1, 2), (0, 2, 3)]);
    }
}
