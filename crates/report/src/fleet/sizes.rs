//! Mean waiting times by size of job, a column per control plane, if all columns fit.

use muster_model::simulation::FleetComparison;

use super::runs::widest;
use super::unit;
use super::words::{at_least, span};
use crate::RenderContext;
use crate::amount::grouped;
use crate::style::Ink;
use crate::table::{Align, Cell, Table};

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
    let mut headings = vec![(format!("{unit}S"), Align::Left), ("JOBS".to_owned(), Align::Right)];
    headings.extend(comparison.runs.iter().map(|run| (run.scheduler.to_uppercase(), Align::Right)));
    let mut table = Table::new(&headings);
    for size in sizes {
        let of = |run: usize| comparison.runs[run].sizes.iter().find(|known| known.size == size);
        let jobs = (0..comparison.runs.len()).filter_map(of).map(|size| size.jobs).max();
        let mut row = vec![Cell::from(size), Cell::from(grouped(jobs.unwrap_or_default()))];
        row.extend((0..comparison.runs.len()).map(|run| match of(run) {
            Some(size) => {
                let at_least = at_least(&comparison.runs[run]);
                Cell::from(format!("{at_least}{}", span(size.waited_secs.mean)))
            }
            None => Cell::from("-"),
        }));
        table.row(row);
    }
    let seed = if comparison.seeds.len() > 1 { ", of the first seed" } else { "" };
    let title = format!("waited by size of job, mean{seed}");
    let fits = widest(&table.render(RenderContext::plain())) <= width;
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
