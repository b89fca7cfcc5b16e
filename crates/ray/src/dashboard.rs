//! Ray's dashboard, which listens on the node of the head only: where it is, and how bytes get there.

use serde::{Deserialize, Serialize};

/// Program in Python that prints a [`DashboardPlace`] as the last line of its output. It needs the environment
/// that [`crate::inside()`] sets.
pub const DASHBOARD: &str = include_str!("dashboard.py");
/// Program in Python that connects its input and output to the port of its node that is its argument.
pub const RELAY: &str = include_str!("relay.py");

/// Dashboard of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashboardPlace {
    /// Port on the node of the head; `None` if the cluster has no dashboard.
    pub port: Option<u16>,
    /// Secret of the cluster, for which the dashboard asks.
    pub token: String,
}

impl DashboardPlace {
    /// Reads the output of [`DASHBOARD`]; `None` if it has none.
    #[must_use]
    pub fn parse(output: &str) -> Option<Self> {
        output.lines().rev().find_map(|line| serde_json::from_str(line.trim()).ok())
    }
}
