//! Schedulers of a flat pool: the production engine under a policy with a name in the literature,
//! or a textbook model of what the engine does not implement.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::queue::{Backfill, PlannedRuntimes, Preemption};
use muster_model::{Bytes, CpuMilli, NodeSpec, QueueName, QueueTree, UserName};

use super::{FlatJob, RunInterval};
use crate::fleet::{
    EngineScheduler, Failures, Fleet, FleetJob, FleetSite, JobNo, SchedulerError, StopCosts,
};
use crate::peers::textbook;

/// A scheduler of a flat pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatScheduler {
    /// First come, first served, without backfilling.
    Fcfs,
    /// EASY backfilling: a job may pass others if it does not delay the first pending one (Lifka
    /// 1995).
    Easy,
    /// Conservative backfilling: a job may pass others if it delays no pending job.
    Conservative,
    /// Shortest estimate first, without backfilling.
    Sjf,
    /// EASY that tries shorter jobs first (Tsafrir, Etsion and Feitelson 2007).
    EasySjf,
    /// Shortest remaining time first: others are suspended for it at no cost.
    Srtf,
}

/// A run on the engine, or the finished result of a model.
#[derive(Debug)]
pub enum FlatRun {
    /// A run of the production engine, to be stepped to its end.
    Engine(Box<Fleet>),
    /// Intervals of all jobs under a model.
    Model(Vec<Option<RunInterval>>),
}

impl FlatScheduler {
    /// All schedulers by the names that users write.
    pub const ALL: [(&'static str, FlatScheduler); 6] = [
        ("fcfs", FlatScheduler::Fcfs),
        ("easy", FlatScheduler::Easy),
        ("conservative", FlatScheduler::Conservative),
        ("sjf", FlatScheduler::Sjf),
        ("easy-sjf", FlatScheduler::EasySjf),
        ("srtf", FlatScheduler::Srtf),
    ];

    /// Returns the name that users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        let own = Self::ALL.iter().find(|(_, scheduler)| *scheduler == self);
        own.map_or("", |(name, _)| name)
    }

    /// Returns whether the production engine schedules.
    #[must_use]
    pub fn is_engine(self) -> bool {
        !matches!(self, FlatScheduler::EasySjf | FlatScheduler::Srtf)
    }

    /// Begins a run over jobs in order of arrival, none wider than the pool.
    ///
    /// # Errors
    /// The engine rejects the pool.
    pub fn begin(self, procs: u32, jobs: &[FlatJob]) -> Result<FlatRun, SchedulerError> {
        let backfill = match self {
            FlatScheduler::Fcfs | FlatScheduler::Sjf => Backfill::None,
            FlatScheduler::Easy => Backfill::Easy,
            FlatScheduler::Conservative => Backfill::Conservative { depth: u32::MAX },
            FlatScheduler::EasySjf => {
                return Ok(FlatRun::Model(textbook::easy(
                    procs,
                    jobs,
                    textbook::Passing::ShortestFirst,
                )));
            }
            FlatScheduler::Srtf => return Ok(FlatRun::Model(textbook::srtf(procs, jobs))),
        };
        let is_predicted = jobs.iter().any(|job| job.predicted_by.is_some());
        let estimates =
            if is_predicted { PlannedRuntimes::Predicted } else { PlannedRuntimes::Requested };
        let tree =
            QueueTree { backfill, estimates, preemption: Preemption::OFF, ..QueueTree::single() };
        let site = FleetSite { nodes: vec![node(procs)], levels: Vec::new(), tree };
        let in_turn = |_: &FlatJob| 0;
        let jobs = match self {
            FlatScheduler::Sjf => fleet_jobs(jobs, shortest_first),
            _ => fleet_jobs(jobs, in_turn),
        };
        let engine = Box::new(EngineScheduler::new(&site)?);
        let fleet = Fleet::new(&site, engine, jobs, StopCosts::default(), Failures::default());
        Ok(FlatRun::Engine(Box::new(fleet)))
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The engine rejects the pool or a job, or has a defect.
    pub fn run(
        self,
        procs: u32,
        jobs: &[FlatJob],
    ) -> Result<Vec<Option<RunInterval>>, SchedulerError> {
        match self.begin(procs, jobs)? {
            FlatRun::Model(intervals) => Ok(intervals),
            FlatRun::Engine(mut fleet) => {
                while fleet.step()? {}
                Ok(run_intervals(&fleet, jobs))
            }
        }
    }
}

/// Returns the pool as one node.
fn node(procs: u32) -> NodeSpec {
    NodeSpec::plain("pool", milli(procs), Bytes(0))
}

fn milli(procs: u32) -> CpuMilli {
    CpuMilli(procs.saturating_mul(1000))
}

/// Returns a priority that is lower by one for each second of the estimate.
fn shortest_first(job: &FlatJob) -> i32 {
    -i32::try_from(job.estimate.as_secs()).unwrap_or(i32::MAX)
}

/// Converts jobs for a fleet: one task as wide as the job, all of one user, since these policies
/// ignore users.
fn fleet_jobs(jobs: &[FlatJob], priority: impl Fn(&FlatJob) -> i32) -> Vec<FleetJob> {
    let mut tasks: BTreeMap<u32, Arc<Resources>> = BTreeMap::new();
    let user = UserName::from("all");
    let queue = QueueName::from("default");
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
        recorded_start: None,
        predicted_by: job.predicted_by.clone(),
    };
    jobs.iter().map(fleet_job).collect()
}

/// Returns when each job ran; the end of a running one is in the future. `None` for a job that has
/// not begun.
#[must_use]
pub fn run_intervals(fleet: &Fleet, jobs: &[FlatJob]) -> Vec<Option<RunInterval>> {
    let arrived = fleet.cluster().jobs().len();
    let interval = |(at, job): (usize, &FlatJob)| {
        let start = fleet.cluster().status(JobNo(at as u32)).began?;
        Some(RunInterval { start, end: start + job.runtime })
    };
    let mut intervals: Vec<_> = jobs.iter().enumerate().take(arrived).map(interval).collect();
    intervals.resize(jobs.len(), None);
    intervals
}
