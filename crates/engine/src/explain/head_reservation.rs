//! Head reservations: how long an element has been first, what is reserved for it, or for which
//! other element capacity is reserved.

use muster_model::reason::HeadReservedPlace;
use muster_model::view::PatienceView;
use muster_model::{ElementId, HeadReservation, Reason, Span, Time};

use crate::plan::Outlook;
use crate::state::State;

/// Minimum time at the head of the queue that is worth showing: before it, the element is mostly
/// about to start.
const MIN_SHOWN: Span = Span::from_secs(60);

/// Maximum number of nodes that are named.
const MAX_NAMED: usize = 16;

/// Returns the view of an element that is first in its queue and has no planned start.
pub(super) fn of(
    state: &State,
    outlook: &Outlook,
    now: Time,
    id: ElementId,
) -> Option<PatienceView> {
    let since =
        state.heads.since(&state.jobs, id).filter(|since| now.since(*since) >= MIN_SHOWN)?;
    let patience = state.policy.tree().patience?;
    let reservation =
        outlook.head_reservations.iter().find(|reservation| reservation.element == id);
    let kept = reservation.map(|reservation| places(state, reservation)).unwrap_or_default();
    Some(PatienceView { since, keeps_from: since + patience, kept, is_kept: reservation.is_some() })
}

/// Returns the head reservation as a reason why another element is pending.
pub(super) fn reason(state: &State, reservation: &HeadReservation, now: Time) -> Reason {
    let since = state.heads.since(&state.jobs, reservation.element).unwrap_or(now);
    Reason::HeadReserved { element: reservation.element, since, places: places(state, reservation) }
}

/// Returns the free part of a head reservation.
fn places(state: &State, reservation: &HeadReservation) -> Vec<HeadReservedPlace> {
    let mut places: Vec<HeadReservedPlace> = Vec::new();
    for task in reservation.placement.iter() {
        let node = state.pool.node(task.node);
        let free: Vec<u16> =
            task.devices.and(node.free()).iter().map(|device| device as u16).collect();
        let count = places.len();
        match places.iter_mut().find(|one| one.node == node.spec.name) {
            Some(known) => known.devices.extend(free),
            None if !free.is_empty() && count < MAX_NAMED => {
                places.push(HeadReservedPlace { node: node.spec.name.clone(), devices: free });
            }
            None => {}
        }
    }
    places.iter_mut().for_each(|one| one.devices.sort_unstable());
    places
}
