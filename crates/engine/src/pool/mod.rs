//! The pool: all nodes, everything held on them, and an undo log. Planning changes the pool in
//! place and rolls back, so a pass never copies the cluster. The pool stores holdings, not jobs,
//! and chooses nothing.

pub(crate) mod availability;
mod domains;
pub(crate) mod ends;
pub(crate) mod index;
mod kinds;
pub(crate) mod node;
pub(crate) mod node_kind;
mod nodes;
pub(crate) mod rank_set;
mod reservations;
pub(crate) mod scalars;
pub(crate) mod scope;
mod scratch;
pub(crate) mod shape;
pub(crate) mod topology;
pub(crate) mod usage_timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{
    AdvanceReservation, AdvanceReservationName, ElementId, NodeId, NodeName, TaskPlacement, Time,
};
use rustc_hash::FxHashMap;

use availability::PoolView;

pub(crate) use domains::CpuOnlyKey;
use ends::{HoldingEnd, HoldingEnds};
use index::Index;
use node::Node;
use scalars::ExtraId;
use shape::Shape;
use topology::TopologyDomains;

/// Key of a holding in the pool. It has no meaning and no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HoldKey(pub(crate) u32);

/// Resources that one started element holds, on all its nodes.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) element: ElementId,
    pub(crate) end: HoldingEnd,
    pub(crate) shape: Arc<Shape>,
    /// Empty while its gang is being placed.
    pub(crate) placement: Arc<[TaskPlacement]>,
}

/// Planned future start. Exists only within a pass.
#[derive(Clone, Debug)]
pub(crate) struct Booking {
    pub(crate) element: ElementId,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) shape: Arc<Shape>,
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// Latest start and earliest end of this and all earlier bookings.
    latest_start: Time,
    earliest_end: Time,
}

/// Position in the undo log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchMark(usize);

#[derive(Clone, Debug)]
enum Undo {
    Opened(HoldKey),
    Granted {
        key: HoldKey,
        task: TaskPlacement,
    },
    /// With the version before.
    Closed(HoldKey, u64),
    Parked(HoldKey),
    Unparked(HoldKey),
    /// With the version before.
    Retracted(HoldKey, u64),
    /// With its end and the version before.
    EndMoved(HoldKey, HoldingEnd, u64),
    Booked,
    /// Bookings that were dropped together.
    Unbooked(Vec<Booking>),
}

/// All nodes and holdings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    nodes: Vec<Node>,
    by_name: FxHashMap<NodeName, NodeId>,
    by_rank: Vec<NodeId>,
    index: Index,
    pub(crate) domains: TopologyDomains,
    holdings: Vec<Option<Holding>>,
    /// Placement of a gang that is being placed: empty.
    no_placement: Arc<[TaskPlacement]>,
    vacant: Vec<HoldKey>,
    ends: HoldingEnds,
    kinds: kinds::KindCache,
    bookings: Vec<Booking>,
    /// Bookings by start, and by end.
    booked_from: Vec<(Time, u32)>,
    booked_until: Vec<(Time, u32)>,
    log: Vec<Undo>,
    /// Nodes that changed since the last update of the indexes: for devices, and for tasks without
    /// a GPU.
    stale: Vec<NodeId>,
    plain_stale: Vec<NodeId>,
    extras: Vec<Arc<str>>,
    /// Number of nodes with each model, including lost and drained ones.
    nodes_by_model: Vec<u32>,
    /// Number of devices of each model on nodes that are up.
    devices_up: Vec<u64>,
    /// Drains that have not begun.
    upcoming_drains: BTreeSet<(Time, NodeId)>,
    /// Nodes with a drain that stops running jobs.
    drains_that_stop: BTreeSet<NodeId>,
    /// Nodes on which reservations reserve something.
    reserved_nodes: BTreeSet<NodeId>,
    /// Advance reservations that have places, by name.
    advance_reservations: BTreeMap<AdvanceReservationName, Arc<AdvanceReservation>>,
    /// Instant up to which drains and reservations are in force.
    in_force_until: Time,
    /// Instant and reservation for which availability is computed; outside of scratch work the
    /// instant is `seen` and the reservation is `None`.
    view: PoolView,
    /// Number identifying the set of holdings with their ends and places; a rollback restores the
    /// earlier number.
    version: u64,
    versions: u64,
    /// Instant of the last plan: a holding that ends as predicted from it does not change the
    /// version.
    planned_at: Option<Time>,
    /// Increases whenever resources may have been released for good, or come into service.
    returned: u64,
    /// Increases whenever the capacity of the idle cluster may have changed.
    epoch: u64,
}

impl Pool {
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    pub(crate) fn find(&self, name: &NodeName) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn at_rank(&self, rank: u32) -> NodeId {
        self.by_rank[rank as usize]
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Returns the id of an extra resource, if some node or job has named it.
    pub(crate) fn find_extra(&self, name: &str) -> Option<ExtraId> {
        self.extras.iter().position(|known| &**known == name).map(|at| at as ExtraId)
    }

    /// Returns the name of an extra resource.
    pub(crate) fn extra_name(&self, id: ExtraId) -> Option<&Arc<str>> {
        self.extras.get(usize::from(id))
    }

    pub(crate) fn intern_extra(&mut self, name: &str) -> ExtraId {
        self.find_extra(name).unwrap_or_else(|| {
            self.extras.push(name.into());
            (self.extras.len() - 1) as ExtraId
        })
    }

    pub(crate) fn holding(&self, key: HoldKey) -> &Holding {
        self.holdings[key.0 as usize].as_ref().expect("a key is used only while its holding exists")
    }

    /// Returns all holdings, in arbitrary order.
    pub(crate) fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.holdings.iter().flatten()
    }

    /// Returns all holdings with their keys, in order of the keys.
    pub(crate) fn holdings_by_key(&self) -> impl Iterator<Item = (HoldKey, &Holding)> {
        let all = (0..).map(HoldKey).zip(&self.holdings);
        all.filter_map(|(key, holding)| Some((key, holding.as_ref()?)))
    }

    /// Creates a holding whose tasks are granted one by one; [`Pool::close`] completes it.
    pub(crate) fn open(
        &mut self,
        element: ElementId,
        end: HoldingEnd,
        shape: Arc<Shape>,
    ) -> HoldKey {
        let holding =
            Some(Holding { element, end, shape, placement: Arc::clone(&self.no_placement) });
        let key = self.vacant.pop().unwrap_or_else(|| {
            self.holdings.push(None);
            HoldKey(self.holdings.len() as u32 - 1)
        });
        self.holdings[key.0 as usize] = holding;
        self.log.push(Undo::Opened(key));
        key
    }

    /// Takes the resources of one task.
    pub(crate) fn grant(&mut self, key: HoldKey, task: &TaskPlacement) {
        self.take(key, task);
        self.log.push(Undo::Granted { key, task: task.clone() });
    }

    /// Completes a holding and adds its end to the availability profile.
    pub(crate) fn close(&mut self, key: HoldKey, placement: Arc<[TaskPlacement]>) {
        let holding = self.holdings[key.0 as usize].as_mut().expect("open before close");
        holding.placement = placement;
        self.ends.insert(holding.end, holding.element, key);
        self.log.push(Undo::Closed(key, self.version));
        self.next_version();
    }

    /// Takes the resources of a whole placement for good.
    pub(crate) fn hold(
        &mut self,
        element: ElementId,
        end: HoldingEnd,
        shape: Arc<Shape>,
        placement: Arc<[TaskPlacement]>,
    ) -> HoldKey {
        let key = self.open(element, end, shape);
        self.take_all(key, &placement);
        self.close(key, placement);
        self.clear_undo_log();
        key
    }

    /// Releases a holding for good.
    pub(crate) fn release(&mut self, key: HoldKey) {
        let holding = self.holding(key);
        let end = holding.end;
        let element = holding.element;
        let placement = Arc::clone(&holding.placement);
        self.ends.remove(end, element, key);
        self.next_version();
        self.give_all(key, &placement);
        self.holdings[key.0 as usize] = None;
        self.vacant.push(key);
        self.returned += 1;
        self.clear_undo_log();
    }

    /// Sets the end of a holding once it is known.
    pub(crate) fn set_end(&mut self, key: HoldKey, end: HoldingEnd) {
        let is_foreseen = self.ends_as_planned(key, end);
        self.move_end(key, end);
        if !is_foreseen {
            self.next_version();
        }
    }

    /// Sets the instant from which ends were predicted, or none.
    pub(crate) fn set_planned_at(&mut self, from: Option<Time>) {
        self.planned_at = from;
    }

    /// True when the end of a holding is exactly as predicted, and no other holding ends then.
    fn ends_as_planned(&self, key: HoldKey, end: HoldingEnd) -> bool {
        match (self.planned_at, self.holding(key).end, end) {
            (Some(from), HoldingEnd::After(span), HoldingEnd::At(at)) => {
                at == from + span && !self.ends.has_at(at)
            }
            _ => false,
        }
    }

    fn move_end(&mut self, key: HoldKey, end: HoldingEnd) {
        let holding = self.holdings[key.0 as usize]
            .as_mut()
            .expect("a key is used only while its holding exists");
        self.ends.remove(holding.end, holding.element, key);
        holding.end = end;
        self.ends.insert(end, holding.element, key);
        for task in holding.placement.iter() {
            self.nodes[task.node.0 as usize].move_end(key, end);
        }
    }

    /// Returns a counter that increases whenever resources may have been released for good, or come
    /// into service.
    pub(crate) fn returned(&self) -> u64 {
        self.returned
    }

    /// Returns the number of the present set of holdings.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    fn next_version(&mut self) {
        self.versions += 1;
        self.version = self.versions;
    }

    fn take_all(&mut self, key: HoldKey, placement: &[TaskPlacement]) {
        placement.iter().for_each(|task| self.take(key, task));
    }

    fn give_all(&mut self, key: HoldKey, placement: &[TaskPlacement]) {
        placement.iter().for_each(|task| self.give(key, task));
    }

    fn take(&mut self, key: HoldKey, task: &TaskPlacement) {
        self.touch(task.node);
        let holding = self.holdings[key.0 as usize]
            .as_ref()
            .expect("a key is used only while its holding exists");
        let scalars = &holding.shape.groups[usize::from(task.group)].scalars;
        let node = &mut self.nodes[task.node.0 as usize];
        node.take(key, holding.end, task.devices, task.share.0 as u16, scalars);
    }

    fn give(&mut self, key: HoldKey, task: &TaskPlacement) {
        self.touch(task.node);
        let holding = self.holdings[key.0 as usize]
            .as_ref()
            .expect("a key is used only while its holding exists");
        let scalars = &holding.shape.groups[usize::from(task.group)].scalars;
        let node = &mut self.nodes[task.node.0 as usize];
        node.give(key, task.devices, task.share.0 as u16, scalars);
    }
}
