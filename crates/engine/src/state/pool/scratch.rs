//! Trying things: time moved forward, future starts booked, and everything undone again.

use std::sync::Arc;

use muster_model::{DeviceSet, ElementId, TaskPlacement, Time};
use smallvec::SmallVec;

use super::{Booking, Checkpoint, HoldKey, Pool, Undo};
use crate::state::ends::{End, Ends};
use crate::state::node::{NodeBooking, WHOLE, Window};
use crate::state::scalars::Scalars;
use crate::state::shape::Shape;

impl Pool {
    /// All ends.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Gives a holding back on scratch, as if its end had come; only a rollback brings it back.
    pub(crate) fn park(&mut self, key: HoldKey) {
        let placement = Arc::clone(&self.holding(key).placement);
        self.give_all(key, &placement);
        self.log.push(Undo::Parked(key));
    }

    /// Takes a parked holding back, on scratch.
    pub(crate) fn unpark(&mut self, key: HoldKey) {
        let placement = Arc::clone(&self.holding(key).placement);
        self.take_all(key, &placement);
        self.log.push(Undo::Unparked(key));
    }

    /// Gives a holding back on scratch, as if it had never been: unlike what is parked, it has no
    /// end any more.
    pub(crate) fn retract(&mut self, key: HoldKey) {
        let placement = Arc::clone(&self.holding(key).placement);
        self.give_all(key, &placement);
        let holding = self.holding(key);
        self.ends.remove(holding.end, holding.element, key);
        self.log.push(Undo::Retracted(key, self.version));
        self.renew();
    }

    /// A holding ends by then at the latest, on scratch.
    pub(crate) fn hasten(&mut self, key: HoldKey, by: Time) {
        let old = self.holding(key).end;
        let end = match old {
            End::At(time) => time.min(by),
            End::After(_) | End::Never => by,
        };
        self.log.push(Undo::Hastened(key, old, self.version));
        self.move_end(key, End::At(end));
        self.renew();
    }

    /// Bookings of this pass, in order of being made.
    pub(crate) fn bookings(&self) -> &[Booking] {
        &self.bookings
    }

    /// When bookings begin, and which, in order.
    pub(crate) fn booked_from(&self) -> &[(Time, u32)] {
        &self.booked_from
    }

    /// When bookings end, and which, in order.
    pub(crate) fn booked_until(&self) -> &[(Time, u32)] {
        &self.booked_until
    }

    /// True when some booking leaves the whole window alone, so that its devices may be used
    /// meanwhile.
    pub(crate) fn has_bookings_outside(&self, window: Window) -> bool {
        self.bookings.last().is_some_and(|last| {
            last.latest_start >= window.until || last.earliest_end <= window.from
        })
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
        let dropped = std::mem::take(&mut self.bookings);
        self.booked_from.clear();
        self.booked_until.clear();
        for booking in &dropped {
            for task in booking.placement.iter() {
                let node = &mut self.nodes[task.node.0 as usize];
                if !node.bookings.is_empty() {
                    node.bookings.clear();
                    node.refresh_booked();
                    self.touch(task.node);
                }
            }
        }
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
            self.touch(task.node);
        }
        for (order, at) in
            [(&mut self.booked_from, booking.start), (&mut self.booked_until, booking.end)]
        {
            let place = order.partition_point(|one| *one < (at, reservation));
            order.insert(place, (at, reservation));
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
                Undo::Closed(key, version) => {
                    self.version = version;
                    let holding = self.holding(key);
                    let (end, element) = (holding.end, holding.element);
                    self.ends.remove(end, element, key);
                }
                Undo::Parked(key) => {
                    let placement = Arc::clone(&self.holding(key).placement);
                    self.take_all(key, &placement);
                }
                Undo::Unparked(key) => {
                    let placement = Arc::clone(&self.holding(key).placement);
                    self.give_all(key, &placement);
                }
                Undo::Retracted(key, version) => {
                    self.version = version;
                    let placement = Arc::clone(&self.holding(key).placement);
                    self.take_all(key, &placement);
                    let holding = self.holding(key);
                    let (end, element) = (holding.end, holding.element);
                    self.ends.insert(end, element, key);
                }
                Undo::Hastened(key, end, version) => {
                    self.move_end(key, end);
                    self.version = version;
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
        self.booked_from.retain(|(_, one)| *one != reservation);
        self.booked_until.retain(|(_, one)| *one != reservation);
        for task in booking.placement.iter() {
            let node = &mut self.nodes[task.node.0 as usize];
            if node.bookings.last().is_some_and(|last| last.reservation == reservation) {
                node.bookings.pop();
                node.refresh_booked();
                self.touch(task.node);
            }
        }
    }

    /// What happened since the last checkpoint is for good.
    pub(super) fn settle(&mut self) {
        self.log.clear();
    }
}
