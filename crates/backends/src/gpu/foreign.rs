//! Watches for processes on the GPUs that are not this daemon's, so that their devices are not
//! given away.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_model::{Device, DeviceSet, Foreign, NodeName};
use tokio::runtime::Handle;

use super::Found;
use super::nvml::{Described, Library, Probe, users_of};
use crate::driver::{Report, Reports};
use crate::process;

/// Between two looks: long against the cost of one (milliseconds per GPU), short against a job.
const PERIOD: Duration = Duration::from_secs(5);

/// How to tell this daemon's processes from others.
#[derive(Clone, Debug)]
pub struct Ours {
    /// What the names of its control groups begin with.
    pub group_prefix: String,
    /// What its environment tags begin with.
    pub tag_prefix: String,
    /// Control groups of tasks that a lost state ordered: they hold devices that this daemon does
    /// not count.
    pub unknown_groups: Vec<String>,
    /// Environment tags of such tasks.
    pub unknown_tags: Vec<String>,
}

impl Ours {
    /// True when the process belongs to one of this daemon's tasks. A pid that `/proc` does not
    /// know (another pid namespace) does not.
    #[must_use]
    pub fn has(&self, pid: u32) -> bool {
        let Ok(pid) = i32::try_from(pid) else { return false };
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let tag = process::tag_of(pid);
        let in_group =
            |name: &String| groups.lines().any(|line| line.split('/').any(|part| part == name));
        if self.unknown_groups.iter().any(in_group)
            || tag.as_ref().is_some_and(|tag| self.unknown_tags.contains(tag))
        {
            return false;
        }
        groups.contains(&format!("/{}", self.group_prefix))
            || tag.is_some_and(|tag| tag.starts_with(&self.tag_prefix))
    }
}

/// Devices in use by processes for which `is_ours` is false.
#[must_use]
pub fn foreign_devices(
    described: &[Described],
    devices: &[Device],
    is_ours: &dyn Fn(u32) -> bool,
) -> DeviceSet {
    let foreign: BTreeSet<&str> = users_of(described)
        .into_iter()
        .filter(|(_, pid)| !is_ours(*pid))
        .map(|(uuid, _)| uuid)
        .collect();
    let is_used =
        |device: &Device| !device.uuid.is_empty() && foreign.contains(device.uuid.as_ref());
    devices
        .iter()
        .enumerate()
        .filter(|(_, device)| is_used(device))
        .map(|(index, _)| index)
        .collect()
}

/// What was seen twice in a row is so; what was seen once may be a task of ours that just ended.
#[derive(Debug, Default)]
pub struct Steady {
    last: DeviceSet,
    told: DeviceSet,
}

impl Steady {
    /// Takes one look; gives what to tell when that changes. Freed devices are told at once.
    pub fn look(&mut self, seen: DeviceSet) -> Option<DeviceSet> {
        let now = seen.and(self.last.or(self.told));
        self.last = seen;
        (now != self.told).then(|| {
            self.told = now;
            now
        })
    }
}

/// Watches until nobody listens. Does nothing where there is no NVIDIA device.
pub fn watch(runtime: &Handle, found: Found, ours: Ours, node: NodeName, reports: &Reports) {
    if found.devices.iter().all(|device| device.is_virtual) {
        return;
    }
    let reports = reports.clone();
    runtime.spawn(async move {
        let Ok(Some(library)) = tokio::task::spawn_blocking(Library::load).await else { return };
        let mut probe: Box<dyn Probe> = Box::new(library);
        let mut steady = Steady::default();
        while !reports.is_closed() {
            let (ours, devices) = (ours.clone(), found.devices.clone());
            let look = tokio::task::spawn_blocking(move || {
                let seen = foreign_devices(&probe.describe(), &devices, &|pid| ours.has(pid));
                (probe, seen)
            });
            let Ok((returned, seen)) = look.await else { return };
            probe = returned;
            if let Some(devices) = steady.look(seen) {
                let foreign = Foreign { devices, ..Foreign::default() };
                let _ = reports.send(Report::Foreign { node: node.clone(), foreign });
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::nvml::devices_of;

    fn gpu(uuid: &str, pids: &[u32]) -> Described {
        Described {
            name: "NVIDIA H100".into(),
            uuid: uuid.into(),
            pids: pids.to_vec(),
            ..Described::default()
        }
    }

    #[test]
    fn only_devices_with_strangers_count() {
        let described = [gpu("GPU-0", &[10, 20]), gpu("GPU-1", &[10]), gpu("GPU-2", &[])];
        let devices = devices_of(&described);
        let foreign = foreign_devices(&described, &devices, &|pid| pid == 10);
        assert_eq!(foreign, DeviceSet::one(0));
    }

    #[test]
    fn a_stranger_must_be_seen_twice_and_leaves_at_once() {
        let (none, one) = (DeviceSet::EMPTY, DeviceSet::one(3));
        let mut steady = Steady::default();
        let told: Vec<_> =
            [none, one, none, one, one, one, none].map(|seen| steady.look(seen)).into();
        assert_eq!(told, [None, None, None, None, Some(one), None, Some(none)]);
    }

    #[test]
    fn this_process_is_a_stranger() {
        let ours = Ours {
            group_prefix: "muster-none-".into(),
            tag_prefix: "none:".into(),
            unknown_groups: Vec::new(),
            unknown_tags: Vec::new(),
        };
        assert!(!ours.has(std::process::id()));
        assert!(!ours.has(u32::MAX));
    }
}
