//! Which GPUs a window of GPUs sets aside, and what is to be said of windows as time passes. It
//! proposes events and changes nothing; what is journalled is what it proposed then.
//!
//! What is set aside stays where it is as long as it is sound. A device that is lost or drained is
//! replaced, by one that is free when the window begins, or free now if it has begun.

use std::collections::BTreeSet;

use muster_model::{
    DeviceSet, ElementId, Event, NodeId, Target, TaskPlacement, Time, Window, WindowPlace,
    WindowWhat,
};

use crate::state::State;
use crate::state::node::Node;
use crate::state::window::{Placed, times};

/// Where a window of GPUs goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picked {
    pub(crate) places: Vec<WindowPlace>,
    /// How many devices that are.
    pub(crate) found: u32,
    /// Who would still hold devices that it could have besides, when it begins.
    pub(crate) in_way: BTreeSet<ElementId>,
}

/// What is to be journalled of windows by now: those that are over, those that are somewhere else,
/// and who of others is stopped.
pub(crate) fn events(state: &State, now: Time) -> Vec<Event> {
    let mut events = Vec::new();
    if state.windows.is_empty() {
        return events;
    }
    let mut all: Vec<Placed> = state.windows.iter().cloned().collect();
    for at in 0..all.len() {
        let window = std::sync::Arc::clone(&all[at].window);
        if times::at_or_after(&window.times, now).is_none() {
            events.push(Event::WindowDropped { window: window.name.clone(), by: None });
            all[at].places.clear();
            continue;
        }
        let Some(picked) = pick(state, &window, now, &all) else { continue };
        if picked.places != all[at].places {
            all[at].places.clone_from(&picked.places);
            events.push(Event::WindowPlaced { window: window.name.clone(), places: picked.places });
        }
    }
    let stopping = all.iter().filter(|one| one.window.stop);
    let stopped: BTreeSet<ElementId> = stopping
        .filter(|one| times::open_at(&one.window.times, now).is_some())
        .flat_map(|one| strangers(state, one, Time(0), now))
        .filter(|element| !state.is_stopping(*element))
        .collect();
    let target = |element: ElementId| Target { job: element.job, index: Some(element.index) };
    events.extend(stopped.into_iter().map(|element| Event::Requeue(target(element))));
    events
}

/// Who holds something in the places of a window and does not run in it, and is there beyond an
/// instant.
pub(crate) fn strangers(
    state: &State,
    placed: &Placed,
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
            if holding.shape.window.as_ref() != Some(&placed.window.name)
                && holding.end.at(now) > beyond
                && holding.placement.iter().any(is_on)
            {
                found.insert(holding.element);
            }
        }
    }
    found
}

/// Where a window goes that asks for a number of GPUs; `None` when it names its nodes.
pub(crate) fn pick(state: &State, window: &Window, now: Time, all: &[Placed]) -> Option<Picked> {
    let WindowWhat::Gpus { count, model } = &window.what else { return None };
    let (begin, end) = times::at_or_after(&window.times, now)?;
    let stay = (begin.max(now), end);
    // 1. What it has, as far as that is sound.
    let own = all.iter().find(|one| one.window.name == window.name);
    let has = |node: &Node| {
        let places = own.iter().flat_map(|own| own.places.iter());
        let place =
            places.filter(|place| place.node == node.spec.name).find_map(|place| place.devices);
        place.unwrap_or(DeviceSet::EMPTY)
    };
    let mut chosen: Vec<(NodeId, DeviceSet)> = Vec::new();
    let mut rooms: Vec<(NodeId, DeviceSet, DeviceSet)> = Vec::new();
    let mut left = *count;
    for rank in 0..state.pool.nodes().len() as u32 {
        let id = state.pool.at_rank(rank);
        let node = state.pool.node(id);
        let sound = sound(node, model.as_ref(), stay).minus(others(node, window, all));
        let kept = sound.and(has(node)).lowest(left);
        left -= kept.len();
        chosen.push((id, kept));
        rooms.push((id, sound.minus(kept), kept));
    }
    if left == 0 {
        return Some(picked(state, chosen, BTreeSet::new()));
    }
    // 2. Of the rest what nobody holds then; and if it stops what is there, the others as well.
    let mut in_way = BTreeSet::new();
    for (id, room, _) in &mut rooms {
        let (busy, holders) = busy(state, *id, *room, window, stay.0, now);
        *room = room.minus(busy);
        in_way.extend(holders);
    }
    left = choose(&rooms, left, &mut chosen);
    if window.stop && left > 0 {
        let taken = |id: NodeId| {
            chosen.iter().find(|(node, _)| *node == id).map_or(DeviceSet::EMPTY, |one| one.1)
        };
        let rest = rooms.iter().map(|(id, _, kept)| {
            let node = state.pool.node(*id);
            let sound = sound(node, model.as_ref(), stay).minus(others(node, window, all));
            (*id, sound.minus(taken(*id)), *kept)
        });
        let rest: Vec<_> = rest.collect();
        choose(&rest, left, &mut chosen);
    }
    Some(picked(state, chosen, in_way))
}

/// The tightest node that has all that is left, or else the one that has the most; by name where
/// they are alike.
fn choose(
    rooms: &[(NodeId, DeviceSet, DeviceSet)],
    mut left: u32,
    chosen: &mut [(NodeId, DeviceSet)],
) -> u32 {
    let mut rooms: Vec<(usize, DeviceSet)> =
        rooms.iter().map(|(_, room, _)| *room).enumerate().collect();
    while left > 0 {
        rooms.retain(|(_, room)| !room.is_empty());
        let enough = rooms.iter().filter(|(_, room)| room.len() >= left);
        let best = enough
            .min_by_key(|(at, room)| (room.len(), *at))
            .or_else(|| rooms.iter().max_by_key(|(at, room)| (room.len(), std::cmp::Reverse(*at))));
        let Some((at, room)) = best.copied() else { break };
        let taken = room.lowest(left);
        left -= taken.len();
        chosen[at].1 = chosen[at].1.or(taken);
        rooms.retain(|(other, _)| *other != at);
    }
    left
}

fn picked(state: &State, chosen: Vec<(NodeId, DeviceSet)>, in_way: BTreeSet<ElementId>) -> Picked {
    let found = chosen.iter().map(|(_, devices)| devices.len()).sum();
    let places = chosen.into_iter().filter(|(_, devices)| !devices.is_empty());
    let place = |(id, devices)| WindowPlace {
        node: state.pool.node(id).spec.name.clone(),
        devices: Some(devices),
    };
    Picked { places: places.map(place).collect(), found, in_way }
}

/// Devices of a model that can be there throughout a stay, whoever holds them.
fn sound(node: &Node, model: Option<&muster_model::GpuModel>, stay: (Time, Time)) -> DeviceSet {
    let is_off =
        |drain: Option<&muster_model::Drain>| drain.is_some_and(|drain| drain.from < stay.1);
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

/// Devices that other windows set aside at some time of this one.
fn others(node: &Node, window: &Window, all: &[Placed]) -> DeviceSet {
    let other = all.iter().filter(|one| {
        one.window.name != window.name && times::collide(&one.window.times, &window.times)
    });
    let places =
        other.flat_map(|one| one.places.iter()).filter(|place| place.node == node.spec.name);
    places
        .fold(DeviceSet::EMPTY, |all, place| all.or(place.devices.unwrap_or(DeviceSet(u128::MAX))))
}

/// Devices that others hold beyond an instant, and who they are.
fn busy(
    state: &State,
    id: NodeId,
    room: DeviceSet,
    window: &Window,
    beyond: Time,
    now: Time,
) -> (DeviceSet, BTreeSet<ElementId>) {
    let (mut busy, mut holders) = (DeviceSet::EMPTY, BTreeSet::new());
    for hold in &state.pool.node(id).holds {
        let holding = state.pool.holding(hold.key);
        if holding.end.at(now) <= beyond || holding.shape.window.as_ref() == Some(&window.name) {
            continue;
        }
        let tasks = holding.placement.iter().filter(|task| task.node == id);
        let held = tasks.fold(DeviceSet::EMPTY, |all, task| all.or(task.devices)).and(room);
        if !held.is_empty() {
            busy = busy.or(held);
            holders.insert(holding.element);
        }
    }
    (busy, holders)
}
