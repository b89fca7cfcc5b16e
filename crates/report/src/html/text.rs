//! The parts of the page that are readable without scripts: head, findings, figures, models and
//! command. Scripts replace some of them by sortable ones. Names of a trace are escaped here; this
//! file must not insert any of them as markup.

use muster_model::simulation::FleetComparison;

use super::data::PageData;
use super::escape::escaped;
use super::models;
use crate::fleet::runs;

/// Returns the marks of the skeleton between style and data, with their parts, in order.
pub(super) fn parts(
    comparison: &FleetComparison,
    data: &PageData<'_>,
) -> Vec<(&'static str, String)> {
    let head = crate::fleet::head(comparison);
    let (load, left_out) = head.split_first().map_or(("", &[][..]), |(load, rest)| (load, rest));
    let title = match comparison.variants.len() {
        0 => format!("{} on {}", comparison.trace, comparison.cluster),
        variants => format!("{} on {variants} variants", comparison.trace),
    };
    vec![
        ("{{title}}", escaped(&title)),
        ("{{load}}", escaped(load)),
        ("{{left_out}}", items(left_out)),
        ("{{no_calibration}}", hidden(data.calibration.is_empty())),
        ("{{calibration}}", items(&data.calibration)),
        ("{{no_caveat}}", hidden(data.caveat.is_none())),
        ("{{caveat}}", escaped(data.caveat.as_deref().unwrap_or_default())),
        ("{{findings}}", items(&data.findings)),
        ("{{figures}}", table(comparison)),
        ("{{unit}}", crate::fleet::unit(comparison.unit).to_owned()),
        ("{{models}}", models::section(comparison)),
        ("{{command}}", escaped(&comparison.command)),
    ]
}

fn hidden(is_hidden: bool) -> String {
    if is_hidden { " hidden".to_owned() } else { String::new() }
}

/// Returns sentences as items of a list.
pub(super) fn items(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("<li>{}</li>", escaped(sentence))).collect()
}

/// Returns the table of figures as in the terminal.
fn table(comparison: &FleetComparison) -> String {
    table_of(&runs::cells(comparison))
}

/// Returns a table of headings and rows.
pub(super) fn table_of((headings, rows): &(Vec<&str>, Vec<Vec<String>>)) -> String {
    let headings: String = headings
        .iter()
        .map(|heading| format!("<th scope=\"col\">{}</th>", escaped(&heading.to_lowercase())))
        .collect();
    let row = |cells: &Vec<String>| {
        let cells: String =
            cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>")
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>")
}
