//! Windows: nodes and devices that are set aside for some jobs over a stretch of time. What was
//! asked for and where it is are durable; walls and the sleep of jobs follow from them. Where a
//! window of GPUs goes is decided in `plan`.

mod fold;
mod judge;
pub(crate) mod times;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{DeviceSet, QueueName, Time, UserName, Window, WindowName, WindowPlace};
use serde::{Deserialize, Serialize};

use super::wall::{View, Wall, Walls, When};

/// A window and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placed {
    pub(crate) window: Arc<Window>,
    /// By node, as placed last.
    pub(crate) places: Vec<WindowPlace>,
}

/// All windows.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    by_name: BTreeMap<WindowName, Placed>,
    /// When the next of them begins or ends.
    turns_at: Time,
}

impl Default for Windows {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), turns_at: Time::NEVER }
    }
}

/// What a window sets aside of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) window: Arc<Window>,
    /// Only these devices; `None` is the node as a whole.
    pub(crate) devices: Option<DeviceSet>,
}

impl Claim {
    /// All devices that it is about.
    pub(crate) fn set(&self) -> DeviceSet {
        self.devices.unwrap_or(DeviceSet(u128::MAX))
    }

    /// The walls that it stands for.
    pub(super) fn build(&self, walls: &mut Walls, view: &View) {
        let is_open = times::open_at(&self.window.times, view.at).is_some();
        let window = Arc::clone(&self.window);
        if view.window.as_ref() != Some(&self.window.name) {
            // Others': closed while it is open.
            match self.devices {
                _ if !is_open => {}
                None => walls.whole = true,
                Some(devices) => walls.devices = walls.devices.or(devices),
            }
            walls.ahead.push(Wall { devices: self.devices, when: When::While(window) });
            return;
        }
        // Its own: nothing else, and only while it is open.
        walls.whole |= !is_open;
        walls.outside = DeviceSet(u128::MAX).minus(self.set());
        walls.devices = walls.devices.or(walls.outside);
        walls.ahead.push(Wall { devices: None, when: When::Unless(window) });
    }
}

/// True when jobs of a user in a queue may name a window.
pub(crate) fn admits(window: &Window, user: &UserName, queue: &QueueName) -> bool {
    let is_below = |above: &QueueName| {
        queue
            .as_str()
            .strip_prefix(above.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    window.users.contains(user) || window.queues.iter().any(is_below)
}

impl Windows {
    pub(crate) fn get(&self, name: &WindowName) -> Option<&Placed> {
        self.by_name.get(name)
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Placed> {
        self.by_name.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// When the next of them begins or ends.
    pub(crate) fn next_turn(&self) -> Option<Time> {
        (self.turns_at < Time::NEVER).then_some(self.turns_at)
    }

    /// Works out when the next of them begins or ends after an instant.
    fn look_ahead(&mut self, now: Time) {
        let edges =
            self.by_name.values().filter_map(|one| times::next_edge(&one.window.times, now));
        self.turns_at = edges.min().unwrap_or(Time::NEVER);
    }

    /// From when on a job of a user in a queue may start in a window: now or before, when it is
    /// open; never, when it is not there or not for it.
    pub(crate) fn opens(
        &self,
        name: &WindowName,
        user: &UserName,
        queue: &QueueName,
        now: Time,
    ) -> Time {
        let known =
            self.get(name).map(|one| &*one.window).filter(|window| admits(window, user, queue));
        let next = known.and_then(|window| times::at_or_after(&window.times, now));
        next.map_or(Time::NEVER, |(begin, _)| begin)
    }
}
