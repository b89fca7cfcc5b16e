//! Traces: what jobs were submitted somewhere, when, and how long they really ran. One module per
//! format; all of them end in [`TraceJob`]. Text is handed in line by line, so that a trace may be
//! larger than memory; nothing here opens a file.

mod csv;
mod format;
mod helios;
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
pub use muster::{TRACE_HEADER, write_trace_job};
pub use reader::{RowError, TraceReader, TraceRefusal};

/// A job as a trace records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceJob {
    /// As the trace calls it.
    pub id: Arc<str>,
    /// When it was submitted, since the trace's own zero or the epoch.
    pub submit: Time,
    /// How long it really ran; `None` when it never did, or nobody knows.
    pub runtime: Option<Span>,
    /// The time limit that its user asked for.
    pub requested: Option<Span>,
    /// Tasks that must run together, at least 1.
    pub tasks: u32,
    /// What each of them holds.
    pub task: Resources,
    /// Whose it is; `None` where the trace does not say.
    pub user: Option<Arc<str>>,
    /// The queue, partition or virtual cluster that it was submitted to.
    pub queue: Option<Arc<str>>,
    /// Higher goes first; 0 where the trace does not say, or says it in numbers that only its own
    /// scheduler understands.
    pub priority: i32,
    /// How it ended.
    pub ended: Ended,
}

/// How a job of a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ended {
    /// With success.
    Completed,
    /// With an error, a lost node or out of time.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// The trace does not say.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All jobs of a text, and what is wrong with the others.
    pub(super) fn jobs(format: TraceFormat, text: &str) -> (Vec<TraceJob>, Vec<String>) {
        let (mut jobs, mut bad) = (Vec::new(), Vec::new());
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
