//! What `muster trace summary` shows: what is in a trace. Wire shapes of `--json`: fields may be
//! added, never renamed or removed (ADR 0003).
//!
//! Values only. They are made in `sim`, and become text in `report`. Amounts are exact integers;
//! time is in milliseconds where it is that of a job, and in seconds where it is summed over many.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A trace in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSummary {
    /// How it is written: `swf`, `philly`, ...
    pub format: String,
    /// Processors of the machine, where the trace says so.
    pub machine_processors: Option<u32>,
    /// What its rows are.
    pub rows: TraceRows,
    /// From when to when.
    pub span: TraceSpan,
    /// What sizes and held time are counted in.
    pub unit: TraceUnit,
    /// All that was held, times how long, in unit-seconds.
    pub held_unit_secs: u64,
    /// Thousandths of a unit that were held on average from the first submit to the last; says
    /// nothing where these are one instant.
    pub mean_load_milli: u64,
    /// Whose jobs they are.
    pub users: TraceNames,
    /// Where they were submitted.
    pub queues: TraceNames,
    /// Jobs by how much they hold, from small to large; sizes without jobs are left out.
    pub sizes: Vec<SizeClass>,
    /// How long jobs ran, in milliseconds.
    pub runtime_ms: Quantiles,
    /// Jobs by how long they ran, from short to long; lengths without jobs between others are
    /// there.
    pub runtimes: Vec<RuntimeClass>,
    /// The time limits that were asked for, in milliseconds.
    pub requested_ms: Quantiles,
    /// Runtimes as a share of what was asked for, in percent.
    pub used_percent: Quantiles,
    /// Jobs that ran longer than they asked for.
    pub over_requested: u64,
    /// How jobs ended.
    pub outcomes: Vec<OutcomeShare>,
    /// When they were submitted.
    pub arrivals: Arrivals,
}

/// What the rows of a trace are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRows {
    /// Jobs that were read.
    pub jobs: u64,
    /// Of them, without a runtime: they never ran, or nobody knows for how long.
    pub without_runtime: u64,
    /// Jobs that stand behind one that was submitted later.
    pub out_of_order: u64,
    /// Rows that cannot be read.
    pub bad: u64,
    /// The first of these.
    pub bad_shown: Vec<BadRow>,
}

/// A row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BadRow {
    /// From 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

/// From when to when a trace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSpan {
    /// First submit, in milliseconds since the trace's zero.
    pub first_submit_ms: u64,
    /// Last submit.
    pub last_submit_ms: u64,
    /// The trace's zero in milliseconds since the epoch; nothing when nobody knows the dates.
    pub zero_ms: Option<u64>,
}

/// What sizes are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceUnit {
    /// GPUs: some job holds one.
    Gpus,
    /// Processors: no job holds a GPU.
    Processors,
}

/// Names of users or queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceNames {
    /// How many there are.
    pub count: u64,
    /// Jobs that have none.
    pub jobs_without: u64,
    /// Those that held most, the most first; at most ten.
    pub top: Vec<NameShare>,
}

/// What one of them has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameShare {
    /// As the trace has it.
    pub name: String,
    /// Its jobs.
    pub jobs: u64,
    /// What they held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Jobs of about one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeClass {
    /// The smallest among them, in thousandths of a unit.
    pub from_milli: u64,
    /// The largest among them.
    pub to_milli: u64,
    /// How many there are.
    pub jobs: u64,
    /// What they held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Jobs that ran about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeClass {
    /// At least so long, in seconds.
    pub from_secs: u64,
    /// Shorter than this; nothing for the longest.
    pub below_secs: Option<u64>,
    /// How many there are.
    pub jobs: u64,
    /// What they held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Exact quantiles by nearest rank: `p95` is the smallest value that at least 95 % of all are not
/// above. Zeros where there are no values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// How many values there are.
    pub count: u64,
    /// Their mean, rounded down.
    pub mean: u64,
    /// The smallest.
    pub min: u64,
    /// 5 %.
    pub p5: u64,
    /// 25 %.
    pub p25: u64,
    /// Half of them.
    pub p50: u64,
    /// 75 %.
    pub p75: u64,
    /// 95 %.
    pub p95: u64,
    /// 99 %.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// Jobs that ended alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeShare {
    /// `completed`, `failed`, `cancelled` or `unknown`.
    pub outcome: String,
    /// How many there are.
    pub jobs: u64,
    /// What they held, in unit-seconds.
    pub held_unit_secs: u64,
}

/// Submits over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrivals {
    /// Jobs by hour of day in UTC, from midnight; empty when nobody knows the dates.
    pub by_hour: Vec<u64>,
    /// Where the first bin starts, in milliseconds since the trace's zero.
    pub from_ms: u64,
    /// Width of a bin, in whole hours.
    pub bin_hours: u64,
    /// Jobs per bin.
    pub jobs: Vec<u64>,
}
