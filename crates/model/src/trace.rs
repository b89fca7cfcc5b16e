//! Output of `muster trace summary`: statistics of a trace. Wire format of `--json`: fields may be
//! added, never renamed or removed (ADR 0003).
//!
//! This module holds only values, which `sim` computes and `report` prints. Amounts are exact
//! integers; times of jobs are in milliseconds, sums over many jobs in seconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Summary of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSummary {
    /// Format of the trace: `swf`, `philly`, ...
    pub format: String,
    /// Processors of the machine; `None` when the trace does not tell.
    pub machine_processors: Option<u32>,
    /// Counts of the trace's rows.
    pub rows: TraceRows,
    /// Period that the trace covers.
    pub span: TraceSpan,
    /// Unit of sizes and of held time.
    pub unit: TraceUnit,
    /// Sum over all jobs of held units times run time, in unit-seconds.
    pub held_unit_secs: u64,
    /// Units held on average from the first submission to the last, in thousandths; meaningless
    /// when these are the same instant.
    pub mean_load_milli: u64,
    /// Users that submitted the jobs.
    pub users: TraceNames,
    /// Queues that the jobs were submitted to.
    pub queues: TraceNames,
    /// Jobs by size, ascending; sizes without jobs are left out.
    pub sizes: Vec<SizeClass>,
    /// Run times of the jobs, in milliseconds.
    pub runtime_ms: Quantiles,
    /// Jobs by run time, ascending; classes without jobs are included between others.
    pub runtimes: Vec<RuntimeClass>,
    /// Requested time limits, in milliseconds.
    pub requested_ms: Quantiles,
    /// Run times as a percentage of the requested time limits.
    pub used_percent: Quantiles,
    /// Number of jobs that ran longer than their requested time limit.
    pub over_requested: u64,
    /// Number of jobs by outcome.
    pub outcomes: Vec<OutcomeShare>,
    /// Number of submissions over time.
    pub arrivals: Arrivals,
}

/// Counts of a trace's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRows {
    /// Number of jobs read.
    pub jobs: u64,
    /// Jobs without a run time: they never ran, or the trace does not tell for how long.
    pub without_runtime: u64,
    /// Jobs that follow one with a later submission.
    pub out_of_order: u64,
    /// Jobs with the id of an earlier one, which are counted like all others; in traces of Slurm, with the same
    /// submission, too.
    #[serde(default)]
    pub duplicate_ids: u64,
    /// Rows that cannot be parsed.
    pub bad: u64,
    /// First of the rows that cannot be parsed.
    pub bad_shown: Vec<BadRow>,
}

/// Row that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BadRow {
    /// Line of the trace, from 1.
    pub line: u64,
    /// Error message of the parser.
    pub message: String,
}

/// Period that a trace covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSpan {
    /// First submission, in milliseconds since the trace's zero.
    pub first_submit_ms: u64,
    /// Last submission, in milliseconds since the trace's zero.
    pub last_submit_ms: u64,
    /// The trace's zero in milliseconds since the Unix epoch; `None` when the trace has no dates.
    pub zero_ms: Option<u64>,
}

/// Unit of sizes in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceUnit {
    /// GPUs: at least one job holds one.
    Gpus,
    /// Processors: no job holds a GPU.
    Processors,
}

/// Statistics over the users or queues of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceNames {
    /// Number of distinct names.
    pub count: u64,
    /// Jobs without a name of this kind.
    pub jobs_without: u64,
    /// Names with the most held unit-seconds, descending; at most ten.
    pub top: Vec<NameShare>,
}

/// Share of one user or queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameShare {
    /// Name as in the trace.
    pub name: String,
    /// Number of its jobs.
    pub jobs: u64,
    /// Resources that its jobs held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Jobs of similar size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeClass {
    /// Smallest size in the class, in thousandths of a unit.
    pub from_milli: u64,
    /// Largest size in the class, in thousandths of a unit.
    pub to_milli: u64,
    /// Number of jobs in the class.
    pub jobs: u64,
    /// Resources that they held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Jobs of similar run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeClass {
    /// Lower bound of the run time in seconds, included.
    pub from_secs: u64,
    /// Upper bound in seconds, excluded; `None` for the longest class.
    pub below_secs: Option<u64>,
    /// Number of jobs in the class.
    pub jobs: u64,
    /// Resources that they held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Exact quantiles by nearest rank: `p95` is the smallest value that at least 95 % of all values do
/// not exceed. All zero when there are no values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Number of values that the quantiles are over.
    pub count: u64,
    /// Mean of the values, rounded down.
    pub mean: u64,
    /// Smallest of the values.
    pub min: u64,
    /// Quantile at 5 %.
    pub p5: u64,
    /// Quantile at 25 %.
    pub p25: u64,
    /// Median (50 % quantile).
    pub p50: u64,
    /// Quantile at 75 %.
    pub p75: u64,
    /// Quantile at 95 %.
    pub p95: u64,
    /// Quantile at 99 %.
    pub p99: u64,
    /// Largest of the values.
    pub max: u64,
}

/// Jobs with one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeShare {
    /// Outcome: `completed`, `failed`, `cancelled` or `unknown`.
    pub outcome: String,
    /// Number of jobs with the outcome.
    pub jobs: u64,
    /// Resources that they held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Number of submissions over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrivals {
    /// Jobs by hour of day in UTC, from midnight; empty when the trace has no dates.
    pub by_hour: Vec<u64>,
    /// Start of the first bin, in milliseconds since the trace's zero.
    pub from_ms: u64,
    /// Width of a bin, in whole hours.
    pub bin_hours: u64,
    /// Number of jobs per bin.
    pub jobs: Vec<u64>,
}
