//! Node kinds: groups of nodes in equal condition, for placement policies that score places. Each
//! condition is scored once per demand, however many nodes are in it and however often they return
//! to it. It groups and caches; the score of a condition is computed by `place/score`.

use std::collections::BTreeSet;

use muster_model::NodeId;
use muster_policy::ModelId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::node::{Node, WHOLE};

/// Maximum number of cached scores, in all: 16 MiB.
const MAX_CACHED: usize = 1 << 20;

/// State of a node as far as scores depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeCondition {
    /// Free thousandths of each usable device, by model and largest first.
    pub(crate) free: SmallVec<[(ModelId, SmallVec<[u16; 8]>); 1]>,
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
    /// CPUs of the node, in all.
    pub(crate) all_cpus: u64,
}

impl NodeCondition {
    /// Returns the present condition of a node; `None` if it takes no work.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let capacity = |device| WHOLE.saturating_sub(node.held_of(device));
        let rooms_of = |devices: &muster_model::DeviceSet| {
            let mut capacities: SmallVec<[u16; 8]> =
                devices.and(node.usable).iter().map(capacity).collect();
            capacities.sort_unstable_by(|one, other| other.cmp(one));
            capacities
        };
        node.accepts_work().then(|| Self {
            free: node.models.iter().map(|(model, devices)| (*model, rooms_of(devices))).collect(),
            cpus: node.limit.cpus.saturating_sub(node.used.cpus),
            memory: node.limit.memory.saturating_sub(node.used.memory),
            all_cpus: node.limit.cpus,
        })
    }

    /// Returns the free thousandths of devices of all models.
    pub(crate) fn idle(&self) -> u64 {
        self.free
            .iter()
            .flat_map(|(_, capacities)| capacities)
            .map(|capacity| u64::from(*capacity))
            .sum()
    }

    /// Returns the free thousandths of the devices of one model, largest first.
    pub(crate) fn of_model(&self, model: ModelId) -> &[u16] {
        self.free
            .iter()
            .find(|(known, _)| *known == model)
            .map_or(&[], |(_, capacities)| capacities)
    }
}

/// Demand of a task on one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskDemand {
    /// Accepted models; empty if no device is needed.
    pub(crate) models: SmallVec<[ModelId; 2]>,
    pub(crate) devices: u32,
    pub(crate) share: u16,
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
}

/// Score of a place: less is better. Ties are broken by the second number, then by node name.
pub(crate) type Weight = (i64, u64);

/// Largest capacity of any node, in thousandths of devices and of CPUs; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LargestCapacity {
    pub(crate) devices: u64,
    pub(crate) cpus: u64,
}

/// Score that is not computed yet.
const UNKNOWN: Weight = (i64::MIN, 0);
/// The demand does not fit.
const DOES_NOT_FIT: Weight = (i64::MAX, 0);

/// A condition and the nodes in it.
#[derive(Clone, Debug)]
struct NodeKind {
    condition: NodeCondition,
    /// Name ranks of its nodes.
    nodes: BTreeSet<u32>,
    /// Position of the kind in `inhabited`.
    place: usize,
}

/// Scores by demand and kind. A clone starts empty: they are computed again.
#[derive(Debug, Default)]
struct CachedWeights(FxHashMap<TaskDemand, Vec<Weight>>);

impl Clone for CachedWeights {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Node kinds with their cached scores.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeKinds {
    kinds: Vec<NodeKind>,
    by_condition: FxHashMap<NodeCondition, u32>,
    of_node: Vec<Option<u32>>,
    /// Kinds that have nodes, in arbitrary order.
    inhabited: Vec<u32>,
    largest: Option<LargestCapacity>,
    remembered: CachedWeights,
}

impl NodeKinds {
    /// Builds the kinds of all nodes.
    pub(crate) fn of(nodes: &[Node]) -> Self {
        let mut kinds = Self { of_node: vec![None; nodes.len()], ..Self::default() };
        let most = |of: fn(&Node) -> u64| nodes.iter().map(of).max().unwrap_or(0).max(1);
        kinds.largest = Some(LargestCapacity {
            devices: most(|node| node.spec.devices.len() as u64 * u64::from(WHOLE)),
            cpus: most(|node| node.capacity.cpus),
        });
        for (id, node) in nodes.iter().enumerate() {
            kinds.moved(NodeId(id as u32), node);
        }
        kinds
    }

    /// True when the kinds without nodes are so many that a rebuild is cheaper.
    pub(crate) fn needs_rebuild(&self) -> bool {
        self.kinds.len() > 4 * self.of_node.len() + 1024
    }

    /// Drops all cached scores.
    pub(crate) fn forget(&mut self) {
        self.remembered.0.clear();
    }

    /// Updates the kind of a node after a change.
    pub(crate) fn moved(&mut self, id: NodeId, node: &Node) {
        let at = id.0 as usize;
        let present = NodeCondition::of(node);
        let old = self.of_node[at];
        if old.map(|kind| &self.kinds[kind as usize].condition) == present.as_ref() {
            return;
        }
        if let Some(kind) = old {
            self.leave(kind, node.rank);
        }
        self.of_node[at] = present.map(|condition| self.enter(condition, node.rank));
    }

    fn leave(&mut self, id: u32, rank: u32) {
        let kind = &mut self.kinds[id as usize];
        kind.nodes.remove(&rank);
        if kind.nodes.is_empty() {
            let place = kind.place;
            self.inhabited.swap_remove(place);
            if let Some(moved) = self.inhabited.get(place) {
                self.kinds[*moved as usize].place = place;
            }
        }
    }

    fn enter(&mut self, condition: NodeCondition, rank: u32) -> u32 {
        let next = self.kinds.len() as u32;
        let id = *self.by_condition.entry(condition.clone()).or_insert(next);
        if id == next {
            self.kinds.push(NodeKind { condition, nodes: BTreeSet::new(), place: 0 });
        }
        let kind = &mut self.kinds[id as usize];
        if kind.nodes.is_empty() {
            kind.place = self.inhabited.len();
            self.inhabited.push(id);
        }
        kind.nodes.insert(rank);
        id
    }

    /// Returns the rank of the best node for a demand; `weigh` scores a condition, `None` if the
    /// demand does not fit.
    pub(crate) fn best(
        &mut self,
        demand: &TaskDemand,
        weigh: &impl Fn(&NodeCondition, LargestCapacity) -> Option<Weight>,
    ) -> Option<u32> {
        let Self { kinds, inhabited, largest, remembered, .. } = self;
        let weights = remembered.of(demand, kinds.len());
        let mut best: Option<(Weight, u32)> = None;
        for id in inhabited.iter() {
            let kind = &kinds[*id as usize];
            let weight = known(&mut weights[*id as usize], &kind.condition, *largest, weigh);
            if weight == DOES_NOT_FIT || best.is_some_and(|(least, _)| least < weight) {
                continue;
            }
            let first = *kind.nodes.first().expect("a kind in use has at least one node");
            if best.is_none_or(|least| (weight, first) < least) {
                best = Some((weight, first));
            }
        }
        best.map(|(_, rank)| rank)
    }

    /// Returns the ranks of all nodes on which a demand fits, with their scores; in arbitrary
    /// order.
    pub(crate) fn all(
        &mut self,
        demand: &TaskDemand,
        weigh: &impl Fn(&NodeCondition, LargestCapacity) -> Option<Weight>,
    ) -> Vec<(Weight, u32)> {
        let Self { kinds, inhabited, largest, remembered, .. } = self;
        let weights = remembered.of(demand, kinds.len());
        let mut all = Vec::new();
        for id in inhabited.iter() {
            let kind = &kinds[*id as usize];
            let weight = known(&mut weights[*id as usize], &kind.condition, *largest, weigh);
            if weight != DOES_NOT_FIT {
                all.extend(kind.nodes.iter().map(|rank| (weight, *rank)));
            }
        }
        all
    }

    /// Returns the score of a node for a demand; `None` if it does not fit.
    pub(crate) fn weight(
        &mut self,
        demand: &TaskDemand,
        node: NodeId,
        weigh: &impl Fn(&NodeCondition, LargestCapacity) -> Option<Weight>,
    ) -> Option<Weight> {
        let id = self.of_node[node.0 as usize]? as usize;
        let weights = self.remembered.of(demand, self.kinds.len());
        let weight = known(&mut weights[id], &self.kinds[id].condition, self.largest, weigh);
        (weight != DOES_NOT_FIT).then_some(weight)
    }
}

impl CachedWeights {
    /// Returns the cached scores of a demand, one per kind.
    fn of(&mut self, demand: &TaskDemand, kinds: usize) -> &mut [Weight] {
        if !self.0.contains_key(demand) && (self.0.len() + 1) * kinds > MAX_CACHED {
            self.0.clear();
        }
        let weights = self.0.entry(demand.clone()).or_default();
        if weights.len() < kinds {
            weights.resize(kinds, UNKNOWN);
        }
        weights
    }
}

fn known(
    weight: &mut Weight,
    condition: &NodeCondition,
    largest: Option<LargestCapacity>,
    weigh: &impl Fn(&NodeCondition, LargestCapacity) -> Option<Weight>,
) -> Weight {
    if *weight == UNKNOWN {
        *weight = largest.and_then(|largest| weigh(condition, largest)).unwrap_or(DOES_NOT_FIT);
    }
    *weight
}
