//! Validation of advance reservations, and of jobs that name one. Read-only.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    AdvanceReservation, AdvanceReservationName, AdvanceReservationTimes, JobSpec, QueueSpec,
    Reason, ReservedPlace, ReservedResources, Span, Time,
};

use super::validate_node;
use crate::plan::advance_reservation;
use crate::pool::availability::times;
use crate::refusal::EventRefusal;
use crate::state::State;
use crate::state::advance_reservation::{PlacedReservation, admits};

/// Latest instant that a reservation may use, far below the end of time: some three million years
/// after the epoch.
const LATEST: u64 = 1 << 56;

/// Checks whether a reservation can be accepted in the present state.
pub(super) fn validate_reservation(
    state: &State,
    reservation: &AdvanceReservation,
) -> Result<(), EventRefusal> {
    let now = state.pool.in_force_until();
    // 1. Is it well-formed?
    if let Some(known) = state.advance_reservations.get(&reservation.name) {
        let is_same = *known.reservation == *reservation;
        return if is_same {
            Ok(())
        } else {
            Err(EventRefusal::ReservationExists(reservation.name.clone()))
        };
    }
    validate_times(&reservation.times, now).map_err(EventRefusal::InvalidReservation)?;
    if reservation.users.is_empty() && reservation.queues.is_empty() {
        return Err(EventRefusal::InvalidReservation("it names no users and no queues"));
    }
    for queue in &reservation.queues {
        let mut level = &state.policy.tree().queues;
        for part in queue.as_str().split('/') {
            let known = level.iter().find(|known: &&QueueSpec| *known.name == *part);
            level = &known.ok_or_else(|| EventRefusal::NoQueue(queue.clone()))?.queues;
        }
    }
    // 2. Are the resources available?
    let all: Vec<PlacedReservation> = state.advance_reservations.iter().cloned().collect();
    let ReservedResources::Nodes(nodes) = &reservation.resources else {
        return validate_gpus(state, reservation, now, &all);
    };
    if nodes.is_empty() {
        return Err(EventRefusal::InvalidReservation("it reserves nothing"));
    }
    for name in nodes {
        validate_node(state, name)?;
        let other = all.iter().find(|one| {
            times::overlap(&one.reservation.times, &reservation.times)
                && one.places.iter().any(|place| place.node == *name)
        });
        if let Some(other) = other {
            let node = name.clone();
            let other = other.reservation.name.clone();
            return Err(EventRefusal::ReservationOverlaps { node, other });
        }
    }
    let places = nodes.iter().map(|node| ReservedPlace { node: node.clone(), devices: None });
    let placed =
        PlacedReservation { reservation: Arc::new(reservation.clone()), places: places.collect() };
    let begin =
        times::at_or_after(&reservation.times, now).map_or(now, |(begin, _)| begin.max(now));
    let in_way = advance_reservation::conflicting_elements(state, &placed, begin, now);
    if reservation.stop || in_way.is_empty() {
        Ok(())
    } else {
        Err(EventRefusal::ReservationConflict {
            gpus: None,
            conflicts: in_way.into_iter().collect(),
        })
    }
}

fn validate_gpus(
    state: &State,
    reservation: &AdvanceReservation,
    now: Time,
    all: &[PlacedReservation],
) -> Result<(), EventRefusal> {
    let ReservedResources::Gpus { count, .. } = &reservation.resources else { return Ok(()) };
    if *count == 0 {
        return Err(EventRefusal::InvalidReservation("it reserves nothing"));
    }
    let picked = advance_reservation::pick_places(state, reservation, now, all);
    let (found, in_way) =
        picked.map_or((0, BTreeSet::new()), |picked| (picked.found, picked.conflicts));
    if found >= *count {
        return Ok(());
    }
    let in_way = in_way.into_iter().collect();
    Err(EventRefusal::ReservationConflict { gpus: Some((*count, found)), conflicts: in_way })
}

pub(super) fn validate_drop(
    state: &State,
    name: &AdvanceReservationName,
) -> Result<(), EventRefusal> {
    match state.advance_reservations.get(name) {
        Some(_) => Ok(()),
        None => Err(EventRefusal::UnknownReservation(name.clone())),
    }
}

/// Checks whether a job may run in the reservation that it names, by permission and time limit.
pub(super) fn validate_use_of_reservation(
    state: &State,
    spec: &JobSpec,
) -> Result<(), EventRefusal> {
    let Some(name) = &spec.constraint.advance_reservation else { return Ok(()) };
    let known = state
        .advance_reservations
        .get(name)
        .ok_or_else(|| EventRefusal::UnknownReservation(name.clone()))?;
    let reservation = &known.reservation;
    if !admits(reservation, &spec.user, &spec.queue) {
        return Err(EventRefusal::ReservationNotAllowed(name.clone()));
    }
    let from = state.pool.in_force_until().max(spec.begin.unwrap_or(Time(0)));
    let length = times::longest_from(&reservation.times, from).unwrap_or(Span(0));
    let asked = spec.time_limit.map(|limit| limit + spec.grace);
    if asked.is_some_and(|asked| asked <= length) {
        return Ok(());
    }
    let reservation = name.clone();
    Err(EventRefusal::NeverStarts(Reason::AdvanceReservationTooShort {
        advance_reservation: reservation,
        asked,
        length,
    }))
}

fn validate_times(times: &AdvanceReservationTimes, now: Time) -> Result<(), &'static str> {
    let every = times.every.unwrap_or(Span(0));
    if times.length == Span(0) {
        Err("its duration is zero")
    } else if times.start.0.max(times.length.0).max(every.0) > LATEST {
        Err("it is too far in the future")
    } else if times.every.is_some_and(|every| every < times.length) {
        Err("it repeats before it has ended")
    } else if times::at_or_after(times, now).is_none() {
        Err("it has already ended")
    } else {
        Ok(())
    }
}
