//! In-memory state of the local backend. All of it can be rebuilt from the records: see `adopt`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::order::GangOrder;
use muster_model::hash::fnv1a;
use muster_model::{
    Attempt, AttemptId, ElementId, JobId, Observation, Rank, StopCause, TaskCheckpoint, TaskReport,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use super::idle_supervisors::{IdleSupervisor, IdleSupervisors};
use super::rejoin::Rejoin;
use super::{LocalConfig, facts};
use crate::cgroup::{Hierarchies, name_prefix, own_group};
use crate::device_files::DeviceFiles;
use crate::driver::{Report, Reports};
use crate::epoch::Epoch;
use crate::gpu::foreign::OwnProcesses;
use crate::live::{LiveEntry, LiveList, task_name};
use crate::port::{self, Leases};
use crate::record::{self, TaskDir};

/// Supervisors started at the same time: enough to keep every CPU busy, few enough not to thrash.
const MAX_LAUNCHES: usize = 8;

/// Configuration and state shared by all tasks of the backend.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: LocalConfig,
    jobs: PathBuf,
    sockets: PathBuf,
    checkpoints: PathBuf,
    pub(super) live: LiveList,
    pub(super) hierarchies: Hierarchies,
    pub(super) device_files: DeviceFiles,
    pub(super) instance: String,
    /// `oom_score_adj` that tasks get back where supervisors are protected from the out-of-memory
    /// killer, which requires root.
    pub(super) oom_score_adj: Option<i32>,
    /// Limit on the processes of one task; 0 is none.
    pub(super) processes: u32,
    /// Soft limit of open files that tasks get back where the daemon raised its own.
    pub(super) open_files: Option<u64>,
    pub(super) reports: Reports,
    pub(super) runtime: Handle,
    pub(super) launches: Semaphore,
    pub(super) rejoin: Arc<Rejoin>,
    state: Mutex<BackendState>,
}

/// The mutable part of the state.
#[derive(Debug)]
pub(super) struct BackendState {
    /// Newest attempt per element that is not forgotten; older ones are on disk.
    pub(super) newest: BTreeMap<ElementId, Attempt>,
    pub(super) gangs: BTreeMap<AttemptId, AttemptTasks>,
    pub(super) leases: Leases,
    pub(super) idle: IdleSupervisors,
}

/// Tasks and ports of one attempt.
#[derive(Debug, Default)]
pub(super) struct AttemptTasks {
    pub(super) tasks: BTreeMap<Rank, TaskEntry>,
    pub(super) ports: Vec<u16>,
}

/// Command to an actor.
#[derive(Clone, Debug)]
pub(super) enum ActorCommand {
    /// Prepare the task, unless that has been done.
    Launch(Arc<GangOrder>, Vec<u16>),
    /// Run the prepared task.
    Go,
    /// Ask the task to save a checkpoint, with this request number.
    Checkpoint(u32),
    /// End the task, for this cause.
    Stop(StopCause),
}

/// Actor and last reports of one task.
#[derive(Debug)]
pub(super) struct TaskEntry {
    pub(super) to: UnboundedSender<ActorCommand>,
    /// Stage that was reported last.
    pub(super) last: Option<Observation>,
    /// Checkpoint that was reported last.
    pub(super) checkpoint: Option<TaskCheckpoint>,
    /// Its idle supervisor, once the task is over, if that waits for another task.
    pub(super) idle: Option<IdleSupervisor>,
}

impl TaskEntry {
    /// Creates the entry of a task without reports.
    pub(super) fn new(to: UnboundedSender<ActorCommand>) -> Self {
        Self { to, last: None, checkpoint: None, idle: None }
    }

    /// Returns the reports that still hold: the checkpoint, then the stage, which may be the end.
    pub(super) fn observations(&self) -> Vec<Observation> {
        let checkpoint = self.checkpoint.clone().map(Observation::Checkpointed);
        checkpoint.into_iter().chain(self.last.clone()).collect()
    }
}

impl Shared {
    pub(super) fn new(
        config: LocalConfig,
        jobs: PathBuf,
        live: LiveList,
        hierarchies: Hierarchies,
        device_files: DeviceFiles,
        reports: Reports,
        runtime: Handle,
    ) -> Self {
        let ephemeral =
            std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let range = port::parse_ephemeral(&ephemeral).map_or(port::PREFERRED, port::lease_range);
        // Daemons of several users start at different ports of the range.
        let seed = instance(&config.state_dir).bytes().fold(std::process::id(), |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        let leases = Leases::new(range, seed);
        let state = BackendState {
            newest: BTreeMap::new(),
            gangs: BTreeMap::new(),
            leases,
            idle: IdleSupervisors::default(),
        };
        let instance = instance(&config.state_dir);
        let own_group = hierarchies.kill_by_group().then(own_group).flatten();
        let own = || std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
        let oom_score_adj = config.system.then(own).flatten();
        Self {
            oom_score_adj,
            processes: config.limits.processes.unwrap_or_else(facts::max_processes),
            open_files: facts::raise_open_files(),
            checkpoints: config.runtime_dir.join("checkpoints"),
            sockets: config.runtime_dir.join(super::SOCKETS),
            config,
            jobs,
            live,
            hierarchies,
            device_files,
            instance,
            reports,
            runtime,
            launches: Semaphore::new(MAX_LAUNCHES),
            rejoin: Arc::new(Rejoin::new(own_group)),
            state: Mutex::new(state),
        }
    }

    /// Locks the state. A poisoned lock is used as it is: every change is a single step.
    pub(super) fn state(&self) -> MutexGuard<'_, BackendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the epoch of a job.
    pub(super) fn epoch(&self, job: JobId) -> Option<&Epoch> {
        self.config.epochs.of(job)
    }

    /// Returns the directory of all jobs' records.
    pub(super) fn jobs(&self) -> &Path {
        &self.jobs
    }

    /// Returns the parent of a job's directory.
    pub(super) fn jobs_of(&self, job: JobId) -> PathBuf {
        record::epoch_dir(&self.jobs, self.epoch(job))
    }

    pub(super) fn dir(&self, id: AttemptId, rank: Rank) -> TaskDir {
        TaskDir::of(&self.jobs_of(id.element.job), id, rank)
    }

    /// Returns the name of a task's socket, control groups and entry of the live list.
    fn name(&self, id: AttemptId, rank: Rank) -> String {
        task_name(self.epoch(id.element.job), id, rank)
    }

    pub(super) fn socket(&self, id: AttemptId, rank: Rank) -> PathBuf {
        self.sockets.join(self.name(id, rank))
    }

    /// Returns the path of a task's checkpoint pipe.
    pub(super) fn checkpoint_file(&self, id: AttemptId, rank: Rank) -> PathBuf {
        self.checkpoints.join(self.name(id, rank))
    }

    /// Returns the path of the pipe for a task's reports.
    pub(super) fn report_file(&self, id: AttemptId, rank: Rank) -> PathBuf {
        self.checkpoints.join(format!("{}.report", self.name(id, rank)))
    }

    /// Returns the name of a task's control groups.
    pub(super) fn group_name(&self, id: AttemptId, rank: Rank) -> String {
        format!("{}{}", name_prefix(&self.instance), self.name(id, rank))
    }

    /// Returns the environment tag of a task's processes, by which they are found where there is no
    /// control group.
    pub(super) fn tag(&self, id: AttemptId, rank: Rank) -> String {
        tag(&self.instance, self.epoch(id.element.job), id, rank)
    }

    /// Returns the criteria that identify this backend's processes on a GPU.
    pub(super) fn own_processes(&self) -> OwnProcesses {
        let prefix = name_prefix(&self.instance);
        let unknown = self.live.set_aside();
        let tag =
            |entry: &LiveEntry| tag(&self.instance, entry.epoch().as_ref(), entry.id, entry.rank);
        OwnProcesses {
            unknown_groups: unknown
                .iter()
                .map(|entry| format!("{prefix}{}", entry.name()))
                .collect(),
            unknown_tags: unknown.iter().map(tag).collect(),
            group_prefix: prefix,
            tag_prefix: format!("{}:", self.instance),
        }
    }

    /// Stores and sends an observation of a task.
    pub(super) fn report(&self, id: AttemptId, rank: Rank, what: Observation) {
        if let Some(entry) =
            self.state().gangs.get_mut(&id).and_then(|gang| gang.tasks.get_mut(&rank))
        {
            match &what {
                Observation::Checkpointed(checkpoint) => {
                    entry.checkpoint = Some(checkpoint.clone())
                }
                Observation::Signalled(_) => {}
                stage => entry.last = Some(stage.clone()),
            }
        }
        self.send(id, rank, what);
    }

    /// Sends an observation of a task. When the channel is closed, the daemon is shutting down and
    /// its successor adopts the task.
    pub(super) fn send(&self, id: AttemptId, rank: Rank, what: Observation) {
        let _ = self.reports.send(Report::Task(TaskReport { id, rank, observation: what }));
    }
}

/// Returns a short name for a state directory, so that several daemons can share a machine: a hash
/// of its path.
pub(super) fn instance(state_dir: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let path = std::fs::canonicalize(state_dir).unwrap_or_else(|_| state_dir.to_owned());
    format!("{:012x}", fnv1a(path.as_os_str().as_bytes()) >> 16)
}

fn tag(instance: &str, epoch: Option<&Epoch>, id: AttemptId, rank: Rank) -> String {
    match epoch {
        Some(epoch) => format!("{instance}:{epoch}:{id}:{rank}"),
        None => format!("{instance}:{id}:{rank}"),
    }
}

/// Returns true for observations that end a task.
pub(super) fn is_final(what: &Observation) -> bool {
    matches!(
        what,
        Observation::Exited(_)
            | Observation::Lost { .. }
            | Observation::Refused { .. }
            | Observation::Impossible { .. }
    )
}
