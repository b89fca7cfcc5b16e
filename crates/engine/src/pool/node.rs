//! One node: its capacity, what is held of it, and when that is released. Arithmetic only; which
//! node is taken is decided in `plan`, and the indexes over nodes are in [`super::index`].

use std::sync::OnceLock;

use muster_model::{DeviceSet, Foreign, NodeSpec, TaskPlacement, Time};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::HoldKey;
use super::availability::drain::Drains;
use super::availability::node_reservation::NodeReservation;
use super::availability::{Availability, PoolView};
use super::ends::HoldingEnd;
use super::scalars::Scalars;
use super::scope::DomainId;
use super::usage_timeline::{ScalarFit, UsageTimeline};

/// Thousandths of one whole device.
pub(crate) const WHOLE: u16 = 1000;

/// Number of bookings of a node from which on its use over time is kept: fewer are added up faster.
const MANY_BOOKINGS: usize = 4;

/// A node of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) spec: NodeSpec,
    /// False while the node is lost.
    pub(crate) up: bool,
    /// Drains set by administrators.
    pub(crate) drains: Drains,
    /// Parts of the node that advance reservations reserve.
    pub(crate) reservations: SmallVec<[NodeReservation; 1]>,
    /// Availability that results from drains and reservations.
    pub(crate) availability: Availability,
    pub(crate) foreign: Foreign,
    /// Position among all nodes by name; breaks ties between nodes.
    pub(crate) rank: u32,
    /// Domains that contain the node, widest first, with its rank in each.
    pub(crate) domains: SmallVec<[(DomainId, u32); 2]>,
    /// Devices by model, in order of model id.
    pub(crate) models: SmallVec<[(ModelId, DeviceSet); 1]>,
    /// Devices that may be allocated: none while the node is lost or drained, and never devices
    /// that are drained or used outside Muster.
    pub(crate) usable: DeviceSet,
    /// CPUs, memory and extras of the node, in all.
    pub(crate) capacity: Scalars,
    /// CPUs, memory and extras that may be allocated: capacity minus use outside Muster.
    pub(crate) limit: Scalars,
    /// Thousandths held per device. May be longer than the spec's devices when the node came back
    /// smaller.
    pub(crate) held: SmallVec<[u16; 8]>,
    /// Devices that are held, wholly or in part.
    pub(crate) touched: DeviceSet,
    /// CPUs, memory and extras that are held.
    pub(crate) used: Scalars,
    /// Holdings on this node, in arbitrary order.
    pub(crate) holds: SmallVec<[NodeHold; 4]>,
    /// Planned future starts here; empty outside a pass.
    pub(crate) bookings: Vec<NodeBooking>,
    /// Devices in any booking.
    pub(crate) booked: DeviceSet,
    /// Use over time; made by the first look at many bookings, until the next change.
    pub(crate) usage: OnceLock<Box<UsageTimeline>>,
    /// Device state that the indexes have, and whether it may be stale.
    pub(crate) published: IndexedState,
    pub(crate) is_stale: bool,
    /// State that the indexes for tasks without a GPU have, and whether it may be stale.
    pub(crate) cpu_only: Option<CpuOnlyCapacity>,
    pub(crate) is_cpu_only_stale: bool,
}

/// Part of one holding on one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeHold {
    pub(crate) key: HoldKey,
    pub(crate) end: HoldingEnd,
    pub(crate) tasks: u32,
    /// Devices that are held, wholly or in part.
    pub(crate) devices: DeviceSet,
    pub(crate) scalars: Scalars,
}

/// Part of one planned start on one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeBooking {
    /// Index of the booking within the pass.
    pub(crate) reservation: u32,
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// Devices that are booked whole.
    pub(crate) devices: DeviceSet,
    /// Shares of devices: index, thousandths.
    pub(crate) shares: SmallVec<[(u16, u16); 1]>,
    pub(crate) scalars: Scalars,
}

/// Devices of a model that are free and in no booking, and all free ones if some of them are
/// booked.
pub(crate) type DeviceCounts = (u16, Option<u16>);

/// Device state of a node as the indexes have it; compared with the present one to find changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexedState {
    /// Counts per entry of `models`.
    pub(crate) buckets: SmallVec<[DeviceCounts; 1]>,
    /// Partially held usable devices: model, free thousandths, device.
    pub(crate) shared: SmallVec<[(ModelId, u16, u16); 2]>,
}

/// Free devices of any model, and free CPUs.
pub(crate) type CpuOnlyCapacity = (u16, u64);

/// Period for which something would be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    /// Instant of the pass: a holding whose limit is over counts as ending just after it.
    pub(crate) now: Time,
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl NodeBooking {
    /// True when the booking and the interval overlap.
    pub(crate) fn overlaps(&self, interval: Interval) -> bool {
        self.start < interval.until && interval.from < self.end
    }

    /// Returns the thousandths of a device that the booking takes.
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
    /// True when some index has an entry for it.
    pub(crate) fn is_indexed(&self) -> bool {
        self.cpu_only.is_some()
            || !self.published.buckets.is_empty()
            || !self.published.shared.is_empty()
    }

    /// True when it takes new work.
    pub(crate) fn accepts_work(&self) -> bool {
        self.up && !self.availability.whole_node
    }

    /// Recomputes the usable devices for a view.
    pub(crate) fn update_usable(&mut self, view: &PoolView) {
        self.availability = Availability::of(&self.drains, &self.reservations, &self.spec, view);
        self.usable = DeviceSet::EMPTY;
        if self.accepts_work() {
            let all = DeviceSet::first(self.spec.devices.len());
            let others = self.foreign.devices.or(self.foreign.drained);
            self.usable = all.minus(others).minus(self.availability.devices);
        }
    }

    /// Returns the devices of one model.
    pub(crate) fn of_model(&self, model: ModelId) -> DeviceSet {
        self.models
            .iter()
            .find(|(id, _)| *id == model)
            .map_or(DeviceSet::EMPTY, |(_, devices)| *devices)
    }

    /// Returns the model of a device, if the node still has that device.
    pub(crate) fn model_of(&self, device: usize) -> Option<ModelId> {
        self.models.iter().find(|(_, devices)| devices.contains(device)).map(|(id, _)| *id)
    }

    /// Returns usable devices that are wholly free now.
    pub(crate) fn free(&self) -> DeviceSet {
        self.usable.minus(self.touched)
    }

    /// Returns usable devices that are wholly free when the interval begins.
    fn free_by(&self, interval: Interval) -> DeviceSet {
        if interval.from == interval.now {
            return self.free();
        }
        let staying = self.holds.iter().filter(|hold| hold.end.at(interval.now) > interval.from);
        staying.fold(self.usable, |free, hold| free.minus(hold.devices))
    }

    /// Returns usable devices that are wholly free throughout the interval.
    pub(crate) fn free_during(&self, interval: Interval) -> DeviceSet {
        let free = self
            .free_by(interval)
            .minus(self.availability.unavailable_during(interval.from, interval.until));
        if self.booked.and(free).is_empty() {
            return free;
        }
        self.bookings.iter().filter(|booking| booking.overlaps(interval)).fold(
            free,
            |free, booking| {
                let shared =
                    booking.shares.iter().map(|(device, _)| usize::from(*device)).collect();
                free.minus(booking.devices).minus(shared)
            },
        )
    }

    /// Returns the thousandths of a usable device that are free throughout the interval. Present
    /// holdings count for the whole interval, so this may be too low if a share ends before a
    /// booking begins.
    pub(crate) fn share_during(&self, device: usize, interval: Interval) -> u16 {
        if !self
            .usable
            .minus(self.availability.unavailable_during(interval.from, interval.until))
            .contains(device)
        {
            return 0;
        }
        let booked: u16 = self
            .bookings
            .iter()
            .filter(|booking| booking.overlaps(interval))
            .map(|booking| booking.milli(device))
            .fold(0, u16::saturating_add);
        WHOLE.saturating_sub(self.held_of(device)).saturating_sub(booked)
    }

    /// Returns how many tasks with these needs fit into CPUs, memory and extras throughout the
    /// interval. Exact over time: checked at its begin and at every begin of a booking, with
    /// holdings that have ended by then released.
    pub(crate) fn scalar_fits(&self, need: &Scalars, interval: Interval) -> u64 {
        self.scalar_fit(need, interval).times
    }

    /// Does what [`Node::scalar_fits`] does, and says until when it cannot change if nothing fits.
    pub(crate) fn scalar_fit(&self, need: &Scalars, interval: Interval) -> ScalarFit {
        let Interval { now, from, until } = interval;
        let from_then = |times| ScalarFit { times, blocked_until: from };
        if self.availability.is_unavailable(from, until) {
            return from_then(0);
        }
        if need.is_zero() {
            return from_then(u64::MAX);
        }
        if self.bookings.len() >= MANY_BOOKINGS {
            let usage = self.usage.get_or_init(|| {
                let held = self.holds.iter().map(|hold| (hold.end.at(now), &hold.scalars));
                let booked = self.bookings.iter().map(|one| (one.start, one.end, &one.scalars));
                Box::new(UsageTimeline::new(now, &self.used, held, booked))
            });
            debug_assert_eq!(usage.now(), now, "bookings are made and dropped within a pass");
            return usage.fits(&self.limit, need, from, until);
        }
        let mut fits = self.limit.fits(&self.used_at(from, interval), need);
        for booking in &self.bookings {
            if fits > 0 && from < booking.start && booking.start < until {
                fits = fits.min(self.limit.fits(&self.used_at(booking.start, interval), need));
            }
        }
        from_then(fits)
    }

    /// Returns the quantities held or booked at an instant of the interval.
    fn used_at(&self, at: Time, interval: Interval) -> std::borrow::Cow<'_, Scalars> {
        use std::borrow::Cow;
        if self.bookings.is_empty() && at == interval.now {
            return Cow::Borrowed(&self.used);
        }
        let mut used = self.used_by(at, interval.now);
        for booking in &self.bookings {
            if booking.start <= at && at < booking.end {
                used.add(&booking.scalars, 1);
            }
        }
        Cow::Owned(used)
    }

    /// Returns the quantities still held at an instant, as seen from `now`.
    fn used_by(&self, at: Time, now: Time) -> Scalars {
        let mut used = self.used.clone();
        for hold in &self.holds {
            if at > now && hold.end.at(now) <= at {
                used.sub(&hold.scalars);
            }
        }
        used
    }

    /// Returns the free devices of any model and free CPUs when the interval begins; `None` if the
    /// node takes no work.
    pub(crate) fn cpu_only_at(&self, interval: Interval) -> Option<CpuOnlyCapacity> {
        let cpus = self.limit.cpus.saturating_sub(self.used_by(interval.from, interval.now).cpus);
        self.accepts_work().then(|| (self.free_by(interval).len() as u16, cpus))
    }

    /// Returns the held thousandths of a device.
    pub(crate) fn held_of(&self, device: usize) -> u16 {
        self.held.get(device).copied().unwrap_or(0)
    }

    /// Adds the holding of one task.
    pub(crate) fn take(
        &mut self,
        key: HoldKey,
        end: HoldingEnd,
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
        if let Some(usage) = self.usage.get_mut() {
            let now = usage.now();
            usage.add(now, end.at(now), scalars);
        }
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

    /// Removes the holding of one task; the inverse of [`Node::take`].
    pub(crate) fn give(&mut self, key: HoldKey, devices: DeviceSet, share: u16, scalars: &Scalars) {
        for device in devices.iter() {
            self.held[device] -= share;
            if self.held[device] == 0 {
                self.touched = self.touched.minus(DeviceSet::one(device));
            }
        }
        self.used.sub(scalars);
        let at = self
            .holds
            .iter()
            .rposition(|hold| hold.key == key)
            .expect("released a holding that is not on the node");
        if let Some(usage) = self.usage.get_mut() {
            usage.sub(self.holds[at].end.at(usage.now()), scalars);
        }
        self.holds[at].tasks -= 1;
        // A shared device counts as held by this holding until no task holds any of it; only future
        // intervals depend on that.
        let gone = if share == WHOLE { devices } else { devices.minus(self.touched) };
        self.holds[at].devices = self.holds[at].devices.minus(gone);
        self.holds[at].scalars.sub(scalars);
        if self.holds[at].tasks == 0 {
            self.holds.swap_remove(at);
        }
    }

    /// Moves the end of a holding.
    pub(crate) fn move_end(&mut self, key: HoldKey, end: HoldingEnd) {
        self.usage.take();
        self.holds.iter_mut().filter(|hold| hold.key == key).for_each(|hold| hold.end = end);
    }

    /// Adds a task to the newest booking, which is that of number `reservation`.
    pub(crate) fn book(
        &mut self,
        reservation: u32,
        (start, end): (Time, Time),
        task: &TaskPlacement,
        scalars: &Scalars,
    ) {
        if self.bookings.last().is_none_or(|last| last.reservation != reservation) {
            self.bookings.push(NodeBooking {
                reservation,
                start,
                end,
                devices: DeviceSet::EMPTY,
                shares: SmallVec::new(),
                scalars: Scalars::default(),
            });
        }
        let booking = self.bookings.last_mut().expect("pushed above");
        let share = task.share.0 as u16;
        if share == WHOLE {
            booking.devices = booking.devices.or(task.devices);
        } else {
            booking.shares.extend(task.devices.iter().map(|device| (device as u16, share)));
        }
        booking.scalars.add(scalars, 1);
        self.booked = self.booked.or(task.devices);
        if let Some(usage) = self.usage.get_mut() {
            usage.add(start, end, scalars);
        }
    }

    /// Drops the newest booking if it is that of number `reservation`. Returns whether it was.
    pub(crate) fn unbook(&mut self, reservation: u32) -> bool {
        let is_newest = self.bookings.last().is_some_and(|last| last.reservation == reservation);
        if is_newest {
            self.bookings.pop();
            self.usage.take();
            self.booked = self.bookings.iter().fold(DeviceSet::EMPTY, |all, booking| {
                let shared = booking.shares.iter().map(|(device, _)| usize::from(*device));
                all.or(booking.devices).or(shared.collect())
            });
        }
        is_newest
    }

    /// Drops all bookings. Returns whether there were any.
    pub(crate) fn clear_bookings(&mut self) -> bool {
        let had_any = !self.bookings.is_empty();
        self.bookings.clear();
        self.booked = DeviceSet::EMPTY;
        self.usage.take();
        had_any
    }
}
