//! Events about advance reservations, and their begin and end as time passes: the availability of
//! nodes and the queue entries of jobs follow.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    AdvanceReservation, AdvanceReservationName, JobId, ReservedPlace, ReservedResources, Time,
};

use super::PlacedReservation;
use crate::pool::availability::node_reservation::NodeReservation;
use crate::state::State;

impl State {
    /// Brings drains and reservations that began or ended by `now` into force.
    pub(crate) fn advance_time(&mut self, now: Time) {
        self.pool.begin_drains(now);
        self.extend_expected_ends(now);
        if self.advance_reservations.next_edge_at <= now {
            self.advance_reservations.update_next_edge(now);
            self.pool.update_reserved_nodes();
            self.sync_jobs_of_reservations(now, |_| true);
        }
    }

    pub(in crate::state) fn reservation_set(
        &mut self,
        now: Time,
        reservation: &AdvanceReservation,
    ) {
        let places = match &reservation.resources {
            ReservedResources::Nodes(nodes) => {
                let nodes: BTreeSet<_> = nodes.iter().cloned().collect();
                nodes.into_iter().map(|node| ReservedPlace { node, devices: None }).collect()
            }
            ReservedResources::Gpus { .. } => Vec::new(),
        };
        self.put_reservation(
            now,
            PlacedReservation { reservation: Arc::new(reservation.clone()), places },
        );
    }

    pub(in crate::state) fn reservation_placed(
        &mut self,
        now: Time,
        name: &AdvanceReservationName,
        places: &[ReservedPlace],
    ) {
        if let Some(known) = self.advance_reservations.get(name) {
            let placed = PlacedReservation {
                reservation: Arc::clone(&known.reservation),
                places: places.to_vec(),
            };
            self.put_reservation(now, placed);
        }
    }

    pub(in crate::state) fn reservation_dropped(
        &mut self,
        now: Time,
        name: &AdvanceReservationName,
    ) {
        if self.advance_reservations.by_name.remove(name).is_some() {
            self.pool.set_reserved_nodes(name, Vec::new());
            self.advance_reservations.update_next_edge(now);
            self.sync_jobs_of_reservations(now, |other| other == name);
        }
    }

    /// Stores a reservation and its places.
    pub(in crate::state) fn put_reservation(&mut self, now: Time, placed: PlacedReservation) {
        let name = placed.reservation.name.clone();
        let reserved = placed.places.iter().filter_map(|place| {
            let node = self.pool.find(&place.node)?;
            Some((
                node,
                NodeReservation {
                    reservation: Arc::clone(&placed.reservation),
                    devices: place.devices,
                },
            ))
        });
        let reserved = reserved.collect();
        self.advance_reservations.by_name.insert(name.clone(), placed);
        self.pool.set_reserved_nodes(&name, reserved);
        self.advance_reservations.update_next_edge(now);
        self.sync_jobs_of_reservations(now, |other| *other == name);
    }

    /// Updates the queue entries of jobs that name one of these reservations.
    fn sync_jobs_of_reservations(
        &mut self,
        now: Time,
        is_meant: impl Fn(&AdvanceReservationName) -> bool,
    ) {
        let named = self.jobs.iter().filter(|(_, job)| {
            job.record.spec.constraint.advance_reservation.as_ref().is_some_and(&is_meant)
        });
        let named: Vec<JobId> = named.map(|(id, _)| *id).collect();
        for id in named {
            self.sync_job(now, id);
        }
    }
}
