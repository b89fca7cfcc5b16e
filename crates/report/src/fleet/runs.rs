//! The table of runs: a row per control plane, a column per figure, in as many tables as the width
//! needs.

use muster_model::simulation::{Figure, FleetComparison, FleetFigures};

use super::words::{amount, at_least, percent, span, with_margin};
use super::{label, unit};
use crate::RenderContext;
use crate::amount::grouped;
use crate::style::clean;
use crate::table::{Align, Table};

/// Heading and cell text of a column; the text is empty where the figure does not apply.
type RunColumn = (&'static str, fn(&FleetFigures) -> String);

const COLUMNS: [RunColumn; 16] = [
    ("DECIDED BY", |run| decided_by(run)),
    ("TURNAROUND", |run| over_jobs(run, "turnaround_secs.mean", span)),
    ("95 %", |run| over_jobs(run, "turnaround_secs.p95", span)),
    ("WAITED", |run| over_jobs(run, "waited_secs.mean", span)),
    ("HALF", |run| over_jobs(run, "waited_secs.p50", span)),
    ("95 %", |run| over_jobs(run, "waited_secs.p95", span)),
    ("SLOWDOWN", |run| over_jobs(run, "bounded_slowdown.mean", |value| format!("{value:.2}"))),
    ("USED", |run| with_margin(Figure::of(run, "used_share"), percent)),
    ("HELD IDLE", |run| some(run, "hours.held_idle")),
    ("STRANDED", |run| some(run, "hours.stranded")),
    ("LOST", |run| some(run, "hours.lost")),
    ("FAIR", |run| with_margin(Figure::of(run, "user_fairness"), |value| format!("{value:.2}"))),
    ("EVICTED", |run| some(run, "evictions")),
    ("REFUSED", |run| if run.refused > 0 { grouped(run.refused) } else { String::new() }),
    ("LEFT", |run| if run.is_partial { String::new() } else { some(run, "left") }),
    ("STUCK", |run| if run.is_partial { String::new() } else { some(run, "left_holding") }),
];

/// Columns of the table of a sweep, which has a row for each of many comparisons.
pub(super) const SWEPT: [RunColumn; 7] = [
    ("TURNAROUND", |run| over_jobs(run, "turnaround_secs.mean", span)),
    ("95 %", |run| over_jobs(run, "turnaround_secs.p95", span)),
    ("WAITED", |run| over_jobs(run, "waited_secs.mean", span)),
    ("SLOWDOWN", |run| over_jobs(run, "bounded_slowdown.mean", |value| format!("{value:.2}"))),
    ("USED", |run| with_margin(Figure::of(run, "used_share"), percent)),
    ("LOST", |run| some(run, "hours.lost")),
    ("LEFT", |run| if run.is_partial { String::new() } else { some(run, "left") }),
];

/// Returns what decided: the engine, a program of the user, or a model, with the version that it
/// represents.
pub(crate) fn decided_by(run: &FleetFigures) -> String {
    match &run.model_of {
        Some(version) => format!("a model of {version}"),
        None if run.is_engine => "the engine".to_owned(),
        None if run.scheduler.starts_with("exec:") => "a program".to_owned(),
        None => "a model".to_owned(),
    }
}

/// Returns a figure over all admitted jobs, marked `≥` if some of them never end; `-` if no job was
/// admitted.
fn over_jobs(run: &FleetFigures, name: &str, words: fn(f64) -> String) -> String {
    if run.sizes.is_empty() {
        "-".to_owned()
    } else {
        format!("{}{}", at_least(run), with_margin(Figure::of(run, name), words))
    }
}

/// Returns a figure as text, empty for zero, so that a column of zeros is not shown.
fn some(run: &FleetFigures, name: &str) -> String {
    let figure = Figure::of(run, name);
    if figure.value > 0.0 { with_margin(figure, amount) } else { String::new() }
}

/// Returns all figures, in several tables if they do not fit beside each other.
pub(super) fn tables(comparison: &FleetComparison, width: usize, context: RenderContext) -> String {
    let mut groups: Vec<Vec<RunColumn>> = vec![Vec::new()];
    for column in COLUMNS {
        if comparison.runs.iter().all(|run| column.1(run).is_empty()) {
            continue;
        }
        let group = groups.last_mut().expect("there is always one group");
        group.push(column);
        if group.len() > 1 && table(comparison, group).width() > width {
            group.pop();
            groups.push(vec![column]);
        }
    }
    let tables = groups.iter().map(|group| table(comparison, group).render(context));
    let mut text = tables.collect::<Vec<_>>().join("\n");
    let in_hours = ["HELD IDLE", "STRANDED", "LOST"];
    let shown: Vec<String> = groups
        .concat()
        .iter()
        .filter(|(heading, _)| in_hours.contains(heading))
        .map(|(heading, _)| heading.to_lowercase())
        .collect();
    if !shown.is_empty() {
        text.push_str(&format!("{} in {}-hours\n", shown.join(", "), unit(comparison.unit)));
    }
    let defined = "turnaround: from submission to end; waited: of that, all the time in which jobs did not run";
    text.push_str(&super::wrapped(defined, width));
    if comparison.runs.iter().any(|run| !at_least(run).is_empty()) {
        text.push_str(&super::wrapped(
            "≥: jobs that never end are counted until the last instant of any run",
            width,
        ));
    }
    text
}

/// Returns the headings, and a row of cells for each run; columns that say nothing are left out.
pub(crate) fn cells(comparison: &FleetComparison) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let said = |column: &&RunColumn| comparison.runs.iter().any(|run| !column.1(run).is_empty());
    let columns: Vec<&RunColumn> = COLUMNS.iter().filter(said).collect();
    let row = |run: &FleetFigures| {
        let name = format!("{}{}", label(run), if run.is_partial { "*" } else { "" });
        std::iter::once(name).chain(columns.iter().map(|(_, text)| text(run))).collect()
    };
    let headings = std::iter::once("SCHEDULER").chain(columns.iter().map(|(heading, _)| *heading));
    (headings.collect(), comparison.runs.iter().map(row).collect())
}

fn table<'c>(comparison: &'c FleetComparison, columns: &[RunColumn]) -> Table<'c, FleetFigures> {
    let mut table = Table::of(&comparison.runs).left("SCHEDULER", |run| {
        format!("{}{}", run.scheduler, if run.is_partial { "*" } else { "" })
    });
    if !comparison.variants.is_empty() {
        table = table.left("VARIANT", |run| clean(&run.variant).into_owned());
    }
    columns.iter().fold(table, |table, (heading, text)| {
        let align = if *heading == "DECIDED BY" { Align::Left } else { Align::Right };
        table.column(heading, align, text)
    })
}
