//! Who decides on a flat pool: the production engine under a policy that the literature has a name
//! for, or, for what the engine does not do, a model after the textbook.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::queue::{Backfill, Preemption};
use muster_model::{Bytes, CpuMilli, NodeSpec, QueueName, QueueTree, UserName};

use super::{FlatJob, Ran};
use crate::fleet::{EnginePlane, Failures, Fleet, FleetJob, JobNo, PlaneError, Site, Terms};
use crate::peers::textbook;

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
pub enum Run {
    /// The production engine, to be stepped to its end.
    Engine(Box<Fleet>),
    /// A model's answer.
    Model(Vec<Option<Ran>>),
}

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
    pub fn begin(self, procs: u32, jobs: &[FlatJob]) -> Result<Run, PlaneError> {
        let backfill = match self {
            FlatScheduler::Fcfs | FlatScheduler::Sjf => Backfill::None,
            FlatScheduler::Easy => Backfill::Easy,
            FlatScheduler::Conservative => Backfill::Conservative { depth: u32::MAX },
            FlatScheduler::EasySjf => {
                return Ok(Run::Model(textbook::easy(
                    procs,
                    jobs,
                    textbook::Passing::ShortestFirst,
                )));
            }
            FlatScheduler::Srtf => return Ok(Run::Model(textbook::srtf(procs, jobs))),
        };
        let tree = QueueTree { backfill, preemption: Preemption::OFF, ..QueueTree::single() };
        let site = Site { nodes: vec![node(procs)], levels: Vec::new(), tree };
        let in_turn = |_: &FlatJob| 0;
        let jobs = match self {
            FlatScheduler::Sjf => fleet_jobs(jobs, shortest_first),
            _ => fleet_jobs(jobs, in_turn),
        };
        let plane = Box::new(EnginePlane::new(&site)?);
        let fleet = Fleet::new(&site, plane, jobs, Terms::default(), Failures::default());
        Ok(Run::Engine(Box::new(fleet)))
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The engine does not accept the pool or a job, or has a defect.
    pub fn run(self, procs: u32, jobs: &[FlatJob]) -> Result<Vec<Option<Ran>>, PlaneError> {
        match self.begin(procs, jobs)? {
            Run::Model(ran) => Ok(ran),
            Run::Engine(mut fleet) => {
                while fleet.step()? {}
                Ok(ran(&fleet, jobs))
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

/// A second more is a step less of priority.
fn shortest_first(job: &FlatJob) -> i32 {
    -i32::try_from(job.estimate.as_secs()).unwrap_or(i32::MAX)
}

/// The jobs as a fleet takes them: one task as wide as the job, of one user like all others, since
/// who submits plays no part in these policies.
fn fleet_jobs(jobs: &[FlatJob], priority: impl Fn(&FlatJob) -> i32) -> Vec<FleetJob> {
    let mut tasks: BTreeMap<u32, Arc<Resources>> = BTreeMap::new();
    let (user, queue) = (UserName::from("all"), QueueName::from("default"));
    let fleet_job = |job: &FlatJob| FleetJob {
        id: Arc::clone(&job.id),
        submit: job.submit,
        runtime: job.runtime,
        estimate: Some(job.estimate),
        tasks: 1,
        task: Arc::clone(tasks.entry(job.width).or_insert_with(|| {
            Arc::new(Resources { cpus: milli(job.width), ..Resources::default() })
        })),
        asked_milli: 0,
        user: user.clone(),
        queue: queue.clone(),
        priority: priority(job),
        fewest_nodes: 1,
    };
    jobs.iter().map(fleet_job).collect()
}

/// When each job ran; the end of one that runs lies ahead. `None` for one that has not begun.
#[must_use]
pub fn ran(fleet: &Fleet, jobs: &[FlatJob]) -> Vec<Option<Ran>> {
    let arrived = fleet.desk().jobs().len();
    let ran = |(at, job): (usize, &FlatJob)| {
        let start = fleet.desk().fate(JobNo(at as u32)).began?;
        Some(Ran { start, end: start + job.runtime })
    };
    let mut ran: Vec<_> = jobs.iter().enumerate().take(arrived).map(ran).collect();
    ran.resize(jobs.len(), None);
    ran
}
