//! Traces: records of the jobs of a cluster, with their submit times and actual runtimes. One
//! module per format; all of them produce [`TraceJob`]. Text is passed in line by line, so that a
//! trace may be larger than memory; nothing here opens a file.

mod csv;
mod format;
mod helios;
mod ids;
mod json;
mod kube;
mod muster;
mod names;
pub mod openb;
mod philly;
mod reader;
mod slurm;
mod slurm_json;
mod swf;
mod value;

use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{Span, Time};

pub use format::TraceFormat;
pub use ids::DuplicateIds;
pub use muster::{TRACE_HEADER, write_trace_job};
pub use reader::{TraceReader, TraceRefusal};

/// A job as a trace records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceJob {
    /// Id in the trace.
    pub id: Arc<str>,
    /// Submit time, since the trace's own zero or the epoch.
    pub submit: Time,
    /// Actual runtime; `None` if it never ran, or if it is unknown.
    pub runtime: Option<Span>,
    /// Time at which it started, as recorded: of a job that was restarted, the last start, or the
    /// first where the format has every attempt. `None` if it never started, or if it is unknown.
    pub started: Option<Time>,
    /// Time limit that its user requested; `None` for none, or if it is unknown.
    pub requested: Option<Span>,
    /// Number of tasks that must run together, at least 1.
    pub tasks: u32,
    /// Resources of each task.
    pub task: Resources,
    /// User who submitted it; `None` if it is unknown.
    pub user: Option<Arc<str>>,
    /// Queue, partition or virtual cluster that it was submitted to; `None` if it is unknown.
    pub queue: Option<Arc<str>>,
    /// Priority, higher first; 0 if it is unknown, or in numbers specific to the original
    /// scheduler.
    pub priority: i32,
    /// End state of the job.
    pub ended: JobEnd,
}

/// Error of a row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RowError {
    /// Number of the line, from 1.
    pub line: u64,
    /// Lowercase fragment that names the field.
    pub message: String,
}

/// End state of a job of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobEnd {
    /// Ended without an error.
    Completed,
    /// Ended with an error, by a lost node, or at its time limit.
    Failed,
    /// Ended by a user, an administrator or the scheduler.
    Cancelled,
    /// Not recorded in the trace.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all jobs of a text, and the errors of unreadable rows.
    pub(super) fn jobs(format: TraceFormat, text: &str) -> (Vec<TraceJob>, Vec<String>) {
        let mut jobs = Vec::new();
        let mut bad = Vec::new();
        let mut reader = TraceReader::new(format);
        let mut found = |row: Result<TraceJob, RowError>| match row {
            Ok(job) => jobs.push(job),
            Err(error) => bad.push(error.to_string()),
        };
        for line in text.lines() {
            reader.read(line, &mut found).unwrap();
        }
        reader.finish(&mut found).unwrap();
        (jobs, bad)
    }
}
