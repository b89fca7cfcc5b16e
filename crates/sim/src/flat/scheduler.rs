//! Who decides on a flat pool: the production engine under a policy that the literature has a name for, or, for what the
//! engine does not do, a model after the textbook.

use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::queue::{Backfill, Preemption};
use muster_model::{Bytes, CpuMilli, JobSpec, NodeSpec, QueueTree, TaskGroup};

use super::FlatJob;
use crate::peers::textbook;
use crate::replay::{Arrival, Ran, Replay, ReplayError};

/// A scheduler of a flat pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatScheduler {
    /// First come, first served; nothing passes a job that waits.
    Fcfs,
    /// A job may pass others if it does not delay the first that waits (Lifka 1995).
    Easy,
    /// A job may pass others if it delays none that waits.
    Conservative,
    /// The job that is believed to be shortest goes first, and nothing passes it.
    Sjf,
    /// EASY, of those that may pass the shortest first (Tsafrir, Etsion and Feitelson 2007).
    EasySjf,
    /// What is believed to end soonest runs, and others are set aside for it at no cost.
    Srtf,
}

/// A run on the engine or a model that has ended at once.
#[derive(Debug)]
pub enum Run<'j> {
    /// The production engine, to be stepped to its end.
    Engine(Box<Replay<Arrivals<'j>>>),
    /// A model's answer.
    Model(Vec<Option<Ran>>),
}

/// Jobs as the engine takes them.
type Arrivals<'j> = std::iter::Map<std::slice::Iter<'j, FlatJob>, fn(&FlatJob) -> Arrival>;

impl FlatScheduler {
    /// Every one, by the name that users give.
    pub const ALL: [(&'static str, FlatScheduler); 6] = [
        ("fcfs", FlatScheduler::Fcfs),
        ("easy", FlatScheduler::Easy),
        ("conservative", FlatScheduler::Conservative),
        ("sjf", FlatScheduler::Sjf),
        ("easy-sjf", FlatScheduler::EasySjf),
        ("srtf", FlatScheduler::Srtf),
    ];

    /// The name that users give.
    #[must_use]
    pub fn name(self) -> &'static str {
        let own = Self::ALL.iter().find(|(_, scheduler)| *scheduler == self);
        own.map_or("", |(name, _)| name)
    }

    /// The production engine decides.
    #[must_use]
    pub fn is_engine(self) -> bool {
        !matches!(self, FlatScheduler::EasySjf | FlatScheduler::Srtf)
    }

    /// Begins a run over jobs in order of arrival, none wider than the pool.
    ///
    /// # Errors
    /// The engine does not accept the pool.
    pub fn begin(self, procs: u32, jobs: &[FlatJob]) -> Result<Run<'_>, ReplayError> {
        let (backfill, arrival): (_, fn(&FlatJob) -> Arrival) = match self {
            FlatScheduler::Fcfs => (Backfill::None, in_turn),
            FlatScheduler::Easy => (Backfill::Easy, in_turn),
            FlatScheduler::Conservative => (Backfill::Conservative { depth: u32::MAX }, in_turn),
            FlatScheduler::Sjf => (Backfill::None, shortest_first),
            FlatScheduler::EasySjf => {
                return Ok(Run::Model(textbook::easy(procs, jobs, textbook::Passing::ShortestFirst)));
            }
            FlatScheduler::Srtf => return Ok(Run::Model(textbook::srtf(procs, jobs))),
        };
        let tree = QueueTree { backfill, preemption: Preemption::OFF, ..QueueTree::single() };
        Replay::new(tree, [node(procs)], jobs.iter().map(arrival)).map(|replay| Run::Engine(Box::new(replay)))
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The engine does not accept the pool or a job, or has a defect.
    pub fn run(self, procs: u32, jobs: &[FlatJob]) -> Result<Vec<Option<Ran>>, ReplayError> {
        match self.begin(procs, jobs)? {
            Run::Model(ran) => Ok(ran),
            Run::Engine(mut replay) => {
                while replay.step()? {}
                Ok(replay.into_ran())
            }
        }
    }
}

/// The pool as a node.
fn node(procs: u32) -> NodeSpec {
    NodeSpec {
        name: "pool".into(),
        devices: Vec::new(),
        cpus: milli(procs),
        memory: Bytes(0),
        extras: [].into(),
        labels: [].into(),
        domains: Vec::new(),
    }
}

fn milli(procs: u32) -> CpuMilli {
    CpuMilli(procs.saturating_mul(1000))
}

fn in_turn(job: &FlatJob) -> Arrival {
    arrival(job, 0)
}

/// A second more is a step less of priority.
fn shortest_first(job: &FlatJob) -> Arrival {
    arrival(job, -i32::try_from(job.estimate.as_secs()).unwrap_or(i32::MAX))
}

/// The job as the engine takes it: one task as wide as the job, of one user like all others, since who submits plays no part
/// in these policies.
fn arrival(job: &FlatJob, priority: i32) -> Arrival {
    let task = Resources { cpus: milli(job.width), ..Resources::default() };
    let group = TaskGroup::of("main", 1, task);
    let spec = JobSpec {
        priority,
        time_limit: Some(job.estimate),
        ..JobSpec::plain(Arc::clone(&job.id), "all", vec![group])
    };
    Arrival { submit: job.submit, runtime: job.runtime, spec: Arc::new(spec) }
}
