//! Probes a job from one of its nodes: the job's processes (found by their environment), device
//! files, limits, shared memory. It only collects facts: it changes nothing and evaluates nothing.

pub(crate) mod processes;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::verify::{GpuUser, ProbeObservation, SeenFile, SeenRank};

use crate::device_files::is_cover;
use crate::gpu::nvml::{GpuProbe as _, Library, users_of};
use processes::{EnvVariables, JobProcess, RankProcesses, job_of, ranks_of, uses, visible};

/// Directory that lists the RDMA adapters.
const ADAPTERS: &str = "/sys/class/infiniband";
/// Directory of POSIX shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// Variable with Slurm's name of the node.
const NODE: &str = "SLURMD_NODENAME";
/// Connection timeout: dropped packets are never answered.
const REACH: Duration = Duration::from_secs(5);

/// Processes that a probe examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTarget {
    /// The probe's own process, which runs in place of a rank.
    OwnProcess,
    /// Processes of this job on this node.
    Job {
        /// Job number, as in `MUSTER_JOB_ID` of its ranks.
        job: u64,
        /// Index of the array element or replica; `None` for all.
        index: Option<u32>,
    },
}

/// Probes one job repeatedly. On the node of rank 0 it listens, on the same port for all probes.
#[derive(Debug)]
pub struct Prober {
    target: ProbeTarget,
    /// Device files of this node's GPUs according to its configuration, where that is known;
    /// missing files are left out.
    configured: Vec<PathBuf>,
    listening_port: Option<u16>,
}

impl Prober {
    /// Creates a prober that does not listen yet.
    #[must_use]
    pub fn new(whom: ProbeTarget, configured: Vec<PathBuf>) -> Self {
        Self { target: whom, configured, listening_port: None }
    }

    /// Collects the facts of the job on this node.
    pub fn probe(&mut self) -> ProbeObservation {
        // 1. Find the ranks on this node.
        let own: EnvVariables = std::env::vars().collect();
        let found: Vec<RankProcesses> = match self.target {
            ProbeTarget::OwnProcess => {
                vec![vec![JobProcess { pid: std::process::id(), variables: own.clone() }]]
            }
            ProbeTarget::Job { job, index } => ranks_of(job, index, &own),
        };
        let ranks: Vec<SeenRank> =
            found.iter().filter_map(|one| rank(one, &self.configured)).collect();
        // 2. Listen beside rank 0, to which the others connect.
        let mut oldest =
            found.iter().filter_map(|rank| rank.first()).map(|process| &process.variables);
        let zero = oldest.find(|variables| number(variables, "MUSTER_TASK") == Some(0));
        if let (Some(zero), None) = (zero, self.listening_port) {
            self.listening_port = listen(number(zero, "MASTER_PORT"));
        }
        // 3. Collect devices, their users, shared memory and adapters. The job may have a mount
        // namespace of its own, in which device files are closed.
        let root = found.iter().flatten().next().map(|process| root_of(process.pid));
        let root = root.filter(|root| root.join("dev").is_dir()).unwrap_or_else(|| "/".into());
        ProbeObservation {
            node: own.get(NODE).cloned().unwrap_or_else(host_name),
            allocation: number(&own, "SLURM_JOB_ID"),
            ranks,
            device_files: device_files(&self.configured, &root),
            gpu_users: gpu_users(&found),
            shared_memory: shared_memory(),
            rdma_devices: names(Path::new(ADAPTERS)),
            listens: self.listening_port,
        }
    }
}

/// Connects to a host and port as programs do, and closes the connection.
///
/// # Errors
/// The reason for which no connection could be made.
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

fn number<T: std::str::FromStr>(variables: &EnvVariables, name: &str) -> Option<T> {
    variables.get(name)?.parse().ok()
}

/// Returns the facts of a rank. Its oldest process has the variables that Muster set; its children
/// may have changed theirs.
fn rank(processes: &RankProcesses, configured: &[PathBuf]) -> Option<SeenRank> {
    let JobProcess { pid, variables } = processes.first()?;
    Some(SeenRank {
        rank: number(variables, "MUSTER_TASK")?,
        world_size: number(variables, "WORLD_SIZE"),
        gpus: number(variables, "MUSTER_PROBE_GPUS"),
        gpu_share_millis: number(variables, "MUSTER_GPU_SHARE"),
        visible: visible(variables),
        memlock_bytes: memlock(*pid),
        master: variables.get("MASTER_ADDR").cloned(),
        processes: uses(processes, configured),
    })
}

/// Reads the soft limit of `Max locked memory         65536                65536
/// bytes`.
fn memlock(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Listens until this process ends, and returns the port. Never uses the job's own port, which must
/// stay free for its program.
fn listen(jobs_own: Option<u16>) -> Option<u16> {
    let bind = || {
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind(("0.0.0.0", 0)))
    };
    let listener = bound_beside(jobs_own, bind).ok()?;
    let port = listener.local_addr().ok()?.port();
    // Accept and drop connections: the kernel's queue of unaccepted ones is short.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    Some(port)
}

/// Binds a port other than the job's own, which is free until its program listens there, so that
/// the kernel may pick it.
fn bound_beside(
    jobs_own: Option<u16>,
    mut bind: impl FnMut() -> io::Result<TcpListener>,
) -> io::Result<TcpListener> {
    let first = bind()?;
    // The first stays bound until the second is, so that the two differ.
    if jobs_own == Some(first.local_addr()?.port()) { bind() } else { Ok(first) }
}

/// Returns the file system as a process sees it.
fn root_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root"))
}

/// Returns the existing device files of GPUs below a root, and whether they may be opened; without
/// a configuration `/dev/nvidia0` and so on. They are only opened: a device cgroup denies that
/// already.
fn device_files(configured: &[PathBuf], root: &Path) -> Vec<SeenFile> {
    let dev = Path::new("/dev");
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_gpu = |name: &String| name.strip_prefix("nvidia").is_some_and(digits);
    let usual = || {
        let names = names(&below(dev)).into_iter().filter(is_gpu);
        names.map(|name| dev.join(name)).collect()
    };
    let there: Vec<PathBuf> =
        configured.iter().filter(|path| below(path).exists()).cloned().collect();
    let files = if there.is_empty() { usual() } else { there };
    let seen = |path: PathBuf| SeenFile {
        is_open: !is_closed(&below(&path)),
        path: path.to_string_lossy().into_owned(),
    };
    files.into_iter().map(seen).collect()
}

/// Returns true when a device file may not be opened.
fn is_closed(path: &Path) -> bool {
    // Without a driver, opening fails with "no such device", which is not a denial. Root may open
    // what covers the devices of other jobs, and gets that error, too.
    let is_covered = || fs::metadata(path).is_ok_and(|metadata| is_cover(&metadata));
    let refused = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    is_covered() || fs::File::open(path).err().is_some_and(refused)
}

/// Returns the names in a directory, sorted; none where it does not exist.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Lists the processes on the visible GPUs, with the rank of those that belong to the job.
/// Processes of other users have no rank.
fn gpu_users(ranks: &[RankProcesses]) -> Option<Vec<GpuUser>> {
    let described = Library::load()?.describe();
    let rank_of: BTreeMap<u32, u32> = ranks
        .iter()
        .filter_map(|rank| Some((rank, number(&rank.first()?.variables, "MUSTER_TASK")?)))
        .flat_map(|(rank, number)| rank.iter().map(move |process| (process.pid, number)))
        .collect();
    let user = |(uuid, pid): (&str, u32)| {
        let rank = rank_of.get(&pid).copied();
        let other_job = rank.is_none().then(|| job_of(pid)).flatten();
        GpuUser { uuid: uuid.to_owned(), pid, is_own: rank.is_some(), rank, other_job }
    };
    Some(users_of(&described).into_iter().map(user).collect())
}

/// Returns the free shared memory in bytes, after a test write.
fn shared_memory() -> Result<u64, String> {
    let path = Path::new(SHARED_MEMORY).join(format!("muster-probe-{}", std::process::id()));
    let text = |error: io::Error| error.to_string();
    let written = fs::write(&path, [1; 4096]);
    let removed = fs::remove_file(&path);
    written.and(removed).map_err(text)?;
    let space = rustix::fs::statvfs(SHARED_MEMORY).map_err(|error| text(error.into()))?;
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

    /// Returns a port that refuses connections while the descriptor lives: it is bound, and no
    /// process listens. A port that was only checked to be free may be taken by another program.
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
        // A process group of its own, so that all of it can be killed.
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
    fn ranks_are_found_by_their_variables() {
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
        let seen =
            Prober::new(ProbeTarget::Job { job: 987_654_321, index: None }, Vec::new()).probe();
        let other =
            Prober::new(ProbeTarget::Job { job: 987_654_321, index: Some(3) }, Vec::new()).probe();
        end(children);
        let ranks: Vec<u32> = seen.ranks.iter().map(|rank| rank.rank).collect();
        assert_eq!(ranks, [0, 1]);
        assert_eq!(seen.ranks[0].visible.as_deref(), Some(&["4".to_owned(), "5".to_owned()][..]));
        assert_eq!(seen.ranks[1].world_size, Some(2));
        assert!(other.ranks.is_empty());
        // Beside rank 0 the probe listens, on a port other than the job's own.
        let port = seen.listens.unwrap();
        assert_eq!(reach("localhost", port), Ok(()));
        assert_ne!(port, jobs_own);
    }

    /// A process has no environment until its exec has completed, and these are probed that early.
    /// Before scans were repeated, some of fifty were missed.
    #[test]
    fn a_rank_in_the_middle_of_an_exec_is_not_missed() {
        for round in 0..50 {
            let job = 976_000_000 + round;
            let child = start(job, "exec sleep 60", &[("MUSTER_TASK", "0")]);
            let seen = Prober::new(ProbeTarget::Job { job, index: None }, Vec::new()).probe();
            end([child]);
            assert_eq!(seen.ranks.len(), 1, "round {round}");
        }
    }

    #[test]
    fn processes_of_a_rank_are_seen_with_visible_and_open_devices() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("gpu0");
        let ready = folder.path().join("ready");
        fs::write(&device, "").unwrap();
        // One has another visible GPU than the rank, one has no variables and an open device.
        let script = format!(
            "CUDA_VISIBLE_DEVICES=0 sleep 60 & env -i sh -c 'exec 9<{}; : > {}; sleep 60' & wait",
            device.display(),
            ready.display()
        );
        let child =
            start(965_000_001, &script, &[("MUSTER_TASK", "1"), ("CUDA_VISIBLE_DEVICES", "1")]);
        let mut prober =
            Prober::new(ProbeTarget::Job { job: 965_000_001, index: None }, vec![device.clone()]);
        let list = |text: &str| Some(vec![text.to_owned()]);
        let mut seen = None;
        let is_there = crate::process::poll_until(Duration::from_secs(30), || {
            let rank = prober.probe().ranks.pop();
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
    fn an_unreachable_address_is_named_in_the_error() {
        let (_held, port) = refusing();
        assert!(reach("127.0.0.1", port).unwrap_err().contains("refused"));
        assert!(
            reach("no-such-name.invalid", 1).unwrap_err().starts_with("no-such-name.invalid: ")
        );
    }

    #[test]
    fn device_files_are_those_of_gpus() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("dev")).unwrap();
        for name in ["nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "null"] {
            fs::write(root.path().join("dev").join(name), "").unwrap();
        }
        let open = |path: &str| SeenFile { path: path.to_owned(), is_open: true };
        let files = device_files(&[], root.path());
        assert_eq!(files, ["/dev/nvidia0", "/dev/nvidia11"].map(open));
        // Configured files take precedence over the usual ones, and missing files are left out.
        let configured = ["/dev/null", "/dev/gone"].map(PathBuf::from);
        assert_eq!(device_files(&configured, root.path()), [open("/dev/null")]);
    }
}
