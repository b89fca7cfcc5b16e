//! Counts of a daemon's work, for its supervision.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Work of a daemon since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonCounters {
    /// Number of scheduling passes.
    pub passes: u64,
    /// Time spent in them, with writing the state, in microseconds.
    pub pass_micros: u64,
    /// Time of the longest pass, in microseconds.
    pub longest_pass_micros: u64,
    /// Starts of elements that were ordered.
    pub starts: u64,
    /// Stops of elements that were ordered.
    pub stops: u64,
    /// Tasks that could not be prepared on their node.
    pub refused_starts: u64,
    /// Passes whose state could not be written.
    pub store_failures: u64,
    /// Plans that failed their check.
    pub refused_plans: u64,
    /// Notices that are to be sent.
    pub notices_waiting: u64,
}
