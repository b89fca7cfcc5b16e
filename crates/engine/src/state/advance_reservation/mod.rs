//! Advance reservations: nodes and devices reserved for some jobs over a period of time. The
//! request and its places are durable; availability of nodes and sleeping queue entries are
//! derived. Where a reservation of GPUs is placed is decided in `plan`.

mod events;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{
    AdvanceReservation, AdvanceReservationName, QueueName, ReservedPlace, Time, UserName,
};
use serde::{Deserialize, Serialize};

use crate::pool::availability::times;

/// Advance reservation and its places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlacedReservation {
    #[serde(rename = "window")]
    pub(crate) reservation: Arc<AdvanceReservation>,
    /// Places by node, as decided last.
    pub(crate) places: Vec<ReservedPlace>,
}

/// Advance reservations by name.
#[derive(Clone, Debug)]
pub(crate) struct AdvanceReservations {
    by_name: BTreeMap<AdvanceReservationName, PlacedReservation>,
    /// Instant at which the next reservation begins or ends.
    next_edge_at: Time,
}

impl Default for AdvanceReservations {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), next_edge_at: Time::NEVER }
    }
}

/// True when jobs of a user in a queue may use a reservation.
pub(crate) fn admits(reservation: &AdvanceReservation, user: &UserName, queue: &QueueName) -> bool {
    let is_below = |above: &QueueName| {
        queue
            .as_str()
            .strip_prefix(above.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    reservation.users.contains(user) || reservation.queues.iter().any(is_below)
}

impl AdvanceReservations {
    pub(crate) fn get(&self, name: &AdvanceReservationName) -> Option<&PlacedReservation> {
        self.by_name.get(name)
    }

    /// Returns all reservations, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PlacedReservation> {
        self.by_name.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the instant at which the next reservation begins or ends.
    pub(crate) fn next_edge(&self) -> Option<Time> {
        (self.next_edge_at < Time::NEVER).then_some(self.next_edge_at)
    }

    /// Computes the instant at which the next reservation begins or ends after `now`.
    fn update_next_edge(&mut self, now: Time) {
        let edges =
            self.by_name.values().filter_map(|one| times::next_edge(&one.reservation.times, now));
        self.next_edge_at = edges.min().unwrap_or(Time::NEVER);
    }

    /// Returns the instant from which a job of a user in a queue may start in a reservation: in the
    /// past if it is active, never if it does not exist or does not admit the job.
    pub(crate) fn earliest_start(
        &self,
        name: &AdvanceReservationName,
        user: &UserName,
        queue: &QueueName,
        now: Time,
    ) -> Time {
        let known = self
            .get(name)
            .map(|one| &*one.reservation)
            .filter(|reservation| admits(reservation, user, queue));
        let next = known.and_then(|reservation| times::at_or_after(&reservation.times, now));
        next.map_or(Time::NEVER, |(begin, _)| begin)
    }
}
