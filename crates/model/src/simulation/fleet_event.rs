//! Events of a simulated fleet, and its state at an instant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Event in a simulated fleet: one line of `--events-out`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetEvent {
    /// Time of the event, in milliseconds of the trace.
    pub at_ms: u64,
    /// Kind of the event, with its details.
    #[serde(flatten)]
    pub what: FleetEventKind,
}

/// Kind of event in a simulated fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum FleetEventKind {
    /// A job was submitted.
    Arrived {
        /// Name of the job.
        job: String,
    },
    /// A task of a job was placed on a node.
    Placed {
        /// Name of the job.
        job: String,
        /// Rank of the task, from 0.
        rank: u32,
        /// Name of the node.
        node: String,
        /// Device indices; empty for a task without GPUs.
        devices: Vec<u16>,
    },
    /// A job started: all its tasks hold their resources.
    Began {
        /// Name of the job.
        job: String,
    },
    /// A job ended, and its resources are free.
    Ended {
        /// Name of the job.
        job: String,
    },
    /// A running job was stopped before its end.
    Stopped {
        /// Name of the job.
        job: String,
        /// Milliseconds of its work that are lost.
        lost_ms: u64,
    },
    /// A task of a job released its resources.
    Removed {
        /// Name of the job.
        job: String,
        /// Rank of the task, from 0.
        rank: u32,
        /// Name of the node.
        node: String,
    },
    /// A node has failed.
    NodeDown {
        /// Name of the node.
        node: String,
    },
    /// A failed node is back.
    NodeUp {
        /// Name of the node.
        node: String,
    },
    /// A GPU has failed.
    DeviceBroken {
        /// Name of the node.
        node: String,
        /// Index of the GPU on the node.
        device: u16,
    },
    /// A failed GPU is back.
    DeviceMended {
        /// Name of the node.
        node: String,
        /// Index of the GPU on the node.
        device: u16,
    },
}

/// State of a simulated fleet at an instant, as `--at` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetInstant {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Time of the last event up to the requested instant, in milliseconds of the trace.
    pub at_ms: u64,
    /// Number of jobs that had been submitted.
    pub arrived: u64,
    /// Number of jobs that had ended.
    pub ended: u64,
    /// Number of jobs that run.
    pub running: u64,
    /// Number of jobs that are pending.
    pub waiting: u64,
    /// Size of the cluster in thousandths of GPUs, or of CPUs when no node has a GPU.
    pub size_milli: u64,
    /// Allocated part of the size, in the same unit.
    pub held_milli: u64,
    /// First twenty pending jobs, in order of submission, and the jobs that were requested by name.
    pub jobs: Vec<FleetWaiting>,
}

/// State of a job at an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetWaiting {
    /// Name of the job in the trace.
    pub job: String,
    /// User of the job.
    pub user: String,
    /// Queue of the job.
    pub queue: String,
    /// Number of its tasks.
    pub tasks: u32,
    /// Number of its tasks that hold their resources.
    pub placed: u32,
    /// Milliseconds for which it has been pending in total, including after it was stopped.
    pub waited_ms: u64,
    /// Time since which it runs, in milliseconds of the trace; `None` when it does not run.
    pub running_since_ms: Option<u64>,
    /// Time of its end, in milliseconds of the trace; `None` before that.
    pub ended_ms: Option<u64>,
    /// Reason why it is pending, as the scheduler reports it; empty when it is not pending.
    pub why: String,
}
