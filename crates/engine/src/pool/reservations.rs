//! Nodes and devices of advance reservations, and the view of the nodes for jobs inside one: only
//! what it reserves is available. Changing the view is scratch work: the caller restores the
//! previous view.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{AdvanceReservation, AdvanceReservationName, ElementId, NodeId, Time};

use super::availability::node_reservation::NodeReservation;
use super::availability::{PoolView, times};
use super::{HoldKey, Holding, Pool};

impl Pool {
    /// Sets the nodes that a reservation reserves, and no others.
    pub(crate) fn set_reserved_nodes(
        &mut self,
        reservation: &AdvanceReservationName,
        places: Vec<(NodeId, NodeReservation)>,
    ) {
        let had = self.reserved_nodes.iter().filter(|id| {
            self.nodes[id.0 as usize]
                .reservations
                .iter()
                .any(|reserved| reserved.reservation.name == *reservation)
        });
        match places.first() {
            Some((_, reserved)) => self
                .advance_reservations
                .insert(reservation.clone(), Arc::clone(&reserved.reservation)),
            None => self.advance_reservations.remove(reservation),
        };
        let touched: BTreeSet<NodeId> =
            had.copied().chain(places.iter().map(|(id, _)| *id)).collect();
        for id in touched {
            let own =
                places.iter().filter(|(node, _)| *node == id).map(|(_, reserved)| reserved.clone());
            self.change(id, |node| {
                node.reservations.retain(|reserved| reserved.reservation.name != *reservation);
                node.reservations.extend(own);
                node.reservations
                    .sort_by(|one, other| one.reservation.name.cmp(&other.reservation.name));
            });
            if self.node(id).reservations.is_empty() {
                self.reserved_nodes.remove(&id);
            } else {
                self.reserved_nodes.insert(id);
            }
        }
    }

    /// Returns the holdings that end by an instant according to their time limits, and those of
    /// some elements; in arbitrary order.
    pub(crate) fn ended_by(&self, now: Time, by: Time, also: &BTreeSet<ElementId>) -> Vec<HoldKey> {
        let is_over = |one: &Holding| one.end.at(now) <= by || also.contains(&one.element);
        let all = self.holdings.iter().enumerate();
        let ended = all.filter(|(_, holding)| holding.as_ref().is_some_and(is_over));
        ended.map(|(key, _)| HoldKey(key as u32)).collect()
    }

    /// Returns the instant up to which drains and reservations are in force.
    pub(crate) fn in_force_until(&self) -> Time {
        self.in_force_until
    }

    /// True when there are reserved places: a placement may have to end before a reservation
    /// begins.
    pub(crate) fn has_advance_reservations(&self) -> bool {
        !self.reserved_nodes.is_empty()
    }

    /// Returns the nodes on which reservations reserve something.
    pub(crate) fn reserved_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.reserved_nodes.iter().copied()
    }

    /// Recomputes all reserved nodes after reservations began or ended.
    pub(crate) fn update_reserved_nodes(&mut self) {
        for id in self.reserved_nodes.clone() {
            self.update_service(id);
        }
    }

    /// Changes the view of the nodes. Returns the previous view.
    pub(crate) fn set_view(&mut self, view: PoolView) -> PoolView {
        if view == self.view || self.reserved_nodes.is_empty() {
            return self.view.clone();
        }
        let outer = std::mem::replace(&mut self.view, view);
        self.update_reserved_nodes();
        outer
    }

    /// Returns a copy as seen by jobs of a reservation when that is active, now or next.
    pub(crate) fn copy_inside(&self, reservation: &AdvanceReservationName) -> Self {
        let known = self.advance_reservations.get(reservation);
        let next = known.and_then(|known| times::at_or_after(&known.times, self.in_force_until));
        let at = next.map_or(self.in_force_until, |(begin, _)| begin.max(self.in_force_until));
        let mut copy = self.clone();
        copy.set_view(PoolView { at, reservation: Some(reservation.clone()) });
        copy
    }

    /// Changes the view to jobs inside a reservation, or outside of all. Returns the previous view.
    pub(crate) fn view_inside(&mut self, reservation: Option<&AdvanceReservationName>) -> PoolView {
        let at = self.view.at;
        self.set_view(PoolView { at, reservation: reservation.cloned() })
    }

    /// Changes the view to another instant. Returns the previous view.
    pub(crate) fn view_at(&mut self, at: Time) -> PoolView {
        let reservation = self.view.reservation.clone();
        self.set_view(PoolView { at, reservation })
    }

    /// Returns the reservations that have places, by name.
    pub(crate) fn advance_reservations(&self) -> impl Iterator<Item = &Arc<AdvanceReservation>> {
        self.advance_reservations.values()
    }

    /// Returns the next instant after `at` at which an advance reservation with at least one node
    /// begins or ends.
    pub(crate) fn next_reservation_edge(&self, at: Time) -> Option<Time> {
        self.advance_reservations
            .values()
            .filter_map(|reservation| times::next_edge(&reservation.times, at))
            .min()
    }
}
