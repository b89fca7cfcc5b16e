//! What a row of a trace becomes in a replay: a job of the engine, with the time limit that its user would have given.

use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{
    CpuMilli, JobSpec, Kind, NodeConstraint, NodeSpec, PayloadId, Protection, QueueName, Restart, Span,
    TaskGroup, Tier, UserName,
};
use muster_spec::TraceJob;

use super::Arrival;

/// Whose word is taken for how long a job will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimates {
    /// The user's. Where there is none, the true runtime.
    Requested,
    /// Nobody's: it is known.
    Actual,
}

/// So many processors (or GPUs) that are all alike and in one place: what backfilling is defined on in the literature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatPool {
    /// How many.
    pub procs: u32,
    /// How long jobs are believed to run.
    pub estimates: Estimates,
}

impl FlatPool {
    /// The pool as a node.
    #[must_use]
    pub fn node(&self) -> NodeSpec {
        NodeSpec {
            name: "pool".into(),
            devices: Vec::new(),
            cpus: CpuMilli(self.procs * 1000),
            memory: muster_model::Bytes(0),
            extras: [].into(),
            labels: [].into(),
            domains: Vec::new(),
        }
    }

    /// How many processors a job takes: its GPUs where it has any, in whole ones, else its tasks' CPUs.
    #[must_use]
    pub fn width(job: &TraceJob) -> u64 {
        let gpus = u64::from(job.tasks) * u64::from(job.task.gpu.milli().0);
        let cpus = u64::from(job.tasks) * u64::from(job.task.cpus.0);
        let milli = if gpus > 0 { gpus } else { cpus };
        milli.div_ceil(1000).max(1)
    }

    /// The job as the engine takes it: one task as wide as the job, of one user like all others, since who submits plays
    /// no part in these policies. `None` when it never ran or is wider than the pool.
    #[must_use]
    pub fn arrival(&self, job: &TraceJob) -> Option<Arrival> {
        let runtime = job.runtime?;
        let width = u32::try_from(Self::width(job)).ok().filter(|width| *width <= self.procs)?;
        let limit = match self.estimates {
            Estimates::Requested => job.requested.unwrap_or(runtime),
            Estimates::Actual => runtime,
        };
        let task = Resources { cpus: CpuMilli(width * 1000), ..Resources::default() };
        Some(Arrival {
            submit: job.submit,
            // Who promised less is ended at the limit.
            runtime: runtime.min(limit),
            spec: Arc::new(spec(job.id.clone(), task, limit)),
        })
    }
}

fn spec(name: Arc<str>, task: Resources, limit: Span) -> JobSpec {
    JobSpec {
        name,
        user: UserName::from("all"),
        queue: QueueName::from("default"),
        priority: 0,
        groups: vec![TaskGroup {
            name: "main".into(),
            min_tasks: 1,
            max_tasks: 1,
            tasks_per_node: None,
            task,
        }],
        time_limit: Some(limit),
        grace: Span(0),
        constraint: NodeConstraint::default(),
        array: None,
        after: Vec::new(),
        restart: Restart::NEVER,
        checkpoint: None,
        held: false,
        begin: None,
        protect: Protection::None,
        payload: PayloadId(0),
        kind: Kind::Task,
        tier: Tier::Usual,
        grow_after: None,
    }
}
