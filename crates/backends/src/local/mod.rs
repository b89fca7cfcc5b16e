//! The local backend: real processes on this machine, each task under a supervisor of its own.
//!
//! This part runs in the daemon and may die at any moment. Everything that must outlive it is in
//! the supervisors and their records; a restarted daemon finds them by [`Backend::adopt`].

mod adopt;
pub mod checkpoint;
mod facts;
mod idle_supervisors;
mod launch;
mod past;
mod rejoin;
pub mod session;
mod state;
mod status;
mod task;
mod unrecorded;
mod virtual_gpus;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use muster_model::view::GpuLoad;
use muster_model::{AttemptId, Bytes, DeviceSet, NodeName, NodeSpec, Rank, Time};

pub use crate::supervise;
pub use virtual_gpus::VirtualGpus;

use crate::cgroup::Hierarchies;
use crate::device_files::{ClosedDeviceFiles, DeviceFiles};
use crate::driver::{Backend, BackendCommand, Capabilities, ExpectedTask, PastReport, Reports};
use crate::epoch::Epochs;
use crate::gpu;
use crate::gpu::load::LoadReader;
use crate::live::LiveList;
use crate::purge;
use crate::record;
use state::{ActorCommand, Shared};

/// Directory of the supervisors' sockets, in the runtime directory.
const SOCKETS: &str = "tasks";

/// Configuration of a local backend.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Directory of durable state: records and logs are in its subdirectory `jobs`.
    pub state_dir: PathBuf,
    /// Epochs of the state, by job number.
    pub epochs: Epochs,
    /// Directory of runtime state, which a reboot may empty: sockets are in its subdirectory
    /// `tasks`.
    pub runtime_dir: PathBuf,
    /// Argument vector prefix of the supervisor: `["/proc/self/exe", "__supervise"]`.
    pub supervisor: Vec<OsString>,
    /// Virtual GPUs to offer instead of the detected ones.
    pub virtual_gpus: Option<VirtualGpus>,
    /// Name of this machine as a node.
    pub node_name: NodeName,
    /// True when the daemon is root and each job runs as its submitter; otherwise jobs run as the
    /// daemon's user.
    pub system: bool,
    /// Limits of every task.
    pub limits: TaskLimits,
    /// Boot time of this machine, on the daemon's time line.
    pub booted: Time,
}

/// Limits that the site sets for each task, whatever its job requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// Size of the output kept on disk; 0 is no limit.
    pub log: Bytes,
    /// Processes and threads that exist at the same time; 0 is no limit, `None` the default of this
    /// machine.
    pub processes: Option<u32>,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { log: Bytes(64 << 20), processes: None }
    }
}

/// Error that prevents the local backend from starting.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A directory cannot be created, or other users can write to it.
    #[error("{path}: {source}")]
    Dir {
        /// Path of the directory.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// `/proc` is missing or has an unexpected format.
    #[error("cannot read CPUs and memory of this machine: {0}")]
    Facts(std::io::Error),
    /// System mode requires root.
    #[error("system mode needs root, to run each job as its submitter")]
    NotRoot,
    /// The backend was created outside a tokio runtime.
    #[error("the local backend needs a running tokio runtime")]
    NoRuntime,
    /// The supervisor's argument vector is empty.
    #[error("no supervisor program is configured")]
    NoSupervisor,
}

/// Returns this machine as a node, with its detected or virtual GPUs.
///
/// # Errors
/// `/proc` is missing or has an unexpected format.
pub fn inspect(
    name: &NodeName,
    virtual_gpus: Option<&VirtualGpus>,
) -> std::io::Result<(NodeSpec, gpu::DetectedGpus)> {
    let found = match virtual_gpus {
        Some(declared) => gpu::DetectedGpus::declared(declared.models()),
        None => gpu::discover(),
    };
    Ok((facts::node(name, &found)?, found))
}

/// Backend that runs real processes on this machine.
#[derive(Debug)]
pub struct LocalBackend {
    shared: Arc<Shared>,
    nodes: Vec<NodeSpec>,
    /// Reader of the loads of GPUs, which loads a library; made when they are first asked for.
    loads: OnceLock<LoadReader>,
}

impl LocalBackend {
    /// Creates a backend for this machine with the control groups that are available. Must be
    /// called within a tokio runtime.
    pub fn new(config: LocalConfig, reports: Reports) -> Result<Self, LocalError> {
        Self::build(config, reports, Hierarchies::detect)
    }

    /// Creates a backend as [`LocalBackend::new`] does, with the given control groups;
    /// [`Hierarchies::none`] uses none.
    pub fn with_hierarchies(
        config: LocalConfig,
        reports: Reports,
        hierarchies: Hierarchies,
    ) -> Result<Self, LocalError> {
        Self::build(config, reports, |_| hierarchies)
    }

    fn build(
        config: LocalConfig,
        reports: Reports,
        hierarchies: impl FnOnce(&str) -> Hierarchies,
    ) -> Result<Self, LocalError> {
        // 1. Check the preconditions.
        if config.system && !rustix::process::geteuid().is_root() {
            return Err(LocalError::NotRoot);
        }
        if config.supervisor.is_empty() {
            return Err(LocalError::NoSupervisor);
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| LocalError::NoRuntime)?;

        // 2. Create the directories: the instance name is the hash of a canonical path.
        let jobs = config.state_dir.join("jobs");
        private_dir(&jobs)?;
        runtime_dirs(&config)?;
        let live = LiveList::of(&jobs, config.epochs.clone());
        live.clear_set_aside();
        let hierarchies = hierarchies(&state::instance(&config.state_dir));

        // 3. Detect the resources of this machine.
        let (node, found) =
            inspect(&config.node_name, config.virtual_gpus.as_ref()).map_err(LocalError::Facts)?;

        let device_files = if config.system {
            DeviceFiles::detect(&found, &config.runtime_dir)
        } else {
            DeviceFiles::open_to_all()
        };

        // 4. Clean up old groups and start the check for foreign processes.
        let shared =
            Arc::new(Shared::new(config, jobs, live, hierarchies, device_files, reports, runtime));
        let needed =
            shared.live.all().into_iter().map(|(id, rank)| shared.group_name(id, rank)).collect();
        shared.hierarchies.tidy(&shared.instance, &needed);
        let name = shared.config.node_name.clone();
        gpu::foreign::watch(&shared.runtime, &found, shared.own_processes(), name, &shared.reports);
        Ok(Self { shared, nodes: vec![node], loads: OnceLock::new() })
    }
}

impl Backend for LocalBackend {
    fn capabilities(&self) -> Capabilities {
        let groups = &self.shared.hierarchies;
        Capabilities {
            name: "local",
            memory_enforced_by: groups.memory_enforced_by().map(str::to_owned),
            cpu_enforced_by: groups.cpu_enforced_by().map(str::to_owned),
            processes_enforced_by: groups.processes_enforced_by().map(str::to_owned),
            max_processes: self.shared.processes,
            log_limit: self.shared.config.limits.log,
            kill_by: groups.kill_by().to_owned(),
            devices_enforced_by: self.shared.device_files.enforced_by().map(str::to_owned),
        }
    }

    fn nodes(&self) -> Vec<NodeSpec> {
        self.nodes.clone()
    }

    fn gpu_loads(&self, node: &NodeSpec) -> Vec<Option<GpuLoad>> {
        if node.devices.iter().all(|device| device.is_virtual) {
            return vec![None; node.devices.len()];
        }
        self.loads.get_or_init(LoadReader::new).read(&node.devices)
    }

    fn closed_device_files(&self) -> ClosedDeviceFiles {
        self.shared.device_files.closed_to(DeviceSet::EMPTY)
    }

    fn execute(&self, command: BackendCommand) {
        match command {
            BackendCommand::Prepare(order) => task::prepare(&self.shared, &order),
            BackendCommand::Go(id) => task::send_command(&self.shared, id, &ActorCommand::Go),
            BackendCommand::Checkpoint(id, request) => {
                task::send_command(&self.shared, id, &ActorCommand::Checkpoint(request));
            }
            BackendCommand::Stop(id, cause) => {
                task::send_command(&self.shared, id, &ActorCommand::Stop(cause))
            }
            BackendCommand::Forget(id) => task::forget(&self.shared, id),
        }
    }

    fn past(&self, expected: &[ExpectedTask]) -> Vec<PastReport> {
        past::past(&self.shared, expected)
    }

    fn adopt(&self, expected: Vec<ExpectedTask>) {
        adopt::adopt(&self.shared, expected);
    }

    fn log_path(&self, id: AttemptId, rank: Rank) -> PathBuf {
        self.shared.dir(id, rank).log()
    }

    fn discard(&self, id: AttemptId, tasks: u32) {
        let jobs = self.shared.jobs_of(id.element.job);
        (0..tasks).for_each(|rank| purge::task(&jobs, id, Rank(rank)));
    }

    fn task_socket(&self, id: AttemptId, rank: Rank) -> Option<PathBuf> {
        Some(self.shared.socket(id, rank))
    }
}

/// Creates the directories of sockets and pipes. Runtime directories may be cleaned up by the
/// machine, so each launch calls this again.
fn runtime_dirs(config: &LocalConfig) -> Result<(), LocalError> {
    private_dir(&config.runtime_dir.join(SOCKETS))?;
    checkpoint_dir(&config.runtime_dir.join("checkpoints"), config.system)
}

/// Creates the directory of the checkpoint pipes. In system mode the pipes belong to the users of
/// the jobs, who may traverse the directory but not list it.
fn checkpoint_dir(path: &Path, system: bool) -> Result<(), LocalError> {
    use std::os::unix::fs::PermissionsExt;
    private_dir(path)?;
    if system {
        std::fs::set_permissions(
            path,
            std::fs::Permissions::from_mode(crate::supervise::TRAVERSE_ONLY_MODE),
        )
        .map_err(|source| LocalError::Dir { path: path.to_owned(), source })?;
    }
    Ok(())
}

/// Creates a directory without access for other users; rejects one of another user.
fn private_dir(path: &Path) -> Result<(), LocalError> {
    use std::os::unix::fs::MetadataExt;
    let failed = |source| LocalError::Dir { path: path.to_owned(), source };
    record::private_dirs(path).map_err(failed)?;
    let meta = std::fs::symlink_metadata(path).map_err(failed)?;
    let is_ours = meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || meta.mode() & 0o022 != 0 {
        let reason = "not a directory that only its owner, this user, can write to";
        return Err(failed(std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason)));
    }
    Ok(())
}
