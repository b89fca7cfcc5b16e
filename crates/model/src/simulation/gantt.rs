//! Who held which GPU of a simulated fleet from when to when, to be drawn. Values and how they are
//! put together; nothing here decides what is drawn, or how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::DeviceSet;

/// Everything that was held under one control plane. A row is a GPU, or a node that has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gantt {
    /// The control plane.
    pub scheduler: String,
    /// Nodes, in order of their rows.
    pub nodes: Vec<GanttNode>,
    /// Jobs, by the number that bars name them with.
    pub jobs: Vec<GanttJob>,
    /// Bars, in any order.
    pub bars: Vec<GanttBar>,
}

/// A node and its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GanttNode {
    /// Its name.
    pub name: String,
    /// Its first row.
    pub first_row: u32,
    /// How many it has: its GPUs, or 1.
    pub rows: u32,
}

/// A job as it is called where it is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GanttJob {
    /// Its name in the trace.
    pub id: String,
    /// Whose it is.
    pub user: String,
}

/// A job held neighbouring rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GanttBar {
    /// Which job.
    pub job: u32,
    /// From this row.
    pub first_row: u32,
    /// To this one.
    pub last_row: u32,
    /// From when, in milliseconds of the trace.
    pub from_ms: u64,
    /// Until when.
    pub to_ms: u64,
    /// The job ran meanwhile; else they were held for it and did nothing.
    pub runs: bool,
}

impl Gantt {
    /// Rows for nodes with so many GPUs each, and no bars yet.
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

    /// A job held devices of a node, by its index: a bar for each stretch of neighbours. `bar` says
    /// all but the rows. Whoever holds none holds what else there is of the node, and is drawn on
    /// its first row where the node has no GPU.
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
