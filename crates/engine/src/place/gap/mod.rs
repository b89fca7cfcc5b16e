//! Missing capacity: the numbers behind "not enough is free". Counts only; places nothing.

mod beside;
pub(crate) mod domains;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::reason::{CapacityGap, Limiting};
use muster_model::{Bytes, CpuMilli, GpuMilli, NodeId};
use muster_policy::{ModelId, Models};

use crate::pool::Pool;
use crate::pool::node::{Node, WHOLE};
use crate::pool::scalars::{ExtraId, Scalars};
use crate::pool::shape::{Eligible, GroupNeed, Shape};

/// Capacity to count: what is free now, or everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountMode {
    FreeNow,
    WhenIdle,
}

/// Restrictions beyond the shape.
#[derive(Clone, Copy)]
pub(crate) struct GapTerms<'a> {
    pub(crate) eligible: &'a Eligible,
    pub(crate) avoid: &'a [NodeId],
    /// Maximum that quota admits, by model.
    pub(crate) caps: &'a [(ModelId, u64)],
}

/// Returns what is missing now.
pub(crate) fn now(pool: &Pool, models: &Models, shape: &Shape, terms: GapTerms<'_>) -> CapacityGap {
    let admits = |id: NodeId, node: &Node| {
        is_in_service(node)
            && terms
                .eligible
                .as_ref()
                .is_none_or(|eligible| eligible.get(id.0 as usize) == Some(&true))
            && !terms.avoid.contains(&id)
    };
    gap(pool, models, shape, CountMode::FreeNow, terms.caps, admits)
}

/// True when the node is up and not drained. A node that is reserved for other jobs now is in
/// service, but not free.
pub(crate) fn is_in_service(node: &Node) -> bool {
    node.up && !node.availability.is_drained
}

/// Returns what would be missing on an idle cluster.
pub(crate) fn when_idle(pool: &Pool, models: &Models, shape: &Shape) -> CapacityGap {
    gap(pool, models, shape, CountMode::WhenIdle, &[], |_, node| shape.admits(node))
}

/// True when some group does not fit beside the others, even if nothing were reserved.
pub(crate) fn is_short(gap: &CapacityGap) -> bool {
    gap.tasks_placeable < gap.tasks_needed
}

fn gap(
    pool: &Pool,
    models: &Models,
    shape: &Shape,
    count: CountMode,
    caps: &[(ModelId, u64)],
    admits: impl Fn(NodeId, &Node) -> bool,
) -> CapacityGap {
    let all = (0u32..).map(NodeId).zip(pool.nodes());
    let nodes: Vec<&Node> =
        all.filter(|(id, node)| admits(*id, node)).map(|(_, node)| node).collect();
    // 1. Find the group that does not fit, alone or beside the others.
    let need = |at: &u16| GroupDemand { group: &shape.groups[usize::from(*at)], caps };
    let placeable = |need: &GroupDemand<'_>| need.fits(&nodes, count, ResourceMask::ALL);
    let alone =
        shape.order.iter().find(|at| placeable(&need(at)) < u64::from(need(at).group.tasks));
    let crowd = match alone {
        None if shape.groups.len() > 1 => beside::short(&nodes, shape, count, caps),
        _ => None,
    };
    let at = alone.copied().or(crowd.as_ref().map(|crowd| crowd.group)).unwrap_or(shape.order[0]);
    let need = need(&at);
    let group = need.group;
    // 2. Count what is missing for it.
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
        gpus_total: gpus(CountMode::WhenIdle),
        nodes_eligible: nodes.len() as u32,
        nodes_fitting: nodes
            .iter()
            .filter(|node| tasks_on_node(node, &need, count, ResourceMask::ALL) > 0)
            .count() as u32,
        limiting: limiting(pool, &nodes, &need, count),
    }
}

/// Group, and the quota that is left for it.
#[derive(Clone, Copy)]
pub(crate) struct GroupDemand<'a> {
    pub(crate) group: &'a GroupNeed,
    pub(crate) caps: &'a [(ModelId, u64)],
}

impl GroupDemand<'_> {
    /// True when it accepts the model and quota admits at least one task on it.
    pub(crate) fn accepts(&self, model: ModelId) -> bool {
        self.group.accepts(model) && self.cap(model).is_none_or(|cap| cap >= self.group.milli())
    }

    fn cap(&self, model: ModelId) -> Option<u64> {
        self.caps.iter().find(|(known, _)| *known == model).map(|(_, cap)| *cap)
    }

    /// Returns the accepted models; empty for any.
    fn models(&self, pool: &Pool) -> Vec<ModelId> {
        let refused = pool.models().any(|model| self.group.accepts(model) && !self.accepts(model));
        match &self.group.models {
            None if refused => pool.models().filter(|model| self.accepts(*model)).collect(),
            models => {
                models.iter().flatten().copied().filter(|model| self.accepts(*model)).collect()
            }
        }
    }

    /// Returns the thousandths of accepted models on the nodes; of free ones, at most what quota
    /// admits.
    fn free(&self, nodes: &[&Node], count: CountMode) -> u64 {
        let mut by_model: BTreeMap<ModelId, u64> = BTreeMap::new();
        for node in nodes {
            for (model, devices) in node.models.iter().filter(|(model, _)| self.accepts(*model)) {
                let free = devices.iter().map(|device| free_milli(node, device, count));
                *by_model.entry(*model).or_default() += free.sum::<u64>();
            }
        }
        let cap = |model| if count == CountMode::FreeNow { self.cap(model) } else { None };
        by_model.into_iter().map(|(model, free)| cap(model).map_or(free, |cap| free.min(cap))).sum()
    }

    /// Returns how many tasks fit on the nodes, within quota.
    fn fits(&self, nodes: &[&Node], count: CountMode, capacities: ResourceMask) -> u64 {
        let sum = |of: &dyn Fn(&Node) -> u64| {
            nodes.iter().map(|node| of(node)).fold(0, u64::saturating_add)
        };
        let all = sum(&|node| tasks_on_node(node, self, count, capacities));
        // Free devices of a model beyond its quota do not help.
        let beyond = |(model, cap): &(ModelId, u64)| {
            let free = sum(&|node| {
                tasks_on_models(node, self, count, capacities, |other| other == *model)
            });
            free.saturating_sub(cap.checked_div(self.group.milli()).unwrap_or(u64::MAX))
        };
        let capped = self.caps.iter().filter(|(model, _)| capacities.gpus && self.accepts(*model));
        all.saturating_sub(capped.map(beyond).sum())
    }
}

fn milli(sum: u64) -> GpuMilli {
    GpuMilli(u32::try_from(sum).unwrap_or(u32::MAX))
}

/// Returns how many tasks of a group fit on a node.
pub(crate) fn group_tasks_on_node(node: &Node, group: &GroupNeed, count: CountMode) -> u64 {
    tasks_on_node(node, &GroupDemand { group, caps: &[] }, count, ResourceMask::ALL)
}

/// Returns the thousandths on a node of models that some group accepts.
pub(crate) fn milli_for(node: &Node, shape: &Shape, count: CountMode) -> u64 {
    let accepts =
        |model| shape.groups.iter().any(|group| group.wants_gpu() && group.accepts(model));
    let devices = node
        .models
        .iter()
        .filter(|(model, _)| accepts(*model))
        .flat_map(|(_, devices)| devices.iter());
    devices.map(|device| free_milli(node, device, count)).sum()
}

pub(crate) fn free_milli(node: &Node, device: usize, count: CountMode) -> u64 {
    match count {
        _ if node.availability.outside.contains(device) => 0,
        CountMode::WhenIdle => u64::from(WHOLE),
        CountMode::FreeNow if node.usable.contains(device) => {
            u64::from(WHOLE.saturating_sub(node.held_of(device)))
        }
        CountMode::FreeNow => 0,
    }
}

/// Resources to take into account.
#[derive(Clone, Copy)]
struct ResourceMask {
    gpus: bool,
    blocks: bool,
    cpus: bool,
    memory: bool,
    extras: Extras,
}

/// Extra resources to take into account.
#[derive(Clone, Copy)]
enum Extras {
    None,
    One(ExtraId),
    All,
}

impl ResourceMask {
    const ALL: ResourceMask =
        ResourceMask { gpus: true, blocks: true, cpus: true, memory: true, extras: Extras::All };
    const NONE: ResourceMask = ResourceMask {
        gpus: false,
        blocks: false,
        cpus: false,
        memory: false,
        extras: Extras::None,
    };
}

/// Returns how many tasks of a group fit on a node.
fn tasks_on_node(
    node: &Node,
    need: &GroupDemand<'_>,
    count: CountMode,
    capacities: ResourceMask,
) -> u64 {
    tasks_on_models(node, need, count, capacities, |_| true)
}

/// Returns how many fit on some of the accepted models.
fn tasks_on_models(
    node: &Node,
    need: &GroupDemand<'_>,
    count: CountMode,
    capacities: ResourceMask,
    is_meant: impl Fn(ModelId) -> bool,
) -> u64 {
    if count == CountMode::FreeNow && !node.accepts_work() {
        return 0;
    }
    let group = need.group;
    let accepted = node.models.iter().filter(|(model, _)| need.accepts(*model) && is_meant(*model));
    let free = match count {
        CountMode::FreeNow => node.free(),
        CountMode::WhenIdle => {
            muster_model::DeviceSet::first(node.spec.devices.len()).minus(node.availability.outside)
        }
    };
    let held = |device| match count {
        CountMode::FreeNow => node.held_of(device),
        CountMode::WhenIdle => 0,
    };
    let may_use = |device: usize| match count {
        CountMode::FreeNow => node.usable.contains(device),
        CountMode::WhenIdle => !node.availability.outside.contains(device),
    };
    let by_gpu = match (group.devices, group.share) {
        (0, 0) => u64::MAX,
        _ if !capacities.gpus => u64::MAX,
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
        CountMode::FreeNow => (&node.limit, node.used.clone()),
        CountMode::WhenIdle => (&node.capacity, Scalars::default()),
    };
    let scalars = Scalars {
        cpus: if capacities.cpus { group.scalars.cpus } else { 0 },
        memory: if capacities.memory { group.scalars.memory } else { 0 },
        extras: match capacities.extras {
            Extras::None => Vec::new(),
            Extras::One(id) => vec![(id, group.scalars.extra(id))],
            Extras::All => group.scalars.extras.clone(),
        },
    };
    let tasks = by_gpu.min(limit.fits(&used, &scalars)).min(u64::from(group.tasks));
    match group.per_node.filter(|_| capacities.blocks) {
        Some(block) if tasks < u64::from(block) => 0,
        Some(block) => u64::from(block),
        None => tasks,
    }
}

/// Returns the limiting resource: the first that alone keeps the group from fitting.
fn limiting(pool: &Pool, nodes: &[&Node], need: &GroupDemand<'_>, count: CountMode) -> Limiting {
    let group = need.group;
    let short =
        |capacities: ResourceMask| need.fits(nodes, count, capacities) < u64::from(group.tasks);
    let has_model =
        nodes.iter().any(|node| node.models.iter().any(|(model, _)| need.accepts(*model)));
    if nodes.is_empty() || group.wants_gpu() && !has_model {
        return Limiting::Constraint;
    }
    if short(ResourceMask { gpus: true, ..ResourceMask::NONE }) {
        return Limiting::Gpus;
    }
    if short(ResourceMask { gpus: true, blocks: true, ..ResourceMask::NONE }) {
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
    if short(ResourceMask { cpus: true, blocks: true, ..ResourceMask::NONE }) {
        return cpus;
    }
    if short(ResourceMask { memory: true, blocks: true, ..ResourceMask::NONE }) {
        return memory;
    }
    let scarce = |(id, asked): &(ExtraId, u64)| {
        let alone = ResourceMask { extras: Extras::One(*id), blocks: true, ..ResourceMask::NONE };
        // An id that the pool does not know is of a job that is only validated.
        let name = pool.extra_name(*id).filter(|_| short(alone))?;
        let free = spare(nodes, need, count, |some| some.extra(*id));
        Some(Limiting::Extra { name: Arc::clone(name), asked: *asked, free })
    };
    if let Some(extra) = group.scalars.extras.iter().find_map(scarce) {
        return extra;
    }
    // Each resource alone suffices; together they do not, on the nodes that have them.
    match (group.wants_gpu(), group.scalars.cpus > 0) {
        (_, true) => cpus,
        (true, false) => Limiting::Gpus,
        (false, false) => memory,
    }
}

/// Returns the most that is left of a quantity, beside the tasks that fit, on a node with GPUs for
/// one more.
fn spare(
    nodes: &[&Node],
    need: &GroupDemand<'_>,
    count: CountMode,
    of: impl Fn(&Scalars) -> u64,
) -> u64 {
    let left = |node: &&Node| {
        let fit = tasks_on_node(node, need, count, ResourceMask::ALL);
        let by_gpus = tasks_on_node(
            node,
            need,
            count,
            ResourceMask { gpus: true, blocks: true, ..ResourceMask::NONE },
        );
        let free = match count {
            CountMode::FreeNow => of(&node.limit).saturating_sub(of(&node.used)),
            CountMode::WhenIdle => of(&node.capacity),
        };
        (by_gpus > fit).then(|| free.saturating_sub(fit * of(&need.group.scalars)))
    };
    nodes.iter().filter_map(left).max().unwrap_or(0)
}
