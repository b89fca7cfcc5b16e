//! The advance reservations of the cluster, and what became of each.

use std::collections::BTreeMap;

use muster_kubernetes::reservation::ReservationFacts;
use muster_model::view::AdvanceReservationView;
use muster_model::{AdvanceReservationName, DeviceSet, NodeName, ReservedPlace, Time};

/// Advance reservation, for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationStatus {
    /// Name of the object.
    pub name: AdvanceReservationName,
    /// Number of the settings that the state is about.
    pub generation: u64,
    /// State that its status says.
    pub state: ReservationState,
}

/// State of an advance reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationState {
    /// Nothing is set aside, for this reason.
    Refused(String),
    /// In force: active, or active later.
    InForce(Box<AdvanceReservationView>),
    /// Its last occurrence has ended.
    Over,
}

/// All advance reservations of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    pub(crate) known: BTreeMap<AdvanceReservationName, Tracked>,
    /// True if one came, went, or asks for something else since they were brought in line.
    pub(crate) is_changed: bool,
    /// Instant at which those that were refused are tried again.
    pub(crate) retry_at: Option<Time>,
    /// Devices that are set aside by number, on each node.
    pub(crate) devices: BTreeMap<NodeName, Vec<(AdvanceReservationName, DeviceSet)>>,
}

#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) facts: ReservationFacts,
    pub(crate) stage: ReservationStage,
    /// Devices that it had before its settings changed: pods may run there.
    pub(crate) kept: Vec<ReservedPlace>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReservationStage {
    /// As its object was written: the engine does not know it.
    New,
    InForce,
    Refused(String),
    Over,
}

impl Reservations {
    pub(crate) fn remove(&mut self, name: &AdvanceReservationName) {
        self.is_changed |= self.known.remove(name).is_some();
    }

    /// Returns why a reservation is not in force.
    pub(crate) fn defect(&self, name: &AdvanceReservationName) -> Option<&str> {
        match &self.known.get(name)?.stage {
            ReservationStage::Refused(defect) => Some(defect),
            ReservationStage::Over => Some("its last occurrence has ended"),
            ReservationStage::New | ReservationStage::InForce => None,
        }
    }
}
