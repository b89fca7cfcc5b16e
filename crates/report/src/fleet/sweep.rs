//! Several comparisons of one trace, at several loads or with several kinds of time limits: one table for the
//! terminal and the page, and one for other programs.

use muster_model::simulation::{
    Figure, FleetComparison, FleetFigures, MEASURED, SiteVariant, TimeLimits,
};

use super::runs::SWEPT;
use super::{WIDTH, head, wrapped};
use crate::RenderContext;
use crate::data_table::DataTable;
use crate::style::clean;
use crate::table::Table;

/// A run, with the load and the limits of its comparison.
struct SweepRow<'a> {
    comparison: &'a FleetComparison,
    run: &'a FleetFigures,
}

impl<'a> SweepRow<'a> {
    fn variant(&self) -> Option<&'a SiteVariant> {
        self.comparison.variants.iter().find(|one| one.name == self.run.variant)
    }

    fn cluster(&self) -> &'a str {
        self.variant().map_or(&self.comparison.cluster, |one| &one.cluster)
    }

    fn queues(&self) -> Option<&'a str> {
        self.variant().map_or(&self.comparison.queues, |one| &one.queues).as_deref()
    }
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

/// Returns the table for other programs: all figures by their names in `FleetFigures`, times in seconds, each
/// followed by the half-width of its 95 % confidence interval, which is missing with one seed.
#[must_use]
pub fn data_table(all: &[FleetComparison]) -> DataTable {
    let rows = rows(all);
    let mut table = DataTable::default()
        .text("trace", rows.iter().map(|row| Some(row.comparison.trace.as_str())))
        .text("cluster", rows.iter().map(|row| Some(row.cluster())))
        .text("queues", rows.iter().map(SweepRow::queues))
        .text("variant", rows.iter().map(|row| Some(row.run.variant.as_str())))
        .doubles("load", rows.iter().map(|row| Some(row.comparison.load)))
        .text("limits", rows.iter().map(|row| Some(limits(row.comparison.limits))))
        .text("scheduler", rows.iter().map(|row| Some(row.run.scheduler.as_str())))
        .text("model_of", rows.iter().map(|row| row.run.model_of.as_deref()))
        .counts("seeds", rows.iter().map(|row| row.comparison.seeds.len() as u64))
        .counts("jobs", rows.iter().map(|row| row.comparison.jobs))
        .booleans("is_partial", rows.iter().map(|row| row.run.is_partial));
    for (name, _) in MEASURED {
        let figures = || rows.iter().map(|row| Figure::of(row.run, name));
        table = table
            .doubles(name, figures().map(|figure| Some(figure.value)))
            .doubles(format!("{name}.margin"), figures().map(|figure| figure.margin));
    }
    table
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
