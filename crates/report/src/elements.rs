//! Elements of an array or sweep as a table: parameters, metric, state, time and end. `muster show`.

use std::cmp::Ordering;

use muster_model::Outcome;
use muster_model::sweep::Goal;
use muster_model::view::{ElementRow, JobState, MetricView};

use crate::RenderContext;
use crate::amount::count;
use crate::clock::elapsed;
use crate::style::{Ink, clean, shorten};
use crate::table::{Cell, Table};

/// Widest value of a parameter that is shown whole.
const VALUE_COLUMNS: usize = 24;

/// Elements of a job with what they have in common.
#[derive(Clone, Copy, Debug)]
pub struct ElementTable<'a> {
    /// Names of the parameters; empty for an array.
    pub params: &'a [String],
    /// Metric; `None` when there is none.
    pub metric: Option<&'a MetricView>,
    /// Elements, in the order of the table.
    pub rows: &'a [ElementRow],
    /// Elements that the table leaves out.
    pub omitted: usize,
}

/// Order of the elements of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementOrder {
    /// As the job file counts its points.
    Index,
    /// Best value of the metric first, then those without one by index.
    Metric(Goal),
    /// By the value of the parameter at this position: as numbers where they are.
    Param(usize),
}

/// Sorts elements; equal ones stay in their order.
pub fn sort(rows: &mut [ElementRow], order: &ElementOrder) {
    rows.sort_by_key(|row| row.index);
    match order {
        ElementOrder::Index => {}
        ElementOrder::Metric(goal) => rows.sort_by(|one, other| {
            let value = |row: &ElementRow| row.report.map(|report| report.value);
            match (value(one), value(other)) {
                (Some(one), Some(other)) if goal.is_better(one, other) => Ordering::Less,
                (Some(one), Some(other)) if goal.is_better(other, one) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                _ => Ordering::Equal,
            }
        }),
        ElementOrder::Param(position) => rows.sort_by(|one, other| {
            let text = |row: &ElementRow| row.values.get(*position).cloned().unwrap_or_default();
            let [one, other] = [text(one), text(other)];
            match (one.parse::<f64>(), other.parse::<f64>()) {
                (Ok(one), Ok(other)) => one.total_cmp(&other),
                _ => one.cmp(&other),
            }
        }),
    }
}

/// Returns one line per element, and how many are left out.
#[must_use]
pub fn elements(shown: &ElementTable<'_>, context: RenderContext) -> String {
    let mut table = Table::of(shown.rows).right("INDEX", |row| row.index.to_string());
    for (position, name) in shown.params.iter().enumerate() {
        let heading = clean(name).to_uppercase();
        table = table.left(&heading, move |row: &ElementRow| {
            let value = row.values.get(position).map_or("", String::as_str);
            shorten(&clean(value), VALUE_COLUMNS)
        });
    }
    if let Some(metric) = shown.metric {
        table = table
            .right(&clean(&metric.name).to_uppercase(), |row: &ElementRow| {
                row.report.map_or_else(|| "–".to_owned(), |report| number(report.value))
            })
            .right("STEP", |row| {
                row.report.map_or_else(|| "–".to_owned(), |report| report.step.to_string())
            });
    }
    let now = context.now;
    let mut text = table
        .left("STATE", |row| Cell::inked(row.state.word(), Ink::of(row.state)))
        .right("RAN", |row| {
            let ran = |from| elapsed(row.ended.unwrap_or(now).since(from));
            row.started.map_or_else(|| "–".to_owned(), ran)
        })
        .left("", end)
        .render(context);
    if shown.omitted > 0 {
        let more = count(shown.omitted as u64, "more element");
        text.push_str(&context.paint(Ink::Faint, &format!("… {more}; --all shows them\n")));
    }
    text
}

/// Returns how an element ended, where its state does not say it.
fn end(row: &ElementRow) -> String {
    match (&row.outcome, row.state) {
        (Some(Outcome::Succeeded), _) | (None, _) => String::new(),
        (Some(Outcome::Cancelled { .. }), JobState::Cancelled) => String::new(),
        (Some(outcome), _) => clean(&outcome.to_string()).into_owned(),
    }
}

/// Writes a number with at most six significant digits.
fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    let is_plain = rounded == 0.0 || (1e-4..1e9).contains(&rounded.abs());
    if is_plain { rounded.to_string() } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    use muster_model::sweep::MetricReport;
    use muster_model::{Rank, Time};

    use super::*;

    fn row(index: u32, state: JobState, values: &[&str], report: Option<(u64, f64)>) -> ElementRow {
        ElementRow {
            index,
            state,
            attempt: 1,
            started: Some(Time(1_000)),
            ended: state.is_final().then_some(Time(61_000)),
            outcome: None,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            report: report.map(|(step, value)| MetricReport { step, value }),
        }
    }

    fn rows() -> Vec<ElementRow> {
        vec![
            ElementRow {
                outcome: Some(Outcome::Succeeded),
                ..row(0, JobState::Done, &["1e-4", "10"], Some((9, 0.1234567)))
            },
            ElementRow {
                outcome: Some(Outcome::Failed { rank: Rank(0), code: 3 }),
                ..row(1, JobState::Failed, &["3e-4", "9"], None)
            },
            row(2, JobState::Running, &["1e-3", "2"], Some((4, 2.5e-7))),
        ]
    }

    #[test]
    fn a_sweep_is_a_table_of_parameters_and_metric() {
        let mut rows = rows();
        sort(&mut rows, &ElementOrder::Metric(Goal::Min));
        let params = ["lr", "layers"].map(str::to_owned);
        let metric = MetricView { name: "loss".to_owned(), goal: Goal::Min };
        let shown =
            ElementTable { params: &params, metric: Some(&metric), rows: &rows, omitted: 7 };
        insta::assert_snapshot!(elements(&shown, RenderContext::plain().at(Time(31_000))), @r"
        INDEX  LR    LAYERS      LOSS  STEP  STATE    RAN
            2  1e-3  2         2.5e-7     4  running  30s
            0  1e-4  10      0.123457     9  done      1m
            1  3e-4  9              –     –  failed    1m  rank 0 exited with 3
        … 7 more elements; --all shows them
        ");
    }

    #[test]
    fn numbers_are_sorted_as_numbers() {
        let mut rows = rows();
        sort(&mut rows, &ElementOrder::Param(1));
        assert_eq!(rows.iter().map(|row| row.index).collect::<Vec<_>>(), [2, 1, 0]);
        sort(&mut rows, &ElementOrder::Metric(Goal::Max));
        assert_eq!(rows.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 2, 1]);
    }
}
