//! What a probe sees on a node of a job: the job's processes by their environment, device files, limits, shared memory. It changes
//! nothing, and judges nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::verify::{GpuUser, Seen, SeenFile, SeenRank};

use crate::gpu::nvml::{Library, Probe as _, users_of};
use crate::process;

/// Where RDMA adapters are listed.
const ADAPTERS: &str = "/sys/class/infiniband";
/// Memory that processes share through files.
const SHARED_MEMORY: &str = "/dev/shm";
/// Slurm's name of the node, as its jobs are told.
const NODE: &str = "SLURMD_NODENAME";
/// Longest wait for a connection: a packet that is dropped is never answered.
const REACH: Duration = Duration::from_secs(5);

/// Whom a probe looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Itself: it stands in the place of a rank.
    Itself,
    /// Processes of this job on this node.
    Job {
        /// Its number, as its ranks are told.
        job: u64,
        /// Which element of an array.
        index: Option<u32>,
    },
}

type Variables = BTreeMap<String, String>;

/// Looks. `configured` are the device files that this node's GPUs have by its configuration, where that is known; those that are not there are
/// left out. With rank 0 it also listens, on a port beside that of rank 0.
#[must_use]
pub fn look(whom: Whom, configured: &[PathBuf]) -> Seen {
    // 1. Who is here.
    let own: Variables = std::env::vars().collect();
    let found: Vec<(u32, Variables)> = match whom {
        Whom::Itself => vec![(std::process::id(), own.clone())],
        Whom::Job { job, index } => ranks_of(job, index, &own),
    };
    let ranks: Vec<SeenRank> = found.iter().filter_map(|(pid, variables)| rank(*pid, variables)).collect();
    // 2. Rank 0 is where others come.
    let has_zero = found.iter().any(|(_, variables)| number(variables, "MUSTER_TASK") == Some(0));
    let listens = if has_zero { listen() } else { None };
    // 3. What is around them.
    Seen {
        node: own.get(NODE).cloned().unwrap_or_else(host_name),
        allocation: number(&own, "SLURM_JOB_ID"),
        ranks,
        device_files: device_files(configured, Path::new("/dev")),
        gpu_users: gpu_users(whom, &own),
        shared_memory: shared_memory(),
        rdma_devices: names(Path::new(ADAPTERS)),
        listens,
    }
}

/// Connects to a name as programs do, and leaves.
///
/// # Errors
/// Why nobody answers there.
pub fn reach(address: &str, port: u16) -> Result<(), String> {
    let places = (address, port).to_socket_addrs().map_err(|error| format!("{address}: {error}"))?;
    let mut last = format!("{address} has no address");
    let places: Vec<_> = places.collect();
    let each = REACH / u32::try_from(places.len()).unwrap_or(u32::MAX).max(1);
    for place in places {
        match TcpStream::connect_timeout(&place, each) {
            Ok(_) => return Ok(()),
            Err(error) => last = format!("{address} at {place}: {error}"),
        }
    }
    Err(last)
}

/// The eldest process of each rank on this node: what it started has the same variables.
fn ranks_of(job: u64, index: Option<u32>, own: &Variables) -> Vec<(u32, Variables)> {
    // Several nodes of Slurm may be one machine.
    let is_here = |variables: &Variables| match (variables.get(NODE), own.get(NODE)) {
        (Some(theirs), Some(ours)) => theirs == ours,
        _ => true,
    };
    let mut eldest: BTreeMap<u64, (u64, u32, Variables)> = BTreeMap::new();
    for pid in process::pids() {
        let Some(variables) =
            variables(pid).filter(|variables| is_of(variables, job, index) && is_here(variables))
        else {
            continue;
        };
        let (Some(rank), Some(stat)) = (number::<u64>(&variables, "MUSTER_TASK"), process::Stat::read(pid))
        else {
            continue;
        };
        let one = (stat.start_ticks, pid.unsigned_abs(), variables);
        match eldest.get(&rank) {
            Some(other) if other.0 <= one.0 => {}
            _ => {
                eldest.insert(rank, one);
            }
        }
    }
    eldest.into_values().map(|(_, pid, variables)| (pid, variables)).collect()
}

fn is_of(variables: &Variables, job: u64, index: Option<u32>) -> bool {
    let own = number(variables, "MUSTER_ARRAY_INDEX").or(number(variables, "MUSTER_REPLICA"));
    number(variables, "MUSTER_JOB_ID") == Some(job) && (index.is_none() || own == index)
}

fn variables(pid: i32) -> Option<Variables> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let pair = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    Some(bytes.split(|byte| *byte == 0).filter_map(pair).collect())
}

fn number<T: std::str::FromStr>(variables: &Variables, name: &str) -> Option<T> {
    variables.get(name)?.parse().ok()
}

fn rank(pid: u32, variables: &Variables) -> Option<SeenRank> {
    let listed = |value: &String| {
        value.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    };
    Some(SeenRank {
        rank: number(variables, "MUSTER_TASK")?,
        world_size: number(variables, "WORLD_SIZE"),
        gpus: number(variables, "MUSTER_PROBE_GPUS"),
        visible: variables.get("CUDA_VISIBLE_DEVICES").or(variables.get("ROCR_VISIBLE_DEVICES")).map(listed),
        memlock_bytes: memlock(pid),
        master: variables.get("MASTER_ADDR").cloned(),
    })
}

/// `Max locked memory         65536                65536                bytes`
fn memlock(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Listens until this process ends; answers where. Never on the job's own port: its program is to find that free.
fn listen() -> Option<u16> {
    let listener =
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind(("0.0.0.0", 0))).ok()?;
    let port = listener.local_addr().ok()?.port();
    // The kernel keeps few connections that nobody takes.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    Some(port)
}

/// Files of GPUs that are there, and whether they may be opened; without a configuration `/dev/nvidia0` and so on. Nothing is read: a
/// device group refuses already here.
fn device_files(configured: &[PathBuf], folder: &Path) -> Vec<SeenFile> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_gpu = |name: &String| name.strip_prefix("nvidia").is_some_and(digits);
    let usual = || names(folder).into_iter().filter(is_gpu).map(|name| folder.join(name)).collect();
    let there: Vec<PathBuf> = configured.iter().filter(|path| path.exists()).cloned().collect();
    let files = if there.is_empty() { usual() } else { there };
    // Without a driver behind it a file says that there is no such device: it was not refused.
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let seen = |path: PathBuf| SeenFile {
        is_open: fs::File::open(&path).err().is_none_or(|error| !refused(&error)),
        path: path.to_string_lossy().into_owned(),
    };
    files.into_iter().map(seen).collect()
}

/// Names in a folder, in order; none where there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Who is on the GPUs that this probe sees. A process is of the job when its environment says so; one of other users cannot be asked,
/// and is not.
fn gpu_users(whom: Whom, own: &Variables) -> Option<Vec<GpuUser>> {
    let described = Library::load()?.describe();
    let job = match whom {
        Whom::Job { job, .. } => Some(job),
        Whom::Itself => number(own, "MUSTER_JOB_ID"),
    };
    let is_own = |pid: u32| {
        let pid = i32::try_from(pid).ok();
        pid.and_then(variables).is_some_and(|variables| job.is_some_and(|job| is_of(&variables, job, None)))
    };
    let users = users_of(&described).into_iter();
    Some(users.map(|(uuid, pid)| GpuUser { uuid: uuid.to_owned(), pid, is_own: is_own(pid) }).collect())
}

/// What fits into shared memory, once a page of it was written.
fn shared_memory() -> Result<u64, String> {
    let path = Path::new(SHARED_MEMORY).join(format!("muster-probe-{}", std::process::id()));
    let said = |error: io::Error| error.to_string();
    let written = fs::write(&path, [1; 4096]);
    let removed = fs::remove_file(&path);
    written.and(removed).map_err(said)?;
    let space = rustix::fs::statvfs(SHARED_MEMORY).map_err(|error| said(error.into()))?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn ranks_are_found_by_what_they_were_told() {
        let free = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let start = |rank: &str| {
            let mut command = Command::new("sleep");
            command.arg("60").env("MUSTER_JOB_ID", "987654321").env("MUSTER_TASK", rank);
            command
                .env("WORLD_SIZE", "2")
                .env("MASTER_PORT", free.to_string())
                .env("CUDA_VISIBLE_DEVICES", "4,5")
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut children = [start("0"), start("1")];
        // A child has its environment once it runs its own program, and spawn waits for that.
        let seen = look(Whom::Job { job: 987_654_321, index: None }, &[]);
        let other = look(Whom::Job { job: 987_654_321, index: Some(3) }, &[]);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let ranks: Vec<u32> = seen.ranks.iter().map(|rank| rank.rank).collect();
        assert_eq!(ranks, [0, 1]);
        assert_eq!(seen.ranks[0].visible.as_deref(), Some(&["4".to_owned(), "5".to_owned()][..]));
        assert_eq!(seen.ranks[1].world_size, Some(2));
        assert!(other.ranks.is_empty());
        // Beside rank 0 somebody listens, and leaves it the port that is its own.
        let port = seen.listens.unwrap();
        assert_eq!(reach("localhost", port), Ok(()));
        assert!(TcpListener::bind(("0.0.0.0", free)).is_ok());
    }

    #[test]
    fn who_cannot_be_reached_is_named() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(reach("127.0.0.1", free).unwrap_err().contains("refused"));
        assert!(reach("no-such-name.invalid", 1).unwrap_err().starts_with("no-such-name.invalid: "));
    }

    #[test]
    fn device_files_are_those_of_gpus() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "null"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let files = device_files(&[], folder.path());
        assert_eq!(files.len(), 2);
        assert!(files.iter().all(|file| file.is_open), "{files:?}");
        // What is configured goes before what is usual, and what is not there is no device.
        let configured = ["null", "gone"].map(|name| folder.path().join(name));
        assert_eq!(device_files(&configured, folder.path()).len(), 1);
    }
}
