//! What happens in a simulated fleet, event by event, and how it stands at an instant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that happened: a line of `--events-out`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetEvent {
    /// When, in milliseconds of the trace.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: FleetHappening,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum FleetHappening {
    /// A job arrived.
    Arrived {
        /// Which.
        job: String,
    },
    /// A task of it holds devices of a node.
    Placed {
        /// Whose.
        job: String,
        /// Which, from 0.
        rank: u32,
        /// Where.
        node: String,
        /// Devices by index; empty for a task without GPUs.
        devices: Vec<u16>,
    },
    /// All tasks of a job hold what they need: it runs.
    Began {
        /// Which.
        job: String,
    },
    /// Its work is done, and what it held is free.
    Ended {
        /// Which.
        job: String,
    },
    /// It no longer runs.
    Stopped {
        /// Which.
        job: String,
        /// So much of its work is lost.
        lost_ms: u64,
    },
    /// A task of it no longer holds anything.
    Removed {
        /// Whose.
        job: String,
        /// Which.
        rank: u32,
        /// Where it was.
        node: String,
    },
    /// A node is gone.
    NodeDown {
        /// Which.
        node: String,
    },
    /// It is back.
    NodeUp {
        /// Which.
        node: String,
    },
    /// A GPU is out of order.
    DeviceBroken {
        /// Of which node.
        node: String,
        /// Which, by index.
        device: u16,
    },
    /// It is mended.
    DeviceMended {
        /// Of which node.
        node: String,
        /// Which, by index.
        device: u16,
    },
}

/// How a simulated fleet stands at an instant: what `--at` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetInstant {
    /// Who decides.
    pub scheduler: String,
    /// The last instant at which something happened by then, in milliseconds of the trace.
    pub at_ms: u64,
    /// Jobs that had arrived.
    pub arrived: u64,
    /// Jobs that had ended.
    pub ended: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that wait.
    pub waiting: u64,
    /// Size of the cluster in thousandths of GPUs, or of CPUs where no node has a GPU.
    pub size_milli: u64,
    /// What of it is held.
    pub held_milli: u64,
    /// The first twenty jobs that wait, in order of arrival, and those that were asked for.
    pub jobs: Vec<FleetWaiting>,
}

/// A job at an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetWaiting {
    /// As the trace calls it.
    pub job: String,
    /// Whose.
    pub user: String,
    /// Where it waits.
    pub queue: String,
    /// Its tasks.
    pub tasks: u32,
    /// Of them, those that hold what they need.
    pub placed: u32,
    /// Milliseconds that it has waited so far, also after it was stopped.
    pub waited_ms: u64,
    /// It runs since then.
    pub running_since_ms: Option<u64>,
    /// Its work was done then.
    pub ended_ms: Option<u64>,
    /// Why it waits, in the words of whoever decides; empty for one that does not.
    pub why: String,
}
