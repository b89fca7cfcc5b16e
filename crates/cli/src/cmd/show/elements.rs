//! The elements of an array or sweep in `muster show`.

use anyhow::Result;
use muster_api::Client;
use muster_api::types::ElementList;
use muster_model::view::JobState;
use muster_report::elements::{ElementOrder, ElementTable, elements, sort};

use super::ShowArgs;
use crate::app::App;
use crate::exit::Failure;
use crate::jobref::JobTarget;

/// Most elements that are shown without `--all`.
const MOST: usize = 20;

/// Prints the table: of a sweep all elements; of an array those that failed, unless all are asked for; of one element
/// its own line.
pub async fn print(app: &App, client: &Client, args: &ShowArgs, target: JobTarget) -> Result<()> {
    let is_asked = args.elements || args.all || args.sort.is_some();
    let list = match client.elements(target.job).await {
        Ok(list) => list,
        // The sheet is complete without them.
        Err(_) if !is_asked => return Ok(()),
        Err(error) => return Err(Failure::from(error).into()),
    };
    warn_without_reports(app, &list);
    let order = order(args.sort.as_deref(), &list)?;
    let ElementList { now, params, metric, elements: mut rows } = list;
    sort(&mut rows, &order);
    rows.retain(|row| target.index.is_none_or(|wanted| wanted == row.index));
    if params.is_empty() && !is_asked {
        rows.retain(|row| row.state == JobState::Failed);
    }
    let most = if args.all { usize::MAX } else { MOST };
    let omitted = rows.len().saturating_sub(most);
    rows.truncate(most);
    if rows.is_empty() {
        return Ok(());
    }
    let shown = ElementTable { params: &params, metric: metric.as_ref(), rows: &rows, omitted };
    let lead = if args.elements { "" } else { "\n" };
    Ok(app.ui.data(&format!("{lead}{}", elements(&shown, app.ui.context().at(now))))?)
}

/// Warns of a sweep that has ended without a report of its metric: its name or pattern may be wrong.
pub fn warn_without_reports(app: &App, list: &ElementList) {
    let Some(metric) = &list.metric else { return };
    let mut rows = list.elements.iter();
    if rows.all(|row| row.state.is_final() && row.report.is_none()) {
        app.ui.warning(&format!("no element has reported `{}`", metric.name));
        app.ui.hint("elements append lines of JSON to $MUSTER_REPORT_FILE, or `metric` has a `pattern` for their output");
    }
}

/// Returns the order that `--sort` names, or else the default of the job.
fn order(sort: Option<&str>, list: &ElementList) -> Result<ElementOrder> {
    let of_metric = || list.metric.as_ref().map(|metric| ElementOrder::Metric(metric.goal));
    let param = |name: &str| list.params.iter().position(|param| param == name);
    let Some(key) = sort else { return Ok(of_metric().unwrap_or(ElementOrder::Index)) };
    let is_metric =
        key == "metric" || list.metric.as_ref().is_some_and(|metric| metric.name == key);
    let found = match key {
        "index" => Some(ElementOrder::Index),
        _ if is_metric => of_metric(),
        _ => param(key).map(ElementOrder::Param),
    };
    found.ok_or_else(|| {
        let keys = ["index"].into_iter().chain(list.metric.iter().map(|_| "metric"));
        let keys: Vec<&str> = keys.chain(list.params.iter().map(String::as_str)).collect();
        Failure::usage(format!("its elements have no `{key}`"))
            .hint(format!("--sort takes {}", keys.join(", ")))
            .into()
    })
}
