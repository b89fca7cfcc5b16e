//! The data of the page as JSON that is safe inside a `<script>`. The scripts derive everything
//! from it, except for the findings, which are those of the terminal.

use muster_model::simulation::{FleetComparison, Gantt, GanttBar, GanttJob, GanttNode};
use serde::Serialize;

/// Most bars in all Gantts together. More would make a page of more than 10 MB, for more detail
/// than a screen has pixels.
const MOST_BARS: usize = 250_000;

/// All data of the page.
#[derive(Serialize)]
pub(super) struct PageData<'d> {
    comparison: &'d FleetComparison,
    /// Warning to be read before the figures; `None` if there is nothing to warn about.
    pub(super) caveat: Option<String>,
    pub(super) findings: Vec<String>,
    /// Sentences on the variants of the site, if there are several.
    variants: Vec<String>,
    /// Judgement of the calibration, one sentence per scheduler.
    pub(super) calibration: Vec<String>,
    gantts: Vec<DrawnGantt<'d>>,
}

/// A Gantt with its bars as rows of numbers, since field names for each bar would be most of the
/// page.
#[derive(Serialize)]
struct DrawnGantt<'d> {
    scheduler: &'d str,
    nodes: &'d [GanttNode],
    jobs: &'d [GanttJob],
    /// Job, first row, last row, start and end in milliseconds, 1 if it ran; ordered by start.
    bars: Vec<(u32, u32, u32, u64, u64, u8)>,
    /// Number of later bars that are left out, since there are too many.
    left_out: usize,
}

impl<'d> PageData<'d> {
    pub(super) fn of(comparison: &'d FleetComparison, gantts: &'d [Gantt]) -> Self {
        let findings = crate::fleet::findings(comparison);
        let most = MOST_BARS / gantts.len().max(1);
        let caveat = crate::fleet::caveat(comparison);
        Self {
            comparison,
            caveat,
            findings,
            variants: crate::fleet::variants(comparison),
            calibration: crate::fleet::calibration(comparison),
            gantts: gantts.iter().map(|gantt| drawn(gantt, most)).collect(),
        }
    }

    /// Returns the data as JSON that cannot end the enclosing script or begin a comment in it.
    pub(super) fn json(&self) -> String {
        let json = serde_json::to_string(self).expect("names and numbers are always JSON");
        json.replace('<', "\\u003c")
    }
}

fn drawn(gantt: &Gantt, most: usize) -> DrawnGantt<'_> {
    let row = |bar: &GanttBar| {
        (bar.job, bar.first_row, bar.last_row, bar.from_ms, bar.to_ms, u8::from(bar.runs))
    };
    let mut bars: Vec<_> = gantt.bars.iter().map(row).collect();
    bars.sort_by_key(|bar| (bar.3, bar.1));
    let left_out = bars.len().saturating_sub(most);
    bars.truncate(most);
    // Jobs are numbered by arrival; those after the last one drawn are not needed.
    let last = bars.iter().map(|bar| bar.0 as usize + 1).max().unwrap_or(0);
    let jobs = &gantt.jobs[..last.min(gantt.jobs.len())];
    DrawnGantt { scheduler: &gantt.scheduler, nodes: &gantt.nodes, jobs, bars, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_bars_are_drawn_and_the_rest_is_counted() {
        let nodes = [("a".to_owned(), 2)];
        let mut gantt =
            Gantt::new("muster", nodes, vec![GanttJob { id: "1".into(), user: "ann".into() }]);
        for from_ms in [30, 10, 20] {
            let bar = GanttBar {
                job: 0,
                first_row: 1,
                last_row: 1,
                from_ms,
                to_ms: 40,
                runs: from_ms > 10,
            };
            gantt.bars.push(bar);
        }
        let drawn = drawn(&gantt, 2);
        assert_eq!(drawn.bars, [(0, 1, 1, 10, 40, 0), (0, 1, 1, 20, 40, 1)]);
        assert_eq!(drawn.left_out, 1);
    }
}
