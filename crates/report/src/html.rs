//! What control planes made of a trace on a fleet, as one page that needs nothing else: no network,
//! no font, no script from elsewhere. Style and scripts stand in files of their own under `html/`;
//! here they are put together with the data, which is JSON, and which the scripts write as text
//! only. Nothing here says what figures mean (`fleet/findings.rs`).

mod data;

use muster_model::simulation::{FleetComparison, Gantt};

use data::Data;

/// What the page consists of, in the order in which it is read.
const SKELETON: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
/// Later ones use what earlier ones hold.
const SCRIPTS: [&str; 12] = [
    include_str!("html/words.js"),
    include_str!("html/axis.js"),
    include_str!("html/chart.js"),
    include_str!("html/figures.js"),
    include_str!("html/owners.js"),
    include_str!("html/gantt_bars.js"),
    include_str!("html/gantt_paint.js"),
    include_str!("html/gantt_dense.js"),
    include_str!("html/gantt_view.js"),
    include_str!("html/gantt_draw.js"),
    include_str!("html/gantt.js"),
    include_str!("html/page.js"),
];

/// The page. Gantts are by control plane; there may be none.
#[must_use]
pub fn page(comparison: &FleetComparison, gantts: &[Gantt]) -> String {
    let parts = [
        ("{{style}}", STYLE.to_owned()),
        ("{{data}}", Data::of(comparison, gantts).json()),
        ("{{scripts}}", SCRIPTS.join("\n")),
    ];
    // Each part goes behind the one before, so that no part is searched for the marks of others.
    let (mut page, mut rest) = (String::new(), SKELETON);
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
