//! Traces: what jobs were submitted somewhere, when, and how long they really ran. One module per format; all of them end in
//! [`TraceJob`]. Text is handed in line by line, so that a trace may be larger than memory; nothing here opens a file.

mod swf;

use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{Span, Time};

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

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Standard Workload Format 2.2 of the Parallel Workloads Archive.
    Swf,
}

impl TraceFormat {
    /// Every format, by the name that users give.
    pub const ALL: [(&str, TraceFormat); 1] = [("swf", TraceFormat::Swf)];
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RowError {
    /// From 1.
    pub line: u64,
    /// A lowercase fragment that names the field.
    pub message: String,
}

/// Reads a trace line by line.
#[derive(Clone, Debug)]
pub struct TraceReader {
    format: TraceFormat,
    line: u64,
    procs: Option<u32>,
}

impl TraceReader {
    /// Before the first line.
    #[must_use]
    pub fn new(format: TraceFormat) -> Self {
        Self { format, line: 0, procs: None }
    }

    /// Takes the next line, without its end. `None` for comments, headers and empty lines.
    ///
    /// # Errors
    /// The row cannot be read; those after it may be.
    pub fn read(&mut self, text: &str) -> Result<Option<TraceJob>, RowError> {
        self.line += 1;
        let row = match self.format {
            TraceFormat::Swf => swf::read(text, &mut self.procs),
        };
        row.map_err(|message| RowError { line: self.line, message })
    }

    /// Processors of the machine, where the header of the trace said so.
    #[must_use]
    pub fn procs(&self) -> Option<u32> {
        self.procs
    }
}
