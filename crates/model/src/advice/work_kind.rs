//! Kinds of jobs that a site may send to different clusters.

use std::fmt;

use crate::job::{JobSpec, WorkloadKind};

/// Kind of a job, by what it needs of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// Jobs of one task.
    Batch,
    /// Arrays whose elements have one task each.
    Arrays,
    /// Jobs of several tasks that start together, and arrays of them.
    Gangs,
    /// Programs that stay up.
    Services,
    /// Interactive sessions that end when they are idle.
    Notebooks,
}

impl WorkKind {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [WorkKind; 5] = [
        WorkKind::Batch,
        WorkKind::Arrays,
        WorkKind::Gangs,
        WorkKind::Services,
        WorkKind::Notebooks,
    ];

    /// Returns the kind of a job.
    #[must_use]
    pub fn of(job: &JobSpec) -> Self {
        match job.kind {
            WorkloadKind::Service(_) => WorkKind::Services,
            WorkloadKind::Notebook(_) => WorkKind::Notebooks,
            WorkloadKind::Task if job.min_tasks() > 1 => WorkKind::Gangs,
            WorkloadKind::Task if job.array.is_some() => WorkKind::Arrays,
            WorkloadKind::Task => WorkKind::Batch,
        }
    }

    /// Returns the field of a site file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WorkKind::Batch => "batch",
            WorkKind::Arrays => "arrays",
            WorkKind::Gangs => "gangs",
            WorkKind::Services => "services",
            WorkKind::Notebooks => "notebooks",
        }
    }

    /// Returns the words for one job of this kind.
    #[must_use]
    pub const fn one(self) -> &'static str {
        match self {
            WorkKind::Batch => "a batch job",
            WorkKind::Arrays => "an array",
            WorkKind::Gangs => "a gang",
            WorkKind::Services => "a service",
            WorkKind::Notebooks => "a notebook",
        }
    }
}

impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
