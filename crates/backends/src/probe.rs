//! Looks at a job from a node of it: the job's processes by their environment, device files,
//! limits, shared memory. It changes nothing, and judges nothing.

mod processes;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::verify::{GpuUser, Seen, SeenFile, SeenRank};

use crate::gpu::nvml::{Library, Probe as _, users_of};
use processes::{Process, Rank, Variables, ranks_of, uses, visible};

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

/// Looks at one job, as often as it is asked. Beside rank 0 it listens, on one port for all looks.
#[derive(Debug)]
pub struct Prober {
    whom: Whom,
    /// Device files that this node's GPUs have by its configuration, where that is known; those
    /// that are not there are left out.
    configured: Vec<PathBuf>,
    listens: Option<u16>,
}

impl Prober {
    /// A prober that has not looked yet.
    #[must_use]
    pub fn new(whom: Whom, configured: Vec<PathBuf>) -> Self {
        Self { whom, configured, listens: None }
    }

    /// Looks.
    pub fn look(&mut self) -> Seen {
        // 1. Who is here.
        let own: Variables = std::env::vars().collect();
        let found: Vec<Rank> = match self.whom {
            Whom::Itself => vec![vec![Process { pid: std::process::id(), variables: own.clone() }]],
            Whom::Job { job, index } => ranks_of(job, index, &own),
        };
        let ranks: Vec<SeenRank> =
            found.iter().filter_map(|one| rank(one, &self.configured)).collect();
        // 2. Rank 0 is where others come.
        let mut eldest =
            found.iter().filter_map(|rank| rank.first()).map(|process| &process.variables);
        let zero = eldest.find(|variables| number(variables, "MUSTER_TASK") == Some(0));
        if let (Some(zero), None) = (zero, self.listens) {
            self.listens = listen(number(zero, "MASTER_PORT"));
        }
        // 3. What is around them.
        Seen {
            node: own.get(NODE).cloned().unwrap_or_else(host_name),
            allocation: number(&own, "SLURM_JOB_ID"),
            ranks,
            device_files: device_files(&self.configured, Path::new("/dev")),
            gpu_users: gpu_users(&found),
            shared_memory: shared_memory(),
            rdma_devices: names(Path::new(ADAPTERS)),
            listens: self.listens,
        }
    }
}

/// Connects to a name as programs do, and leaves.
///
/// # Errors
/// Why nobody answers there.
pub fn reach(address: &str, port: u16) -> Result<(), String> {
    let places =
        (address, port).to_socket_addrs().map_err(|error| format!("{address}: {error}"))?;
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

fn number<T: std::str::FromStr>(variables: &Variables, name: &str) -> Option<T> {
    variables.get(name)?.parse().ok()
}

/// A rank by its eldest process, which has what the rank was given: what it started has the same
/// variables, or others.
fn rank(processes: &Rank, configured: &[PathBuf]) -> Option<SeenRank> {
    let Process { pid, variables } = processes.first()?;
    Some(SeenRank {
        rank: number(variables, "MUSTER_TASK")?,
        world_size: number(variables, "WORLD_SIZE"),
        gpus: number(variables, "MUSTER_PROBE_GPUS"),
        visible: visible(variables),
        memlock_bytes: memlock(*pid),
        master: variables.get("MASTER_ADDR").cloned(),
        processes: uses(processes, configured),
    })
}

/// `Max locked memory         65536                65536                bytes`
fn memlock(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Listens until this process ends, and returns the port. Never on the job's own: its program is to
/// find that free.
fn listen(jobs_own: Option<u16>) -> Option<u16> {
    let bind = || {
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind(("0.0.0.0", 0)))
    };
    let listener = bound_beside(jobs_own, bind).ok()?;
    let port = listener.local_addr().ok()?.port();
    // The kernel keeps few connections that nobody takes.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    Some(port)
}

/// Binds a port other than this one. The kernel picks any that is free, and the job's own is until
/// its program listens there.
fn bound_beside(
    jobs_own: Option<u16>,
    mut bind: impl FnMut() -> io::Result<TcpListener>,
) -> io::Result<TcpListener> {
    let first = bind()?;
    // The first is kept until the second is bound, which is another one by that.
    if jobs_own == Some(first.local_addr()?.port()) { bind() } else { Ok(first) }
}

/// Files of GPUs that are there, and whether they may be opened; without a configuration
/// `/dev/nvidia0` and so on. Nothing is read: a device group refuses already here.
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
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Lists the processes on the GPUs that this probe sees, with the rank of those that are of the
/// job. A process of another user is of no rank.
fn gpu_users(ranks: &[Rank]) -> Option<Vec<GpuUser>> {
    let described = Library::load()?.describe();
    let rank_of: BTreeMap<u32, u32> = ranks
        .iter()
        .filter_map(|rank| Some((rank, number(&rank.first()?.variables, "MUSTER_TASK")?)))
        .flat_map(|(rank, number)| rank.iter().map(move |process| (process.pid, number)))
        .collect();
    let user = |(uuid, pid): (&str, u32)| {
        let rank = rank_of.get(&pid).copied();
        GpuUser { uuid: uuid.to_owned(), pid, is_own: rank.is_some(), rank }
    };
    Some(users_of(&described).into_iter().map(user).collect())
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
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// A port that refuses connections for as long as this lives: it is bound, and nothing listens.
    /// One that is only known to have been free is another program's a moment later.
    fn refusing() -> (std::os::fd::OwnedFd, u16) {
        let held = crate::port::hold(0).unwrap();
        let address =
            std::net::SocketAddr::try_from(rustix::net::getsockname(&held).unwrap()).unwrap();
        (held, address.port())
    }

    fn start(job: u64, script: &str, variables: &[(&str, &str)]) -> std::process::Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("MUSTER_JOB_ID", job.to_string());
        command.envs(variables.iter().copied()).env("WORLD_SIZE", "2");
        // A group of its own, so that all of it can be ended.
        command.process_group(0).stdin(Stdio::null()).spawn().unwrap()
    }

    fn end(children: impl IntoIterator<Item = std::process::Child>) {
        for mut child in children {
            let group = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn ranks_are_found_by_what_they_were_told() {
        let (_held, jobs_own) = refusing();
        let port = jobs_own.to_string();
        let given = |rank: &str| {
            let variables = [
                ("MUSTER_TASK", rank),
                ("MASTER_PORT", port.as_str()),
                ("CUDA_VISIBLE_DEVICES", "4,5"),
            ];
            start(987_654_321, "exec sleep 60", &variables)
        };
        let children = [given("0"), given("1")];
        let seen = Prober::new(Whom::Job { job: 987_654_321, index: None }, Vec::new()).look();
        let other = Prober::new(Whom::Job { job: 987_654_321, index: Some(3) }, Vec::new()).look();
        end(children);
        let ranks: Vec<u32> = seen.ranks.iter().map(|rank| rank.rank).collect();
        assert_eq!(ranks, [0, 1]);
        assert_eq!(seen.ranks[0].visible.as_deref(), Some(&["4".to_owned(), "5".to_owned()][..]));
        assert_eq!(seen.ranks[1].world_size, Some(2));
        assert!(other.ranks.is_empty());
        // Beside rank 0 the probe listens, and leaves it the port that is its own.
        let port = seen.listens.unwrap();
        assert_eq!(reach("localhost", port), Ok(()));
        assert_ne!(port, jobs_own);
    }

    /// A process that has just been started has no environment until the kernel has its program in
    /// place: each of these is looked at as early as that. Before looks were repeated some of fifty
    /// were missed.
    #[test]
    fn a_rank_that_is_just_being_started_is_not_missed() {
        for round in 0..50 {
            let job = 976_000_000 + round;
            let child = start(job, "exec sleep 60", &[("MUSTER_TASK", "0")]);
            let seen = Prober::new(Whom::Job { job, index: None }, Vec::new()).look();
            end([child]);
            assert_eq!(seen.ranks.len(), 1, "round {round}");
        }
    }

    #[test]
    fn processes_of_a_rank_are_seen_with_what_they_are_told_and_have_open() {
        let folder = tempfile::tempdir().unwrap();
        let (device, ready) = (folder.path().join("gpu0"), folder.path().join("ready"));
        fs::write(&device, "").unwrap();
        // One is told another GPU than the rank, one has dropped all variables and opened a device.
        let script = format!(
            "CUDA_VISIBLE_DEVICES=0 sleep 60 & env -i sh -c 'exec 9<{}; : > {}; sleep 60' & wait",
            device.display(),
            ready.display()
        );
        let child =
            start(965_000_001, &script, &[("MUSTER_TASK", "1"), ("CUDA_VISIBLE_DEVICES", "1")]);
        let mut prober =
            Prober::new(Whom::Job { job: 965_000_001, index: None }, vec![device.clone()]);
        let list = |text: &str| Some(vec![text.to_owned()]);
        let mut seen = None;
        let is_there = crate::process::until_empty(Duration::from_secs(30), || {
            let rank = prober.look().ranks.pop();
            let all = rank.as_ref().map_or(&[][..], |rank| &rank.processes);
            let is_whole = ready.exists()
                && all.iter().any(|one| one.visible == list("0"))
                && all.iter().any(|one| one.open == list(device.to_str().unwrap()));
            seen = rank;
            is_whole
        });
        end([child]);
        assert!(is_there, "{seen:?}");
        assert_eq!(seen.unwrap().visible, list("1"));
    }

    #[test]
    fn the_port_of_the_job_is_not_taken() {
        let listeners = || [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
        let own = listeners();
        let ports = own.each_ref().map(|listener| listener.local_addr().unwrap().port());
        let mut made = own.into_iter();
        let mut next = || Ok(made.next().unwrap());
        let bound = bound_beside(Some(ports[0]), &mut next).unwrap();
        assert_eq!(bound.local_addr().unwrap().port(), ports[1]);
    }

    #[test]
    fn who_cannot_be_reached_is_named() {
        let (_held, port) = refusing();
        assert!(reach("127.0.0.1", port).unwrap_err().contains("refused"));
        assert!(
            reach("no-such-name.invalid", 1).unwrap_err().starts_with("no-such-name.invalid: ")
        );
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
