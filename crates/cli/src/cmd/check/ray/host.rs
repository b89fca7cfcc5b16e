//! Finds the processes of Ray on this machine in /proc, with what the rules need of them. Only reads, but
//! for one request to a dashboard that is open to the network. `muster-doctor` judges.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use muster_backends::process::{Stat, program_and_user, read_at_once};
use muster_doctor::ray::{
    DashboardAnswer, HostProcess, RayHost, VARIABLES, is_dashboard, is_of_ray,
};

use super::{limits, names, sockets};

/// Clock ticks of a second in `/proc/PID/stat`, on every platform of Linux.
const TICKS: u64 = 100;

/// Part of the path of Ray's servers behind the folder of packages.
const BELOW_PACKAGES: &str = "/ray/core/src/ray/";

/// Reads the processes of Ray on this machine.
pub fn read() -> RayHost {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut processes: Vec<HostProcess> = pids.filter_map(process).collect();
    processes.sort_by_key(|process| process.pid);
    RayHost {
        read: vec![format!("the processes of {name}")],
        name,
        addresses: sockets::own_addresses(),
        resolved: names::resolved(names::of_jobs(&processes)),
        processes,
    }
}

fn process(pid: u32) -> Option<HostProcess> {
    let folder = Path::new("/proc").join(pid.to_string());
    let arguments = words(&read_at_once(&folder.join("cmdline")).ok()?);
    if !is_of_ray(&arguments) {
        return None;
    }
    let stat = Stat::read(i32::try_from(pid).ok()?).filter(|stat| !stat.is_zombie)?;
    let groups = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    let (_, user) = program_and_user(pid);
    let listens = sockets::listens(&folder);
    let is_in_other_network = is_in_other_network(&folder);
    // In another network the same address is another server's.
    let asked = listens.as_deref().filter(|_| !is_in_other_network && is_dashboard(&arguments));
    Some(HostProcess {
        pid,
        parent: stat.parent.unsigned_abs(),
        user,
        age_secs: uptime_secs().saturating_sub(stat.start_ticks / TICKS),
        environment: environment(&folder),
        muster_job: muster_backends::cgroup::job_of(&groups),
        cpus: limits::cpus(&folder, &groups),
        memory_bytes: limits::memory_bytes(&groups),
        dashboard: asked.map(dashboard).unwrap_or_default(),
        shared_memory_bytes: shared_memory_bytes(&folder),
        is_in_other_network,
        version: version(&folder, arguments.first()?),
        listens,
        groups,
        arguments,
    })
}

fn words(bytes: &[u8]) -> Vec<String> {
    let end = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    end.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn uptime_secs() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split('.').next().and_then(|secs| secs.parse().ok()).unwrap_or_default()
}

/// Returns the variables that the rules read, and no others: the environment holds secrets.
fn environment(folder: &Path) -> Option<BTreeMap<String, String>> {
    let all = words(&read_at_once(&folder.join("environ")).ok()?);
    let pairs = all.iter().filter_map(|variable| variable.split_once('='));
    let read = pairs.filter(|(name, _)| VARIABLES.contains(name));
    Some(read.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Returns the version of the package that a server of Ray is in, by the name of its metadata folder.
fn version(folder: &Path, program: &str) -> Option<String> {
    let (packages, _) = program.split_once(BELOW_PACKAGES)?;
    // A container has a file system of its own, into which only its user sees.
    let inside = folder.join("root").join(packages.trim_start_matches('/'));
    let entries = fs::read_dir(inside).or_else(|_| fs::read_dir(packages)).ok()?;
    entries.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix("ray-")?.strip_suffix(".dist-info")?.to_owned())
    })
}

/// Returns true if the network of a process is known, and is not that of this program.
fn is_in_other_network(folder: &Path) -> bool {
    let network = |folder: &Path| fs::read_link(folder.join("ns/net")).ok();
    let own = network(Path::new("/proc/self"));
    network(folder).is_some_and(|of_process| own.is_some_and(|own| own != of_process))
}

/// Returns the size of the /dev/shm of a process: a container has one of its own.
fn shared_memory_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder.join("root/dev/shm")).ok()?;
    Some(found.f_blocks * found.f_frsize)
}

/// Asks the servers of a dashboard beyond this machine for its version, without a token.
fn dashboard(listens: &[SocketAddr]) -> DashboardAnswer {
    let beyond = listens.iter().filter(|address| !address.ip().to_canonical().is_loopback());
    let mut said = DashboardAnswer::Refusal;
    for address in beyond {
        match sockets::tells_version(address) {
            Some(true) => return DashboardAnswer::Version(*address),
            Some(false) => {}
            None => said = DashboardAnswer::Nothing,
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_its_own_network() {
        let own = Path::new("/proc").join(std::process::id().to_string());
        assert!(!is_in_other_network(&own));
        assert!(shared_memory_bytes(&own).is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn a_dashboard_that_does_not_answer_is_unknown() {
        let silent = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let address = silent.local_addr().unwrap();
        assert_eq!(dashboard(&[address]), DashboardAnswer::Nothing);
        drop(silent);
        assert_eq!(dashboard(&[address]), DashboardAnswer::Nothing);
        assert_eq!(dashboard(&["127.0.0.1:1".parse().unwrap()]), DashboardAnswer::Refusal);
    }
}
