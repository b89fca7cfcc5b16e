//! What the local backend remembers while its daemon lives. All of it can be lost: see `adopt`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_model::{Attempt, AttemptId, ElementId, Observation, Rank, TaskCheckpoint, TaskReport};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use super::task::ToTask;
use super::{LocalConfig, facts};
use crate::cgroup::{Hierarchies, name_prefix};
use crate::driver::{Report, Reports};
use crate::gpu::foreign::Ours;
use crate::port::{self, Leases};
use crate::record::{LiveList, TaskDir, live_name};

/// Supervisors being started at once: enough to keep every CPU busy, few enough not to thrash.
const MAX_LAUNCHES: usize = 8;

/// What every task of the backend shares.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: LocalConfig,
    pub(super) jobs: PathBuf,
    sockets: PathBuf,
    checkpoints: PathBuf,
    pub(super) live: LiveList,
    pub(super) hierarchies: Hierarchies,
    pub(super) instance: String,
    /// What tasks get back where supervisors are protected from the out-of-memory killer: only root may.
    pub(super) oom_score_adj: Option<i32>,
    /// What tasks get back where the daemon raised its limit of open files.
    pub(super) open_files: Option<u64>,
    pub(super) reports: Reports,
    pub(super) runtime: Handle,
    pub(super) launches: Semaphore,
    state: Mutex<State>,
}

/// What changes.
#[derive(Debug)]
pub(super) struct State {
    /// Newest attempt seen per element that is not forgotten; older ones are on disk.
    pub(super) newest: BTreeMap<ElementId, Attempt>,
    pub(super) gangs: BTreeMap<AttemptId, Gang>,
    pub(super) leases: Leases,
}

/// One attempt.
#[derive(Debug, Default)]
pub(super) struct Gang {
    pub(super) tasks: BTreeMap<Rank, Entry>,
    pub(super) ports: Vec<u16>,
}

/// One task.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) to: UnboundedSender<ToTask>,
    /// The stage that was reported last.
    pub(super) last: Option<Observation>,
    /// The checkpoint that was reported last.
    pub(super) checkpoint: Option<TaskCheckpoint>,
}

impl Entry {
    /// A task of which nothing has been said yet.
    pub(super) fn new(to: UnboundedSender<ToTask>) -> Self {
        Self { to, last: None, checkpoint: None }
    }

    /// Everything that was reported of it and still holds, a checkpoint before the stage, since that may be the end.
    pub(super) fn said(&self) -> Vec<Observation> {
        let checkpoint = self.checkpoint.clone().map(Observation::Checkpointed);
        checkpoint.into_iter().chain(self.last.clone()).collect()
    }
}

impl Shared {
    pub(super) fn new(
        config: LocalConfig,
        jobs: PathBuf,
        sockets: PathBuf,
        live: LiveList,
        hierarchies: Hierarchies,
        reports: Reports,
        runtime: Handle,
    ) -> Self {
        let ephemeral = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let range = port::parse_ephemeral(&ephemeral).map_or(port::PREFERRED, port::lease_range);
        // Daemons of several users start at different places of the range.
        let seed = instance(&config.state_dir)
            .bytes()
            .fold(std::process::id(), |seed, byte| seed.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let leases = Leases::new(range, seed);
        let state = State { newest: BTreeMap::new(), gangs: BTreeMap::new(), leases };
        let instance = instance(&config.state_dir);
        let own = || std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
        let oom_score_adj = config.system.then(own).flatten();
        Self {
            oom_score_adj,
            open_files: facts::raise_open_files(),
            checkpoints: config.runtime_dir.join("checkpoints"),
            config,
            jobs,
            sockets,
            live,
            hierarchies,
            instance,
            reports,
            runtime,
            launches: Semaphore::new(MAX_LAUNCHES),
            state: Mutex::new(state),
        }
    }

    /// The state, also after a panic elsewhere: every change to it is a single step.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn dir(&self, id: AttemptId, rank: Rank) -> TaskDir {
        TaskDir::of(&self.jobs, id, rank)
    }

    pub(super) fn socket(&self, id: AttemptId, rank: Rank) -> PathBuf {
        self.sockets.join(live_name(id, rank))
    }

    /// Where a task's processes say that their progress is saved.
    pub(super) fn checkpoint_file(&self, id: AttemptId, rank: Rank) -> PathBuf {
        self.checkpoints.join(live_name(id, rank))
    }

    /// Name of a task's control groups.
    pub(super) fn group_name(&self, id: AttemptId, rank: Rank) -> String {
        format!("{}{}", name_prefix(&self.instance), live_name(id, rank))
    }

    /// What marks the processes of a task where there is no control group.
    pub(super) fn tag(&self, id: AttemptId, rank: Rank) -> String {
        format!("{}:{id}:{rank}", self.instance)
    }

    /// How to tell this backend's processes from others on a GPU.
    pub(super) fn ours(&self) -> Ours {
        Ours { group_prefix: name_prefix(&self.instance), tag_prefix: format!("{}:", self.instance) }
    }

    /// Remembers and reports what was seen of a task.
    pub(super) fn report(&self, id: AttemptId, rank: Rank, what: Observation) {
        if let Some(entry) = self.state().gangs.get_mut(&id).and_then(|gang| gang.tasks.get_mut(&rank)) {
            match &what {
                Observation::Checkpointed(noted) => entry.checkpoint = Some(noted.clone()),
                stage => entry.last = Some(stage.clone()),
            }
        }
        self.send(id, rank, what);
    }

    /// Reports; a daemon that no longer listens is going down and will ask again when it is back.
    pub(super) fn send(&self, id: AttemptId, rank: Rank, what: Observation) {
        let _ = self.reports.send(Report::Task(TaskReport { id, rank, what }));
    }
}

/// Short name of a state directory, so that several daemons can share a machine: FNV-1a of its path.
pub(super) fn instance(state_dir: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let path = std::fs::canonicalize(state_dir).unwrap_or_else(|_| state_dir.to_owned());
    let hash = path.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:012x}", hash >> 16)
}

/// True for what ends a task.
pub(super) fn is_final(what: &Observation) -> bool {
    matches!(what, Observation::Exited(_) | Observation::Lost { .. } | Observation::Refused { .. })
}
