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

#[cfg(test)]
mod tests;
