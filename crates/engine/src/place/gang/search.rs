//! Places a gang of several groups where placing the groups one after the other failed: node by
//! node, with backtracking over how many tasks of each group a node takes.
//!
//! **Exact while it is small.** Nodes interact only through the tasks left to place (and what is
//! left of caps), so a node and such a rest that failed once fail always, and are cached. On a
//! node, every count of every group is tried, the largest first; of the last group only the
//! largest, since no other group can use what it leaves on the node, and the same tasks elsewhere
//! free no more than they would here. So a search that ends by itself has covered every placement.
//! Devices of one model on one node are interchangeable to a gang, with one exception: two groups
//! with shares of different sizes would have to be packed into devices exactly, which is not tried;
//! a failure of such a search proves nothing.
//!
//! **Bounded when it is large.** It ends after the requested number of steps, and uses at most
//! [`MAX_NODES`] nodes; then the result is "gave up", not "impossible". Sums over all nodes still
//! prove most impossible cases. It must not be used for a single group, whose placement is exact
//! already.

use muster_model::NodeId;
use muster_policy::ModelId;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{GangPlacer, cpu_only, gpu_share, whole_gpu};
use crate::place::request::{ModelCaps, PlacementRequest};
use crate::pool::Pool;
use crate::pool::shape::GroupNeed;

/// Most steps for a start now: a few milliseconds.
pub(crate) const MAX_STEPS: u32 = 2048;
/// Most nodes that are used.
const MAX_NODES: usize = 256;
/// Most choices over all nodes: bounds the depth of the recursion, some hundred bytes each.
const MAX_DEPTH: usize = 1024;

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchOutcome {
    /// The gang is placed.
    Placed,
    /// No placement of the gang exists.
    Impossible,
    /// The search ended at its step limit.
    GaveUp,
}

/// Tasks still to be placed, by group.
type RemainingTasks = SmallVec<[u32; 4]>;

/// Upper bound on what a node, or several nodes together, can host of a gang.
#[derive(Clone, Debug, Default)]
struct NodeBound {
    /// Tasks by group, each as if it were alone.
    alone: SmallVec<[u64; 4]>,
    /// Whole free devices of any model that some group may use.
    devices: u64,
    cpus: u64,
    memory: u64,
}

struct GangSearch<'g, 'a> {
    gang: &'g mut GangPlacer<'a>,
    nodes: Vec<NodeId>,
    /// Bound of each node and all after it.
    bounds: Vec<NodeBound>,
    /// Group and model pairs to put on a node, in the order in which they are tried.
    choices: SmallVec<[(u16, Option<ModelId>); 4]>,
    remaining: RemainingTasks,
    steps_left: u32,
    gave_up: bool,
    failed: FxHashSet<(usize, RemainingTasks, ModelCaps)>,
}

/// Searches for a placement of all groups, in at most `max_steps` steps. Without one, nothing is
/// held.
pub(crate) fn place(gang: &mut GangPlacer<'_>, max_steps: u32) -> SearchOutcome {
    let shape = gang.request.shape;
    let left: RemainingTasks = shape.groups.iter().map(|group| group.tasks).collect();
    let choices = group_choices(gang);
    // 1. The bound of each node, and of all together.
    let ids = gang.pool.nodes_in(gang.request.scope).into_iter();
    let all: Vec<(NodeId, NodeBound)> = ids.map(|id| (id, bound(gang, id, &choices))).collect();
    let mut useful: Vec<(NodeId, NodeBound)> =
        all.into_iter().filter(|(_, bound)| bound.alone.iter().any(|tasks| *tasks > 0)).collect();
    let total = useful.iter().fold(NodeBound::none(left.len()), |sum, (_, bound)| sum.and(bound));
    if !total.suffices(gang, &left) {
        return SearchOutcome::Impossible;
    }
    // 2. In the order of names, like every other tie.
    useful.sort_by_key(|(id, _)| gang.pool.node(*id).rank);
    let most = MAX_NODES.min(MAX_DEPTH / choices.len().max(1));
    let is_cut = useful.len() > most;
    useful.truncate(most);
    let mut bounds = vec![NodeBound::none(left.len())];
    for (_, bound) in useful.iter().rev() {
        let sum = bounds[bounds.len() - 1].clone().and(bound);
        bounds.push(sum);
    }
    bounds.reverse();
    // 3. Node by node.
    let nodes = useful.into_iter().map(|(id, _)| id).collect();
    let is_exact =
        shape.groups.iter().filter(|group| group.tasks > 0 && group.share > 0).count() < 2;
    let failed = FxHashSet::default();
    let mut search = GangSearch {
        gang,
        nodes,
        bounds,
        choices,
        remaining: left,
        steps_left: max_steps,
        gave_up: false,
        failed,
    };
    if search.place_from(0) {
        SearchOutcome::Placed
    } else if is_exact && !is_cut && !search.gave_up {
        SearchOutcome::Impossible
    } else {
        SearchOutcome::GaveUp
    }
}

/// Returns true if the bucket sizes alone prove that a gang does not fit; takes microseconds.
pub(crate) fn cannot_fit(pool: &mut Pool, request: &PlacementRequest<'_>) -> bool {
    let groups = request.shape.groups.iter().zip(&request.choice.models);
    let mut whole = groups.filter(|(need, _)| need.tasks > 0 && need.devices > 0).peekable();
    if whole.peek().is_none() {
        return false;
    }
    let mut requested = 0u64;
    let mut models = SmallVec::<[ModelId; 2]>::new();
    for (need, own) in whole {
        if !whole_gpu::could_fit(pool, request.scope, need, own) {
            return true;
        }
        requested = requested.saturating_add(u64::from(need.tasks) * u64::from(need.devices));
        let more = own.iter().filter(|model| !models.contains(model)).copied();
        models.extend(more.collect::<SmallVec<[ModelId; 2]>>());
    }
    let Some(index) = pool.index_of(request.scope) else { return false };
    let indexes = models.iter().filter_map(|model| index.model(*model));
    let sizes = indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes()));
    sizes.map(|(free, nodes)| free * nodes).sum::<u64>() < requested
}

/// Returns the groups with tasks to place, the hardest first, on each of their models.
fn group_choices(gang: &GangPlacer<'_>) -> SmallVec<[(u16, Option<ModelId>); 4]> {
    let shape = gang.request.shape;
    let mut choices = SmallVec::new();
    for at in &shape.order {
        let need = &shape.groups[usize::from(*at)];
        match need.wants_gpu() {
            _ if need.tasks == 0 => {}
            true => choices.extend(
                gang.request.choice.models[usize::from(*at)].iter().map(|one| (*at, Some(*one))),
            ),
            false => choices.push((*at, None)),
        }
    }
    choices
}

/// Returns the bound of one node.
fn bound(gang: &GangPlacer<'_>, id: NodeId, choices: &[(u16, Option<ModelId>)]) -> NodeBound {
    let mut bound = NodeBound::none(gang.request.shape.groups.len());
    if !gang.admits(id) {
        return bound;
    }
    let mut models: SmallVec<[ModelId; 2]> = SmallVec::new();
    for (at, model) in choices {
        let need = &gang.request.shape.groups[usize::from(*at)];
        let capacity = u64::from(task_capacity(gang, need, *model, id, need.tasks));
        let alone = &mut bound.alone[usize::from(*at)];
        // All tasks of a block are of one model.
        *alone = if need.per_node.is_some() { capacity.max(*alone) } else { capacity + *alone };
        models.extend(model.filter(|model| !models.contains(model)));
    }
    let node = gang.pool.node(id);
    let free = node.free_during(gang.request.interval);
    bound.devices =
        models.iter().map(|model| u64::from(free.and(node.of_model(*model)).len())).sum();
    bound.cpus = node.limit.cpus.saturating_sub(node.used.cpus);
    bound.memory = node.limit.memory.saturating_sub(node.used.memory);
    bound
}

/// Returns how many tasks of a group a node takes, up to `most`; a whole block or nothing for a
/// group with blocks.
pub(crate) fn task_capacity(
    gang: &GangPlacer<'_>,
    need: &GroupNeed,
    model: Option<ModelId>,
    node: NodeId,
    most: u32,
) -> u32 {
    let most = need.per_node.map_or(most, |block| block.min(most));
    let capacity = match model {
        None => cpu_only::task_capacity(gang, need, node).min(most),
        Some(model) if need.share > 0 => gpu_share::task_capacity(gang, need, model, node, most),
        Some(model) => whole_gpu::task_capacity(gang, need, model, node, most),
    };
    match need.per_node {
        Some(block) if capacity < block => 0,
        _ => capacity,
    }
}

impl NodeBound {
    fn none(groups: usize) -> Self {
        Self { alone: SmallVec::from_elem(0, groups), ..Self::default() }
    }

    fn and(mut self, other: &NodeBound) -> Self {
        for (sum, more) in self.alone.iter_mut().zip(&other.alone) {
            *sum = sum.saturating_add(*more);
        }
        self.devices += other.devices;
        self.cpus = self.cpus.saturating_add(other.cpus);
        self.memory = self.memory.saturating_add(other.memory);
        self
    }

    /// Returns true if the sums admit placing the rest.
    fn suffices(&self, gang: &GangPlacer<'_>, left: &[u32]) -> bool {
        let groups = &gang.request.shape.groups;
        let sum = |of: &dyn Fn(&GroupNeed) -> u64| {
            let needs = groups
                .iter()
                .zip(left)
                .map(|(need, left)| of(need).saturating_mul(u64::from(*left)));
            needs.fold(0u64, u64::saturating_add)
        };
        self.alone.iter().zip(left).all(|(alone, left)| *alone >= u64::from(*left))
            && sum(&|need| u64::from(need.devices)) <= self.devices
            && sum(&|need| need.scalars.cpus) <= self.cpus
            && sum(&|need| need.scalars.memory) <= self.memory
    }
}

impl GangSearch<'_, '_> {
    /// Places the rest on a node and those after it.
    fn place_from(&mut self, at: usize) -> bool {
        if self.remaining.iter().all(|left| *left == 0) {
            return true;
        }
        if at == self.nodes.len() || !self.bounds[at].suffices(self.gang, &self.remaining) {
            return false;
        }
        let key = (at, self.remaining.clone(), self.gang.spent().clone());
        if self.failed.contains(&key) {
            return false;
        }
        let found = self.on_node(at, 0);
        if !found && !self.gave_up {
            self.failed.insert(key);
        }
        found
    }

    /// Tries every count of a choice on a node, the largest first, each with all ways to continue.
    fn on_node(&mut self, at: usize, choice: usize) -> bool {
        let Some((group, model)) = self.choices.get(choice).copied() else {
            return self.place_from(at + 1);
        };
        if self.steps_left == 0 {
            self.gave_up = true;
            return false;
        }
        self.steps_left -= 1;
        let node = self.nodes[at];
        let need = &self.gang.request.shape.groups[usize::from(group)];
        let left = self.remaining[usize::from(group)];
        let mut count = if need.per_node.is_some() && self.gang.has_on(group, node) {
            // One block per node, and this one is of another model.
            0
        } else {
            task_capacity(self.gang, need, model, node, left)
        };
        let is_last = choice + 1 == self.choices.len() && self.gang.request.caps.is_empty();
        let mark = self.gang.mark();
        loop {
            self.put(group, model, node, count);
            self.remaining[usize::from(group)] = left - count;
            if self.on_node(at, choice + 1) {
                return true;
            }
            self.remaining[usize::from(group)] = left;
            self.gang.reset(&mark);
            if count == 0 || is_last || self.gave_up {
                return false;
            }
            count = if need.per_node.is_some() { 0 } else { count - 1 };
        }
    }

    /// Grants this number of tasks, which must fit.
    fn put(&mut self, group: u16, model: Option<ModelId>, node: NodeId, count: u32) {
        let need = &self.gang.request.shape.groups[usize::from(group)];
        match model {
            _ if count == 0 => {}
            None => cpu_only::grant_tasks(self.gang, group, node, count),
            Some(model) if need.share > 0 => {
                gpu_share::fill(self.gang, group, need, model, node, count)
            }
            Some(model) => drop(whole_gpu::fill(self.gang, group, need, model, node, count)),
        }
    }
}
