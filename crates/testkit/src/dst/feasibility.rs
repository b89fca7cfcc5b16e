//! Feasibility of a gang on idle nodes: an exhaustive search with a step limit, for small clusters.
//! It shares no code with the engine.

use muster_model::{DeviceSet, GpuModel, JobSpec, TaskGroup};

use super::ledger::nodes::LedgerNode;

/// Steps after which the search gives up.
const MOST_STEPS: u32 = 50_000;

/// Free resources of a node while a gang is placed.
#[derive(Clone)]
struct FreeNode<'a> {
    host: &'a LedgerNode,
    cpus: u64,
    memory: u64,
    devices: Vec<u32>,
    extras: std::collections::BTreeMap<std::sync::Arc<str>, u64>,
}

/// A block of tasks that goes on one node.
struct TaskBlock<'a> {
    group: &'a TaskGroup,
    tasks: u32,
    /// True if blocks of the group must be on different nodes.
    apart: bool,
    /// True for the first block of a group.
    is_first: bool,
}

/// Returns whether the nodes could host the job on GPUs of these models if nothing else ran; `None`
/// if the search exceeds its step limit.
pub(crate) fn fits(hosts: &[LedgerNode], spec: &JobSpec, models: &[GpuModel]) -> Option<bool> {
    let admits = |host: &&LedgerNode| {
        let labels = &spec.constraint.labels;
        host.up
            && host.drained_from.is_none()
            && labels.iter().all(|(key, value)| host.spec.labels.get(key) == Some(value))
            && !spec.constraint.exclude.contains(&host.spec.name)
    };
    let mut free_nodes: Vec<FreeNode<'_>> =
        hosts.iter().filter(admits).map(|host| free_node(host, models)).collect();
    let mut blocks = Vec::new();
    for group in &spec.groups {
        let tasks = group.tasks_per_node.unwrap_or(1);
        let count = group.min_tasks / tasks;
        let apart = group.tasks_per_node.is_some();
        blocks.extend((0..count).map(|at| TaskBlock { group, tasks, apart, is_first: at == 0 }));
    }
    let mut steps = 0;
    let found = place(&mut free_nodes, &blocks, 0, &mut steps);
    (found || steps < MOST_STEPS).then_some(found)
}

fn free_node<'a>(host: &'a LedgerNode, models: &[GpuModel]) -> FreeNode<'a> {
    let taken: DeviceSet = host.foreign.devices.or(host.foreign.drained);
    let is_free = |at: usize| !taken.contains(at) && models.contains(&host.spec.devices[at].model);
    let free = |at: usize| if is_free(at) { 1000 } else { 0 };
    FreeNode {
        host,
        cpus: u64::from(host.spec.cpus.0.saturating_sub(host.foreign.cpus.0)),
        memory: host.spec.memory.0.saturating_sub(host.foreign.memory.0),
        devices: (0..host.spec.devices.len()).map(free).collect(),
        extras: host.spec.extras.clone(),
    }
}

/// Places the remaining blocks. Blocks of one group are interchangeable, so they go on nodes in
/// ascending order, from `from` on.
fn place(
    free_nodes: &mut [FreeNode<'_>],
    blocks: &[TaskBlock<'_>],
    from: usize,
    steps: &mut u32,
) -> bool {
    let Some((block, rest)) = blocks.split_first() else { return true };
    let from = if block.is_first { 0 } else { from };
    for at in from..free_nodes.len() {
        let before = free_nodes[at].clone();
        for after in block_placements(&before, block) {
            *steps += 1;
            if *steps >= MOST_STEPS {
                return false;
            }
            free_nodes[at] = after;
            if place(free_nodes, rest, at + usize::from(block.apart), steps) {
                return true;
            }
        }
        free_nodes[at] = before;
    }
    false
}

/// Returns every way to place a block on a node, as the node's remaining resources. Tasks that a
/// group puts on one node share one GPU model (docs/jobs.md, `gpu`).
fn block_placements<'a>(free_node: &FreeNode<'a>, block: &TaskBlock<'_>) -> Vec<FreeNode<'a>> {
    let together = |model: Option<&GpuModel>| {
        let mut all = vec![free_node.clone()];
        for _ in 0..block.tasks {
            all = all
                .iter()
                .flat_map(|free_node| task_placements(free_node, block.group, model))
                .collect();
        }
        all
    };
    if !block.apart {
        return together(None);
    }
    let mut models: Vec<&GpuModel> =
        free_node.host.spec.devices.iter().map(|device| &device.model).collect();
    models.sort_unstable();
    models.dedup();
    if models.is_empty() {
        together(None)
    } else {
        models.into_iter().flat_map(|model| together(Some(model))).collect()
    }
}

/// Returns every way to place a task on a node, as its remaining resources; `only` restricts the
/// GPU model.
fn task_placements<'a>(
    free_node: &FreeNode<'a>,
    group: &TaskGroup,
    only: Option<&GpuModel>,
) -> Vec<FreeNode<'a>> {
    let task = &group.task;
    // 1. Quantities.
    let mut left = free_node.clone();
    let Some(cpus) = left.cpus.checked_sub(task.cpus.0.into()) else { return Vec::new() };
    let Some(memory) = left.memory.checked_sub(task.memory.0) else { return Vec::new() };
    (left.cpus, left.memory) = (cpus, memory);
    for (name, count) in &task.extras {
        match left.extras.get_mut(name) {
            Some(free) if *free >= *count => *free -= count,
            _ => return Vec::new(),
        }
    }
    if task.gpu.is_none() {
        return vec![left];
    }
    // 2. Devices: a model, then the lowest free ones; or each distinct device for a share.
    let wanted = |model: &GpuModel| {
        only.is_none_or(|only| only == model)
            && (task.gpu.models.is_empty() || task.gpu.models.contains(model))
    };
    let model_of = |at: usize| &free_node.host.spec.devices[at].model;
    let mut models: Vec<&GpuModel> =
        (0..left.devices.len()).map(model_of).filter(|one| wanted(one)).collect();
    models.sort_unstable();
    models.dedup();
    let mut found = Vec::new();
    for model in models {
        let of_model = (0..left.devices.len()).filter(|at| model_of(*at) == model);
        if task.gpu.share.0 > 0 {
            let mut seen = Vec::new();
            for at in of_model.filter(|at| left.devices[*at] >= task.gpu.share.0) {
                if !seen.contains(&left.devices[at]) {
                    seen.push(left.devices[at]);
                    let mut after = left.clone();
                    after.devices[at] -= task.gpu.share.0;
                    found.push(after);
                }
            }
            continue;
        }
        let free: Vec<usize> = of_model.filter(|at| left.devices[*at] == 1000).collect();
        if free.len() >= task.gpu.devices as usize {
            let mut after = left.clone();
            free.iter().take(task.gpu.devices as usize).for_each(|at| after.devices[*at] = 0);
            found.push(after);
        }
    }
    found
}
