//! Nodes join, change and come into service; what follows from their terms is recomputed here.

use muster_model::{DeviceSet, Foreign, NodeId, NodeSpec, Time};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::{HoldKey, Pool};
use crate::state::drain::Drains;
use crate::state::node::{Node, Published};
use crate::state::scalars::Scalars;
use crate::state::wall::Walls;

impl Pool {
    /// Models that some node has.
    pub(crate) fn models(&self) -> impl Iterator<Item = ModelId> {
        let present = self.nodes_by_model.iter().enumerate().filter(|(_, nodes)| **nodes > 0);
        present.map(|(model, _)| ModelId(model as u16))
    }

    /// Devices by model on nodes that are up, drained ones included.
    pub(crate) fn devices_up(&self) -> &[u64] {
        &self.devices_up
    }

    /// Counts a node's models in (or out, before they change).
    fn count_models(&mut self, at: usize, joins: bool) {
        let node = &self.nodes[at];
        for (model, devices) in &node.models {
            let model = usize::from(model.0);
            if self.nodes_by_model.len() <= model {
                self.nodes_by_model.resize(model + 1, 0);
                self.devices_up.resize(model + 1, 0);
            }
            let up = if node.up { u64::from(devices.len()) } else { 0 };
            let (nodes, devices) = (&mut self.nodes_by_model[model], &mut self.devices_up[model]);
            (*nodes, *devices) =
                if joins { (*nodes + 1, *devices + up) } else { (*nodes - 1, *devices - up) };
        }
    }

    /// A node joined, or came back with other capacity; what is held of it stays held.
    pub(crate) fn join(
        &mut self,
        spec: NodeSpec,
        models: SmallVec<[(ModelId, DeviceSet); 1]>,
    ) -> NodeId {
        let known = self.find(&spec.name);
        let moves = known.is_none_or(|id| self.node(id).spec.domains != spec.domains);
        let id = known.unwrap_or_else(|| self.add(&spec));
        if moves {
            self.leave_domains(id);
        }
        self.change(id, |node| {
            node.held.resize(node.held.len().max(spec.devices.len()), 0);
            node.spec = spec;
            node.models = models;
            node.up = true;
        });
        if moves {
            self.enter_domains(id);
        }
        id
    }

    pub(crate) fn set_up(&mut self, id: NodeId, up: bool) {
        self.change(id, |node| node.up = up);
    }

    /// Changes what is drained of a node.
    pub(crate) fn set_drains(&mut self, now: Time, id: NodeId, drains: Drains) {
        self.drains_begin(now);
        self.change(id, |node| node.drains = drains);
    }

    /// Drains that began by now come into force; whoever asks is told so.
    pub(crate) fn drains_begin(&mut self, now: Time) {
        self.seen = self.seen.max(now);
        self.view.at = self.seen;
        while let Some((from, id)) = self.drains_ahead.first().copied()
            && from <= self.seen
        {
            self.drains_ahead.remove(&(from, id));
            self.serve(id);
        }
    }

    /// Works out anew what may be given away of a node.
    pub(super) fn serve(&mut self, id: NodeId) {
        self.retire(id);
        self.nodes[id.0 as usize].put_into_service(&self.view);
        self.touch(id);
        self.returned += 1;
    }

    /// Drains that lie ahead, the first to begin first.
    pub(crate) fn drains_ahead(&self) -> impl Iterator<Item = (Time, NodeId)> {
        self.drains_ahead.iter().copied()
    }

    /// When the next of them begins.
    pub(crate) fn next_drain(&self) -> Option<Time> {
        self.drains_ahead.first().map(|(from, _)| *from)
    }

    /// True when something may be placed that has to end before an instant.
    pub(crate) fn has_drains_ahead(&self) -> bool {
        !self.drains_ahead.is_empty()
    }

    /// Nodes with a drain that stops what is there, in force or not.
    pub(crate) fn stopping_drains(&self) -> impl Iterator<Item = NodeId> {
        self.drains_that_stop.iter().copied()
    }

    pub(crate) fn set_foreign(&mut self, id: NodeId, foreign: Foreign) {
        self.change(id, |node| node.foreign = foreign);
    }

    fn add(&mut self, spec: &NodeSpec) -> NodeId {
        self.kinds_are_stale();
        let id = NodeId(self.nodes.len() as u32);
        let rank = self.by_rank.partition_point(|other| self.node(*other).spec.name < spec.name);
        // Many join before anybody asks; then nothing is said of any.
        let moved = if self.index.is_blank() { &[] } else { &self.by_rank[rank..] };
        for moved in moved.iter().map(|id| &self.nodes[id.0 as usize]) {
            self.index.leave(moved, moved.rank);
        }
        self.by_rank.insert(rank, id);
        self.by_name.insert(spec.name.clone(), id);
        self.nodes.push(Node {
            spec: spec.clone(),
            up: true,
            drains: Drains::default(),
            claims: SmallVec::new(),
            walls: Walls::default(),
            foreign: Foreign::default(),
            rank: rank as u32,
            domains: SmallVec::new(),
            models: SmallVec::new(),
            usable: DeviceSet::EMPTY,
            capacity: Scalars::default(),
            limit: Scalars::default(),
            held: SmallVec::new(),
            touched: DeviceSet::EMPTY,
            used: Scalars::default(),
            holds: SmallVec::new(),
            bookings: Vec::new(),
            booked: DeviceSet::EMPTY,
            published: Published::default(),
            is_stale: false,
            plain: None,
            is_plain_stale: false,
        });
        for at in rank + 1..self.by_rank.len() {
            let node = &mut self.nodes[self.by_rank[at].0 as usize];
            node.rank = at as u32;
            self.index.enter(node, node.rank);
        }
        id
    }

    /// Changes a node's terms and recomputes what follows from them.
    pub(super) fn change(&mut self, id: NodeId, edit: impl FnOnce(&mut Node)) {
        let at = id.0 as usize;
        self.kinds_are_stale();
        self.retire(id);
        self.count_models(at, false);
        for from in self.nodes[at].drains.instants() {
            self.drains_ahead.remove(&(from, id));
        }
        edit(&mut self.nodes[at]);
        self.count_models(at, true);
        let drains = &self.nodes[at].drains;
        self.drains_ahead
            .extend(drains.instants().filter(|from| *from > self.seen).map(|from| (from, id)));
        match drains.stops() {
            true => self.drains_that_stop.insert(id),
            false => self.drains_that_stop.remove(&id),
        };
        let extras = self.nodes[at].spec.extras.clone();
        let mut extras: Vec<_> =
            extras.iter().map(|(name, count)| (self.intern_extra(name), *count)).collect();
        extras.sort_unstable();
        let node = &mut self.nodes[at];
        node.capacity =
            Scalars { cpus: u64::from(node.spec.cpus.0), memory: node.spec.memory.0, extras };
        node.limit = node.capacity.clone();
        node.limit.cpus = node.capacity.cpus.saturating_sub(u64::from(node.foreign.cpus.0));
        node.limit.memory = node.capacity.memory.saturating_sub(node.foreign.memory.0);
        node.put_into_service(&self.view);
        self.touch(id);
        self.returned += 1;
        self.epoch += 1;
    }

    /// Gives everything back and, unless only what works is asked about, brings every node into
    /// service for good; on a copy, to ask what an idle cluster could do. Who looks from inside of
    /// a window is not concerned with when that is.
    pub(crate) fn make_idle(&mut self, only_working: bool) {
        let own = self.view.window.clone();
        for id in self.claimed.clone() {
            let claims = &mut self.nodes[id.0 as usize].claims;
            claims.retain(|claim| only_working || Some(&claim.window.name) == own.as_ref());
            self.serve(id);
        }
        for key in (0..self.holdings.len() as u32).map(HoldKey) {
            if self.holdings[key.0 as usize].is_some() {
                self.release(key);
            }
        }
        for id in (0..self.nodes.len() as u32).map(NodeId).filter(|_| !only_working) {
            self.change(id, |node| {
                (node.up, node.drains, node.foreign) =
                    (true, Drains::default(), Foreign::default());
            });
        }
        for id in self.claimed.clone() {
            self.nodes[id.0 as usize].walls.drop_own();
        }
    }
}
