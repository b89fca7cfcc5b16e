//! Nodes join, change and come into service; everything derived from their capacity is recomputed
//! here.

use std::sync::OnceLock;

use muster_model::{DeviceSet, Drain, Foreign, NodeId, NodeName, NodeSpec, Time};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::availability::Availability;
use super::availability::drain::Drains;
use super::node::{IndexedState, Node};
use super::scalars::Scalars;
use super::{HoldKey, Pool};

impl Pool {
    /// Returns the models that some node has.
    pub(crate) fn models(&self) -> impl Iterator<Item = ModelId> {
        let present = self.nodes_by_model.iter().enumerate().filter(|(_, nodes)| **nodes > 0);
        present.map(|(model, _)| ModelId(model as u16))
    }

    /// Returns the number of devices by model on nodes that are up, including drained ones.
    pub(crate) fn devices_up(&self) -> &[u64] {
        &self.devices_up
    }

    /// Adds a node's models to the counts, or removes them before they change.
    fn count_models(&mut self, at: usize, joins: bool) {
        let node = &self.nodes[at];
        for (model, devices) in &node.models {
            let model = usize::from(model.0);
            if self.nodes_by_model.len() <= model {
                self.nodes_by_model.resize(model + 1, 0);
                self.devices_up.resize(model + 1, 0);
            }
            let up = if node.up { u64::from(devices.len()) } else { 0 };
            let nodes = &mut self.nodes_by_model[model];
            let devices = &mut self.devices_up[model];
            if joins {
                *nodes += 1;
                *devices += up;
            } else {
                *nodes -= 1;
                *devices -= up;
            }
        }
    }

    /// Adds a node, or updates one that came back with other capacity; holdings on it stay.
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

    /// Adds or removes the drain of a whole node, or of some of its devices.
    pub(crate) fn drain(
        &mut self,
        now: Time,
        name: &NodeName,
        devices: Option<DeviceSet>,
        drain: Option<&Drain>,
    ) {
        let Some(id) = self.find(name) else { return };
        let node = self.node(id);
        let mut drains = node.drains.clone();
        match devices {
            None => drains.set_node(now, drain),
            Some(devices) => drains.set_devices(now, &node.spec, devices, drain),
        }
        self.set_drains(now, id, drains);
    }

    /// Sets the drains of a node.
    pub(crate) fn set_drains(&mut self, now: Time, id: NodeId, drains: Drains) {
        self.begin_drains(now);
        self.change(id, |node| node.drains = drains);
    }

    /// Brings drains that began by `now` into force.
    pub(crate) fn begin_drains(&mut self, now: Time) {
        self.in_force_until = self.in_force_until.max(now);
        self.view.at = self.in_force_until;
        while let Some((from, id)) = self.upcoming_drains.first().copied()
            && from <= self.in_force_until
        {
            self.upcoming_drains.remove(&(from, id));
            self.update_service(id);
        }
    }

    /// Recomputes the usable resources of a node.
    pub(crate) fn update_service(&mut self, id: NodeId) {
        self.retire(id);
        self.nodes[id.0 as usize].update_usable(&self.view);
        self.touch(id);
        self.returned += 1;
    }

    /// Returns the drains that have not begun, earliest first.
    pub(crate) fn upcoming_drains(&self) -> impl Iterator<Item = (Time, NodeId)> {
        self.upcoming_drains.iter().copied()
    }

    /// Returns the instant at which the next drain begins.
    pub(crate) fn next_drain(&self) -> Option<Time> {
        self.upcoming_drains.first().map(|(from, _)| *from)
    }

    /// True when a placement may have to end before a drain begins.
    pub(crate) fn has_upcoming_drains(&self) -> bool {
        !self.upcoming_drains.is_empty()
    }

    /// Returns the nodes with a drain that stops running jobs, in force or not.
    pub(crate) fn stopping_drains(&self) -> impl Iterator<Item = NodeId> {
        self.drains_that_stop.iter().copied()
    }

    /// Updates what processes outside Muster use of a node.
    pub(crate) fn use_by_others(&mut self, name: &NodeName, foreign: &Foreign) {
        if let Some(node) = self.find(name)
            && self.node(node).foreign != *foreign
        {
            self.set_foreign(node, foreign.clone());
        }
    }

    pub(crate) fn set_foreign(&mut self, id: NodeId, foreign: Foreign) {
        self.change(id, |node| node.foreign = foreign);
    }

    fn add(&mut self, spec: &NodeSpec) -> NodeId {
        self.mark_kinds_stale();
        let id = NodeId(self.nodes.len() as u32);
        let rank = self.by_rank.partition_point(|other| self.node(*other).spec.name < spec.name);
        // Many nodes join before the first read; the index is empty until then.
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
            reservations: SmallVec::new(),
            availability: Availability::default(),
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
            usage: OnceLock::new(),
            published: IndexedState::default(),
            is_stale: false,
            cpu_only: None,
            is_cpu_only_stale: false,
        });
        for at in rank + 1..self.by_rank.len() {
            let node = &mut self.nodes[self.by_rank[at].0 as usize];
            node.rank = at as u32;
            self.index.enter(node, node.rank);
        }
        id
    }

    /// Changes a node's terms and recomputes everything derived from them.
    pub(crate) fn change(&mut self, id: NodeId, edit: impl FnOnce(&mut Node)) {
        let at = id.0 as usize;
        self.mark_kinds_stale();
        self.retire(id);
        self.count_models(at, false);
        for from in self.nodes[at].drains.instants() {
            self.upcoming_drains.remove(&(from, id));
        }
        edit(&mut self.nodes[at]);
        self.count_models(at, true);
        let drains = &self.nodes[at].drains;
        self.upcoming_drains.extend(
            drains.instants().filter(|from| *from > self.in_force_until).map(|from| (from, id)),
        );
        if drains.stops_jobs() {
            self.drains_that_stop.insert(id);
        } else {
            self.drains_that_stop.remove(&id);
        }
        let extras = self.nodes[at].spec.extras.clone();
        let mut extras: Vec<_> =
            extras.iter().map(|(name, count)| (self.intern_extra(name), *count)).collect();
        extras.sort_unstable();
        let others = self.nodes[at].foreign.extras.clone();
        let others = others.iter().map(|(name, count)| (self.intern_extra(name), *count));
        let mut others: Vec<_> = others.collect();
        others.sort_unstable();
        let node = &mut self.nodes[at];
        node.capacity =
            Scalars { cpus: u64::from(node.spec.cpus.0), memory: node.spec.memory.0, extras };
        node.limit = node.capacity.clone();
        node.limit.sub(&Scalars {
            cpus: u64::from(node.foreign.cpus.0),
            memory: node.foreign.memory.0,
            extras: others,
        });
        node.update_usable(&self.view);
        self.touch(id);
        self.returned += 1;
        self.epoch += 1;
    }

    /// Releases everything and, unless `only_working`, brings every node into service for good;
    /// used on a copy, to compute what an idle cluster could host. For jobs of a reservation, the
    /// times of that reservation do not count.
    pub(crate) fn make_idle(&mut self, only_working: bool) {
        let own = self.view.reservation.clone();
        for id in self.reserved_nodes.clone() {
            let reservations = &mut self.nodes[id.0 as usize].reservations;
            reservations.retain(|reserved| {
                only_working || Some(&reserved.reservation.name) == own.as_ref()
            });
            self.update_service(id);
        }
        for key in (0..self.holdings.len() as u32).map(HoldKey) {
            if self.holdings[key.0 as usize].is_some() {
                self.release(key);
            }
        }
        for id in (0..self.nodes.len() as u32).map(NodeId).filter(|_| !only_working) {
            self.change(id, |node| {
                node.up = true;
                node.drains = Drains::default();
                node.foreign = Foreign::default();
            });
        }
        for id in self.reserved_nodes.clone() {
            self.nodes[id.0 as usize].availability.drop_own_reservation();
        }
    }
}
