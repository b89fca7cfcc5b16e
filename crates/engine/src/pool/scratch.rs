//! Scratch work: holdings released and future starts booked on trial, and everything undone again.

use std::sync::Arc;

use muster_model::{ElementId, TaskPlacement, Time};

use super::ends::{HoldingEnd, HoldingEnds};
use super::node::Interval;
use super::shape::Shape;
use super::{Booking, HoldKey, Pool, ScratchMark, Undo};

impl Pool {
    /// Returns all ends of holdings.
    pub(crate) fn ends(&self) -> &HoldingEnds {
        &self.ends
    }

    /// Releases a holding on scratch, as if it had ended; a rollback restores it.
    pub(crate) fn park(&mut self, key: HoldKey) {
        let placement = Arc::clone(&self.holding(key).placement);
        self.give_all(key, &placement);
        self.log.push(Undo::Parked(key));
    }

    /// Takes a parked holding again, on scratch.
    pub(crate) fn unpark(&mut self, key: HoldKey) {
        let placement = Arc::clone(&self.holding(key).placement);
        self.take_all(key, &placement);
        self.log.push(Undo::Unparked(key));
    }

    /// Releases a holding on scratch, as if it had never existed: unlike a parked one, it no longer
    /// has an end.
    pub(crate) fn retract(&mut self, key: HoldKey) {
        let placement = Arc::clone(&self.holding(key).placement);
        self.give_all(key, &placement);
        let holding = self.holding(key);
        self.ends.remove(holding.end, holding.element, key);
        self.log.push(Undo::Retracted(key, self.version));
        self.next_version();
    }

    /// Moves the end of a holding to `by` at the latest, on scratch.
    pub(crate) fn shorten(&mut self, key: HoldKey, by: Time) {
        let old = self.holding(key).end;
        let end = match old {
            HoldingEnd::At(time) => time.min(by),
            HoldingEnd::After(_) | HoldingEnd::Never => by,
        };
        self.move_end_on_scratch(key, HoldingEnd::At(end));
    }

    /// Moves the end of a holding, on scratch.
    pub(crate) fn move_end_on_scratch(&mut self, key: HoldKey, end: HoldingEnd) {
        self.log.push(Undo::EndMoved(key, self.holding(key).end, self.version));
        self.move_end(key, end);
        self.next_version();
    }

    /// Returns the bookings of this pass, in the order in which they were made.
    pub(crate) fn bookings(&self) -> &[Booking] {
        &self.bookings
    }

    /// Returns the starts of bookings with their indices, in order.
    pub(crate) fn booked_from(&self) -> &[(Time, u32)] {
        &self.booked_from
    }

    /// Returns the ends of bookings with their indices, in order.
    pub(crate) fn booked_until(&self) -> &[(Time, u32)] {
        &self.booked_until
    }

    /// True when some booking does not overlap the interval, so that its devices may be used during
    /// it.
    pub(crate) fn has_bookings_outside(&self, interval: Interval) -> bool {
        self.bookings.last().is_some_and(|last| {
            last.latest_start >= interval.until || last.earliest_end <= interval.from
        })
    }

    /// Books a future start, so that nothing placed later in this pass collides with it.
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
                if self.nodes[task.node.0 as usize].clear_bookings() {
                    self.touch(task.node);
                }
            }
        }
        self.log.push(Undo::Unbooked(dropped));
    }

    fn enter_booking(&mut self, booking: Booking) {
        let reservation = self.bookings.len() as u32;
        for task in booking.placement.iter() {
            let scalars = &booking.shape.groups[usize::from(task.group)].scalars;
            let period = (booking.start, booking.end);
            self.nodes[task.node.0 as usize].book(reservation, period, task, scalars);
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

    pub(crate) fn mark(&self) -> ScratchMark {
        ScratchMark(self.log.len())
    }

    /// Undoes everything since the mark, newest first.
    pub(crate) fn rollback(&mut self, to: ScratchMark) {
        while self.log.len() > to.0 {
            match self.log.pop().expect("the log is longer than at the mark") {
                Undo::Opened(key) => {
                    self.holdings[key.0 as usize] = None;
                    self.vacant.push(key);
                }
                Undo::Granted { key, task } => self.give(key, &task),
                Undo::Closed(key, version) => {
                    self.version = version;
                    let holding = self.holding(key);
                    let end = holding.end;
                    let element = holding.element;
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
                    let end = holding.end;
                    let element = holding.element;
                    self.ends.insert(end, element, key);
                }
                Undo::EndMoved(key, end, version) => {
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
        let booking = self.bookings.pop().expect("every logged booking exists");
        let reservation = self.bookings.len() as u32;
        for (order, at) in
            [(&mut self.booked_from, booking.start), (&mut self.booked_until, booking.end)]
        {
            order.remove(order.partition_point(|one| *one < (at, reservation)));
        }
        for task in booking.placement.iter() {
            if self.nodes[task.node.0 as usize].unbook(reservation) {
                self.touch(task.node);
            }
        }
    }

    /// Makes all changes permanent: clears the undo log.
    pub(crate) fn clear_undo_log(&mut self) {
        self.log.clear();
    }
}
