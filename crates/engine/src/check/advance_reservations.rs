//! Checks advance reservations: an element placed on reserved nodes, now or later, either names the
//! reservation and runs only while it is active, or does not name it and runs only while it is not
//! active. Checked occurrence by occurrence from the requests and their places, not from what the
//! planner derived.

use muster_model::{
    AdvanceReservation, DeviceSet, ElementId, JobSpec, Plan, QueueName, Span, TaskPlacement, Time,
};

use super::Violation;
use crate::state::State;
use crate::state::advance_reservation::PlacedReservation;

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for (id, placement, _) in plan.starts() {
        let Some(job) = state.jobs.get(&id.element.job) else { continue };
        let spec = &job.record.spec;
        let end = spec.time_limit.map_or(Time::NEVER, |limit| now + limit + spec.grace);
        let leaf = state.policy.queues().leaf_name(job.record.leaf);
        check_occupation(state, (id.element, spec, leaf), (now, end), placement, found);
    }
    for one in &plan.reservations {
        let Some(job) = state.jobs.get(&one.element.job) else { continue };
        let leaf = state.policy.queues().leaf_name(job.record.leaf);
        let subject = (one.element, &*job.record.spec, leaf);
        check_occupation(state, subject, (one.start, one.end), &one.placement, found);
    }
}

/// Checks an occupation of nodes for a period.
fn check_occupation(
    state: &State,
    (element, spec, leaf): (ElementId, &JobSpec, &QueueName),
    (start, end): (Time, Time),
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    let named = spec.constraint.advance_reservation.as_ref();
    // 1. Its own reservation: exists, admits the job, and is active throughout.
    if let Some(name) = named {
        let known = state.advance_reservations.get(name);
        let refused = match known.map(|placed| &*placed.reservation) {
            None => Some("its reservation does not exist"),
            Some(reservation) if !is_for(reservation, spec, leaf) => {
                Some("its reservation does not admit it")
            }
            Some(reservation) => {
                let covers = |(begin, over): (Time, Time)| begin <= start && end <= over;
                let is_active = occurrences(reservation, start).take(1).any(covers);
                (!is_active).then_some("its reservation is not active throughout")
            }
        };
        found.extend(refused.map(|what| Violation::NotStartable(element, what)));
    }
    // 2. Each task: within its own reservation, and not in others while they are active.
    for (rank, task) in placement.iter().enumerate() {
        let mut wrong =
            |what| found.push(Violation::WrongTask { element, rank: rank as u32, what });
        let own = named.and_then(|name| state.advance_reservations.get(name));
        if named.is_some() && !own.is_some_and(|own| holds_all(state, own, task)) {
            wrong("it is outside its reservation");
        }
        for other in
            state.advance_reservations.iter().filter(|other| named != Some(&other.reservation.name))
        {
            let meets = |(begin, over): (Time, Time)| begin < end && start < over;
            if shares(state, other, task)
                && occurrences(&other.reservation, start).take(1).any(meets)
            {
                wrong("it is in a reservation for other jobs");
            }
        }
    }
}

/// True when a job of this user may name the reservation, in the queue in which it waits.
fn is_for(reservation: &AdvanceReservation, spec: &JobSpec, leaf: &QueueName) -> bool {
    let path: Vec<&str> = leaf.as_str().split('/').collect();
    let above = (1..=path.len()).map(|length| path[..length].join("/"));
    reservation.users.contains(&spec.user)
        || above
            .into_iter()
            .any(|queue| reservation.queues.iter().any(|known| *known.as_str() == *queue))
}

/// True when a reservation includes something that a task holds. A task without devices does not
/// collide with a reservation of GPUs.
fn shares(state: &State, placed: &PlacedReservation, task: &TaskPlacement) -> bool {
    part(state, placed, task)
        .is_some_and(|part| part.is_none_or(|devices| !devices.and(task.devices).is_empty()))
}

/// True when a reservation includes everything that a task holds.
fn holds_all(state: &State, placed: &PlacedReservation, task: &TaskPlacement) -> bool {
    part(state, placed, task)
        .is_some_and(|part| part.is_none_or(|devices| task.devices.minus(devices).is_empty()))
}

/// Returns the reserved part of a task's node: its devices, or `None` for the whole node; nothing
/// if the node is not reserved.
fn part(
    state: &State,
    placed: &PlacedReservation,
    task: &TaskPlacement,
) -> Option<Option<DeviceSet>> {
    let node = &state.pool.get(task.node)?.spec.name;
    placed.places.iter().find(|place| place.node == *node).map(|place| place.devices)
}

/// Returns the occurrences that end after an instant, earliest first.
fn occurrences(reservation: &AdvanceReservation, from: Time) -> impl Iterator<Item = (Time, Time)> {
    let times = reservation.times;
    let every = times.every.unwrap_or(Span(0));
    let most = if times.every.is_none() { 1 } else { times.count.map_or(u64::MAX, u64::from) };
    // Skip occurrences of earlier periods.
    let skipped = from.since(times.start).0.checked_div(every.0).unwrap_or(0).saturating_sub(1);
    let all = (skipped..most).map(move |nth| {
        let begin = Time(times.start.0.saturating_add(nth.saturating_mul(every.0)));
        (begin, Time(begin.0.saturating_add(times.length.0)))
    });
    all.filter(move |(_, over)| *over > from)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_model::{
        AdvanceReservationName, AdvanceReservationTimes, Event, JobId, QueueTree, ReservedPlace,
        ReservedResources,
    };

    use super::*;
    use crate::fixture::{node, spec};

    const NOW: Time = Time(1000);

    fn reservation(times: AdvanceReservationTimes) -> AdvanceReservation {
        AdvanceReservation {
            name: "exam".into(),
            users: vec!["ann".into()],
            queues: Vec::new(),
            resources: ReservedResources::Nodes(vec!["n1".into()]),
            times,
            stop: false,
            by: None,
            reason: "".into(),
        }
    }

    fn times(start: u64, length: u64, every: Option<u64>) -> AdvanceReservationTimes {
        AdvanceReservationTimes {
            start: Time(start),
            length: Span(length),
            every: every.map(Span),
            count: None,
        }
    }

    /// Returns the violations of a plan for two GPUs on a node of four until 1600, made without
    /// (`None`) or inside a reservation, checked after the reservation changed.
    fn violations(
        inside: bool,
        then: Option<AdvanceReservation>,
        devices: Option<DeviceSet>,
    ) -> Vec<&'static str> {
        let mut state = State::new(QueueTree::single()).unwrap();
        state.apply(NOW, &Event::NodeJoined(Box::new(node("n1", 4, "h100"))));
        let mut job = spec(2);
        (job.time_limit, job.grace) = (Some(Span(500)), Span(100));
        if inside {
            state.apply(
                NOW,
                &Event::AdvanceReservationSet(Box::new(reservation(times(0, 5000, None)))),
            );
            job.constraint.advance_reservation = Some("exam".into());
        }
        state.apply(NOW, &Event::Submitted { job: JobId(1), spec: Arc::new(job) });
        let plan = crate::plan::Planner::default().plan(&mut state, NOW);
        assert_eq!(plan.decisions.len(), 1);
        let name = AdvanceReservationName::from("exam");
        state.apply(
            NOW,
            &Event::AdvanceReservationRemoved { advance_reservation: name.clone(), by: None },
        );
        if let Some(then) = then {
            state.apply(NOW, &Event::AdvanceReservationSet(Box::new(then)));
            if devices.is_some() {
                let places = vec![ReservedPlace { node: "n1".into(), devices }];
                state.apply(
                    NOW,
                    &Event::AdvanceReservationPlaced { advance_reservation: name, places },
                );
            }
        }
        let mut found = Vec::new();
        check(&state, NOW, &plan, &mut found);
        let what = |one: Violation| match one {
            Violation::NotStartable(_, what) | Violation::WrongTask { what, .. } => what,
            other => panic!("{other}"),
        };
        found.into_iter().map(what).collect()
    }

    #[test]
    fn a_start_in_a_reservation_for_other_jobs_is_found() {
        let of_others = ["it is in a reservation for other jobs"; 2];
        assert_eq!(
            violations(false, Some(reservation(times(0, 5000, None))), None),
            of_others,
            "it is open"
        );
        assert_eq!(
            violations(false, Some(reservation(times(1599, 9, None))), None),
            of_others,
            "it begins"
        );
        assert_eq!(
            violations(false, Some(reservation(times(99, 2, Some(500)))), None),
            of_others,
            "it recurs"
        );
        assert!(
            violations(false, Some(reservation(times(1600, 9, None))), None).is_empty(),
            "gone by then"
        );
        assert!(
            violations(false, Some(reservation(times(0, 1000, None))), None).is_empty(),
            "over by then"
        );
        let own = DeviceSet::one(1);
        let other = DeviceSet::one(3);
        let active = || Some(reservation(times(0, 5000, None)));
        assert_eq!(violations(false, active(), Some(own)), of_others[..1]);
        assert!(violations(false, active(), Some(other)).is_empty(), "other devices");
    }

    #[test]
    fn a_start_outside_its_own_reservation_is_found() {
        let active = reservation(times(0, 5000, None));
        assert!(violations(true, Some(active.clone()), None).is_empty(), "as it should be");
        let absent = ["its reservation does not exist", "it is outside its reservation"];
        assert_eq!(violations(true, None, None), [absent[0], absent[1], absent[1]]);
        let of_bob = AdvanceReservation { users: vec!["bob".into()], ..active.clone() };
        assert_eq!(violations(true, Some(of_bob), None), ["its reservation does not admit it"]);
        let by_queue = AdvanceReservation {
            users: Vec::new(),
            queues: vec!["default".into()],
            ..active.clone()
        };
        assert!(violations(true, Some(by_queue), None).is_empty(), "by its queue");
        let closed = ["its reservation is not active throughout"];
        assert_eq!(
            violations(true, Some(reservation(times(0, 1599, None))), None),
            closed,
            "it ends before"
        );
        assert_eq!(
            violations(true, Some(reservation(times(1001, 5000, None))), None),
            closed,
            "it begins later"
        );
        assert_eq!(
            violations(true, Some(active), Some(DeviceSet::one(1))),
            [absent[1]],
            "one GPU is outside"
        );
    }
}
