//! What is missing: the numbers behind "not enough is free". Counting only; it places nothing.

use muster_model::reason::{CapacityGap, Limiting};
use muster_model::{Bytes, CpuMilli, GpuMilli};
use muster_policy::Models;

use crate::state::node::{Node, WHOLE};
use crate::state::pool::Pool;
use crate::state::scalars::Scalars;
use crate::state::shape::{Eligible, GroupNeed, Shape};

/// Whether to count what is free now, or everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    FreeNow,
    WhenIdle,
}

/// What is missing right now, for the first group that does not fit.
pub(crate) fn now(pool: &Pool, models: &Models, shape: &Shape, eligible: &Eligible) -> CapacityGap {
    let admits = |id: usize, node: &Node| {
        node.hosts() && eligible.as_ref().is_none_or(|eligible| eligible.get(id).copied().unwrap_or(false))
    };
    gap(pool, models, shape, Count::FreeNow, admits)
}

/// What would be missing on an idle cluster.
pub(crate) fn when_idle(pool: &Pool, models: &Models, shape: &Shape) -> CapacityGap {
    gap(pool, models, shape, Count::WhenIdle, |_, node| shape.admits(node))
}

/// True when some group could not be placed even if it were alone and nothing were reserved.
pub(crate) fn is_short(gap: &CapacityGap) -> bool {
    gap.tasks_placeable < gap.tasks_needed
}

fn gap(
    pool: &Pool,
    models: &Models,
    shape: &Shape,
    count: Count,
    admits: impl Fn(usize, &Node) -> bool,
) -> CapacityGap {
    let nodes: Vec<&Node> = pool
        .nodes()
        .iter()
        .enumerate()
        .filter(|(id, node)| admits(*id, node))
        .map(|(_, node)| node)
        .collect();
    let placeable = |group: &GroupNeed| {
        nodes.iter().map(|node| room(node, group, count, Rooms::ALL)).fold(0u64, u64::saturating_add)
    };
    let short = shape.groups.iter().find(|group| placeable(group) < u64::from(group.tasks));
    let group = short.unwrap_or(&shape.groups[0]);
    let gpus = |count| milli(nodes.iter().map(|node| gpu_milli(node, group, count)).sum());
    CapacityGap {
        group: group.name.to_string(),
        tasks_needed: group.tasks,
        tasks_placeable: placeable(group).min(u64::from(group.tasks)) as u32,
        gpus_per_task: GpuMilli(group.milli() as u32),
        models: group.models.iter().flatten().map(|model| models.name(*model).clone()).collect(),
        gpus_free: gpus(count),
        gpus_total: gpus(Count::WhenIdle),
        nodes_eligible: nodes.len() as u32,
        nodes_fitting: nodes.iter().filter(|node| room(node, group, count, Rooms::ALL) > 0).count() as u32,
        limiting: limiting(&nodes, group, count),
    }
}

fn milli(sum: u64) -> GpuMilli {
    GpuMilli(u32::try_from(sum).unwrap_or(u32::MAX))
}

/// Thousandths of accepted models on a node.
fn gpu_milli(node: &Node, group: &GroupNeed, count: Count) -> u64 {
    let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
    let devices = accepted.flat_map(|(_, devices)| devices.iter());
    devices.map(|device| free_milli(node, device, count)).sum()
}

/// How many tasks of a group a node has room for.
pub(super) fn room_for(node: &Node, group: &GroupNeed, count: Count) -> u64 {
    room(node, group, count, Rooms::ALL)
}

/// Thousandths of models that some group accepts on a node.
pub(super) fn milli_for(node: &Node, shape: &Shape, count: Count) -> u64 {
    let accepts = |model| shape.groups.iter().any(|group| group.wants_gpu() && group.accepts(model));
    let devices =
        node.models.iter().filter(|(model, _)| accepts(*model)).flat_map(|(_, devices)| devices.iter());
    devices.map(|device| free_milli(node, device, count)).sum()
}

fn free_milli(node: &Node, device: usize, count: Count) -> u64 {
    match count {
        Count::WhenIdle => u64::from(WHOLE),
        Count::FreeNow if node.usable.contains(device) => {
            u64::from(WHOLE.saturating_sub(node.held_of(device)))
        }
        Count::FreeNow => 0,
    }
}

/// Which resources to look at.
#[derive(Clone, Copy)]
struct Rooms {
    gpus: bool,
    blocks: bool,
    cpus: bool,
    memory: bool,
    extras: bool,
}

impl Rooms {
    const ALL: Rooms = Rooms { gpus: true, blocks: true, cpus: true, memory: true, extras: true };
    const NONE: Rooms = Rooms { gpus: false, blocks: false, cpus: false, memory: false, extras: false };
}

/// How many tasks of a group a node has room for.
fn room(node: &Node, group: &GroupNeed, count: Count, rooms: Rooms) -> u64 {
    let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
    let free = match count {
        Count::FreeNow => node.free(),
        Count::WhenIdle => muster_model::DeviceSet::first(node.spec.devices.len()),
    };
    let held = |device| match count {
        Count::FreeNow => node.held_of(device),
        Count::WhenIdle => 0,
    };
    let may_use = |device: usize| count == Count::WhenIdle || node.usable.contains(device);
    let by_gpu = match (group.devices, group.share) {
        (0, 0) => u64::MAX,
        _ if !rooms.gpus => u64::MAX,
        (0, share) => accepted
            .flat_map(|(_, devices)| devices.iter())
            .filter(|device| may_use(*device))
            .map(|device| u64::from(WHOLE.saturating_sub(held(device)) / share))
            .sum(),
        (per_task, _) => accepted.map(|(_, devices)| u64::from(devices.and(free).len() / per_task)).sum(),
    };
    let (limit, used) = match count {
        Count::FreeNow => (&node.limit, node.used.clone()),
        Count::WhenIdle => (&node.capacity, Scalars::default()),
    };
    let need = Scalars {
        cpus: if rooms.cpus { group.scalars.cpus } else { 0 },
        memory: if rooms.memory { group.scalars.memory } else { 0 },
        extras: if rooms.extras { group.scalars.extras.clone() } else { Vec::new() },
    };
    let tasks = by_gpu.min(limit.fits(&used, &need)).min(u64::from(group.tasks));
    match group.per_node.filter(|_| rooms.blocks) {
        Some(block) if tasks < u64::from(block) => 0,
        Some(block) => u64::from(block),
        None => tasks,
    }
}

/// The resource that runs out first: the first that alone keeps the group from fitting.
fn limiting(nodes: &[&Node], group: &GroupNeed, count: Count) -> Limiting {
    let sum =
        |rooms| nodes.iter().map(|node| room(node, group, count, rooms)).fold(0u64, u64::saturating_add);
    let short = |rooms: Rooms| sum(rooms) < u64::from(group.tasks);
    let has_model = nodes.iter().any(|node| node.models.iter().any(|(model, _)| group.accepts(*model)));
    if nodes.is_empty() || group.wants_gpu() && !has_model {
        return Limiting::Constraint;
    }
    if short(Rooms { gpus: true, ..Rooms::NONE }) {
        return Limiting::Gpus;
    }
    if short(Rooms { gpus: true, blocks: true, ..Rooms::NONE }) {
        return Limiting::Nodes;
    }
    let most_free = |of: fn(&Scalars) -> u64| {
        let free = |node: &Node| match count {
            Count::FreeNow => of(&node.limit).saturating_sub(of(&node.used)),
            Count::WhenIdle => of(&node.capacity),
        };
        nodes.iter().map(|node| free(node)).max().unwrap_or(0)
    };
    let cpus = Limiting::Cpus {
        asked: CpuMilli(group.scalars.cpus as u32),
        free: CpuMilli(u32::try_from(most_free(|scalars| scalars.cpus)).unwrap_or(u32::MAX)),
    };
    let memory = Limiting::Memory {
        asked: Bytes(group.scalars.memory),
        free: Bytes(most_free(|scalars| scalars.memory)),
    };
    if short(Rooms { cpus: true, blocks: true, ..Rooms::NONE }) {
        return cpus;
    }
    if short(Rooms { memory: true, blocks: true, ..Rooms::NONE }) {
        return memory;
    }
    if short(Rooms { extras: true, blocks: true, ..Rooms::NONE }) {
        return Limiting::Extras;
    }
    // Each resource alone would do; together they do not, on the nodes where they are.
    match (group.wants_gpu(), group.scalars.cpus > 0) {
        (_, true) => cpus,
        (true, false) => Limiting::Gpus,
        (false, false) => memory,
    }
}
