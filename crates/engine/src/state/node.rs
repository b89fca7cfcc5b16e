//! One node: what it offers, what is held of it, and by when that comes back. Arithmetic only;
//! which node is taken is decided in `plan`, and the indexes over nodes are in [`super::index`].

use muster_model::{DeviceSet, Foreign, NodeSpec, Time};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::drain::Drains;
use super::ends::End;
use super::pool::HoldKey;
use super::scalars::Scalars;
use super::topology::DomainId;
use super::wall::{View, Walls};
use super::window::Claim;

/// Thousandths of one whole device.
pub(crate) const WHOLE: u16 = 1000;

/// A node of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) spec: NodeSpec,
    /// False while it is lost.
    pub(crate) up: bool,
    /// What an administrator took out of service.
    pub(crate) drains: Drains,
    /// What windows set aside of it.
    pub(crate) claims: SmallVec<[Claim; 1]>,
    /// What follows from both.
    pub(crate) walls: Walls,
    pub(crate) foreign: Foreign,
    /// Its place among all nodes by name; ties between nodes break by it.
    pub(crate) rank: u32,
    /// The domains that it is in, widest first, and its rank in each.
    pub(crate) domains: SmallVec<[(DomainId, u32); 2]>,
    /// Devices by model, in order of model id.
    pub(crate) models: SmallVec<[(ModelId, DeviceSet); 1]>,
    /// Devices that may be given away: none while the node is lost or drained, never foreign or
    /// drained ones.
    pub(crate) usable: DeviceSet,
    /// Quantities in all.
    pub(crate) capacity: Scalars,
    /// Quantities that may be given away: capacity less what others use.
    pub(crate) limit: Scalars,
    /// Thousandths held per device. May be longer than the spec's devices when the node came back
    /// smaller.
    pub(crate) held: SmallVec<[u16; 8]>,
    /// Devices of which something is held.
    pub(crate) touched: DeviceSet,
    /// Quantities held.
    pub(crate) used: Scalars,
    /// Who holds something here, in no meaningful order.
    pub(crate) holds: SmallVec<[NodeHold; 4]>,
    /// Planned future starts here; empty outside a pass.
    pub(crate) bookings: Vec<NodeBooking>,
    /// Devices in any booking.
    pub(crate) booked: DeviceSet,
    /// What the indexes say of its devices, and whether it may have changed since.
    pub(crate) published: Published,
    pub(crate) is_stale: bool,
    /// What they say of it to tasks without a GPU, and whether it may have changed since.
    pub(crate) plain: Option<Plain>,
    pub(crate) is_plain_stale: bool,
}

/// What one holding has on one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeHold {
    pub(crate) key: HoldKey,
    pub(crate) end: End,
    pub(crate) tasks: u32,
    /// Of which it holds something, wholly or a share.
    pub(crate) devices: DeviceSet,
    pub(crate) scalars: Scalars,
}

/// What one reservation will have on one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeBooking {
    /// Index of the reservation within the pass.
    pub(crate) reservation: u32,
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// Devices booked whole.
    pub(crate) devices: DeviceSet,
    /// Shares of devices.
    pub(crate) shares: SmallVec<[(u16, u16); 1]>,
    pub(crate) scalars: Scalars,
}

/// Clear devices of a model and, where some free device is booked, all free ones.
pub(crate) type Counts = (u16, Option<u16>);

/// The state of a node that the indexes hold; compared with the present one to find what changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// Per entry of `models`.
    pub(crate) buckets: SmallVec<[Counts; 1]>,
    /// Partially held usable devices: model, free thousandths, device.
    pub(crate) shared: SmallVec<[(ModelId, u16, u16); 2]>,
}

/// Free devices of any model and free CPUs.
pub(crate) type Plain = (u16, u64);

/// From when until when something would be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The instant of the pass: what ends earlier counts as ending just after it.
    pub(crate) now: Time,
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl NodeBooking {
    /// True when the booking and the window share an instant.
    pub(crate) fn overlaps(&self, window: Window) -> bool {
        self.start < window.until && window.from < self.end
    }

    /// Thousandths of a device that the booking takes.
    pub(crate) fn milli(&self, device: usize) -> u16 {
        if self.devices.contains(device) {
            return WHOLE;
        }
        self.shares
            .iter()
            .filter(|(index, _)| usize::from(*index) == device)
            .map(|(_, milli)| *milli)
            .sum()
    }
}

impl Node {
    /// The indexes say something of it.
    pub(crate) fn is_described(&self) -> bool {
        self.plain.is_some()
            || !self.published.buckets.is_empty()
            || !self.published.shared.is_empty()
    }

    /// True when it may take new work.
    pub(crate) fn hosts(&self) -> bool {
        self.up && !self.walls.whole
    }

    /// Works out what may be given away, as one view has it.
    pub(crate) fn put_into_service(&mut self, view: &View) {
        self.walls = Walls::of(&self.drains, &self.claims, &self.spec, view);
        self.usable = DeviceSet::EMPTY;
        if self.hosts() {
            let all = DeviceSet::first(self.spec.devices.len());
            let others = self.foreign.devices.or(self.foreign.drained);
            self.usable = all.minus(others).minus(self.walls.devices);
        }
    }

    /// Devices of one model.
    pub(crate) fn of_model(&self, model: ModelId) -> DeviceSet {
        self.models
            .iter()
            .find(|(id, _)| *id == model)
            .map_or(DeviceSet::EMPTY, |(_, devices)| *devices)
    }

    /// Model of a device, when the node still has that device.
    pub(crate) fn model_of(&self, device: usize) -> Option<ModelId> {
        self.models.iter().find(|(_, devices)| devices.contains(device)).map(|(id, _)| *id)
    }

    /// Usable devices of which nothing is held now.
    pub(crate) fn free(&self) -> DeviceSet {
        self.usable.minus(self.touched)
    }

    /// Usable devices of which nothing is held any more when the window begins.
    fn free_by(&self, window: Window) -> DeviceSet {
        if window.from == window.now {
            return self.free();
        }
        let staying = self.holds.iter().filter(|hold| hold.end.at(window.now) > window.from);
        staying.fold(self.usable, |free, hold| free.minus(hold.devices))
    }

    /// Usable devices that are wholly free throughout the window.
    pub(crate) fn free_during(&self, window: Window) -> DeviceSet {
        let free = self.free_by(window).minus(self.walls.during(window.from, window.until));
        if self.booked.and(free).is_empty() {
            return free;
        }
        self.bookings.iter().filter(|booking| booking.overlaps(window)).fold(
            free,
            |free, booking| {
                let shared =
                    booking.shares.iter().map(|(device, _)| usize::from(*device)).collect();
                free.minus(booking.devices).minus(shared)
            },
        )
    }

    /// Thousandths of a usable device that are free throughout the window. What is held now counts
    /// as held for the whole window, so this may be low where a share ends before a booking begins.
    pub(crate) fn share_during(&self, device: usize, window: Window) -> u16 {
        if !self.usable.minus(self.walls.during(window.from, window.until)).contains(device) {
            return 0;
        }
        let booked: u16 = self
            .bookings
            .iter()
            .filter(|booking| booking.overlaps(window))
            .map(|booking| booking.milli(device))
            .fold(0, u16::saturating_add);
        WHOLE.saturating_sub(self.held_of(device)).saturating_sub(booked)
    }

    /// How many tasks with these needs the quantities allow throughout the window. Exact over time:
    /// at every instant at which a booking begins, what has ended by then counts as free.
    pub(crate) fn scalar_fits(&self, need: &Scalars, window: Window) -> u64 {
        if self.walls.is_closed(window.from, window.until) {
            return 0;
        }
        if need.is_zero() {
            return u64::MAX;
        }
        let mut fits = self.limit.fits(&self.used_at(window.from, window), need);
        for booking in &self.bookings {
            if fits > 0 && window.from < booking.start && booking.start < window.until {
                fits = fits.min(self.limit.fits(&self.used_at(booking.start, window), need));
            }
        }
        fits
    }

    /// Quantities held or booked at an instant of the window.
    fn used_at(&self, at: Time, window: Window) -> std::borrow::Cow<'_, Scalars> {
        use std::borrow::Cow;
        if self.bookings.is_empty() && at == window.now {
            return Cow::Borrowed(&self.used);
        }
        let mut used = self.used_by(at, window.now);
        for booking in &self.bookings {
            if booking.start <= at && at < booking.end {
                used.add(&booking.scalars, 1);
            }
        }
        Cow::Owned(used)
    }

    /// Quantities that are still held at an instant, as seen from now.
    fn used_by(&self, at: Time, now: Time) -> Scalars {
        let mut used = self.used.clone();
        for hold in &self.holds {
            if at > now && hold.end.at(now) <= at {
                used.sub(&hold.scalars);
            }
        }
        used
    }

    /// Free devices of any model and free CPUs once what ends by the beginning of the window is
    /// gone; `None` where it takes no work.
    pub(crate) fn plain_by(&self, window: Window) -> Option<Plain> {
        let cpus = self.limit.cpus.saturating_sub(self.used_by(window.from, window.now).cpus);
        self.hosts().then(|| (self.free_by(window).len() as u16, cpus))
    }

    /// Thousandths held of a device.
    pub(crate) fn held_of(&self, device: usize) -> u16 {
        self.held.get(device).copied().unwrap_or(0)
    }

    /// Adds one task's hold.
    pub(crate) fn take(
        &mut self,
        key: HoldKey,
        end: End,
        devices: DeviceSet,
        share: u16,
        scalars: &Scalars,
    ) {
        for device in devices.iter() {
            if device >= self.held.len() {
                self.held.resize(device + 1, 0);
            }
            self.held[device] += share;
        }
        self.touched = self.touched.or(devices);
        self.used.add(scalars, 1);
        match self.holds.iter_mut().rev().find(|hold| hold.key == key) {
            Some(hold) => {
                hold.tasks += 1;
                hold.devices = hold.devices.or(devices);
                hold.scalars.add(scalars, 1);
            }
            None => {
                self.holds.push(NodeHold { key, end, tasks: 1, devices, scalars: scalars.clone() })
            }
        }
    }

    /// Takes one task's hold away; the inverse of [`Node::take`].
    pub(crate) fn give(&mut self, key: HoldKey, devices: DeviceSet, share: u16, scalars: &Scalars) {
        for device in devices.iter() {
            self.held[device] -= share;
            if self.held[device] == 0 {
                self.touched = self.touched.minus(DeviceSet::one(device));
            }
        }
        self.used.sub(scalars);
        let at =
            self.holds.iter().rposition(|hold| hold.key == key).expect("only holders give back");
        self.holds[at].tasks -= 1;
        // A device of which it shares counts as held until nobody has any of it: only looks ahead
        // see that.
        let gone = if share == WHOLE { devices } else { devices.minus(self.touched) };
        self.holds[at].devices = self.holds[at].devices.minus(gone);
        self.holds[at].scalars.sub(scalars);
        if self.holds[at].tasks == 0 {
            self.holds.swap_remove(at);
        }
    }

    /// Recomputes `booked` after a change of the bookings.
    pub(crate) fn refresh_booked(&mut self) {
        self.booked = self.bookings.iter().fold(DeviceSet::EMPTY, |all, booking| {
            all.or(booking.devices).or(booking
                .shares
                .iter()
                .map(|(device, _)| usize::from(*device))
                .collect())
        });
    }
}
