//! Gantt chart of a simulated fleet: allocations of GPUs over time, and how to build them. Drawing
//! is elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::DeviceSet;

/// All allocations under one control plane. A row is a GPU, or a node without GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gantt {
    /// Name of the control plane.
    pub scheduler: String,
    /// Nodes, in order of their rows.
    pub nodes: Vec<GanttNode>,
    /// Jobs; bars refer to them by index.
    pub jobs: Vec<GanttJob>,
    /// Bars, in any order.
    pub bars: Vec<GanttBar>,
}

/// Node and its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GanttNode {
    /// Name of the node.
    pub name: String,
    /// Index of its first row.
    pub first_row: u32,
    /// Number of its rows: its GPUs, or 1 when it has none.
    pub rows: u32,
}

/// Job as the chart labels it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GanttJob {
    /// Name of the job in the trace.
    pub id: String,
    /// User of the job.
    pub user: String,
}

/// Allocation of neighbouring rows to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GanttBar {
    /// Index of the job in [`Gantt::jobs`].
    pub job: u32,
    /// Index of the first row.
    pub first_row: u32,
    /// Index of the last row, included.
    pub last_row: u32,
    /// Start of the allocation, in milliseconds of the trace.
    pub from_ms: u64,
    /// End of the allocation, in milliseconds of the trace.
    pub to_ms: u64,
    /// True when the job ran; false when the rows were held for it without running.
    pub runs: bool,
}

impl Gantt {
    /// Makes a chart with rows for nodes with these numbers of GPUs, without bars.
    #[must_use]
    pub fn new(
        scheduler: &str,
        nodes: impl IntoIterator<Item = (String, u32)>,
        jobs: Vec<GanttJob>,
    ) -> Self {
        let mut gantt = Self { scheduler: scheduler.to_owned(), jobs, ..Self::default() };
        let mut first_row = 0;
        for (name, gpus) in nodes {
            let rows = gpus.max(1);
            gantt.nodes.push(GanttNode { name, first_row, rows });
            first_row += rows;
        }
        gantt
    }

    /// Adds an allocation of devices of a node, given by its index: one bar per run of neighbouring
    /// devices. `bar` has all values but the rows. An allocation without devices is drawn only when
    /// the node has a single row.
    pub fn hold(&mut self, node: usize, devices: DeviceSet, bar: GanttBar) {
        let Some(&GanttNode { first_row, rows, .. }) = self.nodes.get(node) else { return };
        if devices.is_empty() && rows == 1 {
            self.bars.push(GanttBar { first_row, last_row: first_row, ..bar });
        }
        let mut last = None;
        for row in devices.iter().map(|device| first_row + device as u32) {
            match self.bars.last_mut() {
                Some(neighbour) if last.is_some_and(|last: u32| last + 1 == row) => {
                    neighbour.last_row = row
                }
                _ => self.bars.push(GanttBar { first_row: row, last_row: row, ..bar }),
            }
            last = Some(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_devices_are_one_bar() {
        let nodes = [("a".to_owned(), 8), ("b".to_owned(), 4), ("login".to_owned(), 0)];
        let mut gantt = Gantt::new("muster", nodes, Vec::new());
        let bar = GanttBar { job: 7, first_row: 0, last_row: 0, from_ms: 5, to_ms: 9, runs: true };
        gantt.hold(0, [0, 1, 2, 5].into_iter().collect(), bar);
        gantt.hold(1, [0, 3].into_iter().collect(), bar);
        gantt.hold(2, DeviceSet::EMPTY, bar);
        gantt.hold(0, DeviceSet::EMPTY, bar);
        gantt.hold(3, DeviceSet::one(0), bar);
        let rows: Vec<(u32, u32)> =
            gantt.bars.iter().map(|bar| (bar.first_row, bar.last_row)).collect();
        assert_eq!(rows, [(0, 2), (5, 5), (8, 8), (11, 11), (12, 12)]);
        assert!(gantt.bars.iter().all(|bar| (bar.job, bar.from_ms, bar.to_ms) == (7, 5, 9)));
    }
}
