//! All nodes, everything that is held of them, and an undo log: planning changes the pool in place and rolls
//! back, so a pass never copies the cluster. The pool knows holdings, not jobs; it chooses nothing.

use std::sync::Arc;

use muster_model::{DeviceSet, ElementId, Foreign, NodeId, NodeName, NodeSpec, TaskPlacement, Time};
use muster_policy::ModelId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ends::{End, EndCursor, Ends};
use super::index::Index;
use super::node::{Node, NodeBooking, Published, WHOLE, Window};
use super::scalars::{ExtraId, Scalars};
use super::shape::Shape;

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
    Closed(HoldKey),
    Parked(HoldKey),
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
    pub(crate) index: Index,
    holdings: Vec<Option<Holding>>,
    vacant: Vec<HoldKey>,
    ends: Ends,
    bookings: Vec<Booking>,
    log: Vec<Undo>,
    extras: Vec<Arc<str>>,
    /// How many nodes have each model, lost and drained ones included.
    nodes_by_model: Vec<u32>,
    /// Devices of each model on nodes that are up.
    devices_up: Vec<u64>,
    /// Changes whenever what an idle cluster could host may have changed.
    epoch: u64,
}

impl Pool {
    // ---- nodes ----

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
    pub(crate) fn join(&mut self, spec: NodeSpec, models: SmallVec<[(ModelId, DeviceSet); 1]>) -> NodeId {
        let id = match self.find(&spec.name) {
            Some(id) => id,
            None => self.add(&spec),
        };
        self.change(id, |node| {
            node.held.resize(node.held.len().max(spec.devices.len()), 0);
            node.spec = spec;
            node.models = models;
            node.up = true;
        });
        id
    }

    pub(crate) fn set_up(&mut self, id: NodeId, up: bool) {
        self.change(id, |node| node.up = up);
    }

    pub(crate) fn set_drained(&mut self, id: NodeId, drained: Option<Arc<str>>) {
        self.change(id, |node| node.drained = drained);
    }

    pub(crate) fn set_foreign(&mut self, id: NodeId, foreign: Foreign) {
        self.change(id, |node| node.foreign = foreign);
    }

    fn add(&mut self, spec: &NodeSpec) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let rank = self.by_rank.partition_point(|other| self.node(*other).spec.name < spec.name);
        for at in rank..self.by_rank.len() {
            let moved = self.by_rank[at].0 as usize;
            self.index.retire(&mut self.nodes[moved]);
        }
        self.by_rank.insert(rank, id);
        self.by_name.insert(spec.name.clone(), id);
        self.nodes.push(Node {
            spec: spec.clone(),
            up: true,
            drained: None,
            foreign: Foreign::default(),
            rank: rank as u32,
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
        });
        for at in rank + 1..self.by_rank.len() {
            let node = &mut self.nodes[self.by_rank[at].0 as usize];
            node.rank = at as u32;
            self.index.publish(node);
        }
        id
    }

    /// Changes a node's terms and recomputes what follows from them.
    fn change(&mut self, id: NodeId, edit: impl FnOnce(&mut Node)) {
        let at = id.0 as usize;
        self.index.retire(&mut self.nodes[at]);
        self.count_models(at, false);
        edit(&mut self.nodes[at]);
        self.count_models(at, true);
        let extras = self.nodes[at].spec.extras.clone();
        let mut extras: Vec<_> =
            extras.iter().map(|(name, count)| (self.intern_extra(name), *count)).collect();
        extras.sort_unstable();
        let node = &mut self.nodes[at];
        node.capacity = Scalars { cpus: u64::from(node.spec.cpus.0), memory: node.spec.memory.0, extras };
        node.limit = node.capacity.clone();
        node.limit.cpus = node.capacity.cpus.saturating_sub(u64::from(node.foreign.cpus.0));
        node.limit.memory = node.capacity.memory.saturating_sub(node.foreign.memory.0);
        node.usable = DeviceSet::EMPTY;
        if node.hosts() {
            let all = DeviceSet::first(node.spec.devices.len());
            node.usable = all.minus(node.foreign.devices).minus(node.foreign.drained);
        }
        self.index.publish(node);
        self.epoch += 1;
    }

    // ---- holdings ----

    pub(crate) fn holding(&self, key: HoldKey) -> &Holding {
        self.holdings[key.0 as usize].as_ref().expect("a key lives as long as its holding")
    }

    /// All holdings, in no meaningful order.
    pub(crate) fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.holdings.iter().flatten()
    }

    /// Begins a holding whose tasks are granted one by one; [`Pool::close`] completes it.
    pub(crate) fn open(&mut self, element: ElementId, end: End, shape: Arc<Shape>) -> HoldKey {
        let holding = Some(Holding { element, end, shape, placement: Arc::from([]) });
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
        self.log.push(Undo::Closed(key));
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
        for task in placement.iter() {
            self.take(key, task);
        }
        self.close(key, placement);
        self.settle();
        key
    }

    /// Gives a holding back for good.
    pub(crate) fn release(&mut self, key: HoldKey) {
        let holding = self.holding(key);
        let (end, element, placement) = (holding.end, holding.element, Arc::clone(&holding.placement));
        self.ends.remove(end, element, key);
        for task in placement.iter() {
            self.give(key, task);
        }
        self.holdings[key.0 as usize] = None;
        self.vacant.push(key);
        self.settle();
    }

    /// It is now known when a holding ends.
    pub(crate) fn set_end(&mut self, key: HoldKey, end: End) {
        let holding = self.holdings[key.0 as usize].as_mut().expect("a key lives as long as its holding");
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

    /// Gives everything back and brings every node into service; on a copy, to ask what an idle cluster could do.
    pub(crate) fn make_idle(&mut self, only_working: bool) {
        for key in (0..self.holdings.len() as u32).map(HoldKey) {
            if self.holdings[key.0 as usize].is_some() {
                self.release(key);
            }
        }
        for id in (0..self.nodes.len() as u32).map(NodeId).filter(|_| !only_working) {
            self.change(id, |node| {
                (node.up, node.drained, node.foreign) = (true, None, Foreign::default());
            });
        }
    }

    fn take(&mut self, key: HoldKey, task: &TaskPlacement) {
        let holding = self.holdings[key.0 as usize].as_ref().expect("a key lives as long as its holding");
        let scalars = &holding.shape.groups[usize::from(task.group)].scalars;
        let node = &mut self.nodes[task.node.0 as usize];
        node.take(key, holding.end, task.devices, task.share.0 as u16, scalars);
        self.index.publish(node);
    }

    fn give(&mut self, key: HoldKey, task: &TaskPlacement) {
        let holding = self.holdings[key.0 as usize].as_ref().expect("a key lives as long as its holding");
        let scalars = &holding.shape.groups[usize::from(task.group)].scalars;
        let node = &mut self.nodes[task.node.0 as usize];
        node.give(key, task.devices, task.share.0 as u16, scalars);
        self.index.publish(node);
    }

    // ---- scratch: time, bookings, undo ----

    /// The next end after a cursor.
    pub(crate) fn next_end(&self, now: Time, cursor: EndCursor) -> Option<(Time, HoldKey, EndCursor)> {
        self.ends.next(now, cursor)
    }

    /// Gives a holding back on scratch, as if its end had come; only a rollback brings it back.
    pub(crate) fn park(&mut self, key: HoldKey) {
        let placement = Arc::clone(&self.holding(key).placement);
        for task in placement.iter() {
            self.give(key, task);
        }
        self.log.push(Undo::Parked(key));
    }

    /// Bookings of this pass, in order of being made.
    pub(crate) fn bookings(&self) -> &[Booking] {
        &self.bookings
    }

    /// True when some booking leaves the whole window alone, so that its devices may be used meanwhile.
    pub(crate) fn has_bookings_outside(&self, window: Window) -> bool {
        self.bookings
            .last()
            .is_some_and(|last| last.latest_start >= window.until || last.earliest_end <= window.from)
    }

    /// Keeps a future start clear of everything that is placed later in this pass.
    pub(crate) fn book(
        &mut self,
        element: ElementId,
        (start, end): (Time, Time),
        shape: Arc<Shape>,
        placement: Arc<[TaskPlacement]>,
    ) {
        let last = self.bookings.last();
        let booking = Booking {
            element,
            start,
            end,
            shape,
            placement,
            latest_start: last.map_or(start, |last| last.latest_start.max(start)),
            earliest_end: last.map_or(end, |last| last.earliest_end.min(end)),
        };
        self.enter_booking(booking);
        self.log.push(Undo::Booked);
    }

    /// Drops all bookings, on scratch.
    pub(crate) fn clear_bookings(&mut self) {
        for booking in &self.bookings {
            for task in booking.placement.iter() {
                let node = &mut self.nodes[task.node.0 as usize];
                if !node.bookings.is_empty() {
                    node.bookings.clear();
                    node.refresh_booked();
                    self.index.publish(node);
                }
            }
        }
        let dropped = std::mem::take(&mut self.bookings);
        self.log.push(Undo::Unbooked(dropped));
    }

    fn enter_booking(&mut self, booking: Booking) {
        let reservation = self.bookings.len() as u32;
        for task in booking.placement.iter() {
            let node = &mut self.nodes[task.node.0 as usize];
            if node.bookings.last().is_none_or(|last| last.reservation != reservation) {
                node.bookings.push(NodeBooking {
                    reservation,
                    start: booking.start,
                    end: booking.end,
                    devices: DeviceSet::EMPTY,
                    shares: SmallVec::new(),
                    scalars: Scalars::default(),
                });
            }
            let entry = node.bookings.last_mut().expect("pushed above");
            let share = task.share.0 as u16;
            if share == WHOLE {
                entry.devices = entry.devices.or(task.devices);
            } else {
                entry.shares.extend(task.devices.iter().map(|device| (device as u16, share)));
            }
            entry.scalars.add(&booking.shape.groups[usize::from(task.group)].scalars, 1);
            node.refresh_booked();
            self.index.publish(node);
        }
        self.bookings.push(booking);
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.log.len())
    }

    /// Undoes everything since the checkpoint, newest first.
    pub(crate) fn rollback(&mut self, to: Checkpoint) {
        while self.log.len() > to.0 {
            match self.log.pop().expect("longer than the checkpoint") {
                Undo::Opened(key) => {
                    self.holdings[key.0 as usize] = None;
                    self.vacant.push(key);
                }
                Undo::Granted { key, task } => self.give(key, &task),
                Undo::Closed(key) => {
                    let holding = self.holding(key);
                    let (end, element) = (holding.end, holding.element);
                    self.ends.remove(end, element, key);
                }
                Undo::Parked(key) => {
                    let placement = Arc::clone(&self.holding(key).placement);
                    for task in placement.iter() {
                        self.take(key, task);
                    }
                }
                Undo::Booked => self.unbook(),
                Undo::Unbooked(bookings) => {
                    for booking in bookings {
                        self.enter_booking(booking);
                    }
                }
            }
        }
    }

    fn unbook(&mut self) {
        let booking = self.bookings.pop().expect("every logged booking is there");
        let reservation = self.bookings.len() as u32;
        for task in booking.placement.iter() {
            let node = &mut self.nodes[task.node.0 as usize];
            if node.bookings.last().is_some_and(|last| last.reservation == reservation) {
                node.bookings.pop();
                node.refresh_booked();
                self.index.publish(node);
            }
        }
    }

    /// What happened since the last checkpoint is for good.
    fn settle(&mut self) {
        self.log.clear();
    }
}
