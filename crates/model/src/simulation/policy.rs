//! Protocol of an external policy of a simulation: at every instant a line of JSON with the state,
//! and a line with the decisions. Times are milliseconds of the trace. Values only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of the cluster at an instant, after what happened then and before any decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyState {
    /// Time of this state, since the zero of the trace.
    pub now_ms: u64,
    /// Nodes, in the order of the cluster file.
    pub nodes: Vec<PolicyNode>,
    /// Pending jobs, in order of arrival.
    pub pending: Vec<PolicyJob>,
    /// Running jobs, in order of arrival.
    pub running: Vec<PolicyRun>,
    /// Events since the last state.
    pub since: PolicyEvents,
}

/// Node and its free resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyNode {
    /// Name of the node.
    pub name: String,
    /// True when the node is in service.
    pub is_up: bool,
    /// Model of each GPU, by index.
    pub models: Vec<String>,
    /// Indices of the free GPUs.
    pub free: Vec<u16>,
    /// Free CPUs in thousandths.
    pub cpus_milli: u32,
    /// Free memory in bytes.
    pub memory_bytes: u64,
}

/// Pending job: a gang of identical tasks that start together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyJob {
    /// Number of the job, from 0 in order of arrival.
    pub job: u32,
    /// Name of the job in the trace.
    pub id: String,
    /// User that submitted it.
    pub user: String,
    /// Queue that it is in.
    pub queue: String,
    /// Priority; higher goes first.
    pub priority: i32,
    /// Instant of its submission.
    pub submit_ms: u64,
    /// Time limit; `null` for none.
    pub limit_ms: Option<u64>,
    /// Number of its tasks.
    pub tasks: u32,
    /// GPUs of each task.
    pub task_gpus: u32,
    /// Models that it accepts; empty for any.
    pub models: Vec<String>,
    /// CPUs of each task in thousandths.
    pub task_cpus_milli: u32,
    /// Memory of each task in bytes.
    pub task_memory_bytes: u64,
}

/// Running job: all of its tasks hold what they need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRun {
    /// Number of the job.
    pub job: u32,
    /// User that submitted it.
    pub user: String,
    /// Instant of its last start.
    pub start_ms: u64,
    /// Time limit; `null` for none.
    pub limit_ms: Option<u64>,
    /// Node and devices of each task.
    pub tasks: Vec<PolicyPlace>,
}

/// Events since the last state, as numbers of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyEvents {
    /// Jobs that were submitted.
    pub arrived: Vec<u32>,
    /// Jobs whose work is done; their resources are free.
    pub ended: Vec<u32>,
    /// Jobs that lost a node or a device, and are pending again.
    pub stopped: Vec<u32>,
}

/// Decisions of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyAnswer {
    /// Pending jobs that start now, in this order.
    #[serde(default)]
    pub start: Vec<PolicyStart>,
    /// Instant at which the policy is asked again even if nothing happens before.
    #[serde(default)]
    pub wake_ms: Option<u64>,
}

/// Start of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyStart {
    /// Number of the job.
    pub job: u32,
    /// Node of each task, and perhaps its devices. Without it, each task goes to the node with the
    /// fewest free GPUs on which it fits.
    #[serde(default)]
    pub tasks: Option<Vec<PolicyPlace>>,
}

/// Place of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPlace {
    /// Name of the node.
    pub node: String,
    /// Indices of the GPUs; in a decision without them, the lowest free ones.
    #[serde(default)]
    pub devices: Option<Vec<u16>>,
}
