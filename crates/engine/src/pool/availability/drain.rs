//! Drains of a node and of its devices, now or from an instant on. The request is durable; the
//! effect on placement is derived from it. It decides nothing.
//!
//! A drain makes its devices unavailable from an instant on: nothing is started that would still
//! run then. So an upcoming drain needs no event when it begins; until then jobs that end in time
//! may start.

use std::sync::Arc;

use muster_model::{DeviceSet, Drain, NodeSpec, Redaction, Time};
use serde::{Deserialize, Serialize};

use super::{Availability, IntervalTimes, UnavailableInterval};

/// Drains of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drains {
    /// Drain of the whole node.
    #[serde(default)]
    pub(crate) node: Option<Drain>,
    /// Drains of single devices, by index.
    #[serde(default)]
    devices: Vec<DeviceDrain>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DeviceDrain {
    /// Index of the device when it was drained.
    index: u16,
    /// UUID of the device, which stays the same when indices change; empty if devices have none.
    uuid: Arc<str>,
    drain: Drain,
}

impl Drains {
    pub(crate) fn is_empty(&self) -> bool {
        self.node.is_none() && self.devices.is_empty()
    }

    /// Returns the begin of every drain.
    pub(crate) fn instants(&self) -> impl Iterator<Item = Time> {
        self.all().map(|drain| drain.from)
    }

    /// True when one of the drains stops running jobs.
    pub(crate) fn stops_jobs(&self) -> bool {
        self.all().any(|drain| drain.stop)
    }

    /// Returns the drains with redacted names.
    pub(crate) fn redacted(self, names: &mut Redaction) -> Self {
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

    /// Returns the drain of one device alone. A slice (MIG) is drained with the device that it was
    /// cut from.
    pub(crate) fn of_device(&self, spec: &NodeSpec, device: usize) -> Option<&Drain> {
        let known = spec.devices.get(device)?;
        let is_same = |one: &&DeviceDrain| match &*one.uuid {
            "" => known.uuid.is_empty() && usize::from(one.index) == device,
            uuid => *known.uuid == *uuid || known.slice_of.as_deref() == Some(uuid),
        };
        self.devices.iter().find(is_same).map(|one| &one.drain)
    }

    /// Drains the node, or undrains it. A node that is drained already keeps its begin.
    pub(crate) fn set_node(&mut self, now: Time, drain: Option<&Drain>) {
        let since = self.node.as_ref().map(|old| old.from);
        self.node =
            drain.map(|drain| Drain { from: begins(now, since, drain.from), ..drain.clone() });
    }

    /// Drains devices, or undrains them.
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

    /// Adds the unavailability intervals that follow from the drains.
    pub(crate) fn add_unavailability(
        &self,
        availability: &mut Availability,
        spec: &NodeSpec,
        now: Time,
    ) {
        if let Some(drain) = &self.node {
            if drain.from <= now {
                availability.is_drained = true;
                availability.whole_node = true;
            } else {
                availability.upcoming.push(UnavailableInterval {
                    devices: None,
                    when: IntervalTimes::From(drain.from),
                });
            }
        }
        if self.devices.is_empty() {
            return;
        }
        for device in 0..spec.devices.len().min(DeviceSet::MAX_DEVICES) {
            let one = DeviceSet::one(device);
            match self.of_device(spec, device).map(|drain| drain.from) {
                None => {}
                Some(from) if from <= now => availability.drained = availability.drained.or(one),
                Some(from) => {
                    let known = availability.upcoming.iter_mut().find_map(|interval| {
                        match (&interval.when, &mut interval.devices) {
                            (IntervalTimes::From(at), Some(devices)) if *at == from => {
                                Some(devices)
                            }
                            _ => None,
                        }
                    });
                    match known {
                        Some(devices) => *devices = devices.or(one),
                        None => availability.upcoming.push(UnavailableInterval {
                            devices: Some(one),
                            when: IntervalTimes::From(from),
                        }),
                    }
                }
            }
        }
        availability.devices = availability.devices.or(availability.drained);
    }

    /// Returns the devices whose jobs are to be stopped by `now`.
    pub(crate) fn stopped(&self, spec: &NodeSpec, now: Time) -> StoppedByDrain {
        let is_due = |drain: &&Drain| drain.stop && drain.from <= now;
        let device = |device: &usize| self.of_device(spec, *device).as_ref().is_some_and(is_due);
        StoppedByDrain {
            whole: self.node.as_ref().is_some_and(|drain| is_due(&drain)),
            devices: (0..spec.devices.len().min(DeviceSet::MAX_DEVICES)).filter(device).collect(),
        }
    }
}

/// Part of a node on which a drain stops jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedByDrain {
    /// Everything on the node.
    pub(crate) whole: bool,
    /// Devices whose holders are stopped.
    pub(crate) devices: DeviceSet,
}

/// Returns the begin of a drain: not in the past, and a repeated request does not move an earlier
/// begin.
fn begins(now: Time, since: Option<Time>, from: Time) -> Time {
    match since.filter(|since| *since <= now && from <= now) {
        Some(since) => since,
        None => from.max(now),
    }
}
