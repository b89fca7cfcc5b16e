//! The table of quantiles: runtimes, time limits, and the used part of the limits.

use muster_model::Span;
use muster_model::trace::{Quantiles, TraceSummary};

use super::words::share;
use crate::RenderContext;
use crate::amount::grouped;
use crate::table::{Align, Cell, Table};

/// Smallest width for all quantiles; below it, only those of [`FEW`] are shown.
const ALL: usize = 84;

/// Heading and value of a column.
type QuantileColumn = (&'static str, fn(&Quantiles) -> u64);
const COLUMNS: [QuantileColumn; 8] = [
    ("MEAN", |of| of.mean),
    ("P5", |of| of.p5),
    ("P25", |of| of.p25),
    ("P50", |of| of.p50),
    ("P75", |of| of.p75),
    ("P95", |of| of.p95),
    ("P99", |of| of.p99),
    ("MAX", |of| of.max),
];
const FEW: [&str; 4] = ["MEAN", "P50", "P95", "MAX"];

/// Returns the table, with a row for each quantity that has values.
pub(super) fn table(summary: &TraceSummary, width: usize, context: RenderContext) -> String {
    let shown = |column: &&QuantileColumn| width >= ALL || FEW.contains(&column.0);
    let columns: Vec<&QuantileColumn> = COLUMNS.iter().filter(shown).collect();
    let mut headings = vec![("", Align::Left), ("JOBS", Align::Right)];
    headings.extend(columns.iter().map(|(heading, _)| (*heading, Align::Right)));
    let mut table = Table::new(&headings);
    let mut row = |name: &str, of: &Quantiles, text: fn(u64) -> String| {
        if of.count > 0 {
            let mut cells: Vec<Cell> = vec![name.into(), grouped(of.count).into()];
            cells.extend(columns.iter().map(|(_, value)| Cell::from(text(value(of)))));
            table.row(cells);
        }
    };
    row("runtime", &summary.runtime_ms, |ms| Span(ms).to_string());
    row("requested", &summary.requested_ms, |ms| Span(ms).to_string());
    row("used of it", &summary.used_percent, |percent| format!("{}%", grouped(percent)));
    let mut text = table.render(context);
    if summary.over_requested > 0 {
        let over = share(summary.over_requested, summary.used_percent.count);
        text.push_str(&format!("{over} of jobs ran longer than they asked for\n"));
    }
    text
}
