//! Comparison of control planes on a trace and a fleet, as one self-contained HTML page: no network
//! access, font or script from elsewhere. Style and scripts are files under `html/`, combined here
//! with the data, which is JSON and which the scripts insert as text only. The figures are
//! interpreted in `fleet/findings.rs`. What needs no script is in the HTML, too (`html/text.rs`).

mod data;
mod escape;
mod models;
mod text;

use muster_model::simulation::{FleetComparison, Gantt};

use data::PageData;

/// The HTML of the page, with marks for style, text, data and scripts, in the order of `page`.
const SKELETON: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
/// Scripts in order of dependency: later ones use earlier ones.
const SCRIPTS: [&str; 13] = [
    include_str!("html/words.js"),
    include_str!("html/axis.js"),
    include_str!("html/chart.js"),
    include_str!("html/figures.js"),
    include_str!("html/owners.js"),
    include_str!("html/calibration.js"),
    include_str!("html/gantt_bars.js"),
    include_str!("html/gantt_paint.js"),
    include_str!("html/gantt_dense.js"),
    include_str!("html/gantt_view.js"),
    include_str!("html/gantt_draw.js"),
    include_str!("html/gantt.js"),
    include_str!("html/page.js"),
];

/// Returns the page. Gantts are by control plane; there may be none.
#[must_use]
pub fn page(comparison: &FleetComparison, gantts: &[Gantt]) -> String {
    let data = PageData::of(comparison, gantts);
    let mut parts = vec![("{{style}}", STYLE.to_owned())];
    parts.extend(text::parts(comparison, &data));
    parts.extend([("{{data}}", data.json()), ("{{scripts}}", SCRIPTS.join("\n"))]);
    // Parts are appended in order, so that no part is searched for the marks of others.
    let mut page = String::new();
    let mut rest = SKELETON;
    for (mark, part) in parts {
        let (before, after) =
            rest.split_once(mark).expect("the skeleton has every mark, in this order");
        page.push_str(before);
        page.push_str(&part);
        rest = after;
    }
    page + rest
}

/// Returns the page of a sweep: the table, which needs no script.
#[must_use]
pub fn sweep_page(all: &[FleetComparison]) -> String {
    let title = all.first().map_or("", |first| &first.trace);
    let command = all.first().map_or("", |first| &first.command);
    let said = text::items(&crate::fleet::sweep::sentences(all));
    let table = text::table_of(&crate::fleet::sweep::cells(all));
    let title = escape::escaped(title);
    let command = escape::escaped(command);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>muster simulate</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n\
         <h1>Sweep of {title}</h1>\n<ul class=\"faint\">{said}</ul>\n</header>\n\
         <section aria-labelledby=\"figures-title\">\n<h2 id=\"figures-title\">Figures</h2>\n\
         <div class=\"scrolls\" tabindex=\"0\" role=\"region\" aria-labelledby=\"figures-title\">{table}</div>\n\
         <p class=\"faint\">Load is the factor on the arrival rate of the trace, limits are the time limits that the schedulers see. \
         Turnaround is the time from submission to end; waited is the part of it in which a job did not run. \
         ≥: jobs that never end are counted until the last instant of any run. All control planes but muster are models: docs/models.md.</p>\n\
         </section>\n<section>\n<h2>Command</h2>\n<pre>{command}</pre>\n</section>\n</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests;
