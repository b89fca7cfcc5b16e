//! Traces: what jobs were submitted somewhere, when, and how long they really ran. One module per format; all of them end in
//! [`TraceJob`]. Text is handed in line by line, so that a trace may be larger than memory; nothing here opens a file.

mod format;
mod reader;
mod swf;

use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{Span, Time};

pub use format::TraceFormat;
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
