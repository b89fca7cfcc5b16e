//! A small cluster for the runtime's tests: jobs to submit, tasks that answer effects, and a store
//! that fails.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::job::{GpuRequest, Resources, Restart, TaskGroup};
use muster_model::payload::{Command, Identity};
use muster_model::unit::{Bytes, CpuMilli, Span, Time};
use muster_model::{
    Array, AttemptId, Device, Effect, Event, JobSpec, Kind, NodeConstraint, NodeSpec, Observation,
    Payload, PayloadId, Rank, TaskExit, TaskReport, Tier, UserName,
};
use muster_runtime::engine::Fact;
use muster_runtime::{
    Batch, Draft, Loaded, MemStore, Receipt, SavedState, Store, StoreError, Submission,
};

/// A node with this many GPUs.
pub fn node(name: &str, gpus: usize) -> NodeSpec {
    let device = Device {
        model: "h100".into(),
        memory: Bytes(80 << 30),
        uuid: "".into(),
        is_virtual: true,
        slice_of: None,
    };
    NodeSpec {
        name: name.into(),
        devices: vec![device; gpus],
        cpus: CpuMilli(64_000),
        memory: Bytes(512 << 30),
        extras: BTreeMap::new(),
        labels: BTreeMap::new(),
        domains: Vec::new(),
    }
}

/// A gang of `tasks` with a GPU each, as an array when `elements` is above 1.
pub fn draft(name: &str, tasks: u32, elements: u32, restarts: u32) -> Draft {
    let group = TaskGroup {
        name: "main".into(),
        min_tasks: tasks,
        max_tasks: tasks,
        tasks_per_node: None,
        task: Resources { gpu: GpuRequest::whole(1), ..Resources::default() },
    };
    let spec = JobSpec {
        name: name.into(),
        user: "ann".into(),
        uid: None,
        queue: "default".into(),
        priority: 0,
        groups: vec![group],
        time_limit: Some(Span::from_secs(60)),
        grace: Span::from_secs(5),
        constraint: NodeConstraint::default(),
        array: (elements > 1).then(|| Array::range(0, elements - 1, 1, None)),
        after: Vec::new(),
        restart: Restart {
            on_failure: restarts > 0,
            max_restarts: restarts,
            backoff: Span::from_secs(1),
            always: false,
        },
        checkpoint: None,
        held: false,
        begin: None,
        protect: muster_model::Protection::None,
        payload: PayloadId(0),
        kind: Kind::Task,
        tier: Tier::Usual,
        grow_after: Some(JobSpec::GROW_AFTER),
    };
    let payload = Payload {
        commands: BTreeMap::from([("main".into(), Command::Script("true".to_owned()))]),
        env: BTreeMap::from([("SECRET".to_owned(), "hunter2".to_owned())]),
        workdir: "/".into(),
        umask: 0o022,
        identity: Identity { user: "ann".into(), uid: 1000, gid: 1000 },
        interactive: false,
        files: muster_model::OutputFiles::default(),
    };
    Draft { spec, payload, after: Vec::new() }
}

/// Submits drafts under a key.
pub fn submission(key: &str, drafts: Vec<Draft>) -> Submission {
    Submission { user: "ann".into(), key: key.to_owned(), drafts, warnings: Vec::new() }
}

/// How far a task of the outside world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ordered,
    Prepared,
    Released,
    Running,
    Stopping,
    Over,
}

/// Tasks as a backend would have them; it survives the crashes of the runtime.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    tasks: BTreeMap<(AttemptId, Rank), Stage>,
    /// Every effect that was ever handed out.
    pub seen: BTreeSet<String>,
}

impl Outside {
    /// Carries out effects; repeating one changes nothing.
    pub fn take(&mut self, effects: &[Effect]) {
        for effect in effects {
            self.seen.insert(format!("{effect:?}"));
            match effect {
                Effect::Prepare { id, placement, .. } => {
                    for rank in 0..placement.len() as u32 {
                        self.tasks.entry((*id, Rank(rank))).or_insert(Stage::Ordered);
                    }
                }
                Effect::Go { id } => self.turn(*id, Stage::Prepared, Stage::Released),
                Effect::Stop { id, .. } => {
                    for from in [Stage::Ordered, Stage::Prepared, Stage::Released, Stage::Running] {
                        self.turn(*id, from, Stage::Stopping);
                    }
                }
                Effect::Checkpoint { .. } | Effect::Forget { .. } => {}
            }
        }
    }

    fn turn(&mut self, id: AttemptId, from: Stage, to: Stage) {
        for ((attempt, _), stage) in &mut self.tasks {
            if *attempt == id && *stage == from {
                *stage = to;
            }
        }
    }

    /// The next report of some task that has something to say, chosen by `pick`; `fail` makes an
    /// exit an error.
    pub fn report(&mut self, pick: usize, fail: bool) -> Option<Event> {
        let busy = |stage: &Stage| !matches!(stage, Stage::Prepared | Stage::Over);
        let keys: Vec<_> =
            self.tasks.iter().filter(|(_, stage)| busy(stage)).map(|(key, _)| *key).collect();
        let (id, rank) = *keys.get(pick.checked_rem(keys.len())?)?;
        let stage = self.tasks.get_mut(&(id, rank))?;
        let (next, what) = match stage {
            Stage::Ordered if fail => (Stage::Over, Observation::Refused { reason: "no".into() }),
            Stage::Ordered => (Stage::Prepared, Observation::Prepared),
            Stage::Released => (Stage::Running, Observation::Started),
            Stage::Running => {
                let exit = TaskExit::Code { code: i32::from(fail) };
                (Stage::Over, Observation::Exited(exit))
            }
            Stage::Stopping => (Stage::Over, Observation::Exited(TaskExit::Stopped)),
            Stage::Prepared | Stage::Over => return None,
        };
        *stage = next;
        Some(Event::Task(TaskReport { id, rank, what }))
    }
}

/// When the store fails, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The batch is not durable; later ones may be.
    Before,
    /// The batch is durable, but the caller is told otherwise.
    After,
}

/// A store in memory that fails at chosen appends.
#[derive(Clone, Debug, Default)]
pub struct Faulty {
    pub inner: MemStore,
    /// By number of append, from 0.
    pub faults: BTreeMap<usize, Fault>,
    pub appends: usize,
    /// Refuses everything until it is lifted, as a full disk does.
    pub is_full: bool,
    /// So many loads fail.
    pub unreadable: usize,
    /// Facts of every append.
    pub facts: Vec<Fact>,
}

impl Store for Faulty {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.is_full {
            return Err(StoreError::Full("as the test wants it".to_owned()));
        }
        let fault = self.faults.get(&self.appends).copied();
        self.appends += 1;
        self.facts.extend(batch.facts.iter().cloned());
        match fault {
            None => self.inner.append(batch),
            Some(Fault::Before) => Err(StoreError::Io("failed before".to_owned())),
            Some(Fault::After) => {
                self.inner.append(batch)?;
                Err(StoreError::Io("failed after".to_owned()))
            }
        }
    }

    fn load(&mut self) -> Result<Loaded, StoreError> {
        match self.unreadable.checked_sub(1) {
            Some(left) => {
                self.unreadable = left;
                Err(StoreError::Io("cannot be read now".to_owned()))
            }
            None => self.inner.load(),
        }
    }

    fn save(&mut self, state: &SavedState) -> Result<(), StoreError> {
        self.inner.save(state)
    }

    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.inner.receipt(user, key)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        match self.is_full {
            true => Err(StoreError::Full("as the test wants it".to_owned())),
            false => Ok(()),
        }
    }
}

/// A second, in the runtime's time.
pub fn at(secs: u64) -> Time {
    Time(1_000_000 + secs * 1000)
}

/// An event that joins a node.
pub fn joined(name: &str, gpus: usize) -> Event {
    Event::NodeJoined(Box::new(node(name, gpus)))
}
