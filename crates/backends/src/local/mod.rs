//! The local backend: real processes on this machine, each task under a supervisor of its own.
//!
//! This half lives in the daemon and may die at any moment. Everything that must outlive it is in
//! the supervisors and their records; on return they are found again by [`Backend::adopt`].

mod adopt;
mod facts;
mod idle;
mod launch;
mod past;
mod rejoin;
pub mod saved;
pub mod session;
mod state;
mod task;
mod virtual_gpus;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_model::{AttemptId, Bytes, NodeName, NodeSpec, Rank, Time};

pub use crate::supervise;
pub use virtual_gpus::VirtualGpus;

use crate::cgroup::Hierarchies;
use crate::driver::{Backend, Capabilities, Command, Expected, PastReport, Reports};
use crate::epoch::Epochs;
use crate::gpu;
use crate::live::LiveList;
use crate::purge;
use crate::record::{self, RecordError};
use state::Shared;

/// Sockets of supervisors, in the runtime directory.
const SOCKETS: &str = "tasks";

/// What a local backend needs to know.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Durable state: records and logs go to `jobs` in it.
    pub state_dir: PathBuf,
    /// Which job belongs to which epoch of the state.
    pub epochs: Epochs,
    /// Sockets go to `tasks` in it. May be emptied by a reboot.
    pub runtime_dir: PathBuf,
    /// Argument vector prefix of the supervisor: `["/proc/self/exe", "__supervise"]`.
    pub supervisor: Vec<OsString>,
    /// Declared GPUs in place of those found.
    pub virtual_gpus: Option<VirtualGpus>,
    /// Name of this node.
    pub node_name: NodeName,
    /// The daemon is root and each job runs as its submitter; otherwise jobs run as whoever the
    /// daemon is.
    pub system: bool,
    /// Limits of every task.
    pub limits: TaskLimits,
    /// When this machine booted, on the daemon's time line.
    pub booted: Time,
}

/// What the site allows each task, whatever its job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// Output kept on disk; 0 is no limit.
    pub log: Bytes,
    /// Processes and threads at one time; 0 is no limit, `None` the default for this machine.
    pub processes: Option<u32>,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { log: Bytes(64 << 20), processes: None }
    }
}

/// Why the local backend cannot work.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A directory cannot be made or is not safe.
    #[error("{path}: {source}")]
    Dir {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The list of live tasks cannot be opened.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// `/proc` is missing or unlike Linux's.
    #[error("cannot read the facts of this machine: {0}")]
    Facts(std::io::Error),
    /// System mode without being root.
    #[error("system mode needs root, to run each job as its submitter")]
    NotRoot,
    /// Not called from within a tokio runtime.
    #[error("the local backend needs a running tokio runtime")]
    NoRuntime,
    /// The supervisor's argument vector is empty.
    #[error("no supervisor program is configured")]
    NoSupervisor,
}

/// This machine as a node, with its GPUs as found or declared.
///
/// # Errors
/// `/proc` is missing or unlike Linux's.
pub fn inspect(
    name: &NodeName,
    virtual_gpus: Option<&VirtualGpus>,
) -> std::io::Result<(NodeSpec, gpu::Found)> {
    let found = match virtual_gpus {
        Some(declared) => gpu::Found::declared(declared.models()),
        None => gpu::discover(),
    };
    Ok((facts::node(name, &found)?, found))
}

/// Real processes on this machine.
#[derive(Debug)]
pub struct LocalBackend {
    shared: Arc<Shared>,
    nodes: Vec<NodeSpec>,
}

impl LocalBackend {
    /// A backend for this machine, using what control groups it finds. Must be called within a
    /// tokio runtime.
    pub fn new(config: LocalConfig, reports: Reports) -> Result<Self, LocalError> {
        Self::build(config, reports, Hierarchies::detect)
    }

    /// As [`LocalBackend::new`], with control groups as given; [`Hierarchies::none`] works without
    /// any.
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
        // 1. What must hold.
        if config.system && !rustix::process::geteuid().is_root() {
            return Err(LocalError::NotRoot);
        }
        if config.supervisor.is_empty() {
            return Err(LocalError::NoSupervisor);
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| LocalError::NoRuntime)?;

        // 2. Places: before anything is named after them.
        let jobs = config.state_dir.join("jobs");
        let sockets = config.runtime_dir.join(SOCKETS);
        private_dir(&jobs)?;
        runtime_dirs(&config)?;
        let live = LiveList::open(&jobs, config.epochs.clone())?;
        live.clear_set_aside();
        let hierarchies = hierarchies(&state::instance(&config.state_dir));

        // 3. What this machine has.
        let (node, found) =
            inspect(&config.node_name, config.virtual_gpus.as_ref()).map_err(LocalError::Facts)?;

        // 4. To work.
        let shared =
            Arc::new(Shared::new(config, jobs, sockets, live, hierarchies, reports, runtime));
        let needed =
            shared.live.all().into_iter().map(|(id, rank)| shared.group_name(id, rank)).collect();
        shared.hierarchies.tidy(&shared.instance, &needed);
        let name = shared.config.node_name.clone();
        gpu::foreign::watch(&shared.runtime, found, shared.ours(), name, &shared.reports);
        Ok(Self { shared, nodes: vec![node] })
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
            devices_enforced_by: None,
        }
    }

    fn nodes(&self) -> Vec<NodeSpec> {
        self.nodes.clone()
    }

    fn execute(&self, command: Command) {
        match command {
            Command::Prepare(order) => task::prepare(&self.shared, &order),
            Command::Go(id) => task::send(&self.shared, id, &task::ToTask::Go),
            Command::Checkpoint(id, request) => {
                task::send(&self.shared, id, &task::ToTask::Checkpoint(request));
            }
            Command::Stop(id, cause) => task::send(&self.shared, id, &task::ToTask::Stop(cause)),
            Command::Forget(id) => task::forget(&self.shared, id),
        }
    }

    fn past(&self, expected: &[Expected]) -> Vec<PastReport> {
        past::past(&self.shared, expected)
    }

    fn adopt(&self, expected: Vec<Expected>) {
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

/// Makes the directories of sockets and pipes. They lie where machines tidy up, so each launch asks
/// for them again.
fn runtime_dirs(config: &LocalConfig) -> Result<(), LocalError> {
    private_dir(&config.runtime_dir.join(SOCKETS))?;
    progress_dir(&config.runtime_dir.join("checkpoints"), config.system)
}

/// Makes the directory of the pipes to which tasks write. In system mode these belong to the users
/// whose jobs write to them: they may pass through it, and not list it.
fn progress_dir(path: &Path, system: bool) -> Result<(), LocalError> {
    use std::os::unix::fs::PermissionsExt;
    private_dir(path)?;
    if system {
        std::fs::set_permissions(
            path,
            std::fs::Permissions::from_mode(crate::supervise::PASSAGE_MODE),
        )
        .map_err(|source| LocalError::Dir { path: path.to_owned(), source })?;
    }
    Ok(())
}

/// Makes a directory closed to others, and refuses one that is another user's.
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
