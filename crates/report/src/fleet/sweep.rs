//! Several comparisons of one trace, at several loads or with several kinds of time limits: one table for the
//! terminal and the page, and one as CSV for other programs.

use muster_model::simulation::{Figure, FleetComparison, FleetFigures, MEASURED, TimeLimits};

use super::runs::SWEPT;
use super::{WIDTH, head, wrapped};
use crate::RenderContext;
use crate::style::clean;
use crate::table::Table;

/// A run, with the load and the limits of its comparison.
struct SweepRow<'a> {
    comparison: &'a FleetComparison,
    run: &'a FleetFigures,
}

fn rows(all: &[FleetComparison]) -> Vec<SweepRow<'_>> {
    let mut rows = Vec::new();
    for comparison in all {
        rows.extend(comparison.runs.iter().map(|run| SweepRow { comparison, run }));
    }
    rows
}

/// Returns the load and the fleet, and a row per load, time limits, variant and control plane.
#[must_use]
pub fn sweep(all: &[FleetComparison], context: RenderContext) -> String {
    let width = context.width.unwrap_or(WIDTH);
    let mut text: String = sentences(all).iter().map(|line| wrapped(line, width)).collect();
    text.push('\n');
    let rows = rows(all);
    let mut table = Table::of(&rows)
        .right("LOAD", |row| row.comparison.load.to_string())
        .left("LIMITS", |row| limits(row.comparison.limits));
    if rows.iter().any(|row| !row.run.variant.is_empty()) {
        table = table.left("VARIANT", |row| clean(&row.run.variant).into_owned());
    }
    table = table.left("SCHEDULER", |row| scheduler(row.run));
    for (heading, of) in SWEPT {
        if rows.iter().any(|row| !of(row.run).is_empty()) {
            table = table.right(heading, move |row| of(row.run));
        }
    }
    text + &table.render(context)
}

/// Returns the trace, the fleet, and what is left out, as sentences.
pub(crate) fn sentences(all: &[FleetComparison]) -> Vec<String> {
    all.first().map(head).unwrap_or_default()
}

/// Returns the headings, and a row of cells for each run.
pub(crate) fn cells(all: &[FleetComparison]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let first = ["LOAD", "LIMITS", "VARIANT", "SCHEDULER"];
    let headings = first.into_iter().chain(SWEPT.iter().map(|(heading, _)| *heading));
    let row = |SweepRow { comparison, run }: SweepRow<'_>| {
        let first = [
            comparison.load.to_string(),
            limits(comparison.limits).to_owned(),
            run.variant.clone(),
            scheduler(run),
        ];
        first.into_iter().chain(SWEPT.iter().map(|(_, of)| of(run))).collect()
    };
    (headings.collect(), rows(all).into_iter().map(row).collect())
}

/// Returns the table as CSV (RFC 4180): all figures by their names in `FleetFigures`, times in seconds, each
/// followed by the half-width of its 95 % confidence interval, which is empty with one seed.
#[must_use]
pub fn csv(all: &[FleetComparison]) -> String {
    let mut header: Vec<String> = [
        "trace",
        "cluster",
        "queues",
        "variant",
        "load",
        "limits",
        "scheduler",
        "model_of",
        "seeds",
        "jobs",
        "is_partial",
    ]
    .map(str::to_owned)
    .into();
    header.extend(
        MEASURED.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("{name}.margin")]),
    );
    let mut text = line(&header);
    for SweepRow { comparison, run } in rows(all) {
        let variant = comparison.variants.iter().find(|one| one.name == run.variant);
        let cluster = variant.map_or(&comparison.cluster, |one| &one.cluster);
        let queues = variant.map_or(&comparison.queues, |one| &one.queues);
        let mut cells = vec![
            comparison.trace.clone(),
            cluster.clone(),
            queues.clone().unwrap_or_default(),
            run.variant.clone(),
            comparison.load.to_string(),
            limits(comparison.limits).to_owned(),
            run.scheduler.clone(),
            run.model_of.clone().unwrap_or_default(),
            comparison.seeds.len().to_string(),
            comparison.jobs.to_string(),
            run.is_partial.to_string(),
        ];
        for (name, _) in MEASURED {
            let Figure { value, margin } = Figure::of(run, name);
            cells.push(value.to_string());
            cells.push(margin.map_or_else(String::new, |margin| margin.to_string()));
        }
        text.push_str(&line(&cells));
    }
    text
}

fn line(cells: &[String]) -> String {
    let quoted = |cell: &String| {
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.clone()
        }
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

fn scheduler(run: &FleetFigures) -> String {
    format!("{}{}", run.scheduler, if run.is_partial { "*" } else { "" })
}

/// Returns the word of `--estimates`.
fn limits(limits: TimeLimits) -> &'static str {
    match limits {
        TimeLimits::Requested => "requested",
        TimeLimits::Actual => "actual",
        TimeLimits::Predicted => "predicted",
        TimeLimits::Noisy => "noisy",
    }
}
