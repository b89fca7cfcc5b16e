//! Upcoming unavailability that prevents a start now although capacity is free: drains,
//! reservations of others, the end of the element's own reservation.

use muster_model::{AdvanceReservationName, NodeId, Reason, Span, Time};

use crate::pool::Pool;
use crate::pool::availability::times;
use crate::pool::shape::Shape;

/// Cause of an unavailability interval that begins at an instant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UpcomingUnavailability {
    /// Begin of a drain on a node.
    Drain(NodeId),
    /// Begin of a reservation for other jobs.
    Begins(AdvanceReservationName),
    /// End of the element's own reservation, and its next begin.
    Ends(AdvanceReservationName, Option<Time>),
}

impl UpcomingUnavailability {
    /// Returns the reason why an element is pending.
    pub(super) fn reason(
        self,
        pool: &Pool,
        from: Time,
        fits_if_shorter_than: Option<Span>,
    ) -> Reason {
        match self {
            UpcomingUnavailability::Drain(node) => {
                let node = pool.node(node).spec.name.clone();
                Reason::UpcomingDrain { node, from, fits_if_shorter_than }
            }
            UpcomingUnavailability::Begins(reservation) => Reason::UpcomingAdvanceReservation {
                advance_reservation: reservation,
                from,
                fits_if_shorter_than,
            },
            UpcomingUnavailability::Ends(reservation, again) => Reason::AdvanceReservationEnds {
                advance_reservation: reservation,
                ends: from,
                again,
                fits_if_shorter_than,
            },
        }
    }
}

/// Returns all upcoming unavailability of nodes that a shape may use, earliest first.
pub(super) fn upcoming_unavailability(
    pool: &Pool,
    shape: &Shape,
    now: Time,
) -> Vec<(Time, UpcomingUnavailability)> {
    let drains = pool.upcoming_drains().filter(|(_, node)| shape.admits(pool.node(*node)));
    let mut upcoming: Vec<(Time, UpcomingUnavailability)> =
        drains.map(|(from, node)| (from, UpcomingUnavailability::Drain(node))).collect();
    for reservation in pool.advance_reservations() {
        let Some((begin, end)) = times::at_or_after(&reservation.times, now) else { continue };
        if shape.reservation.as_ref() == Some(&reservation.name) {
            let again = times::at_or_after(&reservation.times, end).map(|(begin, _)| begin);
            upcoming.push((end, UpcomingUnavailability::Ends(reservation.name.clone(), again)));
            continue;
        }
        let is_wanted = |id: NodeId| {
            let node = pool.node(id);
            shape.admits(node)
                && node
                    .reservations
                    .iter()
                    .any(|reserved| reserved.reservation.name == reservation.name)
        };
        if begin > now && pool.reserved_nodes().any(is_wanted) {
            upcoming.push((begin, UpcomingUnavailability::Begins(reservation.name.clone())));
        }
    }
    upcoming.sort_unstable();
    upcoming
}
