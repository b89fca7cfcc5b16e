//! Nodes in equal condition, for policies that weigh places against each other: each condition is
//! weighed once per need, however many nodes are in it and however often they come back to it. It
//! groups and remembers; what a condition is worth is said by `plan/score`.

use std::collections::BTreeSet;

use muster_model::NodeId;
use muster_policy::ModelId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::node::{Node, WHOLE};

/// Weights that are remembered in all: 16 MiB of them.
const MOST_REMEMBERED: usize = 1 << 20;

/// All that is weighed of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    /// Free thousandths of its usable devices by model, the most first.
    pub(crate) rooms: SmallVec<[(ModelId, SmallVec<[u16; 8]>); 1]>,
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
    /// CPUs that there are.
    pub(crate) all_cpus: u64,
}

impl Condition {
    /// The present condition of a node that takes work.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let room = |device| WHOLE.saturating_sub(node.held_of(device));
        let rooms_of = |devices: &muster_model::DeviceSet| {
            let mut rooms: SmallVec<[u16; 8]> = devices.and(node.usable).iter().map(room).collect();
            rooms.sort_unstable_by(|one, other| other.cmp(one));
            rooms
        };
        node.hosts().then(|| Self {
            rooms: node.models.iter().map(|(model, devices)| (*model, rooms_of(devices))).collect(),
            cpus: node.limit.cpus.saturating_sub(node.used.cpus),
            memory: node.limit.memory.saturating_sub(node.used.memory),
            all_cpus: node.limit.cpus,
        })
    }

    /// Free thousandths of devices of all models.
    pub(crate) fn idle(&self) -> u64 {
        self.rooms.iter().flat_map(|(_, rooms)| rooms).map(|room| u64::from(*room)).sum()
    }

    /// Rooms on devices of one model.
    pub(crate) fn of_model(&self, model: ModelId) -> &[u16] {
        self.rooms.iter().find(|(known, _)| *known == model).map_or(&[], |(_, rooms)| rooms)
    }
}

/// What a task needs of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Demand {
    /// Models that would do; none where no device is needed.
    pub(crate) models: SmallVec<[ModelId; 2]>,
    pub(crate) devices: u32,
    pub(crate) share: u16,
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
}

/// What a place is worth: less is better. Equals go by the second number, then by name.
pub(crate) type Weight = (i64, u64);

/// The most that any node has, in thousandths of devices and of CPUs; 1 where that is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Largest {
    pub(crate) devices: u64,
    pub(crate) cpus: u64,
}

/// Not weighed yet.
const UNKNOWN: Weight = (i64::MIN, 0);
/// There is no room.
const NO_ROOM: Weight = (i64::MAX, 0);

/// A condition and who is in it.
#[derive(Clone, Debug)]
struct Kind {
    condition: Condition,
    /// Ranks by name.
    nodes: BTreeSet<u32>,
    /// Its place among those that have nodes.
    place: usize,
}

/// Weights by need and kind. A copy begins without any: they are worked out again.
#[derive(Debug, Default)]
struct Remembered(FxHashMap<Demand, Vec<Weight>>);

impl Clone for Remembered {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// All kinds of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    kinds: Vec<Kind>,
    by_condition: FxHashMap<Condition, u32>,
    of_node: Vec<Option<u32>>,
    /// Kinds that have nodes, in no meaningful order.
    inhabited: Vec<u32>,
    largest: Option<Largest>,
    remembered: Remembered,
}

impl Kinds {
    /// All nodes, each in its kind.
    pub(crate) fn of(nodes: &[Node]) -> Self {
        let mut kinds = Self { of_node: vec![None; nodes.len()], ..Self::default() };
        let most = |of: fn(&Node) -> u64| nodes.iter().map(of).max().unwrap_or(0).max(1);
        kinds.largest = Some(Largest {
            devices: most(|node| node.spec.devices.len() as u64 * u64::from(WHOLE)),
            cpus: most(|node| node.capacity.cpus),
        });
        for (id, node) in nodes.iter().enumerate() {
            kinds.moved(NodeId(id as u32), node);
        }
        kinds
    }

    /// True when so many kinds were met that it is better to begin anew.
    pub(crate) fn is_worn(&self) -> bool {
        self.kinds.len() > 4 * self.of_node.len() + 1024
    }

    /// Other weights hold from now on.
    pub(crate) fn forget(&mut self) {
        self.remembered.0.clear();
    }

    /// A node may be in another condition.
    pub(crate) fn moved(&mut self, id: NodeId, node: &Node) {
        let at = id.0 as usize;
        let present = Condition::of(node);
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

    fn enter(&mut self, condition: Condition, rank: u32) -> u32 {
        let next = self.kinds.len() as u32;
        let id = *self.by_condition.entry(condition.clone()).or_insert(next);
        if id == next {
            self.kinds.push(Kind { condition, nodes: BTreeSet::new(), place: 0 });
        }
        let kind = &mut self.kinds[id as usize];
        if kind.nodes.is_empty() {
            kind.place = self.inhabited.len();
            self.inhabited.push(id);
        }
        kind.nodes.insert(rank);
        id
    }

    /// The rank of the best node for a need; `weigh` says what a condition is worth, `None` where
    /// there is no room.
    pub(crate) fn best(
        &mut self,
        demand: &Demand,
        weigh: &impl Fn(&Condition, Largest) -> Option<Weight>,
    ) -> Option<u32> {
        let Self { kinds, inhabited, largest, remembered, .. } = self;
        let weights = remembered.of(demand, kinds.len());
        let mut best: Option<(Weight, u32)> = None;
        for id in inhabited.iter() {
            let kind = &kinds[*id as usize];
            let weight = known(&mut weights[*id as usize], &kind.condition, *largest, weigh);
            if weight == NO_ROOM || best.is_some_and(|(least, _)| least < weight) {
                continue;
            }
            let first = *kind.nodes.first().expect("it is inhabited");
            if best.is_none_or(|least| (weight, first) < least) {
                best = Some((weight, first));
            }
        }
        best.map(|(_, rank)| rank)
    }

    /// The ranks of all nodes with room for a need, and what they are worth; in no meaningful
    /// order.
    pub(crate) fn all(
        &mut self,
        demand: &Demand,
        weigh: &impl Fn(&Condition, Largest) -> Option<Weight>,
    ) -> Vec<(Weight, u32)> {
        let Self { kinds, inhabited, largest, remembered, .. } = self;
        let weights = remembered.of(demand, kinds.len());
        let mut all = Vec::new();
        for id in inhabited.iter() {
            let kind = &kinds[*id as usize];
            let weight = known(&mut weights[*id as usize], &kind.condition, *largest, weigh);
            if weight != NO_ROOM {
                all.extend(kind.nodes.iter().map(|rank| (weight, *rank)));
            }
        }
        all
    }

    /// What a node is worth to a need now; `None` where it has no room.
    pub(crate) fn weight(
        &mut self,
        demand: &Demand,
        node: NodeId,
        weigh: &impl Fn(&Condition, Largest) -> Option<Weight>,
    ) -> Option<Weight> {
        let id = self.of_node[node.0 as usize]? as usize;
        let weights = self.remembered.of(demand, self.kinds.len());
        let weight = known(&mut weights[id], &self.kinds[id].condition, self.largest, weigh);
        (weight != NO_ROOM).then_some(weight)
    }
}

impl Remembered {
    /// What is remembered for a need, with a place for every kind.
    fn of(&mut self, demand: &Demand, kinds: usize) -> &mut [Weight] {
        if !self.0.contains_key(demand) && (self.0.len() + 1) * kinds > MOST_REMEMBERED {
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
    condition: &Condition,
    largest: Option<Largest>,
    weigh: &impl Fn(&Condition, Largest) -> Option<Weight>,
) -> Weight {
    if *weight == UNKNOWN {
        *weight = largest.and_then(|largest| weigh(condition, largest)).unwrap_or(NO_ROOM);
    }
    *weight
}
