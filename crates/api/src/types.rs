//! Requests and responses of API version 1. Fields may be added, never renamed or removed.

use std::collections::BTreeMap;

use muster_model::notice::NoticeView;
use muster_model::sweep::Sweep;
use muster_model::unit::{GpuMilli, Span, Time};
use muster_model::view::{
    AdvanceReservationView, DaemonCounters, DeviceBar, ElementRow, Explanation, GangView,
    GpuLoadView, GpuUseView, IdleView, JobState, JobView, MetricView, MissingOutput, NodeView,
    QueueView, UsageRow, UsageView,
};
use muster_model::{ElementId, JobId, NodeName, OutputFiles, TaskEnvironment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Information about the daemon that answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DaemonInfo {
    /// Version of the daemon's binary.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Mode of the daemon: `personal` or `system`.
    pub mode: String,
    /// Name of the host that the daemon runs on.
    pub host: String,
    /// Instant at which the daemon started.
    pub started: Time,
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Path of the state directory.
    pub state_dir: String,
    /// Number of declared virtual GPUs; 0 when the GPUs were detected.
    pub virtual_gpus: u32,
    /// Resource limits that are enforced, and those that are conventions; a sentence each.
    pub enforcement: Vec<String>,
    /// Warnings that a user should see (disk full, no GPU found).
    pub warnings: Vec<String>,
    /// Work of the daemon since it started.
    #[serde(default)]
    pub counters: DaemonCounters,
}

/// Submission of the documents of a spec.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct SubmitRequest {
    /// Idempotency key: requests with the same key from the same user are the same submission,
    /// however often they are sent.
    pub key: String,
    /// YAML text with one or more documents.
    pub source: String,
    /// Name of the text in diagnostics; `None` for a default name.
    pub file: Option<String>,
    /// Fields given on the command line, as one more document (JSON object, spec field names) that
    /// overrides every document of `source`.
    #[serde(default)]
    pub overrides: serde_json::Map<String, serde_json::Value>,
    /// File of notices of the submitter, for documents of `source` that have no `notify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_file: Option<NamedText>,
    /// Environment variables of the submitter.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of the files that jobs name in `env-file`, by their names there. The client reads them.
    #[serde(default)]
    pub env_files: BTreeMap<String, BTreeMap<String, String>>,
    /// Working directory of the submitter.
    pub workdir: String,
    /// File mode creation mask of the submitter.
    pub umask: u32,
    /// True when rank 0 gets a pseudo-terminal to attach to.
    #[serde(default)]
    pub interactive: bool,
    /// True to report what would happen, without changing anything.
    #[serde(default)]
    pub dry_run: bool,
}

impl SubmitRequest {
    /// Returns text and name of the file of notices.
    #[must_use]
    pub fn notices(&self) -> Option<(&str, &str)> {
        self.notify_file.as_ref().map(|file| (file.text.as_str(), file.name.as_str()))
    }
}

/// Text of a file of the submitter.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NamedText {
    /// Name of the file in diagnostics.
    pub name: String,
    /// Text of the file.
    pub text: String,
}

/// Response to a [`SubmitRequest`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubmitResponse {
    /// Accepted jobs, in document order.
    pub jobs: Vec<Submitted>,
    /// Warnings about the jobs, for the user.
    pub warnings: Vec<String>,
}

/// Accepted job of a submission.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// Number of the job; for a dry run, the number that it would have got.
    pub job: JobId,
    /// Name of the job.
    pub name: String,
    /// Number of its elements.
    pub elements: u32,
    /// Explanation of what would happen, as `explain` gives it; only for a dry run.
    pub explanation: Option<muster_model::view::Explanation>,
    /// Checked job as the engine would store it; only for a dry run.
    pub resolved: Option<serde_json::Value>,
    /// Submission to the external scheduler, such as a script for sbatch; only for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
}

/// Jobs at an instant.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobList {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Revision of the state, which grows with every change; see `/v1/changes`.
    pub revision: u64,
    /// Jobs in the order of their numbers.
    pub jobs: Vec<JobView>,
    /// Number of jobs that match; absent unless `first` limits the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
}

/// Job with all details.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobDetail {
    /// Job as in the list of jobs.
    pub job: JobView,
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Command of each task group; `None` for users other than the owner and administrators.
    pub commands: Option<BTreeMap<String, String>>,
    /// Working directory; `None` for users other than the owner and administrators.
    pub workdir: Option<String>,
    /// Files for the output that the user names, as absolute patterns; absent when Muster stores
    /// the output, and for other users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<OutputFiles>,
    /// Environment of its program: names and paths, never values; absent where it has none, and for other users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<TaskEnvironment>,
    /// Log file per rank of the current or last attempt of the shown element; empty for other
    /// users.
    pub logs: Vec<String>,
    /// Tasks of that attempt whose stored output has gaps; empty for other users.
    #[serde(default)]
    pub missing_output: Vec<MissingOutput>,
    /// True if it runs a Ray cluster of its own, which `muster ray` looks into; false for other users.
    #[serde(default)]
    pub has_ray: bool,
    /// True if the job is a sweep, and the caller may see its parameters.
    #[serde(default)]
    pub is_sweep: bool,
    /// Instant since which all GPUs of the job have been idle; absent unless that is as long ago as its queue says, by
    /// default half an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Time>,
    /// Use of the GPUs that it has held until about a minute ago; absent if their load was never known, as that of virtual
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_use: Option<GpuUseView>,
    /// Notices about the job, oldest first; empty for other users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
    /// Resource limits of this job that are enforced, and those that are conventions; a sentence
    /// each.
    pub enforcement: Vec<String>,
}

/// Element of a job that an action applies to.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActionRequest {
    /// Index of one element of an array; absent means the whole job.
    pub index: Option<u32>,
}

/// The same action for many jobs, each handled independently: a rejection of one does not affect
/// the others.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// Action to take on each job.
    pub action: BulkAction,
    /// Jobs to act on; at most 10000.
    pub targets: Vec<BulkTarget>,
}

/// Action that can be taken on many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    /// End the jobs in any state.
    Cancel,
    /// Keep the jobs from starting.
    Hold,
    /// Undo a hold of the jobs.
    Release,
    /// Run the jobs again.
    Requeue,
}

/// Job, or one element of it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct BulkTarget {
    /// Number of the job.
    pub job: JobId,
    /// Index of one element of an array; absent means the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// Response to a [`BulkRequest`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BulkResponse {
    /// Results per target, in the order of the request.
    pub results: Vec<BulkResult>,
}

/// Result for one target.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BulkResult {
    /// Number of the job.
    pub job: JobId,
    /// Index of the element; absent for the whole job.
    pub index: Option<u32>,
    /// True when the action was taken, or had been before.
    pub done: bool,
    /// Result of the action, or the reason for the rejection.
    pub message: String,
    /// Code of the rejection, as in `ErrorBody`; absent on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Next steps after a rejection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

impl BulkResult {
    /// Makes the result of a target from the response that it would have got alone.
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

/// Acknowledgement that a task's progress is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavedRequest {
    /// Label of the checkpoint, such as `step 1200`: the last line counts, cut to 128 bytes. May be
    /// empty.
    #[serde(default)]
    pub label: String,
    /// Array index or replica; absent means the only element that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Rank of the task; absent means 0, which acknowledges for its gang unless the job sets `by:
    /// all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// New number of replicas of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleRequest {
    /// Guaranteed replicas, which are protected from preemption.
    #[serde(rename = "floor")]
    pub guaranteed: u32,
    /// Highest number of replicas; those above the guaranteed number run on idle resources.
    #[serde(rename = "ceiling")]
    pub max: u32,
}

/// Response to an action that was taken.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActionResponse {
    /// Result of the action, for users: `cancelled`, `already done`.
    pub message: String,
}

/// Allocations of devices over time.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Devices that exist, in display order.
    pub devices: Vec<(NodeName, u16)>,
    /// Allocations of devices to elements.
    pub bars: Vec<DeviceBar>,
    /// Planned starts of pending elements.
    pub reservations: Vec<PlannedStart>,
}

/// Planned start of a pending element, protected by a reservation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlannedStart {
    /// Id of the element that starts.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Latest start of the element, or, if `predicted`, its expected start.
    pub start: Time,
    /// True where planning goes by predicted run times: a job that runs longer delays the start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
    /// GPUs that it will hold, in thousandths.
    pub gpus: GpuMilli,
}

/// Response to a long poll, sent when the revision differs from `after`, or after `timeout_secs`
/// (at most 60).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangesResponse {
    /// Present revision of the state.
    pub revision: u64,
    /// Present time by the daemon's clock.
    pub now: Time,
}

/// Body of every response that is not 2xx.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Error code: `invalid_request` (not a request of this API), `invalid_spec`, `not_found`,
    /// `forbidden`, `conflict`, `refused`, `busy` (too many connections of this user),
    /// `store_unavailable`, `internal`.
    pub code: String,
    /// Error message, one lowercase fragment.
    pub message: String,
    /// Next steps for the user.
    pub hints: Vec<String>,
    /// Errors in the text and their places; only for `invalid_spec`.
    pub diagnostics: Vec<ErrorDiagnostic>,
}

impl ErrorBody {
    /// Makes the error for a body larger than [`crate::MAX_BODY_BYTES`], which the daemon rejects
    /// and a client does not send.
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
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Queues in that order.
    pub queues: Vec<QueueView>,
}

/// Replacement of the queue tree.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueuesRequest {
    /// Text of a queue file (YAML).
    pub source: String,
    /// Name of the text in diagnostics; `None` for a default name.
    pub file: Option<String>,
}

/// Nodes in the order of joining.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeList {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Nodes in that order.
    pub nodes: Vec<NodeView>,
}

/// Usage per user and queue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UsageList {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Usage, ordered by user and queue.
    pub rows: Vec<UsageView>,
}

/// GPUs with their loads.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GpuLoadList {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// GPUs, by node and index.
    pub gpus: Vec<GpuLoadView>,
    /// Elements of jobs whose GPUs have been idle for as long as their queue says, by default half an hour; by job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<IdleView>,
}

/// Usage in a period.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UsageReport {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Start of the period.
    pub since: Time,
    /// End of the period.
    pub until: Time,
    /// Rows in the order of their GPU-seconds, most first.
    pub rows: Vec<UsageRow>,
}

/// Elements of an array or sweep, by index.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ElementList {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Names of the parameters of a sweep, in the order of the values of its elements.
    pub params: Vec<String>,
    /// Metric of a sweep; `None` when it has none.
    pub metric: Option<MetricView>,
    /// One row for each index, in order.
    pub elements: Vec<ElementRow>,
}

impl ElementList {
    /// Makes the list of the elements of a job. Elements of a sweep get the values of their points.
    #[must_use]
    pub fn new(now: Time, sweep: Option<&Sweep>, mut elements: Vec<ElementRow>) -> Self {
        for row in &mut elements {
            let values = sweep.into_iter().flat_map(|sweep| sweep.values(row.index));
            row.values = values.map(|value| value.to_string()).collect();
        }
        let params = sweep.into_iter().flat_map(|sweep| &sweep.params);
        let metric = sweep.and_then(|sweep| sweep.metric.as_ref());
        Self {
            now,
            params: params.map(|param| param.name.to_string()).collect(),
            metric: metric
                .map(|metric| MetricView { name: metric.name.to_string(), goal: metric.goal }),
            elements,
        }
    }

    /// Returns the elements that failed, by index.
    pub fn failed(&self) -> impl Iterator<Item = &ElementRow> {
        self.elements.iter().filter(|row| row.state == JobState::Failed)
    }
}

/// Explanation of an element, with the clock that its instants refer to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExplainResponse {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Explanation of the element.
    pub explanation: Explanation,
    /// Pods of the element, with `--on kubernetes`; `None` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangView>,
}

/// Drain of a node, or of some of its GPUs: no new jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DrainRequest {
    /// Reason that users see; may be empty.
    #[serde(default)]
    pub reason: String,
    /// GPUs to drain: indices (`3`), ranges (`0-3`) or UUIDs, also the UUID of a GPU that is cut
    /// into MIG slices. Empty means the node as a whole.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// Start of the drain; until then, jobs that end in time still start there.
    #[serde(default)]
    pub at: Option<Time>,
    /// Start of the drain, counted from now. Without `at` and `after` it starts at once.
    #[serde(default)]
    pub after: Option<Span>,
    /// True to stop and requeue jobs that still run at the start of the drain; otherwise they
    /// continue.
    #[serde(default)]
    pub stop: bool,
}

/// End of the drain of a node, or of some of its GPUs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ResumeRequest {
    /// GPUs to resume, as in [`DrainRequest`]. Empty means the node as a whole.
    #[serde(default)]
    pub gpus: Vec<String>,
}

/// Advance reservations by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceReservationList {
    /// Present time by the daemon's clock.
    pub now: Time,
    /// Advance reservations in order.
    pub reservations: Vec<AdvanceReservationView>,
}

/// New advance reservation: nodes or GPUs for some users at given times.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReserveRequest {
    /// Nodes to reserve as a whole: names, or ranges such as `node[01-04]`.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Labels, with their values, that a node must have, on Kubernetes: all nodes with them are reserved
    /// as a whole, in place of `nodes`, or with `gpus`, GPUs of them.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// Number of GPUs to reserve, on any nodes, in place of `nodes`.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// GPU model for `gpus`; any by default.
    #[serde(default)]
    pub gpu: Option<String>,
    /// Users whose jobs may use it.
    #[serde(default)]
    pub users: Vec<String>,
    /// Queues whose jobs, and those of queues below them, may use it. A job needs to match either
    /// `users` or `queues`.
    #[serde(default)]
    pub queues: Vec<String>,
    /// Start of the first occurrence.
    #[serde(default)]
    pub at: Option<Time>,
    /// Start of the first occurrence, counted from now. Without `at` and `after` it starts at once.
    #[serde(default)]
    pub after: Option<Span>,
    /// Length of each occurrence.
    pub length: Span,
    /// Time from one start to the next; by default it does not repeat.
    #[serde(default)]
    pub every: Option<Span>,
    /// Number of occurrences in total; without end by default.
    #[serde(default)]
    pub times: Option<u32>,
    /// Instant from which it no longer starts again; without end by default.
    #[serde(default)]
    pub until: Option<Time>,
    /// True to stop and requeue other jobs that still run at its start; otherwise their resources
    /// cannot be reserved.
    #[serde(default)]
    pub stop: bool,
    /// Purpose that users see; may be empty.
    #[serde(default)]
    pub reason: String,
}

/// Deletion of an advance reservation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DropReservationRequest {}

/// Error in a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDiagnostic {
    /// Error message, one lowercase fragment.
    pub message: String,
    /// Line in the source, from 1; 0 when the error has no place in the source.
    pub line: u32,
    /// Column in the line, from 1; 0 when the error has no place in the source.
    pub column: u32,
    /// Complete error message as text with source lines and hint, without colour.
    pub rendered: String,
}
