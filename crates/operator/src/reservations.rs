//! Statuses of advance reservations: what became of each, and where.

use std::collections::BTreeMap;

use muster_kubernetes::queue::{GROUP, VERSION};
use muster_kubernetes::reservation::{RESERVATIONS, status};
use muster_model::AdvanceReservationName;
use muster_model::view::AdvanceReservationView;
use muster_scheduler::{ReservationState, ReservationStatus};
use serde_json::{Value, json};

use crate::condition::Condition;

/// The statuses that were written last, by address.
#[derive(Debug, Default)]
pub(crate) struct ReservationStatuses(BTreeMap<String, Value>);

impl ReservationStatuses {
    /// Returns the statuses that have changed: address of the object, and status.
    pub(crate) fn take(&mut self, all: &[ReservationStatus]) -> Vec<(String, Value)> {
        let mut changed = Vec::new();
        let mut written = BTreeMap::new();
        for one in all {
            let address = address(&one.name);
            let old = self.0.remove(&address);
            let status = status_of(one, old.as_ref());
            if old.as_ref() != Some(&status) {
                changed.push((address.clone(), status.clone()));
            }
            written.insert(address, status);
        }
        self.0 = written;
        changed
    }

    /// Forgets a status that could not be written: it is written again.
    pub(crate) fn forget(&mut self, address: &str) {
        self.0.remove(address);
    }

    /// Forgets the status of a reservation, so that it is written again: a new object may have this name.
    pub(crate) fn forget_object(&mut self, name: &AdvanceReservationName) {
        self.forget(&address(name));
    }
}

fn address(name: &AdvanceReservationName) -> String {
    format!("/apis/{GROUP}/{VERSION}/{RESERVATIONS}/{name}")
}

fn status_of(one: &ReservationStatus, old: Option<&Value>) -> Value {
    let (mut status, is_true, reason, message) = match &one.state {
        ReservationState::InForce(view) => {
            let (reason, message) = in_force(view);
            (status::in_force(view), true, reason, message)
        }
        ReservationState::Over => {
            let message = "its last occurrence has ended".to_owned();
            (status::not_in_force("Over"), false, "Over", message)
        }
        ReservationState::Refused(defect) => {
            (status::not_in_force("Refused"), false, "Refused", defect.clone())
        }
    };
    status["observedGeneration"] = json!(one.generation);
    status["conditions"] = Condition { kind: "Ready", is_true, reason, message }.alone(old);
    status
}

fn in_force(view: &AdvanceReservationView) -> (&'static str, String) {
    match view.gpus.filter(|_| view.gpus_missing > 0) {
        Some(gpus) => {
            ("GpusMissing", format!("{} of {gpus} GPUs cannot be set aside now", view.gpus_missing))
        }
        None => ("InForce", "the settings are in force".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::{AdvanceReservationTimes, Span, Time};

    use super::*;

    fn view(gpus_missing: u32) -> AdvanceReservationView {
        AdvanceReservationView {
            name: "exam".into(),
            users: vec!["ada".into()],
            queues: Vec::new(),
            times: AdvanceReservationTimes {
                start: Time(0),
                length: Span::from_secs(60),
                every: None,
                count: None,
            },
            is_active: true,
            begins: Some(Time(0)),
            ends: Some(Time(60_000)),
            gpus: Some(8),
            model: None,
            gpus_missing,
            places: Vec::new(),
            running: 1,
            waiting: 0,
            stop: false,
            by: None,
            reason: String::new(),
        }
    }

    #[test]
    fn a_status_is_written_when_it_has_changed_or_was_lost() {
        let mut statuses = ReservationStatuses::default();
        let mut take = |state: ReservationState| {
            statuses.take(&[ReservationStatus { name: "exam".into(), generation: 2, state }])
        };
        let in_force = |missing| ReservationState::InForce(Box::new(view(missing)));
        let written = take(in_force(0));
        assert_eq!(written[0].0, "/apis/muster.run/v1alpha1/advancereservations/exam");
        assert_eq!(written[0].1["phase"], "Active");
        assert_eq!(written[0].1["observedGeneration"], 2);
        assert_eq!(written[0].1["ends"], "1970-01-01T00:01:00Z");
        assert_eq!(take(in_force(0)), [], "nothing has changed");
        let written = take(in_force(2));
        let message = &written[0].1["conditions"][0]["message"];
        assert_eq!(message, "2 of 8 GPUs cannot be set aside now");
        let written = take(ReservationState::Refused("no".to_owned()));
        assert_eq!(written[0].1["conditions"][0]["status"], "False");
        assert!(written[0].1["places"].is_null(), "a patch removes them");
        assert_eq!(take(ReservationState::Over)[0].1["phase"], "Over");
        statuses.forget("/apis/muster.run/v1alpha1/advancereservations/exam");
        let state = ReservationState::Over;
        let over = ReservationStatus { name: "exam".into(), generation: 2, state };
        assert_eq!(statuses.take(std::slice::from_ref(&over)).len(), 1);
        statuses.forget_object(&"exam".into());
        assert_eq!(statuses.take(&[over]).len(), 1, "another object of that name");
        assert_eq!(statuses.take(&[]), [], "the object is gone");
    }
}
