//! The table of runs: a row per control plane, a column per figure, in as many tables as the width needs.

use muster_model::simulation::{Figure, FleetComparison, FleetFigures};

use super::unit;
use super::words::{amount, percent, span, told};
use crate::style::Style;
use crate::table::{Align, Cell, Table};

/// A heading, and what stands below it; nothing where a figure has nothing to say.
type Column = (&'static str, fn(&FleetFigures) -> String);

const COLUMNS: [Column; 13] = [
    ("DECIDED BY", |run| if run.is_engine { "the engine" } else { "a model" }.to_owned()),
    ("WAIT: MEAN", |run| wait(run, "wait_secs.mean")),
    ("HALF", |run| wait(run, "wait_secs.p50")),
    ("95 %", |run| wait(run, "wait_secs.p95")),
    ("SLOWDOWN", |run| match run.ended {
        0 => "-".to_owned(),
        _ => told(Figure::of(run, "bounded_slowdown.mean"), |value| format!("{value:.2}")),
    }),
    ("USED", |run| told(Figure::of(run, "used_share"), percent)),
    ("HELD IDLE", |run| some(run, "hours.held_idle")),
    ("STRANDED", |run| some(run, "hours.stranded")),
    ("LOST", |run| some(run, "hours.lost")),
    ("FAIR", |run| told(Figure::of(run, "user_fairness"), |value| format!("{value:.2}"))),
    ("EVICTED", |run| some(run, "evictions")),
    ("LEFT", |run| if run.is_partial { String::new() } else { some(run, "left") }),
    ("STUCK", |run| if run.is_partial { String::new() } else { some(run, "left_holding") }),
];

/// Where no job began, nobody knows how long they wait.
fn wait(run: &FleetFigures, name: &str) -> String {
    if run.sizes.is_empty() { "-".to_owned() } else { told(Figure::of(run, name), span) }
}

/// What is nothing is not written, so that a column of nothing is not shown.
fn some(run: &FleetFigures, name: &str) -> String {
    let figure = Figure::of(run, name);
    if figure.value > 0.0 { told(figure, amount) } else { String::new() }
}

/// All figures; what does not fit beside each other stands below.
pub(super) fn tables(comparison: &FleetComparison, width: usize, style: &Style) -> String {
    let mut groups: Vec<Vec<Column>> = vec![Vec::new()];
    for column in COLUMNS {
        if comparison.runs.iter().all(|run| column.1(run).is_empty()) {
            continue;
        }
        let group = groups.last_mut().expect("there is always one group");
        group.push(column);
        if group.len() > 1 && widest(&table(comparison, group, &Style::plain())) > width {
            group.pop();
            groups.push(vec![column]);
        }
    }
    let tables = groups.iter().map(|group| table(comparison, group, style));
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
    text
}

fn table(comparison: &FleetComparison, columns: &[Column], style: &Style) -> String {
    let mut headings = vec![("SCHEDULER", Align::Left)];
    headings.extend(
        columns.iter().map(|(heading, _)| {
            (*heading, if *heading == "DECIDED BY" { Align::Left } else { Align::Right })
        }),
    );
    let mut table = Table::new(&headings);
    for run in &comparison.runs {
        let mark = if run.is_partial { "*" } else { "" };
        let mut row = vec![Cell::from(format!("{}{mark}", run.scheduler))];
        row.extend(columns.iter().map(|(_, text)| Cell::from(text(run))));
        table.row(row);
    }
    table.render(style)
}

/// Characters of the longest line.
pub(super) fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}
