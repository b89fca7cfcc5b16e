//! Drains of a node: of it as a whole and of single devices, now or from an instant on. What was
//! asked for is durable; what follows for placing is derived from it. It decides nothing.
//!
//! A drain is a wall in time: nothing that would still be there behind it is started. So a drain
//! that lies ahead needs no event when its instant comes; until then whatever ends before it may
//! start.

use std::sync::Arc;

use muster_model::{DeviceSet, Drain, NodeSpec, Redaction, Time};
use serde::{Deserialize, Serialize};

use super::wall::{Wall, Walls, When};

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drains {
    /// Of the node as a whole.
    #[serde(default)]
    pub(crate) node: Option<Drain>,
    /// Of single devices, by index.
    #[serde(default)]
    devices: Vec<DeviceDrain>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DeviceDrain {
    /// Its index when it was drained.
    index: u16,
    /// Its name, which it keeps when indices move; empty where devices have none.
    uuid: Arc<str>,
    drain: Drain,
}

impl Drains {
    pub(crate) fn is_empty(&self) -> bool {
        self.node.is_none() && self.devices.is_empty()
    }

    /// Every instant at which one begins.
    pub(crate) fn instants(&self) -> impl Iterator<Item = Time> {
        self.all().map(|drain| drain.from)
    }

    /// True when one of them stops what is there.
    pub(crate) fn stops(&self) -> bool {
        self.all().any(|drain| drain.stop)
    }

    /// As it may leave the house.
    pub(super) fn redacted(self, names: &mut Redaction) -> Self {
        let Self { node, devices } = self;
        let devices = devices.into_iter().map(|one| {
            let DeviceDrain { index, uuid, drain } = one;
            DeviceDrain { index, uuid: names.device(&uuid), drain: names.drain(drain) }
        });
        let devices = devices.collect();
        Self { node: node.map(|drain| names.drain(drain)), devices }
    }

    fn all(&self) -> impl Iterator<Item = &Drain> {
        self.node.iter().chain(self.devices.iter().map(|one| &one.drain))
    }

    /// The drain of one device alone. A slice follows the device that it was cut from.
    pub(crate) fn of_device(&self, spec: &NodeSpec, device: usize) -> Option<&Drain> {
        let known = spec.devices.get(device)?;
        let is_same = |one: &&DeviceDrain| match &*one.uuid {
            "" => known.uuid.is_empty() && usize::from(one.index) == device,
            uuid => *known.uuid == *uuid || known.slice_of.as_deref() == Some(uuid),
        };
        self.devices.iter().find(is_same).map(|one| &one.drain)
    }

    /// Drains the node, or takes it back. What is drained already stays so since when it is.
    pub(crate) fn set_node(&mut self, now: Time, drain: Option<&Drain>) {
        let since = self.node.as_ref().map(|old| old.from);
        self.node =
            drain.map(|drain| Drain { from: begins(now, since, drain.from), ..drain.clone() });
    }

    /// Drains devices, or takes them back.
    pub(crate) fn set_devices(
        &mut self,
        now: Time,
        spec: &NodeSpec,
        devices: DeviceSet,
        drain: Option<&Drain>,
    ) {
        for device in devices.iter().filter(|device| *device < spec.devices.len()) {
            let since = self.of_device(spec, device).map(|old| old.from);
            let uuid = Arc::clone(&spec.devices[device].uuid);
            let is_it = |one: &DeviceDrain| match &*uuid {
                "" => one.uuid.is_empty() && usize::from(one.index) == device,
                uuid => *one.uuid == *uuid,
            };
            self.devices.retain(|one| !is_it(one));
            if let Some(drain) = drain {
                let drain = Drain { from: begins(now, since, drain.from), ..drain.clone() };
                self.devices.push(DeviceDrain { index: device as u16, uuid, drain });
            }
        }
        self.devices.sort_by(|a, b| (a.index, &a.uuid).cmp(&(b.index, &b.uuid)));
    }

    /// What follows for placing.
    pub(super) fn build(&self, walls: &mut Walls, spec: &NodeSpec, now: Time) {
        if let Some(drain) = &self.node {
            match drain.from <= now {
                true => (walls.is_drained, walls.whole) = (true, true),
                false => walls.ahead.push(Wall { devices: None, when: When::From(drain.from) }),
            }
        }
        if self.devices.is_empty() {
            return;
        }
        for device in 0..spec.devices.len().min(DeviceSet::MAX_DEVICES) {
            let one = DeviceSet::one(device);
            match self.of_device(spec, device).map(|drain| drain.from) {
                None => {}
                Some(from) if from <= now => walls.drained = walls.drained.or(one),
                Some(from) => {
                    let known = walls.ahead.iter_mut().find_map(|wall| {
                        match (&wall.when, &mut wall.devices) {
                            (When::From(at), Some(devices)) if *at == from => Some(devices),
                            _ => None,
                        }
                    });
                    match known {
                        Some(devices) => *devices = devices.or(one),
                        None => {
                            walls.ahead.push(Wall { devices: Some(one), when: When::From(from) })
                        }
                    }
                }
            }
        }
        walls.devices = walls.devices.or(walls.drained);
    }

    /// Devices whose holders are to be stopped by now.
    pub(crate) fn stopped(&self, spec: &NodeSpec, now: Time) -> Stopped {
        let is_due = |drain: &&Drain| drain.stop && drain.from <= now;
        let device = |device: &usize| self.of_device(spec, *device).as_ref().is_some_and(is_due);
        Stopped {
            whole: self.node.as_ref().is_some_and(|drain| is_due(&drain)),
            devices: (0..spec.devices.len().min(DeviceSet::MAX_DEVICES)).filter(device).collect(),
        }
    }
}

/// What a drain stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    /// Everything on the node.
    pub(crate) whole: bool,
    /// What holds one of these.
    pub(crate) devices: DeviceSet,
}

/// From when: nothing is drained in hindsight, and saying again that something is drained does not
/// make it so later.
fn begins(now: Time, since: Option<Time>, from: Time) -> Time {
    match since.filter(|since| *since <= now && from <= now) {
        Some(since) => since,
        None => from.max(now),
    }
}
