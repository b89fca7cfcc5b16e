//! A small cluster for the runtime's tests: jobs to submit, and tasks that respond to effects.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::job::{GpuRequest, Resources, Restart, TaskGroup};
use muster_model::payload::{Identity, TaskCommand};
use muster_model::unit::{Bytes, CpuMilli, Span, Time};
use muster_model::{
    Array, AttemptId, Device, Effect, Event, JobSpec, NodeSpec, Observation, Payload, Rank,
    TaskExit, TaskReport,
};
use muster_runtime::{JobDraft, JobSubmission};

/// Returns a node with this many GPUs.
pub fn node(name: &str, gpus: usize) -> NodeSpec {
    let device = Device::declared("h100", Bytes(80 << 30));
    NodeSpec {
        devices: vec![device; gpus],
        ..NodeSpec::plain(name, CpuMilli(64_000), Bytes(512 << 30))
    }
}

/// Returns a gang of `tasks` with a GPU each, as an array if `elements` is above 1.
pub fn draft(name: &str, tasks: u32, elements: u32, restarts: u32) -> JobDraft {
    let group = TaskGroup::of(
        "main",
        tasks,
        Resources { gpu: GpuRequest::whole(1), ..Resources::default() },
    );
    let spec = JobSpec {
        time_limit: Some(Span::from_secs(60)),
        grace: Span::from_secs(5),
        array: (elements > 1).then(|| Array::range(0, elements - 1, 1, None)),
        restart: Restart {
            on_failure: restarts > 0,
            max_restarts: restarts,
            backoff: Span::from_secs(1),
            always: false,
        },
        ..JobSpec::plain(name, "ann", vec![group])
    };
    let payload = Payload {
        commands: BTreeMap::from([("main".into(), TaskCommand::Script("true".to_owned()))]),
        env: BTreeMap::from([("SECRET".to_owned(), "hunter2".to_owned())]),
        workdir: "/".into(),
        umask: 0o022,
        identity: Identity { user: "ann".into(), uid: 1000, gid: 1000 },
        interactive: false,
        files: muster_model::OutputFiles::default(),
        sweep: None,
        notices: Vec::new(),
        environment: muster_model::TaskEnvironment::default(),
    };
    JobDraft { spec, payload, after: Vec::new() }
}

/// Returns a submission of drafts under a key.
pub fn submission(key: &str, drafts: Vec<JobDraft>) -> JobSubmission {
    JobSubmission { user: "ann".into(), key: key.to_owned(), drafts, warnings: Vec::new() }
}

/// Stage of a task in the simulated backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SimTaskStage {
    Ordered,
    Prepared,
    Released,
    Running,
    Stopping,
    Over,
}

/// Tasks of the simulated backend; they survive crashes of the runtime.
#[derive(Clone, Debug, Default)]
pub struct SimBackend {
    tasks: BTreeMap<(AttemptId, Rank), SimTaskStage>,
    /// Every effect that was ever released.
    pub seen: BTreeSet<String>,
}

impl SimBackend {
    /// Carries out effects; repeating one changes nothing.
    pub fn take(&mut self, effects: &[Effect]) {
        for effect in effects {
            self.seen.insert(format!("{effect:?}"));
            match effect {
                Effect::Prepare { id, placement, .. } => {
                    for rank in 0..placement.len() as u32 {
                        self.tasks.entry((*id, Rank(rank))).or_insert(SimTaskStage::Ordered);
                    }
                }
                Effect::Go { id } => {
                    self.set_stage(*id, SimTaskStage::Prepared, SimTaskStage::Released)
                }
                Effect::Stop { id, .. } => {
                    for from in [
                        SimTaskStage::Ordered,
                        SimTaskStage::Prepared,
                        SimTaskStage::Released,
                        SimTaskStage::Running,
                    ] {
                        self.set_stage(*id, from, SimTaskStage::Stopping);
                    }
                }
                Effect::Checkpoint { .. } | Effect::Forget { .. } => {}
            }
        }
    }

    fn set_stage(&mut self, id: AttemptId, from: SimTaskStage, to: SimTaskStage) {
        for ((attempt, _), stage) in &mut self.tasks {
            if *attempt == id && *stage == from {
                *stage = to;
            }
        }
    }

    /// Returns the next report of a task that has one, chosen by `pick`; `fail` makes an exit a
    /// failure.
    pub fn report(&mut self, pick: usize, fail: bool) -> Option<Event> {
        let busy =
            |stage: &SimTaskStage| !matches!(stage, SimTaskStage::Prepared | SimTaskStage::Over);
        let keys: Vec<_> =
            self.tasks.iter().filter(|(_, stage)| busy(stage)).map(|(key, _)| *key).collect();
        let (id, rank) = *keys.get(pick.checked_rem(keys.len())?)?;
        let stage = self.tasks.get_mut(&(id, rank))?;
        let (next, what) = match stage {
            SimTaskStage::Ordered if fail => {
                (SimTaskStage::Over, Observation::Refused { reason: "no".into() })
            }
            SimTaskStage::Ordered => (SimTaskStage::Prepared, Observation::Prepared),
            SimTaskStage::Released => (SimTaskStage::Running, Observation::Started),
            SimTaskStage::Running => {
                let exit = TaskExit::Code { code: i32::from(fail) };
                (SimTaskStage::Over, Observation::Exited(exit))
            }
            SimTaskStage::Stopping => (SimTaskStage::Over, Observation::Exited(TaskExit::Stopped)),
            SimTaskStage::Prepared | SimTaskStage::Over => return None,
        };
        *stage = next;
        Some(Event::Task(TaskReport { id, rank, observation: what }))
    }
}

/// Returns the runtime's time at a second.
pub fn at(secs: u64) -> Time {
    Time(1_000_000 + secs * 1000)
}

/// Returns an event that joins a node.
pub fn joined(name: &str, gpus: usize) -> Event {
    Event::NodeJoined(Box::new(node(name, gpus)))
}
