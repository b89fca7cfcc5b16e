//! Requests and responses of API version 1. Fields may be added, never renamed or removed.

use std::collections::BTreeMap;

use muster_model::unit::{GpuMilli, Span, Time};
use muster_model::view::{
    Bar, Explanation, JobView, MissingOutput, NodeView, QueueView, UsageView, WindowView,
};
use muster_model::{ElementId, JobId, NodeName, OutputFiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DaemonInfo {
    /// Version of the daemon's binary.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// `personal` or `system`.
    pub mode: String,
    /// Host it runs on.
    pub host: String,
    /// When it started.
    pub started: Time,
    /// Its clock.
    pub now: Time,
    /// State directory.
    pub state_dir: String,
    /// Number of declared virtual GPUs; 0 when the GPUs were found.
    pub virtual_gpus: u32,
    /// What is isolation and what is convention, a sentence each.
    pub enforcement: Vec<String>,
    /// Warnings that a user should see (a full disk, no GPU found).
    pub warnings: Vec<String>,
}

/// Submits the documents of a spec.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct SubmitRequest {
    /// Idempotency key: the same key from the same user is the same submission, however often it is
    /// sent.
    pub key: String,
    /// YAML text, one or more documents.
    pub source: String,
    /// What to call the text in diagnostics.
    pub file: Option<String>,
    /// Fields given on the command line, as one more document (JSON object, spec field names) that
    /// overrides every document of `source`.
    #[serde(default)]
    pub overrides: serde_json::Map<String, serde_json::Value>,
    /// The submitter's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The submitter's working directory.
    pub workdir: String,
    /// The submitter's file mode creation mask.
    pub umask: u32,
    /// Rank 0 gets a pseudo-terminal to attach to.
    #[serde(default)]
    pub interactive: bool,
    /// Answer what would happen and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Answer to [`SubmitRequest`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubmitResponse {
    /// In document order.
    pub jobs: Vec<Submitted>,
    /// Things the user should know.
    pub warnings: Vec<String>,
}

/// One accepted job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// Its number; for a dry run, the number it would have had.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Elements.
    pub elements: u32,
    /// Dry run only: what would happen, as `explain` would say it.
    pub explanation: Option<muster_model::view::Explanation>,
    /// Dry run only: the checked job as the engine would hold it.
    pub resolved: Option<serde_json::Value>,
    /// Dry run only: what would be handed on to a queue that decides by itself, such as a script
    /// for sbatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
}

/// Jobs, and when they looked like this.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobList {
    /// Daemon's clock.
    pub now: Time,
    /// Grows with every change; see `/v1/changes`.
    pub revision: u64,
    /// In order of job number.
    pub jobs: Vec<JobView>,
    /// How many jobs match, where `first` bounded the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
}

/// One job in full.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobDetail {
    /// The row.
    pub job: JobView,
    /// Daemon's clock.
    pub now: Time,
    /// What it runs, per group; `None` to others than its owner and admins.
    pub commands: Option<BTreeMap<String, String>>,
    /// Working directory; `None` to others than its owner and admins.
    pub workdir: Option<String>,
    /// Files that its user named for its output, as absolute patterns; absent where Muster keeps
    /// the output, and to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<OutputFiles>,
    /// Log file per rank of the current or last attempt of the shown element; empty to others.
    pub logs: Vec<String>,
    /// Tasks of that attempt whose output is not all there; empty to others.
    #[serde(default)]
    pub missing_output: Vec<MissingOutput>,
    /// What is isolation and what is convention for this job, a sentence each.
    pub enforcement: Vec<String>,
}

/// Which element of a job an action is about.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActionRequest {
    /// One element of an array; absent means the whole job.
    pub index: Option<u32>,
}

/// Does the same to many jobs, to each on its own: what is refused for one is done for the others.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// What to do.
    pub action: BulkAction,
    /// To which jobs; at most 10000.
    pub targets: Vec<BulkTarget>,
}

/// What can be done to many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    /// End them.
    Cancel,
    /// Keep them from starting.
    Hold,
    /// Undo a hold.
    Release,
    /// Run them again.
    Requeue,
}

/// A job or one element of it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct BulkTarget {
    /// Its number.
    pub job: JobId,
    /// One element of an array; absent means the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// Answer to [`BulkRequest`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BulkResponse {
    /// One for each target, in the order of the request.
    pub results: Vec<BulkResult>,
}

/// The result of one target.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BulkResult {
    /// Its number.
    pub job: JobId,
    /// One element of it.
    pub index: Option<u32>,
    /// It was done, or was so already.
    pub done: bool,
    /// What it came to, or why not.
    pub message: String,
    /// Of a refusal: the code of an `ErrorBody`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What to do about a refusal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

impl BulkResult {
    /// Makes the result of a target from the answer that it would have got on its own.
    #[must_use]
    pub fn of(target: BulkTarget, answer: Result<ActionResponse, ErrorBody>) -> Self {
        let BulkTarget { job, index } = target;
        let (done, message, code, hints) = match answer {
            Ok(answer) => (true, answer.message, None, Vec::new()),
            Err(error) => (false, error.message, Some(error.code), error.hints),
        };
        Self { job, index, done, message, code, hints }
    }
}

/// A task's progress is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavedRequest {
    /// What was saved, such as `step 1200`: its last line counts, cut to 128 bytes. May be empty.
    #[serde(default)]
    pub label: String,
    /// Array index or replica; absent: the only element that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Rank of the task; absent: 0, which speaks for its gang unless the job says `by: all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// How many replicas a service is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleRequest {
    /// So many are its own.
    pub floor: u32,
    /// At most so many; those above the floor run in what is idle.
    pub ceiling: u32,
}

/// An action was taken.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActionResponse {
    /// What it came to, for people: `cancelled`, `already done`.
    pub message: String,
}

/// Who held what when.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Daemon's clock.
    pub now: Time,
    /// Devices that exist, in display order.
    pub devices: Vec<(NodeName, u16)>,
    /// Bars.
    pub bars: Vec<Bar>,
    /// Reserved starts.
    pub reservations: Vec<PlannedStart>,
}

/// A reserved future start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlannedStart {
    /// Who.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// When, at the latest.
    pub start: Time,
    /// GPUs it will hold.
    pub gpus: GpuMilli,
}

/// Long poll: answers when the revision has passed `after`, or after `timeout_secs` (at most 60).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Present revision.
    pub revision: u64,
    /// Daemon's clock.
    pub now: Time,
}

/// Body of every answer that is not 2xx.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Stable word: `invalid_request` (not a request of this API), `invalid_spec`, `not_found`,
    /// `forbidden`, `conflict`, `refused`, `busy` (too many connections of this user),
    /// `store_unavailable`, `internal`.
    pub code: String,
    /// One lowercase fragment.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
    /// For `invalid_spec`: where.
    pub diagnostics: Vec<Diagnostic>,
}

impl ErrorBody {
    /// The refusal of a body larger than [`crate::MAX_BODY_BYTES`]: of the daemon, and of a client
    /// that does not send what it knows will be refused.
    #[must_use]
    pub fn too_large() -> Self {
        Self {
            code: "invalid_request".to_owned(),
            message: format!("the body is larger than {} MiB", crate::MAX_BODY_BYTES >> 20),
            hints: vec![
                "submit fewer jobs at a time, and keep data in files that the job reads".to_owned(),
            ],
            diagnostics: Vec::new(),
        }
    }
}

/// Queues, parents before children.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueueList {
    /// Daemon's clock.
    pub now: Time,
    /// Rows.
    pub queues: Vec<QueueView>,
}

/// Replaces the queue tree.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueuesRequest {
    /// Text of a queue file (YAML).
    pub source: String,
    /// What to call the text in diagnostics.
    pub file: Option<String>,
}

/// Nodes, in order of joining.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeList {
    /// Daemon's clock.
    pub now: Time,
    /// Rows.
    pub nodes: Vec<NodeView>,
}

/// Usage per user and queue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UsageList {
    /// Daemon's clock.
    pub now: Time,
    /// Rows, by user and queue.
    pub rows: Vec<UsageView>,
}

/// Why an element waits, with the clock its instants are on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// Daemon's clock.
    pub now: Time,
    /// The explanation.
    pub explanation: Explanation,
}

/// Takes a node, or some of its GPUs, out of service for new work.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DrainRequest {
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
    /// Only these GPUs: indices (`3`), ranges (`0-3`) or UUIDs, also that of a GPU that MIG slices
    /// were cut from. Empty is the node as a whole.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// From this instant on; until then, what ends in time still starts there.
    #[serde(default)]
    pub at: Option<Time>,
    /// The same, counted from now. Without both, at once.
    #[serde(default)]
    pub after: Option<Span>,
    /// What runs there at that instant is stopped and queued again; without it, it goes on.
    #[serde(default)]
    pub stop: bool,
}

/// Takes a node, or some of its GPUs, back.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ResumeRequest {
    /// Only these GPUs, as in [`DrainRequest`]. Empty is the node as a whole.
    #[serde(default)]
    pub gpus: Vec<String>,
}

/// Advance reservations, by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowList {
    /// Daemon's clock.
    pub now: Time,
    /// Rows.
    pub reservations: Vec<WindowView>,
}

/// Sets nodes or GPUs aside for some users over a stretch of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReserveRequest {
    /// These nodes as a whole: names, or ranges such as `node[01-04]`.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Or so many GPUs, wherever they are free then.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// Of this model; any by default.
    #[serde(default)]
    pub gpu: Option<String>,
    /// Whose jobs may name it.
    #[serde(default)]
    pub users: Vec<String>,
    /// Queues whose jobs may name it, those of queues below them included; a job of either is
    /// enough.
    #[serde(default)]
    pub queues: Vec<String>,
    /// When it begins.
    #[serde(default)]
    pub at: Option<Time>,
    /// The same, counted from now. Without both, at once.
    #[serde(default)]
    pub after: Option<Span>,
    /// How long it is open.
    pub length: Span,
    /// From one beginning to the next; just once by default.
    #[serde(default)]
    pub every: Option<Span>,
    /// How many times in all; for ever by default.
    #[serde(default)]
    pub times: Option<u32>,
    /// The same by time: it does not begin again at or after this instant.
    #[serde(default)]
    pub until: Option<Time>,
    /// What of others is still there when it begins is stopped and queued again; without it, that
    /// stands against it.
    #[serde(default)]
    pub stop: bool,
    /// What for.
    #[serde(default)]
    pub reason: String,
}

/// Takes an advance reservation back.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DropReservationRequest {}

/// One complaint about a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// What is wrong, one lowercase fragment.
    pub message: String,
    /// Line in the source, from 1; 0 when it is not about a place in the source.
    pub line: u32,
    /// Column, from 1; 0 likewise.
    pub column: u32,
    /// The whole complaint as text with its source lines and hint, without colour.
    pub rendered: String,
}
