//! Walls: stretches of time in which a node, or some devices of it, are not for everybody. Drains
//! and windows become walls, and placing knows nothing else of them.
//!
//! A wall that lies ahead needs no event when its instant comes to keep things off it: nothing is
//! placed that would still be there. What is behind a wall already is out of the indexes, as seen
//! from one instant and by one reader.

use std::sync::Arc;

use muster_model::{DeviceSet, NodeSpec, Time, Window, WindowName};
use smallvec::SmallVec;

use super::drain::Drains;
use super::window::{Claim, times};

/// Who looks at the nodes, and from when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// What has begun by then is in force.
    pub(crate) at: Time,
    /// From inside of this window: what it sets aside is all there is.
    pub(crate) window: Option<WindowName>,
}

/// What drains and windows leave of a node, as one view has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walls {
    /// The whole node is drained; so it takes nothing.
    pub(crate) is_drained: bool,
    /// Drained devices.
    pub(crate) drained: DeviceSet,
    /// The whole node takes nothing.
    pub(crate) whole: bool,
    /// Devices that take nothing.
    pub(crate) devices: DeviceSet,
    /// Devices that the window does not have from inside of which it is seen.
    pub(crate) outside: DeviceSet,
    /// Of what remains, what may not be held at some other time.
    pub(crate) ahead: SmallVec<[Wall; 1]>,
}

/// One wall.
#[derive(Clone, Debug)]
pub(crate) struct Wall {
    /// Only these devices; `None` is all of the node.
    pub(crate) devices: Option<DeviceSet>,
    pub(crate) when: When,
}

/// When a wall is there.
#[derive(Clone, Debug)]
pub(crate) enum When {
    /// From an instant on.
    From(Time),
    /// While a window is open.
    While(Arc<Window>),
    /// While it is not.
    Unless(Arc<Window>),
}

impl When {
    fn meets(&self, from: Time, until: Time) -> bool {
        match self {
            When::From(at) => *at < until,
            When::While(window) => times::meets(&window.times, from, until),
            When::Unless(window) => !times::covers(&window.times, from, until),
        }
    }
}

impl Walls {
    /// The walls of a node.
    pub(crate) fn of(drains: &Drains, claims: &[Claim], spec: &NodeSpec, view: &View) -> Self {
        let mut walls = Self::default();
        drains.build(&mut walls, spec, view.at);
        for claim in claims {
            claim.build(&mut walls, view);
        }
        walls
    }

    /// Devices that may not be held throughout a stretch.
    pub(crate) fn during(&self, from: Time, until: Time) -> DeviceSet {
        let walls = self.ahead.iter().filter(|wall| wall.when.meets(from, until));
        walls.fold(DeviceSet::EMPTY, |all, wall| {
            all.or(wall.devices.unwrap_or(DeviceSet(u128::MAX)))
        })
    }

    /// Devices that are closed at some time by others than its own window; `None` when the node as
    /// a whole is.
    pub(crate) fn ever(&self) -> Option<DeviceSet> {
        let mut others = self.ahead.iter().filter(|wall| !matches!(wall.when, When::Unless(_)));
        others.try_fold(DeviceSet::EMPTY, |all, wall| wall.devices.map(|devices| all.or(devices)))
    }

    /// Leaves away when its own window is open.
    pub(crate) fn drop_own(&mut self) {
        self.ahead.retain(|wall| !matches!(wall.when, When::Unless(_)));
    }

    /// True when nothing at all may be there throughout a stretch.
    pub(crate) fn is_closed(&self, from: Time, until: Time) -> bool {
        self.ahead.iter().any(|wall| wall.devices.is_none() && wall.when.meets(from, until))
    }
}
