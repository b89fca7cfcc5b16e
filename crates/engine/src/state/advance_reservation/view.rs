//! API views of advance reservations. Read-only.

use muster_model::view::{
    AdvanceReservationView, NodeAdvanceReservationView, ReservedPlaceView, device_indices,
};
use muster_model::{DeviceSet, ReservedResources, Time};

use super::PlacedReservation;
use crate::pool::availability::node_reservation::NodeReservation;
use crate::pool::availability::times;
use crate::state::State;

/// Returns the view of a reservation on one of its nodes; `None` once it is over.
pub(crate) fn of_node(reserved: &NodeReservation, now: Time) -> Option<NodeAdvanceReservationView> {
    let (begins, ends) = times::at_or_after(&reserved.reservation.times, now)?;
    Some(NodeAdvanceReservationView {
        advance_reservation: reserved.reservation.name.clone(),
        devices: reserved.devices.map(device_indices).unwrap_or_default(),
        is_active: begins <= now,
        begins,
        ends,
    })
}

/// Returns the views of all reservations, by name.
pub(crate) fn all(state: &State, now: Time) -> Vec<AdvanceReservationView> {
    state.advance_reservations.iter().map(|placed| one(state, placed, now)).collect()
}

fn one(state: &State, placed: &PlacedReservation, now: Time) -> AdvanceReservationView {
    let reservation = &placed.reservation;
    let next = times::at_or_after(&reservation.times, now);
    let (gpus, model) = match &reservation.resources {
        ReservedResources::Nodes(_) => (None, None),
        ReservedResources::Gpus { count, model, .. } => (Some(*count), model.clone()),
    };
    let there = |name, devices: Option<DeviceSet>| {
        let node = state.pool.find(name).map(|id| state.pool.node(id)).filter(|node| node.up);
        node.map_or(0, |_| devices.map_or(0, DeviceSet::len))
    };
    let found = placed.places.iter().map(|place| there(&place.node, place.devices)).sum();
    let named = state.jobs.values().filter(|job| {
        job.record.spec.constraint.advance_reservation.as_ref() == Some(&reservation.name)
    });
    let (running, waiting) = named.fold((0, 0), |(running, waiting), job| {
        (running + job.record.active, waiting + job.record.waiting())
    });
    AdvanceReservationView {
        name: reservation.name.clone(),
        users: reservation.users.clone(),
        queues: reservation.queues.clone(),
        times: reservation.times,
        is_active: next.is_some_and(|(begins, _)| begins <= now),
        begins: next.map(|(begins, _)| begins),
        ends: next.map(|(_, ends)| ends),
        gpus,
        model,
        gpus_missing: gpus.map_or(0, |gpus| gpus.saturating_sub(found)),
        places: placed
            .places
            .iter()
            .map(|place| ReservedPlaceView {
                node: place.node.clone(),
                devices: place.devices.map(device_indices).unwrap_or_default(),
            })
            .collect(),
        running,
        waiting,
        stop: reservation.stop,
        by: reservation.by.clone(),
        reason: reservation.reason.to_string(),
    }
}
