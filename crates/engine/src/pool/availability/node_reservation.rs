//! Part of one node that an advance reservation reserves, and what it makes unavailable.

use std::sync::Arc;

use muster_model::{AdvanceReservation, DeviceSet};

use super::{Availability, IntervalTimes, PoolView, UnavailableInterval, times};

/// Part of one node that a reservation reserves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeReservation {
    pub(crate) reservation: Arc<AdvanceReservation>,
    /// Reserved devices; `None` for the whole node.
    pub(crate) devices: Option<DeviceSet>,
}

impl NodeReservation {
    /// Returns all reserved devices.
    pub(crate) fn set(&self) -> DeviceSet {
        self.devices.unwrap_or(DeviceSet(u128::MAX))
    }

    /// Adds the unavailability intervals that follow from it.
    pub(crate) fn add_unavailability(&self, availability: &mut Availability, view: &PoolView) {
        let is_active = times::active_at(&self.reservation.times, view.at).is_some();
        let reservation = Arc::clone(&self.reservation);
        if view.reservation.as_ref() != Some(&self.reservation.name) {
            // For all other jobs: unavailable while the reservation is active.
            match self.devices {
                _ if !is_active => {}
                None => availability.whole_node = true,
                Some(devices) => availability.devices = availability.devices.or(devices),
            }
            availability.upcoming.push(UnavailableInterval {
                devices: self.devices,
                when: IntervalTimes::DuringReservation(reservation),
            });
            return;
        }
        // For its own jobs: only its devices, and only while it is active.
        availability.whole_node |= !is_active;
        availability.outside = DeviceSet(u128::MAX).minus(self.set());
        availability.devices = availability.devices.or(availability.outside);
        availability.upcoming.push(UnavailableInterval {
            devices: None,
            when: IntervalTimes::OutsideReservation(reservation),
        });
    }
}
