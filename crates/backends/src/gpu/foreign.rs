//! Detects processes on the GPUs that do not belong to this daemon's tasks, so that their devices
//! are not allocated.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_model::{Device, DeviceSet, Foreign, NodeName};
use tokio::runtime::Handle;

use super::DetectedGpus;
use super::nvml::{GpuProbe, Library, NvmlGpu, users_of};
use crate::driver::{Report, Reports};
use crate::process;

/// Pause between two checks: long compared with their cost (milliseconds per GPU), short compared
/// with a job.
const PERIOD: Duration = Duration::from_secs(5);

/// Criteria that identify processes of this daemon's tasks.
#[derive(Clone, Debug)]
pub struct OwnProcesses {
    /// Prefix of the names of its control groups.
    pub group_prefix: String,
    /// Prefix of its environment tags.
    pub tag_prefix: String,
    /// Control groups of tasks that were ordered by a lost state: they use devices that this daemon
    /// has not allocated.
    pub unknown_groups: Vec<String>,
    /// Environment tags of such tasks.
    pub unknown_tags: Vec<String>,
}

impl OwnProcesses {
    /// Returns true when the process belongs to one of this daemon's tasks; false for a pid without
    /// an entry in `/proc` (another pid namespace).
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

/// Returns the devices in use by processes for which `is_ours` is false.
#[must_use]
pub fn foreign_devices(
    described: &[NvmlGpu],
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

/// Reports a device as in use only after two checks in a row: a single one may have seen a task of
/// this daemon that just ended.
#[derive(Debug, Default)]
pub struct ForeignDebounce {
    last: DeviceSet,
    reported: DeviceSet,
}

impl ForeignDebounce {
    /// Adds the result of one check; returns the devices to report when they change. Freed devices
    /// are reported at once.
    pub fn update(&mut self, seen: DeviceSet) -> Option<DeviceSet> {
        let now = seen.and(self.last.or(self.reported));
        self.last = seen;
        (now != self.reported).then(|| {
            self.reported = now;
            now
        })
    }
}

/// Checks periodically until the report channel is closed. Does nothing without an NVIDIA device.
pub fn watch(
    runtime: &Handle,
    found: &DetectedGpus,
    ours: OwnProcesses,
    node: NodeName,
    reports: &Reports,
) {
    let devices = found.devices();
    if devices.iter().all(|device| device.is_virtual) {
        return;
    }
    let reports = reports.clone();
    runtime.spawn(async move {
        let Ok(Some(library)) = tokio::task::spawn_blocking(Library::load).await else { return };
        let mut probe: Box<dyn GpuProbe> = Box::new(library);
        let mut steady = ForeignDebounce::default();
        while !reports.is_closed() {
            let ours = ours.clone();
            let devices = devices.clone();
            let look = tokio::task::spawn_blocking(move || {
                let seen = foreign_devices(&probe.describe(), &devices, &|pid| ours.has(pid));
                (probe, seen)
            });
            let Ok((returned, seen)) = look.await else { return };
            probe = returned;
            if let Some(devices) = steady.update(seen) {
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
    use crate::gpu::nvml::gpus_of;

    fn gpu(uuid: &str, pids: &[u32]) -> NvmlGpu {
        NvmlGpu {
            name: "NVIDIA H100".into(),
            uuid: uuid.into(),
            pids: pids.to_vec(),
            ..NvmlGpu::default()
        }
    }

    #[test]
    fn only_devices_with_foreign_processes_count() {
        let described = [gpu("GPU-0", &[10, 20]), gpu("GPU-1", &[10]), gpu("GPU-2", &[])];
        let devices: Vec<_> = gpus_of(&described).into_iter().map(|gpu| gpu.device).collect();
        let foreign = foreign_devices(&described, &devices, &|pid| pid == 10);
        assert_eq!(foreign, DeviceSet::one(0));
    }

    #[test]
    fn a_foreign_process_is_reported_after_two_checks_and_its_end_at_once() {
        let none = DeviceSet::EMPTY;
        let one = DeviceSet::one(3);
        let mut steady = ForeignDebounce::default();
        let reported: Vec<_> =
            [none, one, none, one, one, one, none].map(|seen| steady.update(seen)).into();
        assert_eq!(reported, [None, None, None, None, Some(one), None, Some(none)]);
    }

    #[test]
    fn this_process_is_foreign() {
        let ours = OwnProcesses {
            group_prefix: "muster-none-".into(),
            tag_prefix: "none:".into(),
            unknown_groups: Vec::new(),
            unknown_tags: Vec::new(),
        };
        assert!(!ours.has(std::process::id()));
        assert!(!ours.has(u32::MAX));
    }
}
