//! Reservations, from the journal alone: no other job gets reserved resources while a reservation
//! is active, and a job that names one runs inside it. It shares no code with the engine.

use std::collections::BTreeMap;

use muster_model::{
    AdvanceReservation, AdvanceReservationName, AdvanceReservationTimes, Event, NodeName,
    ReservedPlace, ReservedResources, TaskPlacement, Time,
};

use super::{Ledger, LedgerJob};
use crate::dst::coverage::Coverage;

/// A reservation and its placement.
#[derive(Clone, Debug)]
pub(crate) struct LedgerReservation {
    window: AdvanceReservation,
    places: Vec<ReservedPlace>,
}

/// All reservations by name.
pub(crate) type Reservations = BTreeMap<AdvanceReservationName, LedgerReservation>;

/// Applies an event about a reservation.
pub(crate) fn enter(reservations: &mut Reservations, event: &Event, coverage: &mut Coverage) {
    match event {
        Event::AdvanceReservationSet(window) => {
            coverage.reservations += 1;
            let whole = |node: &NodeName| ReservedPlace { node: node.clone(), devices: None };
            let places = match &window.resources {
                ReservedResources::Nodes(nodes) => nodes.iter().map(whole).collect(),
                ReservedResources::Gpus { .. } => Vec::new(),
            };
            reservations.insert(
                window.name.clone(),
                LedgerReservation { window: (**window).clone(), places },
            );
        }
        Event::AdvanceReservationPlaced { advance_reservation: window, places } => {
            if let Some(reserved) = reservations.get_mut(window) {
                reserved.places.clone_from(places);
            }
        }
        Event::AdvanceReservationRemoved { advance_reservation: window, by } => {
            coverage.reservations_over += u64::from(by.is_none());
            reservations.remove(window);
        }
        _ => {}
    }
}

/// Returns begin and end of each active period that begins before an instant.
fn open(times: &AdvanceReservationTimes, until: Time) -> impl Iterator<Item = (Time, Time)> {
    let most = times.every.map_or(1, |_| times.count.map_or(u64::MAX, u64::from));
    let every = times.every.map_or(0, |every| every.0);
    let begins =
        (0..most).map(move |nth| Time(times.start.0.saturating_add(nth.saturating_mul(every))));
    let length = times.length;
    begins.take_while(move |begin| *begin < until).map(move |begin| (begin, begin + length))
}

/// Returns whether a reservation overlaps a task placement. A task without devices does not overlap
/// a reservation of GPUs.
fn overlaps(ledger: &Ledger, reserved: &LedgerReservation, place: &TaskPlacement) -> bool {
    let here = ledger.nodes.get(place.node.0 as usize).map(|host| &host.spec.name);
    let mut places = reserved.places.iter().filter(|one| Some(&one.node) == here);
    places.any(|one| one.devices.is_none_or(|devices| !devices.and(place.devices).is_empty()))
}

/// Returns whether a reservation contains a task placement.
fn has(ledger: &Ledger, reserved: &LedgerReservation, place: &TaskPlacement) -> bool {
    let here = ledger.nodes.get(place.node.0 as usize).map(|host| &host.spec.name);
    let mut places = reserved.places.iter().filter(|one| Some(&one.node) == here);
    places.any(|one| one.devices.is_none_or(|devices| place.devices.minus(devices).is_empty()))
}

/// Checks whether a job may use a placement for as long as it may run.
pub(crate) fn check_start(
    ledger: &Ledger,
    job: &LedgerJob,
    placement: &[TaskPlacement],
    at: Time,
    coverage: &mut Coverage,
) -> Result<(), String> {
    let end = job.spec.time_limit.map_or(Time::NEVER, |limit| at + limit + job.spec.grace);
    let named = job.spec.constraint.advance_reservation.as_ref();
    // 1. Its own reservation: it may use it, it is active all the time, and contains every task.
    if let Some(name) = named {
        let reserved = ledger
            .reservations
            .get(name)
            .ok_or_else(|| format!("in {name}, which does not exist"))?;
        let is_below = |queue: &str| {
            let rest = ledger.leaf_of(job).strip_prefix(queue);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let window = &reserved.window;
        if !window.users.contains(&job.spec.user)
            && !window.queues.iter().any(|one| is_below(one.as_str()))
        {
            return Err(format!("in {name}, which it may not use"));
        }
        let covers = |(begin, over): (Time, Time)| begin <= at && end <= over;
        if !open(&window.times, at + muster_model::Span(1)).any(covers) {
            return Err(format!("in {name}, which is not active all the time"));
        }
        if placement.iter().any(|place| !has(ledger, reserved, place)) {
            return Err(format!("outside of {name}"));
        }
        coverage.reserved_starts += 1;
    }
    // 2. Reservations of others: no overlap while they are active.
    for (name, reserved) in ledger.reservations.iter().filter(|(name, _)| named != Some(name)) {
        let meets = open(&reserved.window.times, end).any(|(begin, over)| begin < end && at < over);
        if meets && placement.iter().any(|place| overlaps(ledger, reserved, place)) {
            return Err(format!("in the reservation {name} of others"));
        }
    }
    Ok(())
}

/// Returns whether any reservation, at any time, overlaps the placement.
pub(crate) fn is_reserved(ledger: &Ledger, placement: &[TaskPlacement]) -> bool {
    ledger
        .reservations
        .values()
        .any(|reserved| placement.iter().any(|place| overlaps(ledger, reserved, place)))
}
