//! Finds the processes of Ray on this machine in /proc, with what the rules need of them. Only reads, but
//! for one request to a dashboard that is open to the network. `muster-doctor` judges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use muster_backends::process::{Stat, program_and_user, read_at_once};
use muster_doctor::ray::{HostProcess, RayHost, VARIABLES, is_dashboard, is_of_ray};
use muster_model::hostlist;

use super::{limits, sockets};

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
    let shared_memory_bytes = rustix::fs::statvfs("/dev/shm").ok();
    RayHost {
        read: vec![format!("the processes of {name}")],
        name,
        addresses: sockets::own_addresses(),
        resolved: resolved(&processes),
        shared_memory_bytes: shared_memory_bytes.map(|found| found.f_blocks * found.f_frsize),
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
    Some(HostProcess {
        pid,
        parent: stat.parent.unsigned_abs(),
        user,
        age_secs: uptime_secs().saturating_sub(stat.start_ticks / TICKS),
        environment: environment(&folder),
        muster_job: muster_backends::cgroup::job_of(&groups),
        cpus: limits::cpus(&folder, &groups),
        memory_bytes: limits::memory_bytes(&groups),
        told_without_token: told_without_token(&arguments, listens.as_deref()),
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

/// Asks the servers of a dashboard beyond this machine for its version, without a token.
fn told_without_token(arguments: &[String], listens: Option<&[SocketAddr]>) -> Option<SocketAddr> {
    if !is_dashboard(arguments) {
        return None;
    }
    let beyond = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    listens?.iter().filter(beyond).find(|address| sockets::tells_version(address)).copied()
}

/// Resolves the nodes of Slurm's jobs that have Ray here.
fn resolved(processes: &[HostProcess]) -> BTreeMap<String, BTreeSet<std::net::IpAddr>> {
    let lists =
        processes.iter().filter_map(|one| one.environment.as_ref()?.get("SLURM_JOB_NODELIST"));
    let names: BTreeSet<String> =
        lists.filter_map(|list| hostlist::expand(list).ok()).flatten().collect();
    let addresses = |name: String| {
        let found = (name.as_str(), 0).to_socket_addrs().ok()?;
        let addresses = found.map(|address| address.ip()).collect();
        Some((name, addresses))
    };
    names.into_iter().filter_map(addresses).collect()
}
