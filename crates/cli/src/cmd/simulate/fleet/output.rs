//! Writes and prints comparisons: one as it is, several as the table of a sweep.

use std::path::Path;

use anyhow::Result;
use muster_model::simulation::FleetComparison;
use muster_report::fleet;

use super::compare::Compared;
use crate::app::App;
use crate::cmd::simulate::write;
use crate::exit::INTERRUPTED;

/// Writes the files that were asked for and prints the figures; returns the exit code.
pub fn deliver(app: &App, args: &super::super::SimulateArgs, all: Vec<Compared>) -> Result<u8> {
    let points = args.points().len();
    let is_sweep = points > 1;
    if all.len() < points {
        app.ui.warning(&format!(
            "{} of {points} loads and limits were compared; * marks a run that is not complete",
            all.len()
        ));
    }
    let is_partial = all.iter().any(Compared::is_partial);
    let mut gantts = Vec::new();
    let mut failed = None;
    let mut comparisons = Vec::with_capacity(all.len());
    for compared in all {
        gantts.push(compared.gantts);
        failed = failed.or(compared.failed);
        comparisons.push(compared.comparison);
    }
    let written = |path: &Path, content: &[u8], what: &str| -> Result<()> {
        write(path, content)?;
        app.ui.status(&format!("wrote {what} to {}", path.display()));
        Ok(())
    };
    if let Some(path) = &args.fleet.table_out {
        let table = fleet::data_table(&comparisons);
        let content = if is_parquet(path) { table.parquet() } else { table.csv().into_bytes() };
        written(path, &content, "the table")?;
    }
    if let Some(path) = &args.fleet.report_out {
        match comparisons.as_slice() {
            [only] if !is_sweep => {
                written(path, muster_report::html::page(only, &gantts[0]).as_bytes(), "the plots")?
            }
            all => written(path, muster_report::html::sweep_page(all).as_bytes(), "the page")?,
        }
    }
    print(app, args, &comparisons, is_sweep)?;
    match failed {
        Some(error) => Err(error),
        None => Ok(if is_partial { INTERRUPTED } else { 0 }),
    }
}

/// Returns true if a table of this name is Parquet; all others are CSV.
fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"))
}

fn print(
    app: &App,
    args: &super::super::SimulateArgs,
    all: &[FleetComparison],
    is_sweep: bool,
) -> Result<()> {
    match (all, args.output.json()) {
        ([only], true) if !is_sweep => app.ui.json(only)?,
        (all, true) => app.ui.json(&all)?,
        ([only], false) if !is_sweep => app.ui.data(&fleet::comparison(only, app.ui.context()))?,
        (all, false) => app.ui.data(&fleet::sweep(all, app.ui.context()))?,
    }
    Ok(())
}
