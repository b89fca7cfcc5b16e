//! Detects processes on the GPUs that do not belong to this daemon's tasks, so that their devices
//! are not allocated.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_model::{Device, DeviceSet, Foreign, ForeignProcess, NodeName};
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

/// Processes of each device that are named; a program with many workers is named by the first.
const NAMED: usize = 3;

/// Returns pairs of device index and pid of the processes for which `is_ours` is false.
#[must_use]
pub fn foreign_users(
    described: &[NvmlGpu],
    devices: &[Device],
    is_ours: &dyn Fn(u32) -> bool,
) -> BTreeSet<(usize, u32)> {
    let of = |uuid: &str| devices.iter().position(|device| device.uuid.as_ref() == uuid);
    users_of(described)
        .into_iter()
        .filter(|(uuid, pid)| !uuid.is_empty() && !is_ours(*pid))
        .filter_map(|(uuid, pid)| Some((of(uuid)?, pid)))
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
    /// Adds the result of one check; returns the devices to report. Freed devices are left out at
    /// once.
    pub fn update(&mut self, seen: DeviceSet) -> DeviceSet {
        self.reported = seen.and(self.last.or(self.reported));
        self.last = seen;
        self.reported
    }
}

/// Returns true while a report still holds: the same devices, and all processes that it names. One
/// more process, or the next worker of a program, is not worth another report.
fn describes(last: &Foreign, devices: DeviceSet, users: &BTreeSet<(usize, u32)>) -> bool {
    let is_there =
        |process: &ForeignProcess| users.contains(&(usize::from(process.device), process.pid));
    last.devices == devices && last.processes.iter().all(is_there)
}

/// Describes the processes on the reported devices.
fn processes(users: &BTreeSet<(usize, u32)>, reported: DeviceSet) -> Vec<ForeignProcess> {
    let mut named: Vec<ForeignProcess> = Vec::new();
    for &(index, pid) in users.iter().filter(|(index, _)| reported.contains(*index)) {
        let device = u16::try_from(index).unwrap_or(u16::MAX);
        if named.iter().filter(|one| one.device == device).count() < NAMED {
            let (program, user) = process::program_and_user(pid);
            named.push(ForeignProcess { device, pid, program, user });
        }
    }
    named
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
        let mut last = Foreign::default();
        while !reports.is_closed() {
            let ours = ours.clone();
            let devices = devices.clone();
            let look = tokio::task::spawn_blocking(move || {
                let users = foreign_users(&probe.describe(), &devices, &|pid| ours.has(pid));
                let devices = steady.update(users.iter().map(|(index, _)| *index).collect());
                let changed = (!describes(&last, devices, &users)).then(|| Foreign {
                    devices,
                    processes: processes(&users, devices),
                    ..Foreign::default()
                });
                (probe, steady, last, changed)
            });
            let Ok((same_probe, same_steady, same_last, changed)) = look.await else { return };
            probe = same_probe;
            steady = same_steady;
            last = same_last;
            if let Some(foreign) = changed {
                last = foreign.clone();
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
        let foreign = foreign_users(&described, &devices, &|pid| pid == 10);
        assert_eq!(foreign, BTreeSet::from([(0, 20)]));
    }

    #[test]
    fn a_foreign_process_is_reported_after_two_checks_and_its_end_at_once() {
        let none = DeviceSet::EMPTY;
        let one = DeviceSet::one(3);
        let mut steady = ForeignDebounce::default();
        let reported = [none, one, none, one, one, one, none].map(|seen| steady.update(seen));
        assert_eq!(reported, [none, none, none, none, one, one, none]);
    }

    #[test]
    fn processes_on_reported_devices_are_named() {
        let own = std::process::id();
        let users = BTreeSet::from([(0, 1), (1, own), (1, u32::MAX)]);
        let named = processes(&users, DeviceSet::one(1));
        assert_eq!(named.len(), 2);
        assert_eq!((named[0].device, named[0].pid), (1, own));
        assert!(!named[0].program.is_empty() && !named[0].user.is_empty(), "{named:?}");
        let last =
            Foreign { devices: DeviceSet::one(1), processes: named.clone(), ..Foreign::default() };
        assert!(describes(&last, DeviceSet::one(1), &users));
        let without = BTreeSet::from([(1, own)]);
        assert!(!describes(&last, DeviceSet::one(1), &without));
        assert!(!describes(&last, DeviceSet::EMPTY, &users));
        // A process that is gone, or in another pid namespace.
        assert_eq!((named[1].program.as_str(), named[1].user.as_str()), ("", ""));
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
