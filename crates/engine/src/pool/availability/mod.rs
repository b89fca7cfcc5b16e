//! Unavailability intervals: times at which a node, or some of its devices, cannot be used by all
//! jobs. Drains and advance reservations become such intervals; placement sees nothing else of
//! them.
//!
//! An upcoming interval needs no event when it begins: nothing is placed that would still run then.
//! What is unavailable already is not in the indexes, as of one instant and for jobs inside or
//! outside one reservation.

pub(crate) mod drain;
pub(crate) mod node_reservation;
pub(crate) mod times;

use std::sync::Arc;

use muster_model::{AdvanceReservation, AdvanceReservationName, DeviceSet, NodeSpec, Time};
use smallvec::SmallVec;

use drain::Drains;
use node_reservation::NodeReservation;

/// Instant, and reservation, for which the availability of nodes is computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolView {
    /// Drains and reservations that have begun by then are in force.
    pub(crate) at: Time,
    /// Reservation whose jobs are placed: they may use only what it reserves. `None` for all other
    /// jobs.
    pub(crate) reservation: Option<AdvanceReservationName>,
}

/// Availability of a node that drains and reservations leave, for one view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Availability {
    /// True when the whole node is drained, so nothing can be placed on it.
    pub(crate) is_drained: bool,
    /// Devices that are drained.
    pub(crate) drained: DeviceSet,
    /// True when nothing can be placed on the node.
    pub(crate) whole_node: bool,
    /// Devices on which nothing can be placed.
    pub(crate) devices: DeviceSet,
    /// Devices outside the reservation of the view.
    pub(crate) outside: DeviceSet,
    /// Intervals in which the remaining devices are unavailable.
    pub(crate) upcoming: SmallVec<[UnavailableInterval; 1]>,
}

/// One interval, possibly recurring.
#[derive(Clone, Debug)]
pub(crate) struct UnavailableInterval {
    /// Affected devices; `None` for the whole node.
    pub(crate) devices: Option<DeviceSet>,
    pub(crate) when: IntervalTimes,
}

/// Time of an interval.
#[derive(Clone, Debug)]
pub(crate) enum IntervalTimes {
    /// From an instant on.
    From(Time),
    /// While a reservation is active.
    DuringReservation(Arc<AdvanceReservation>),
    /// While a reservation is not active.
    OutsideReservation(Arc<AdvanceReservation>),
}

impl IntervalTimes {
    fn overlaps(&self, from: Time, until: Time) -> bool {
        match self {
            IntervalTimes::From(at) => *at < until,
            IntervalTimes::DuringReservation(reservation) => {
                times::is_active_during(&reservation.times, from, until)
            }
            IntervalTimes::OutsideReservation(reservation) => {
                !times::is_active_throughout(&reservation.times, from, until)
            }
        }
    }
}

impl Availability {
    /// Computes the availability of a node.
    pub(crate) fn of(
        drains: &Drains,
        reservations: &[NodeReservation],
        spec: &NodeSpec,
        view: &PoolView,
    ) -> Self {
        let mut availability = Self::default();
        drains.add_unavailability(&mut availability, spec, view.at);
        for reservation in reservations {
            reservation.add_unavailability(&mut availability, view);
        }
        availability
    }

    /// Returns devices that are unavailable at some time of a period.
    pub(crate) fn unavailable_during(&self, from: Time, until: Time) -> DeviceSet {
        let intervals = self.upcoming.iter().filter(|interval| interval.when.overlaps(from, until));
        intervals.fold(DeviceSet::EMPTY, |all, interval| {
            all.or(interval.devices.unwrap_or(DeviceSet(u128::MAX)))
        })
    }

    /// Returns devices that become unavailable at some time through drains and reservations other
    /// than its own; `None` if the whole node does.
    pub(crate) fn ever_unavailable(&self) -> Option<DeviceSet> {
        let mut others = self
            .upcoming
            .iter()
            .filter(|interval| !matches!(interval.when, IntervalTimes::OutsideReservation(_)));
        others.try_fold(DeviceSet::EMPTY, |all, interval| {
            interval.devices.map(|devices| all.or(devices))
        })
    }

    /// Drops the interval of the view's own reservation.
    pub(crate) fn drop_own_reservation(&mut self) {
        self.upcoming
            .retain(|interval| !matches!(interval.when, IntervalTimes::OutsideReservation(_)));
    }

    /// True when the whole node is unavailable at some time of a period.
    pub(crate) fn is_unavailable(&self, from: Time, until: Time) -> bool {
        self.upcoming
            .iter()
            .any(|interval| interval.devices.is_none() && interval.when.overlaps(from, until))
    }
}
