//! What is missing: the numbers behind "not enough is free". Counting only; it places nothing.

use std::collections::BTreeMap;

use muster_model::reason::{CapacityGap, Limiting};
use muster_model::{Bytes, CpuMilli, GpuMilli, NodeId};
use muster_policy::{ModelId, Models};

use super::beside;
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

/// Where and on what is counted, beside what the shape says.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) eligible: &'a Eligible,
    pub(crate) avoid: &'a [NodeId],
    /// The most that quota admits of a model.
    pub(crate) caps: &'a [(ModelId, u64)],
}

/// What is missing right now.
pub(crate) fn now(pool: &Pool, models: &Models, shape: &Shape, terms: Terms<'_>) -> CapacityGap {
    let admits = |id: NodeId, node: &Node| {
        is_in_service(node)
            && terms
                .eligible
                .as_ref()
                .is_none_or(|eligible| eligible.get(id.0 as usize) == Some(&true))
            && !terms.avoid.contains(&id)
    };
    gap(pool, models, shape, Count::FreeNow, terms.caps, admits)
}

/// Up and not drained. What a window of others keeps just now is there, and not free.
pub(super) fn is_in_service(node: &Node) -> bool {
    node.up && !node.walls.is_drained
}

/// What would be missing on an idle cluster.
pub(crate) fn when_idle(pool: &Pool, models: &Models, shape: &Shape) -> CapacityGap {
    gap(pool, models, shape, Count::WhenIdle, &[], |_, node| shape.admits(node))
}

/// True when some group could not be placed beside the others, even if nothing were reserved.
pub(crate) fn is_short(gap: &CapacityGap) -> bool {
    gap.tasks_placeable < gap.tasks_needed
}

fn gap(
    pool: &Pool,
    models: &Models,
    shape: &Shape,
    count: Count,
    caps: &[(ModelId, u64)],
    admits: impl Fn(NodeId, &Node) -> bool,
) -> CapacityGap {
    let all = (0u32..).map(NodeId).zip(pool.nodes());
    let nodes: Vec<&Node> =
        all.filter(|(id, node)| admits(*id, node)).map(|(_, node)| node).collect();
    // 1. Which group it is that does not fit: alone, or else beside the others.
    let need = |at: &u16| Need { group: &shape.groups[usize::from(*at)], caps };
    let placeable = |need: &Need<'_>| need.fits(&nodes, count, Rooms::ALL);
    let alone =
        shape.order.iter().find(|at| placeable(&need(at)) < u64::from(need(at).group.tasks));
    let crowd = match alone {
        None if shape.groups.len() > 1 => beside::short(&nodes, shape, count, caps),
        _ => None,
    };
    let at = alone.copied().or(crowd.as_ref().map(|crowd| crowd.group)).unwrap_or(shape.order[0]);
    let need = need(&at);
    let group = need.group;
    // 2. What is missing for it.
    let placeable = crowd.as_ref().map_or_else(|| placeable(&need), |crowd| crowd.placed);
    let beside = crowd.iter().flat_map(|crowd| &crowd.beside);
    let gpus = |count| milli(need.free(&nodes, count));
    CapacityGap {
        group: group.name.to_string(),
        tasks_needed: group.tasks,
        tasks_placeable: placeable.min(u64::from(group.tasks)) as u32,
        tasks_per_node: group.per_node,
        beside: beside.map(|at| shape.groups[usize::from(*at)].name.to_string()).collect(),
        gpus_per_task: GpuMilli(group.milli() as u32),
        models: need.models(pool).into_iter().map(|model| models.name(model).clone()).collect(),
        gpus_free: gpus(count),
        gpus_total: gpus(Count::WhenIdle),
        nodes_eligible: nodes.len() as u32,
        nodes_fitting: nodes.iter().filter(|node| room(node, &need, count, Rooms::ALL) > 0).count()
            as u32,
        limiting: limiting(&nodes, &need, count),
    }
}

/// A group, and what quota leaves it.
#[derive(Clone, Copy)]
pub(super) struct Need<'a> {
    pub(super) group: &'a GroupNeed,
    pub(super) caps: &'a [(ModelId, u64)],
}

impl Need<'_> {
    /// True when it takes this model, and quota admits any of it.
    pub(super) fn accepts(&self, model: ModelId) -> bool {
        self.group.accepts(model) && self.cap(model).is_none_or(|cap| cap >= self.group.milli())
    }

    fn cap(&self, model: ModelId) -> Option<u64> {
        self.caps.iter().find(|(known, _)| *known == model).map(|(_, cap)| *cap)
    }

    /// Models that it takes; empty is any.
    fn models(&self, pool: &Pool) -> Vec<ModelId> {
        let refused = pool.models().any(|model| self.group.accepts(model) && !self.accepts(model));
        match &self.group.models {
            None if refused => pool.models().filter(|model| self.accepts(*model)).collect(),
            models => {
                models.iter().flatten().copied().filter(|model| self.accepts(*model)).collect()
            }
        }
    }

    /// Thousandths of accepted models on the nodes; of what is free, as much as quota admits.
    fn free(&self, nodes: &[&Node], count: Count) -> u64 {
        let mut by_model: BTreeMap<ModelId, u64> = BTreeMap::new();
        for node in nodes {
            for (model, devices) in node.models.iter().filter(|(model, _)| self.accepts(*model)) {
                let free = devices.iter().map(|device| free_milli(node, device, count));
                *by_model.entry(*model).or_default() += free.sum::<u64>();
            }
        }
        let cap = |model| if count == Count::FreeNow { self.cap(model) } else { None };
        by_model.into_iter().map(|(model, free)| cap(model).map_or(free, |cap| free.min(cap))).sum()
    }

    /// How many tasks the nodes have room for, within what quota admits.
    fn fits(&self, nodes: &[&Node], count: Count, rooms: Rooms) -> u64 {
        let sum = |of: &dyn Fn(&Node) -> u64| {
            nodes.iter().map(|node| of(node)).fold(0, u64::saturating_add)
        };
        let all = sum(&|node| room(node, self, count, rooms));
        // What is free of a model beyond its cap is of no use.
        let beyond = |(model, cap): &(ModelId, u64)| {
            let free = sum(&|node| room_on(node, self, count, rooms, |other| other == *model));
            free.saturating_sub(cap.checked_div(self.group.milli()).unwrap_or(u64::MAX))
        };
        let capped = self.caps.iter().filter(|(model, _)| rooms.gpus && self.accepts(*model));
        all.saturating_sub(capped.map(beyond).sum())
    }
}

fn milli(sum: u64) -> GpuMilli {
    GpuMilli(u32::try_from(sum).unwrap_or(u32::MAX))
}

/// How many tasks of a group a node has room for.
pub(super) fn room_for(node: &Node, group: &GroupNeed, count: Count) -> u64 {
    room(node, &Need { group, caps: &[] }, count, Rooms::ALL)
}

/// Thousandths of models that some group accepts on a node.
pub(super) fn milli_for(node: &Node, shape: &Shape, count: Count) -> u64 {
    let accepts =
        |model| shape.groups.iter().any(|group| group.wants_gpu() && group.accepts(model));
    let devices = node
        .models
        .iter()
        .filter(|(model, _)| accepts(*model))
        .flat_map(|(_, devices)| devices.iter());
    devices.map(|device| free_milli(node, device, count)).sum()
}

pub(super) fn free_milli(node: &Node, device: usize, count: Count) -> u64 {
    match count {
        _ if node.walls.outside.contains(device) => 0,
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
    const NONE: Rooms =
        Rooms { gpus: false, blocks: false, cpus: false, memory: false, extras: false };
}

/// How many tasks of a group a node has room for.
fn room(node: &Node, need: &Need<'_>, count: Count, rooms: Rooms) -> u64 {
    room_on(node, need, count, rooms, |_| true)
}

/// The same, on some of the models that it takes.
fn room_on(
    node: &Node,
    need: &Need<'_>,
    count: Count,
    rooms: Rooms,
    is_meant: impl Fn(ModelId) -> bool,
) -> u64 {
    if count == Count::FreeNow && !node.hosts() {
        return 0;
    }
    let group = need.group;
    let accepted = node.models.iter().filter(|(model, _)| need.accepts(*model) && is_meant(*model));
    let free = match count {
        Count::FreeNow => node.free(),
        Count::WhenIdle => {
            muster_model::DeviceSet::first(node.spec.devices.len()).minus(node.walls.outside)
        }
    };
    let held = |device| match count {
        Count::FreeNow => node.held_of(device),
        Count::WhenIdle => 0,
    };
    let may_use = |device: usize| match count {
        Count::FreeNow => node.usable.contains(device),
        Count::WhenIdle => !node.walls.outside.contains(device),
    };
    let by_gpu = match (group.devices, group.share) {
        (0, 0) => u64::MAX,
        _ if !rooms.gpus => u64::MAX,
        (0, share) => accepted
            .flat_map(|(_, devices)| devices.iter())
            .filter(|device| may_use(*device))
            .map(|device| u64::from(WHOLE.saturating_sub(held(device)) / share))
            .sum(),
        (per_task, _) => {
            accepted.map(|(_, devices)| u64::from(devices.and(free).len() / per_task)).sum()
        }
    };
    let (limit, used) = match count {
        Count::FreeNow => (&node.limit, node.used.clone()),
        Count::WhenIdle => (&node.capacity, Scalars::default()),
    };
    let scalars = Scalars {
        cpus: if rooms.cpus { group.scalars.cpus } else { 0 },
        memory: if rooms.memory { group.scalars.memory } else { 0 },
        extras: if rooms.extras { group.scalars.extras.clone() } else { Vec::new() },
    };
    let tasks = by_gpu.min(limit.fits(&used, &scalars)).min(u64::from(group.tasks));
    match group.per_node.filter(|_| rooms.blocks) {
        Some(block) if tasks < u64::from(block) => 0,
        Some(block) => u64::from(block),
        None => tasks,
    }
}

/// The resource that runs out first: the first that alone keeps the group from fitting.
fn limiting(nodes: &[&Node], need: &Need<'_>, count: Count) -> Limiting {
    let group = need.group;
    let short = |rooms: Rooms| need.fits(nodes, count, rooms) < u64::from(group.tasks);
    let has_model =
        nodes.iter().any(|node| node.models.iter().any(|(model, _)| need.accepts(*model)));
    if nodes.is_empty() || group.wants_gpu() && !has_model {
        return Limiting::Constraint;
    }
    if short(Rooms { gpus: true, ..Rooms::NONE }) {
        return Limiting::Gpus;
    }
    if short(Rooms { gpus: true, blocks: true, ..Rooms::NONE }) {
        return Limiting::Nodes;
    }
    let cpus = Limiting::Cpus {
        asked: CpuMilli(group.scalars.cpus as u32),
        free: CpuMilli(
            u32::try_from(spare(nodes, need, count, |some| some.cpus)).unwrap_or(u32::MAX),
        ),
    };
    let memory = Limiting::Memory {
        asked: Bytes(group.scalars.memory),
        free: Bytes(spare(nodes, need, count, |some| some.memory)),
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

/// The most that is left of a quantity, beside the tasks that fit, on a node that has the GPUs for
/// one more.
fn spare(nodes: &[&Node], need: &Need<'_>, count: Count, of: fn(&Scalars) -> u64) -> u64 {
    let left = |node: &&Node| {
        let fit = room(node, need, count, Rooms::ALL);
        let by_gpus = room(node, need, count, Rooms { gpus: true, blocks: true, ..Rooms::NONE });
        let free = match count {
            Count::FreeNow => of(&node.limit).saturating_sub(of(&node.used)),
            Count::WhenIdle => of(&node.capacity),
        };
        (by_gpus > fit).then(|| free.saturating_sub(fit * of(&need.group.scalars)))
    };
    nodes.iter().filter_map(left).max().unwrap_or(0)
}
