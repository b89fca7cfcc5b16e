//! Places a gang of several groups where going through the groups one after the other found no way:
//! node by node, with backtracking over how many tasks of each group a node takes.
//!
//! **Exact while it is small.** Nodes meet only through what is left to place (and what caps have
//! left), so what failed once for a node and such a rest fails always and is remembered. On a node,
//! every count of every group is tried, the most first; of the last group only the most, since what
//! it leaves lying nobody else on the node can use, and the same tasks elsewhere free no more than
//! they would here. So a search that ends by itself has seen every way. Devices of one model on one
//! node are alike to a gang, with one exception: two groups with shares of different sizes would
//! have to be packed into devices exactly, which is not tried; without a way, such a search proves
//! nothing.
//!
//! **Bounded when it is large.** It ends after a number of steps given with the request, and looks
//! at no more than [`MOST_NODES`] nodes; then it says that it gave up, not that there is no way.
//! Sums over all nodes still prove most of what can never be. It must not be used where one group
//! is to be placed: that is exact already.

use muster_model::NodeId;
use muster_policy::ModelId;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::ask::{Ask, Caps};
use super::gang::Gang;
use super::{plain, share, whole};
use crate::state::pool::Pool;
use crate::state::shape::GroupNeed;

/// Steps for a start now: a few milliseconds.
pub(crate) const EFFORT: u32 = 2048;
/// Nodes that are looked at.
const MOST_NODES: usize = 256;
/// Choices on all of them: bounds the depth of the recursion, some hundred bytes each.
const MOST_DEPTH: usize = 1024;

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The gang holds its places.
    Placed,
    /// There is no way.
    Impossible,
    /// It is not known.
    GaveUp,
}

/// Tasks still to be placed, by group.
type Rest = SmallVec<[u32; 4]>;

/// What a node can do for a gang at most, or several nodes together.
#[derive(Clone, Debug, Default)]
struct Bound {
    /// Tasks by group, each as if it were alone.
    alone: SmallVec<[u64; 4]>,
    /// Whole free devices of any model that some group may use.
    devices: u64,
    cpus: u64,
    memory: u64,
}

struct Search<'g, 'a> {
    gang: &'g mut Gang<'a>,
    nodes: Vec<NodeId>,
    /// By node: what it and all after it can do at most.
    bounds: Vec<Bound>,
    /// What may be put on a node, in the order in which it is tried.
    choices: SmallVec<[(u16, Option<ModelId>); 4]>,
    left: Rest,
    effort: u32,
    gave_up: bool,
    failed: FxHashSet<(usize, Rest, Caps)>,
}

/// Looks for a way to place all groups, in at most `effort` steps. Without one, nothing is held.
pub(super) fn place(gang: &mut Gang<'_>, effort: u32) -> Found {
    let shape = gang.ask.shape;
    let left: Rest = shape.groups.iter().map(|group| group.tasks).collect();
    let choices = choices(gang);
    // 1. What each node can do, and all together.
    let ids = gang.pool.nodes_in(gang.ask.scope).into_iter();
    let all: Vec<(NodeId, Bound)> = ids.map(|id| (id, bound(gang, id, &choices))).collect();
    let mut useful: Vec<(NodeId, Bound)> =
        all.into_iter().filter(|(_, bound)| bound.alone.iter().any(|tasks| *tasks > 0)).collect();
    let total = useful.iter().fold(Bound::none(left.len()), |sum, (_, bound)| sum.and(bound));
    if !total.is_enough(gang, &left) {
        return Found::Impossible;
    }
    // 2. In the order of names, like every other tie.
    useful.sort_by_key(|(id, _)| gang.pool.node(*id).rank);
    let most = MOST_NODES.min(MOST_DEPTH / choices.len().max(1));
    let is_cut = useful.len() > most;
    useful.truncate(most);
    let mut bounds = vec![Bound::none(left.len())];
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
    let mut search = Search { gang, nodes, bounds, choices, left, effort, gave_up: false, failed };
    match search.place_from(0) {
        true => Found::Placed,
        false if is_exact && !is_cut && !search.gave_up => Found::Impossible,
        false => Found::GaveUp,
    }
}

/// A bound from the sizes of the buckets alone: true for what has no chance, in microseconds.
pub(super) fn is_hopeless(pool: &mut Pool, ask: &Ask<'_>) -> bool {
    let groups = ask.shape.groups.iter().zip(&ask.pick.models);
    let mut whole = groups.filter(|(need, _)| need.tasks > 0 && need.devices > 0).peekable();
    if whole.peek().is_none() {
        return false;
    }
    let (mut asked, mut models) = (0u64, SmallVec::<[ModelId; 2]>::new());
    for (need, own) in whole {
        if !whole::could_fit(pool, ask.scope, need, own) {
            return true;
        }
        asked = asked.saturating_add(u64::from(need.tasks) * u64::from(need.devices));
        let more = own.iter().filter(|model| !models.contains(model)).copied();
        models.extend(more.collect::<SmallVec<[ModelId; 2]>>());
    }
    let Some(index) = pool.index_of(ask.scope) else { return false };
    let indexes = models.iter().filter_map(|model| index.model(*model));
    let sizes = indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes()));
    sizes.map(|(free, nodes)| free * nodes).sum::<u64>() < asked
}

/// Groups with something to place, the hardest first, on each of their models.
fn choices(gang: &Gang<'_>) -> SmallVec<[(u16, Option<ModelId>); 4]> {
    let shape = gang.ask.shape;
    let mut choices = SmallVec::new();
    for at in &shape.order {
        let need = &shape.groups[usize::from(*at)];
        match need.wants_gpu() {
            _ if need.tasks == 0 => {}
            true => choices
                .extend(gang.ask.pick.models[usize::from(*at)].iter().map(|one| (*at, Some(*one)))),
            false => choices.push((*at, None)),
        }
    }
    choices
}

/// What a node can do at most.
fn bound(gang: &Gang<'_>, id: NodeId, choices: &[(u16, Option<ModelId>)]) -> Bound {
    let mut bound = Bound::none(gang.ask.shape.groups.len());
    if !gang.admits(id) {
        return bound;
    }
    let mut models: SmallVec<[ModelId; 2]> = SmallVec::new();
    for (at, model) in choices {
        let need = &gang.ask.shape.groups[usize::from(*at)];
        let room = u64::from(room(gang, need, *model, id, need.tasks));
        let alone = &mut bound.alone[usize::from(*at)];
        // All tasks of a block are of one model.
        *alone = if need.per_node.is_some() { room.max(*alone) } else { room + *alone };
        models.extend(model.filter(|model| !models.contains(model)));
    }
    let node = gang.pool.node(id);
    let free = node.free_during(gang.ask.window);
    bound.devices =
        models.iter().map(|model| u64::from(free.and(node.of_model(*model)).len())).sum();
    bound.cpus = node.limit.cpus.saturating_sub(node.used.cpus);
    bound.memory = node.limit.memory.saturating_sub(node.used.memory);
    bound
}

/// How many tasks of a group a node takes, up to `most`; a whole block or nothing where it has
/// blocks.
pub(super) fn room(
    gang: &Gang<'_>,
    need: &GroupNeed,
    model: Option<ModelId>,
    node: NodeId,
    most: u32,
) -> u32 {
    let most = need.per_node.map_or(most, |block| block.min(most));
    let room = match model {
        None => plain::room(gang, need, node).min(most),
        Some(model) if need.share > 0 => share::room(gang, need, model, node, most),
        Some(model) => whole::room(gang, need, model, node, most),
    };
    match need.per_node {
        Some(block) if room < block => 0,
        _ => room,
    }
}

impl Bound {
    fn none(groups: usize) -> Self {
        Self { alone: SmallVec::from_elem(0, groups), ..Self::default() }
    }

    fn and(mut self, other: &Bound) -> Self {
        for (sum, more) in self.alone.iter_mut().zip(&other.alone) {
            *sum = sum.saturating_add(*more);
        }
        self.devices += other.devices;
        self.cpus = self.cpus.saturating_add(other.cpus);
        self.memory = self.memory.saturating_add(other.memory);
        self
    }

    /// Could the rest be placed, as far as sums tell?
    fn is_enough(&self, gang: &Gang<'_>, left: &[u32]) -> bool {
        let groups = &gang.ask.shape.groups;
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

impl Search<'_, '_> {
    /// Places the rest on a node and those after it.
    fn place_from(&mut self, at: usize) -> bool {
        if self.left.iter().all(|left| *left == 0) {
            return true;
        }
        if at == self.nodes.len() || !self.bounds[at].is_enough(self.gang, &self.left) {
            return false;
        }
        let key = (at, self.left.clone(), self.gang.spent().clone());
        if self.failed.contains(&key) {
            return false;
        }
        let found = self.on_node(at, 0);
        if !found && !self.gave_up {
            self.failed.insert(key);
        }
        found
    }

    /// Tries every count of a choice on a node, the most first, each with every way to go on.
    fn on_node(&mut self, at: usize, choice: usize) -> bool {
        let Some((group, model)) = self.choices.get(choice).copied() else {
            return self.place_from(at + 1);
        };
        if self.effort == 0 {
            self.gave_up = true;
            return false;
        }
        self.effort -= 1;
        let node = self.nodes[at];
        let need = &self.gang.ask.shape.groups[usize::from(group)];
        let left = self.left[usize::from(group)];
        let mut count = match need.per_node.is_some() && self.gang.has_on(group, node) {
            // One block per node, and this one is of another model.
            true => 0,
            false => room(self.gang, need, model, node, left),
        };
        let is_last = choice + 1 == self.choices.len() && self.gang.ask.caps.is_empty();
        let mark = self.gang.mark();
        loop {
            self.put(group, model, node, count);
            self.left[usize::from(group)] = left - count;
            if self.on_node(at, choice + 1) {
                return true;
            }
            self.left[usize::from(group)] = left;
            self.gang.reset(&mark);
            if count == 0 || is_last || self.gave_up {
                return false;
            }
            count = if need.per_node.is_some() { 0 } else { count - 1 };
        }
    }

    /// Grants so many tasks, for which there is room.
    fn put(&mut self, group: u16, model: Option<ModelId>, node: NodeId, count: u32) {
        let need = &self.gang.ask.shape.groups[usize::from(group)];
        match model {
            _ if count == 0 => {}
            None => plain::grant(self.gang, group, node, count),
            Some(model) if need.share > 0 => {
                share::fill(self.gang, group, need, model, node, count)
            }
            Some(model) => drop(whole::fill(self.gang, group, need, model, node, count)),
        }
    }
}
