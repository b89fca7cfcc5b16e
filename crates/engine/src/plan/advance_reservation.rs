//! Chooses the GPUs of an advance reservation, and proposes the events of advance reservations that
//! are due. It changes nothing; the journal records what it proposed.
//!
//! Reserved devices stay the same as long as they are usable. A device that is lost or drained is
//! replaced by one that is free when the reservation begins, or free now if it is active.

use std::collections::BTreeSet;

use muster_model::{
    AdvanceReservation, CommandTarget, DeviceSet, ElementId, Event, NodeId, ReservedPlace,
    ReservedResources, TaskPlacement, Time,
};

use crate::pool::availability::times;
use crate::pool::node::Node;
use crate::state::State;
use crate::state::advance_reservation::PlacedReservation;

/// GPUs chosen for an advance reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PickedPlaces {
    pub(crate) places: Vec<ReservedPlace>,
    /// Number of devices in `places`.
    pub(crate) found: u32,
    /// Elements that would still hold other suitable devices when it begins.
    pub(crate) conflicts: BTreeSet<ElementId>,
}

/// Returns the events of advance reservations that are due: those that are over, those that get
/// other devices, and the elements of other jobs that are stopped.
pub(crate) fn events(state: &State, now: Time) -> Vec<Event> {
    let mut events = Vec::new();
    if state.advance_reservations.is_empty() {
        return events;
    }
    let mut all: Vec<PlacedReservation> = state.advance_reservations.iter().cloned().collect();
    for at in 0..all.len() {
        let reservation = std::sync::Arc::clone(&all[at].reservation);
        if times::at_or_after(&reservation.times, now).is_none() {
            events.push(Event::AdvanceReservationRemoved {
                advance_reservation: reservation.name.clone(),
                by: None,
            });
            all[at].places.clear();
            continue;
        }
        let Some(picked) = pick_places(state, &reservation, now, &all) else { continue };
        if picked.places != all[at].places {
            all[at].places.clone_from(&picked.places);
            events.push(Event::AdvanceReservationPlaced {
                advance_reservation: reservation.name.clone(),
                places: picked.places,
            });
        }
    }
    let stopping = all.iter().filter(|one| one.reservation.stop);
    let stopped: BTreeSet<ElementId> = stopping
        .filter(|one| times::active_at(&one.reservation.times, now).is_some())
        .flat_map(|one| conflicting_elements(state, one, Time(0), now))
        .filter(|element| !state.jobs.is_stopping(*element))
        .collect();
    let target =
        |element: ElementId| CommandTarget { job: element.job, index: Some(element.index) };
    events.extend(stopped.into_iter().map(|element| Event::Requeue(target(element))));
    events
}

/// Returns the elements that hold resources of an advance reservation beyond a time and do not
/// belong to it.
pub(crate) fn conflicting_elements(
    state: &State,
    placed: &PlacedReservation,
    beyond: Time,
    now: Time,
) -> BTreeSet<ElementId> {
    let mut found = BTreeSet::new();
    for place in &placed.places {
        let Some(id) = state.pool.find(&place.node) else { continue };
        for hold in &state.pool.node(id).holds {
            let holding = state.pool.holding(hold.key);
            let is_on = |task: &TaskPlacement| {
                task.node == id
                    && place.devices.is_none_or(|devices| !task.devices.and(devices).is_empty())
            };
            if holding.shape.reservation.as_ref() != Some(&placed.reservation.name)
                && state.latest_end(now, holding) > beyond
                && holding.placement.iter().any(is_on)
            {
                found.insert(holding.element);
            }
        }
    }
    found
}

/// Returns the placement of an advance reservation that asks for a number of GPUs; `None` if it
/// names its nodes.
pub(crate) fn pick_places(
    state: &State,
    reservation: &AdvanceReservation,
    now: Time,
    all: &[PlacedReservation],
) -> Option<PickedPlaces> {
    let ReservedResources::Gpus { count, model, labels } = &reservation.resources else {
        return None;
    };
    let (begin, end) = times::at_or_after(&reservation.times, now)?;
    let interval = (begin.max(now), end);
    // 1. The devices that it has, as far as they are usable.
    let own = all.iter().find(|one| one.reservation.name == reservation.name);
    let reserved_on = |node: &Node| {
        let places = own.iter().flat_map(|own| own.places.iter());
        let place =
            places.filter(|place| place.node == node.spec.name).find_map(|place| place.devices);
        place.unwrap_or(DeviceSet::EMPTY)
    };
    let usable_of = |node: &Node| {
        usable_devices(node, model.as_ref(), interval).minus(reserved_by_others(
            node,
            reservation,
            all,
        ))
    };
    // Labels count for devices that are chosen now.
    let is_suitable =
        |node: &Node| labels.iter().all(|(key, value)| node.spec.labels.get(key) == Some(value));
    let mut chosen: Vec<(NodeId, DeviceSet)> = Vec::new();
    let mut free_by_node: Vec<(NodeId, DeviceSet, DeviceSet)> = Vec::new();
    let mut left = *count;
    for rank in 0..state.pool.nodes().len() as u32 {
        let id = state.pool.at_rank(rank);
        let node = state.pool.node(id);
        let usable = usable_of(node);
        let reused = usable.and(reserved_on(node)).lowest(left);
        left -= reused.len();
        chosen.push((id, reused));
        let free = if is_suitable(node) { usable.minus(reused) } else { DeviceSet::EMPTY };
        free_by_node.push((id, free, reused));
    }
    if left == 0 {
        return Some(picked_places(state, chosen, BTreeSet::new()));
    }
    // 2. Devices that are free by then; and if it stops running jobs, held ones as well.
    let mut conflicts = BTreeSet::new();
    for (id, free, _) in &mut free_by_node {
        let (held, holders) = held_devices(state, *id, *free, reservation, interval.0, now);
        *free = free.minus(held);
        conflicts.extend(holders);
    }
    left = choose(&free_by_node, left, &mut chosen);
    if reservation.stop && left > 0 {
        let taken = |id: NodeId| {
            chosen.iter().find(|(node, _)| *node == id).map_or(DeviceSet::EMPTY, |one| one.1)
        };
        let rest = free_by_node.iter().map(|(id, _, reused)| {
            let node = state.pool.node(*id);
            let usable = if is_suitable(node) { usable_of(node) } else { DeviceSet::EMPTY };
            (*id, usable.minus(taken(*id)), *reused)
        });
        let rest: Vec<_> = rest.collect();
        choose(&rest, left, &mut chosen);
    }
    Some(picked_places(state, chosen, conflicts))
}

/// Chooses devices: from the tightest node that has all that are left, or else from the one that
/// has the most; ties by name.
fn choose(
    free_by_node: &[(NodeId, DeviceSet, DeviceSet)],
    mut left: u32,
    chosen: &mut [(NodeId, DeviceSet)],
) -> u32 {
    let mut free_by_node: Vec<(usize, DeviceSet)> =
        free_by_node.iter().map(|(_, free, _)| *free).enumerate().collect();
    while left > 0 {
        free_by_node.retain(|(_, free)| !free.is_empty());
        let enough = free_by_node.iter().filter(|(_, free)| free.len() >= left);
        let best = enough.min_by_key(|(at, free)| (free.len(), *at)).or_else(|| {
            free_by_node.iter().max_by_key(|(at, free)| (free.len(), std::cmp::Reverse(*at)))
        });
        let Some((at, free)) = best.copied() else { break };
        let taken = free.lowest(left);
        left -= taken.len();
        chosen[at].1 = chosen[at].1.or(taken);
        free_by_node.retain(|(other, _)| *other != at);
    }
    left
}

fn picked_places(
    state: &State,
    chosen: Vec<(NodeId, DeviceSet)>,
    conflicts: BTreeSet<ElementId>,
) -> PickedPlaces {
    let found = chosen.iter().map(|(_, devices)| devices.len()).sum();
    let places = chosen.into_iter().filter(|(_, devices)| !devices.is_empty());
    let place = |(id, devices)| ReservedPlace {
        node: state.pool.node(id).spec.name.clone(),
        devices: Some(devices),
    };
    PickedPlaces { places: places.map(place).collect(), found, conflicts }
}

/// Returns the devices of a model that are usable throughout an interval, whether held or not.
fn usable_devices(
    node: &Node,
    model: Option<&muster_model::GpuModel>,
    interval: (Time, Time),
) -> DeviceSet {
    let is_off =
        |drain: Option<&muster_model::Drain>| drain.is_some_and(|drain| drain.from < interval.1);
    if !node.up || is_off(node.drains.node.as_ref()) {
        return DeviceSet::EMPTY;
    }
    let devices = (0..node.spec.devices.len().min(DeviceSet::MAX_DEVICES)).filter(|device| {
        model.is_none_or(|model| node.spec.devices[*device].model == *model)
            && !is_off(node.drains.of_device(&node.spec, *device))
    });
    let devices: DeviceSet = devices.collect();
    devices.minus(node.foreign.devices).minus(node.foreign.drained)
}

/// Returns the devices that overlapping advance reservations have.
fn reserved_by_others(
    node: &Node,
    reservation: &AdvanceReservation,
    all: &[PlacedReservation],
) -> DeviceSet {
    let other = all.iter().filter(|one| {
        one.reservation.name != reservation.name
            && times::overlap(&one.reservation.times, &reservation.times)
    });
    let places =
        other.flat_map(|one| one.places.iter()).filter(|place| place.node == node.spec.name);
    places
        .fold(DeviceSet::EMPTY, |all, place| all.or(place.devices.unwrap_or(DeviceSet(u128::MAX))))
}

/// Returns the devices that other elements hold beyond a time, and these elements.
fn held_devices(
    state: &State,
    id: NodeId,
    free: DeviceSet,
    reservation: &AdvanceReservation,
    beyond: Time,
    now: Time,
) -> (DeviceSet, BTreeSet<ElementId>) {
    let mut held = DeviceSet::EMPTY;
    let mut holders = BTreeSet::new();
    for hold in &state.pool.node(id).holds {
        let holding = state.pool.holding(hold.key);
        if state.latest_end(now, holding) <= beyond
            || holding.shape.reservation.as_ref() == Some(&reservation.name)
        {
            continue;
        }
        let tasks = holding.placement.iter().filter(|task| task.node == id);
        let held_here = tasks.fold(DeviceSet::EMPTY, |all, task| all.or(task.devices)).and(free);
        if !held_here.is_empty() {
            held = held.or(held_here);
            holders.insert(holding.element);
        }
    }
    (held, holders)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_model::{AdvanceReservationTimes, NodeName, NodeSpec, QueueTree, Span};

    use super::*;
    use crate::fixture::node;

    const NOW: Time = Time(1000);

    fn in_zone(name: &str, zone: &str) -> NodeSpec {
        let labels = BTreeMap::from([("zone".into(), zone.into())]);
        NodeSpec { labels, ..node(name, 4, "h100") }
    }

    /// Returns a reservation of GPUs on nodes of a zone.
    fn in_west(count: u32) -> AdvanceReservation {
        AdvanceReservation {
            name: "exam".into(),
            users: vec!["ann".into()],
            queues: Vec::new(),
            resources: ReservedResources::Gpus {
                count,
                model: None,
                labels: BTreeMap::from([("zone".into(), "west".into())]),
            },
            times: AdvanceReservationTimes {
                start: Time(0),
                length: Span(5000),
                every: None,
                count: None,
            },
            stop: false,
            by: None,
            reason: "".into(),
        }
    }

    /// Applies an event and what is due after it; returns the nodes that are reserved then, each with its
    /// number of GPUs.
    fn places_after(state: &mut State, event: Event) -> Vec<(NodeName, u32)> {
        state.apply(NOW, &event);
        for event in events(state, NOW) {
            state.apply(NOW, &event);
        }
        let reservation = state.advance_reservations.get(&"exam".into()).expect("it was set");
        let count = |place: &ReservedPlace| {
            (place.node.clone(), place.devices.map_or(0, |devices| devices.len()))
        };
        reservation.places.iter().map(count).collect()
    }

    #[test]
    fn gpus_are_chosen_on_nodes_with_the_labels_and_stay() {
        let joined = |node: NodeSpec| Event::NodeJoined(Box::new(node));
        let mut state = State::new(QueueTree::single()).unwrap();
        for node in [in_zone("a", "east"), in_zone("b", "west"), in_zone("c", "west")] {
            state.apply(NOW, &joined(node));
        }
        let places = places_after(&mut state, Event::AdvanceReservationSet(Box::new(in_west(6))));
        assert_eq!(places, [("b".into(), 4), ("c".into(), 2)]);
        let places = places_after(&mut state, joined(in_zone("b", "east")));
        assert_eq!(places, [("b".into(), 4), ("c".into(), 2)], "a label that is lost takes none");
        let lost = Event::NodeLost { node: "b".into(), reason: "broken".into() };
        assert_eq!(places_after(&mut state, lost), [("c".into(), 4)], "none without the label");
        let places = places_after(&mut state, joined(in_zone("a", "west")));
        assert_eq!(places, [("a".into(), 2), ("c".into(), 4)], "others replace them");
    }
}
