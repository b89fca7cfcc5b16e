//! Random actions of administrators besides nodes and queues: they reserve nodes and GPUs, and
//! replace the topology levels. The choices do not depend on the engine's decisions.

use std::collections::BTreeMap;

use muster_model::{
    AdvanceReservation, AdvanceReservationName, AdvanceReservationTimes, Event, GpuModel, NodeName,
    ReservedResources, Span,
};
use muster_runtime::StepInput;

use super::jobs::USERS;
use super::site::{self, MODELS};
use super::world::DstWorld;

impl DstWorld {
    /// Sets or drops a reservation.
    pub(crate) fn change_reservation(&mut self) -> Event {
        let now = self.clock();
        let rng = &mut self.rng;
        let name: AdvanceReservationName = format!("w{}", rng.roll(4)).into();
        if rng.chance(15) {
            return Event::AdvanceReservationRemoved {
                advance_reservation: name,
                by: Some("root".into()),
            };
        }
        let nodes: Vec<NodeName> = self.hosts.iter().map(|host| host.spec.name.clone()).collect();
        let model = rng.chance(50).then(|| GpuModel::from(*rng.pick(&MODELS[..2])));
        let what = if rng.chance(40) {
            ReservedResources::Nodes(vec![rng.pick(&nodes).clone()])
        } else {
            ReservedResources::Gpus {
                count: rng.between(1, 3) as u32,
                model,
                labels: BTreeMap::new(),
            }
        };
        let length = Span::from_secs(rng.between(20, 120));
        let every = rng.chance(30).then(|| length + Span::from_secs(rng.between(10, 100)));
        let count = every.map(|_| rng.between(1, 4) as u32);
        let times =
            AdvanceReservationTimes { start: now + Span(rng.roll(60_000)), length, every, count };
        let queues = if rng.chance(30) { vec!["default".into()] } else { Vec::new() };
        let users = vec![(*rng.pick(&USERS)).into(), (*rng.pick(&USERS)).into()];
        let stop = rng.chance(50);
        let reason = "a talk".into();
        let window = AdvanceReservation {
            name,
            users,
            queues,
            resources: what,
            times,
            stop,
            by: Some("root".into()),
            reason,
        };
        Event::AdvanceReservationSet(Box::new(window))
    }

    /// Replaces the topology levels of the cluster file.
    pub(crate) fn replace_levels(&mut self) -> Event {
        self.levels = site::levels(&mut self.rng);
        self.coverage.levels += 1;
        Event::LevelsSet(self.levels.clone())
    }

    pub(crate) fn drop_reservations(&self) -> impl Iterator<Item = StepInput> {
        let names: Vec<AdvanceReservationName> = self.ledger.reservations.keys().cloned().collect();
        let drop = |window| {
            StepInput::Event(Event::AdvanceReservationRemoved {
                advance_reservation: window,
                by: Some("root".into()),
            })
        };
        names.into_iter().map(drop)
    }
}
