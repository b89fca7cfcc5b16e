//! Mean waiting times by size of job, a column per control plane, if all columns fit.

use muster_model::simulation::{FleetComparison, FleetFigures};

use super::words::{at_least, span};
use super::{label, unit};
use crate::RenderContext;
use crate::amount::grouped;
use crate::style::Ink;
use crate::table::Table;

/// Returns the table of means; `None` if all jobs are of one size or the table does not fit.
pub(super) fn table(
    comparison: &FleetComparison,
    width: usize,
    context: RenderContext,
) -> Option<String> {
    let sizes = names(comparison);
    if sizes.len() < 2 {
        return None;
    }
    let unit = unit(comparison.unit);
    let of = |run: &'_ FleetFigures, size: &str| {
        run.sizes.iter().find(|known| known.size == size).cloned()
    };
    let table = Table::of(&sizes).left(&format!("{unit}S"), |size| *size).right("JOBS", |size| {
        let jobs = comparison.runs.iter().filter_map(|run| of(run, size)).map(|size| size.jobs);
        grouped(jobs.max().unwrap_or_default())
    });
    let table = comparison.runs.iter().fold(table, |table, run| {
        table.right(&label(run).to_uppercase(), |size| match of(run, size) {
            Some(size) => format!("{}{}", at_least(run), span(size.waited_secs.mean)),
            None => "-".to_owned(),
        })
    });
    let seed = if comparison.seeds.len() > 1 { ", of the first seed" } else { "" };
    let title = format!("waited by size of job, mean{seed}");
    let fits = table.width() <= width;
    fits.then(|| format!("{}\n{}", context.paint(Ink::Strong, &title), table.render(context)))
}

/// Returns the sizes of all runs, from small to large. Each run lists its sizes in this order.
fn names(comparison: &FleetComparison) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in &comparison.runs {
        let mut next = 0;
        for size in &run.sizes {
            match names.iter().position(|known| *known == size.size) {
                Some(at) => next = at + 1,
                None => {
                    names.insert(next, &size.size);
                    next += 1;
                }
            }
        }
    }
    names
}
