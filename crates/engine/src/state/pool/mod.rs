//! All nodes, everything that is held of them, and an undo log: planning changes the pool in place
//! and rolls back, so a pass never copies the cluster. The pool knows holdings, not jobs; it
//! chooses nothing.

mod domains;
mod kinds;
mod nodes;
mod scratch;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{ElementId, NodeId, NodeName, TaskPlacement, Time, Window, WindowName};
use rustc_hash::FxHashMap;

use crate::state::ends::{End, Ends};
use crate::state::index::Index;
use crate::state::node::Node;
use crate::state::scalars::ExtraId;
use crate::state::shape::Shape;
use crate::state::topology::Domains;
use crate::state::wall::View;
pub(crate) use domains::PlainKey;

/// Key of a holding in the pool. It carries no meaning and no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HoldKey(pub(crate) u32);

/// What one started element holds, over all its nodes.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) element: ElementId,
    pub(crate) end: End,
    pub(crate) shape: Arc<Shape>,
    /// Empty while its gang is being placed.
    pub(crate) placement: Arc<[TaskPlacement]>,
}

/// A planned future start. Lives only within a pass.
#[derive(Clone, Debug)]
pub(crate) struct Booking {
    pub(crate) element: ElementId,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) shape: Arc<Shape>,
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// Over this and all bookings before it: the latest start and the earliest end.
    latest_start: Time,
    earliest_end: Time,
}

/// A place in the undo log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint(usize);

#[derive(Clone, Debug)]
enum Undo {
    Opened(HoldKey),
    Granted {
        key: HoldKey,
        task: TaskPlacement,
    },
    /// And the version before.
    Closed(HoldKey, u64),
    Parked(HoldKey),
    Unparked(HoldKey),
    /// With the version before.
    Retracted(HoldKey, u64),
    /// With its end and the version before.
    Hastened(HoldKey, End, u64),
    Booked,
    /// Bookings that were dropped together.
    Unbooked(Vec<Booking>),
}

/// Nodes and holdings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    nodes: Vec<Node>,
    by_name: FxHashMap<NodeName, NodeId>,
    by_rank: Vec<NodeId>,
    index: Index,
    pub(crate) domains: Domains,
    holdings: Vec<Option<Holding>>,
    /// No places: where a gang is while it is being placed.
    nowhere: Arc<[TaskPlacement]>,
    vacant: Vec<HoldKey>,
    ends: Ends,
    kinds: kinds::Weighing,
    bookings: Vec<Booking>,
    /// Bookings by when they begin, and by when they end.
    booked_from: Vec<(Time, u32)>,
    booked_until: Vec<(Time, u32)>,
    log: Vec<Undo>,
    /// Nodes that changed since the indexes were last asked: for devices, and for tasks without a
    /// GPU.
    stale: Vec<NodeId>,
    plain_stale: Vec<NodeId>,
    extras: Vec<Arc<str>>,
    /// How many nodes have each model, lost and drained ones included.
    nodes_by_model: Vec<u32>,
    /// Devices of each model on nodes that are up.
    devices_up: Vec<u64>,
    /// Drains that lie ahead.
    drains_ahead: BTreeSet<(Time, NodeId)>,
    /// Nodes with a drain that stops what is there.
    drains_that_stop: BTreeSet<NodeId>,
    /// Nodes of which windows set something aside.
    claimed: BTreeSet<NodeId>,
    /// These windows.
    windows: BTreeMap<WindowName, Arc<Window>>,
    /// The instant up to which drains and windows have come into force.
    seen: Time,
    /// Who looks, and from when; outside of scratch nobody in particular, from the instant seen.
    view: View,
    /// One number for each set of holdings with their ends and places; a rollback brings the
    /// earlier one back.
    version: u64,
    versions: u64,
    /// Ends that were seen from this instant are of the same version when they turn out to be so.
    foreseen_from: Option<Time>,
    /// Changes whenever something may have come back for good, or into service.
    returned: u64,
    /// Changes whenever what an idle cluster could host may have changed.
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

    /// Id of an extra's name, when some node or job has named it.
    pub(crate) fn find_extra(&self, name: &str) -> Option<ExtraId> {
        self.extras.iter().position(|known| &**known == name).map(|at| at as ExtraId)
    }

    /// Name of an extra.
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
        self.holdings[key.0 as usize].as_ref().expect("a key lives as long as its holding")
    }

    /// All holdings, in no meaningful order.
    pub(crate) fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.holdings.iter().flatten()
    }

    /// Begins a holding whose tasks are granted one by one; [`Pool::close`] completes it.
    pub(crate) fn open(&mut self, element: ElementId, end: End, shape: Arc<Shape>) -> HoldKey {
        let holding = Some(Holding { element, end, shape, placement: Arc::clone(&self.nowhere) });
        let key = self.vacant.pop().unwrap_or_else(|| {
            self.holdings.push(None);
            HoldKey(self.holdings.len() as u32 - 1)
        });
        self.holdings[key.0 as usize] = holding;
        self.log.push(Undo::Opened(key));
        key
    }

    /// Holds what one task takes.
    pub(crate) fn grant(&mut self, key: HoldKey, task: &TaskPlacement) {
        self.take(key, task);
        self.log.push(Undo::Granted { key, task: task.clone() });
    }

    /// Completes a holding: from here the profile knows when it ends.
    pub(crate) fn close(&mut self, key: HoldKey, placement: Arc<[TaskPlacement]>) {
        let holding = self.holdings[key.0 as usize].as_mut().expect("open before close");
        holding.placement = placement;
        self.ends.insert(holding.end, holding.element, key);
        self.log.push(Undo::Closed(key, self.version));
        self.renew();
    }

    /// Holds a whole placement for good.
    pub(crate) fn hold(
        &mut self,
        element: ElementId,
        end: End,
        shape: Arc<Shape>,
        placement: Arc<[TaskPlacement]>,
    ) -> HoldKey {
        let key = self.open(element, end, shape);
        self.take_all(key, &placement);
        self.close(key, placement);
        self.settle();
        key
    }

    /// Gives a holding back for good.
    pub(crate) fn release(&mut self, key: HoldKey) {
        let holding = self.holding(key);
        let (end, element, placement) =
            (holding.end, holding.element, Arc::clone(&holding.placement));
        self.ends.remove(end, element, key);
        self.renew();
        self.give_all(key, &placement);
        self.holdings[key.0 as usize] = None;
        self.vacant.push(key);
        self.returned += 1;
        self.settle();
    }

    /// It is now known when a holding ends.
    pub(crate) fn set_end(&mut self, key: HoldKey, end: End) {
        let is_foreseen = self.is_foreseen(key, end);
        self.move_end(key, end);
        if !is_foreseen {
            self.renew();
        }
    }

    /// Somebody who has looked ahead from an instant keeps what he saw.
    pub(crate) fn foresee(&mut self, from: Option<Time>) {
        self.foreseen_from = from;
    }

    /// True when it was seen ahead that a holding comes back at that instant, alone.
    fn is_foreseen(&self, key: HoldKey, end: End) -> bool {
        match (self.foreseen_from, self.holding(key).end, end) {
            (Some(from), End::After(span), End::At(at)) => {
                at == from + span && !self.ends.has_at(at)
            }
            _ => false,
        }
    }

    fn move_end(&mut self, key: HoldKey, end: End) {
        let holding =
            self.holdings[key.0 as usize].as_mut().expect("a key lives as long as its holding");
        self.ends.remove(holding.end, holding.element, key);
        holding.end = end;
        self.ends.insert(end, holding.element, key);
        for task in holding.placement.iter() {
            for hold in &mut self.nodes[task.node.0 as usize].holds {
                if hold.key == key {
                    hold.end = end;
                }
            }
        }
    }

    /// How often something may have come back for good, or into service.
    pub(crate) fn returned(&self) -> u64 {
        self.returned
    }

    /// Which set of holdings this is.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    fn renew(&mut self) {
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
        let holding =
            self.holdings[key.0 as usize].as_ref().expect("a key lives as long as its holding");
        let scalars = &holding.shape.groups[usize::from(task.group)].scalars;
        let node = &mut self.nodes[task.node.0 as usize];
        node.take(key, holding.end, task.devices, task.share.0 as u16, scalars);
    }

    fn give(&mut self, key: HoldKey, task: &TaskPlacement) {
        self.touch(task.node);
        let holding =
            self.holdings[key.0 as usize].as_ref().expect("a key lives as long as its holding");
        let scalars = &holding.shape.groups[usize::from(task.group)].scalars;
        let node = &mut self.nodes[task.node.0 as usize];
        node.give(key, task.devices, task.share.0 as u16, scalars);
    }
}
