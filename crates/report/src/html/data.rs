//! The data of the page as JSON that may stand in a `<script>`. It only carries: what is derived from it is derived by the
//! scripts, except for the sentences, which are those of the terminal.

use muster_model::simulation::{FleetComparison, Gantt, GanttBar, GanttJob, GanttNode};
use serde::Serialize;

/// Everything that the page shows.
#[derive(Serialize)]
pub(super) struct Data<'d> {
    comparison: &'d FleetComparison,
    findings: Vec<String>,
    gantts: Vec<Drawn<'d>>,
}

/// A Gantt with its bars as rows of numbers, since names for each of them would be most of the page.
#[derive(Serialize)]
struct Drawn<'d> {
    scheduler: &'d str,
    nodes: &'d [GanttNode],
    jobs: &'d [GanttJob],
    /// Job, first row, last row, from and to in milliseconds, 1 where it ran; by `from`.
    bars: Vec<(u32, u32, u32, u64, u64, u8)>,
}

impl<'d> Data<'d> {
    pub(super) fn of(comparison: &'d FleetComparison, gantts: &'d [Gantt]) -> Self {
        let findings = crate::fleet::findings(comparison);
        Self { comparison, findings, gantts: gantts.iter().map(drawn).collect() }
    }

    /// Nothing in it can end the script that it stands in, or begin a comment there.
    pub(super) fn json(&self) -> String {
        let json = serde_json::to_string(self).expect("names and numbers are always JSON");
        json.replace('<', "\\u003c")
    }
}

fn drawn(gantt: &Gantt) -> Drawn<'_> {
    let row =
        |bar: &GanttBar| (bar.job, bar.first_row, bar.last_row, bar.from_ms, bar.to_ms, u8::from(bar.runs));
    let mut bars: Vec<_> = gantt.bars.iter().map(row).collect();
    bars.sort_by_key(|bar| (bar.3, bar.1));
    Drawn { scheduler: &gantt.scheduler, nodes: &gantt.nodes, jobs: &gantt.jobs, bars }
}
