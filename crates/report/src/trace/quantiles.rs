//! The table of quantiles: runtimes, time limits, and the used part of the limits.

use muster_model::Span;
use muster_model::trace::{Quantiles, TraceSummary};

use super::words::share;
use crate::RenderContext;
use crate::amount::grouped;
use crate::table::Table;

/// Smallest width for all quantiles; below it, only those of [`FEW`] are shown.
const ALL: usize = 84;

/// Heading and value of a column.
type QuantileColumn = (&'static str, fn(&Quantiles) -> u64);
/// Name of a quantity, its quantiles, and the text of one of them.
type QuantileRow<'s> = (&'static str, &'s Quantiles, fn(u64) -> String);
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
    let rows: [QuantileRow<'_>; 3] = [
        ("runtime", &summary.runtime_ms, |ms| Span(ms).to_string()),
        ("requested", &summary.requested_ms, |ms| Span(ms).to_string()),
        ("used of it", &summary.used_percent, |percent| format!("{}%", grouped(percent))),
    ];
    let rows: Vec<_> = rows.into_iter().filter(|(_, of, _)| of.count > 0).collect();
    let table =
        Table::of(&rows).left("", |(name, ..)| *name).right("JOBS", |(_, of, _)| grouped(of.count));
    let table = COLUMNS.iter().filter(shown).fold(table, |table, (heading, value)| {
        table.right(heading, |(_, of, text)| text(value(of)))
    });
    let mut text = table.render(context);
    if summary.over_requested > 0 {
        let over = share(summary.over_requested, summary.used_percent.count);
        text.push_str(&format!("{over} of jobs ran longer than they asked for\n"));
    }
    text
}
