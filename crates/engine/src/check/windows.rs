//! Are windows kept? What is placed on a node of one, now or later, names it and is there only
//! while it is open, or names it not and is there only while it is not. Judged from what was asked
//! for and where it was said to be, occurrence by occurrence; what the planner made of it is not
//! looked at.

use muster_model::{
    DeviceSet, ElementId, JobSpec, Plan, QueueName, Span, TaskPlacement, Time, Window,
};

use super::Violation;
use crate::state::State;
use crate::state::window::Placed;

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for (id, placement, _) in plan.starts() {
        let Some(job) = state.jobs.get(&id.element.job) else { continue };
        let spec = &job.record.spec;
        let end = spec.time_limit.map_or(Time::NEVER, |limit| now + limit + spec.grace);
        let leaf = state.policy.leaf_name(job.record.leaf);
        check_stay(state, (id.element, spec, leaf), (now, end), placement, found);
    }
    for one in &plan.reservations {
        let Some(job) = state.jobs.get(&one.element.job) else { continue };
        let leaf = state.policy.leaf_name(job.record.leaf);
        let who = (one.element, &*job.record.spec, leaf);
        check_stay(state, who, (one.start, one.end), &one.placement, found);
    }
}

/// Something is to be on its nodes from an instant to another.
fn check_stay(
    state: &State,
    (element, spec, leaf): (ElementId, &JobSpec, &QueueName),
    (start, end): (Time, Time),
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    let named = spec.constraint.window.as_ref();
    // 1. Its own window: there, for it, and open all the while.
    if let Some(name) = named {
        let known = state.windows.get(name);
        let refused = match known.map(|placed| &*placed.window) {
            None => Some("it names a reservation that is not there"),
            Some(window) if !is_for(window, spec, leaf) => Some("it names a reservation of others"),
            Some(window) => {
                let covers = |(begin, over): (Time, Time)| begin <= start && end <= over;
                let is_open = occurrences(window, start).take(1).any(covers);
                (!is_open).then_some("its reservation is not open all the while")
            }
        };
        found.extend(refused.map(|what| Violation::NotStartable(element, what)));
    }
    // 2. Task by task: where its own is, and where others are not meanwhile.
    for (rank, task) in placement.iter().enumerate() {
        let mut wrong =
            |what| found.push(Violation::WrongTask { element, rank: rank as u32, what });
        let own = named.and_then(|name| state.windows.get(name));
        if named.is_some() && !own.is_some_and(|own| holds_all(state, own, task)) {
            wrong("it is not in its reservation");
        }
        for other in state.windows.iter().filter(|other| named != Some(&other.window.name)) {
            let meets = |(begin, over): (Time, Time)| begin < end && start < over;
            if shares(state, other, task) && occurrences(&other.window, start).take(1).any(meets) {
                wrong("it is in a reservation of others");
            }
        }
    }
}

/// May a job of this user name it, in the queue that it waits in now?
fn is_for(window: &Window, spec: &JobSpec, leaf: &QueueName) -> bool {
    let path: Vec<&str> = leaf.as_str().split('/').collect();
    let above = (1..=path.len()).map(|length| path[..length].join("/"));
    window.users.contains(&spec.user)
        || above
            .into_iter()
            .any(|queue| window.queues.iter().any(|known| *known.as_str() == *queue))
}

/// Has a window something that a task holds? A task without devices leaves those of a window of
/// GPUs alone.
fn shares(state: &State, placed: &Placed, task: &TaskPlacement) -> bool {
    part(state, placed, task)
        .is_some_and(|part| part.is_none_or(|devices| !devices.and(task.devices).is_empty()))
}

/// Has a window all that a task holds?
fn holds_all(state: &State, placed: &Placed, task: &TaskPlacement) -> bool {
    part(state, placed, task)
        .is_some_and(|part| part.is_none_or(|devices| task.devices.minus(devices).is_empty()))
}

/// What a window has of a task's node, if it has something: its devices, or `None` for the node as
/// a whole.
fn part(state: &State, placed: &Placed, task: &TaskPlacement) -> Option<Option<DeviceSet>> {
    let node = &state.pool.get(task.node)?.spec.name;
    placed.places.iter().find(|place| place.node == *node).map(|place| place.devices)
}

/// From when until when it is open, the first that has not ended by an instant first.
fn occurrences(window: &Window, from: Time) -> impl Iterator<Item = (Time, Time)> {
    let times = window.times;
    let every = times.every.unwrap_or(Span(0));
    let most = if times.every.is_none() { 1 } else { times.count.map_or(u64::MAX, u64::from) };
    // Far behind are those of whole periods ago.
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

    use muster_model::{Event, JobId, QueueTree, WindowName, WindowPlace, WindowTimes, WindowWhat};

    use super::*;
    use crate::fixture::{node, spec};

    const NOW: Time = Time(1000);

    fn window(times: WindowTimes) -> Window {
        Window {
            name: "exam".into(),
            users: vec!["ann".into()],
            queues: Vec::new(),
            what: WindowWhat::Nodes(vec!["n1".into()]),
            times,
            stop: false,
            by: None,
            reason: "".into(),
        }
    }

    fn times(start: u64, length: u64, every: Option<u64>) -> WindowTimes {
        WindowTimes {
            start: Time(start),
            length: Span(length),
            every: every.map(Span),
            count: None,
        }
    }

    /// A plan for two GPUs on a node of four until 1600, made before (`None`) or inside of a window
    /// that is open then; judged after the window became another.
    fn judged(inside: bool, then: Option<Window>, devices: Option<DeviceSet>) -> Vec<&'static str> {
        let mut state = State::new(QueueTree::single()).unwrap();
        state.apply(NOW, &Event::NodeJoined(Box::new(node("n1", 4, "h100"))));
        let mut job = spec(2);
        (job.time_limit, job.grace) = (Some(Span(500)), Span(100));
        if inside {
            state.apply(NOW, &Event::WindowSet(Box::new(window(times(0, 5000, None)))));
            job.constraint.window = Some("exam".into());
        }
        state.apply(NOW, &Event::Submitted { job: JobId(1), spec: Arc::new(job) });
        let plan = crate::plan::plan(&mut state, NOW);
        assert_eq!(plan.decisions.len(), 1);
        let name = WindowName::from("exam");
        state.apply(NOW, &Event::WindowDropped { window: name.clone(), by: None });
        if let Some(then) = then {
            state.apply(NOW, &Event::WindowSet(Box::new(then)));
            if devices.is_some() {
                let places = vec![WindowPlace { node: "n1".into(), devices }];
                state.apply(NOW, &Event::WindowPlaced { window: name, places });
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
    fn who_is_in_a_window_of_others_trips_it() {
        let of_others = ["it is in a reservation of others"; 2];
        assert_eq!(
            judged(false, Some(window(times(0, 5000, None))), None),
            of_others,
            "it is open"
        );
        assert_eq!(judged(false, Some(window(times(1599, 9, None))), None), of_others, "it begins");
        assert_eq!(
            judged(false, Some(window(times(99, 2, Some(500)))), None),
            of_others,
            "it recurs"
        );
        assert!(judged(false, Some(window(times(1600, 9, None))), None).is_empty(), "gone by then");
        assert!(judged(false, Some(window(times(0, 1000, None))), None).is_empty(), "over by then");
        let (own, other) = (DeviceSet::one(1), DeviceSet::one(3));
        let open = || Some(window(times(0, 5000, None)));
        assert_eq!(judged(false, open(), Some(own)), of_others[..1]);
        assert!(judged(false, open(), Some(other)).is_empty(), "other devices");
    }

    #[test]
    fn who_is_outside_of_its_own_window_trips_it() {
        let open = window(times(0, 5000, None));
        assert!(judged(true, Some(open.clone()), None).is_empty(), "as it should be");
        let absent = ["it names a reservation that is not there", "it is not in its reservation"];
        assert_eq!(judged(true, None, None), [absent[0], absent[1], absent[1]]);
        let of_bob = Window { users: vec!["bob".into()], ..open.clone() };
        assert_eq!(judged(true, Some(of_bob), None), ["it names a reservation of others"]);
        let by_queue = Window { users: Vec::new(), queues: vec!["default".into()], ..open.clone() };
        assert!(judged(true, Some(by_queue), None).is_empty(), "by its queue");
        let closed = ["its reservation is not open all the while"];
        assert_eq!(
            judged(true, Some(window(times(0, 1599, None))), None),
            closed,
            "it ends before"
        );
        assert_eq!(
            judged(true, Some(window(times(1001, 5000, None))), None),
            closed,
            "it begins later"
        );
        assert_eq!(
            judged(true, Some(open), Some(DeviceSet::one(1))),
            [absent[1]],
            "one GPU is outside"
        );
    }
}
