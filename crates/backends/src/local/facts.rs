//! CPUs, memory and process limits of this machine.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use muster_model::unit::{Bytes, CpuMilli};
use muster_model::{NodeName, NodeSpec};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cgroup;
use crate::gpu::DetectedGpus;

/// Label for the interconnect of the GPUs: `nvlink` or `pcie`.
const INTERCONNECT_LABEL: &str = "gpu-link";

/// Default limit on the processes and threads of one task: twice 64 data loaders of 128 threads.
const MAX_PROCESSES: u32 = 16_384;

/// Returns this machine as a node: the CPUs that this process may use, and the memory of the
/// machine or, in a container, its limit.
pub(super) fn node(name: &NodeName, found: &DetectedGpus) -> io::Result<NodeSpec> {
    let cpus = std::thread::available_parallelism()?.get() as u32;
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let memory = parse_memory_total(&meminfo).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "no MemTotal in /proc/meminfo")
    })?;
    let memory = cgroup::own_memory_limit().map_or(memory, |limit| memory.min(limit));
    Ok(NodeSpec {
        name: name.clone(),
        devices: found.devices(),
        cpus: CpuMilli(cpus.saturating_mul(1000)),
        memory,
        extras: BTreeMap::new(),
        labels: found
            .interconnect
            .iter()
            .map(|link| (INTERCONNECT_LABEL.into(), (*link).into()))
            .collect(),
        domains: Vec::new(),
    })
}

/// Raises this process's soft limit of open files to the hard one: every live task needs two
/// descriptors, and the usual soft limit is 1024. Returns the previous limit, which tasks get back;
/// `None` when nothing was raised.
pub(super) fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    (limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_ok())
        .then_some(limit.current?)
}

/// Returns the default limit on the processes and threads of one task: [`MAX_PROCESSES`], but at
/// most a quarter of the kernel's limit for the whole machine.
pub(super) fn max_processes() -> u32 {
    let read = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?;
        text.trim().parse::<u32>().ok()
    };
    let kernel = ["pid_max", "threads-max"].into_iter().filter_map(read).min();
    kernel.map_or(MAX_PROCESSES, |kernel| (kernel / 4).min(MAX_PROCESSES))
}

/// Parses `MemTotal` of `/proc/meminfo`, whose `kB` are units of 1024 bytes.
fn parse_memory_total(meminfo: &str) -> Option<Bytes> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kib() {
        let meminfo = "MemTotal:       24684096 kB\nMemFree:        1 kB\n";
        assert_eq!(parse_memory_total(meminfo), Some(Bytes(24_684_096 * 1024)));
        assert_eq!(parse_memory_total("MemFree: 1 kB"), None);
    }

    #[test]
    fn this_machine_has_a_cpu_and_memory() {
        let node = node(
            &"here".into(),
            &DetectedGpus { interconnect: Some("pcie"), ..DetectedGpus::default() },
        )
        .unwrap();
        assert!(node.cpus.0 >= 1000 && node.memory.0 > 0);
        assert_eq!(node.labels.get("gpu-link").map(|link| link.as_ref()), Some("pcie"));
    }
}
