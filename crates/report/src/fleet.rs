//! Comparison of control planes on a trace and a fleet: `muster simulate` with a cluster. The
//! figures are computed in `sim`; `findings.rs` interprets them, for the terminal and the page.

mod calibration;
mod caveat;
pub(crate) mod findings;
mod instant;
pub(crate) mod runs;
mod sizes;
pub(crate) mod sweep;
mod variants;
pub(crate) mod words;

use muster_model::simulation::{FleetComparison, FleetUnit, Resampled};

use crate::RenderContext;
use crate::amount::{grouped, grouped_count};
use crate::style::{clean, wrap};

pub use calibration::sentences as calibration;
pub use caveat::caveat;
pub use findings::findings;
pub use instant::instant;
pub use sweep::{data_table, sweep};
pub use variants::{label, variants};

/// Columns if the output is not a terminal.
const WIDTH: usize = 100;
/// Indentation of the second line of a sentence.
const INDENT: &str = "  ";

/// Returns the load and the fleet, a row per control plane, their waits by size of job, and the
/// findings.
#[must_use]
pub fn comparison(comparison: &FleetComparison, context: RenderContext) -> String {
    let width = context.width.unwrap_or(WIDTH);
    let mut text: String = head(comparison).iter().map(|line| wrapped(line, width)).collect();
    text.extend(caveat(comparison).map(|caveat| wrapped(&format!("warning: {caveat}"), width)));
    let calibration = calibration::text(comparison, width, context);
    if !calibration.is_empty() {
        text.push('\n');
        text.push_str(&calibration);
    }
    text.push('\n');
    text.push_str(&runs::tables(comparison, width, context));
    if let Some(table) = sizes::table(comparison, width.min(WIDTH), context) {
        text.push('\n');
        text.push_str(&table);
    }
    let findings = findings(comparison);
    if !findings.is_empty() {
        text.push('\n');
    }
    text.extend(findings.iter().map(|finding| wrapped(finding, width)));
    text
}

/// Returns a sentence, wrapped.
fn wrapped(sentence: &str, width: usize) -> String {
    wrap(sentence, width.saturating_sub(INDENT.len())).join(&format!("\n{INDENT}")) + "\n"
}

/// Describes the load and the cluster, and what is left out of the load.
pub(crate) fn head(comparison: &FleetComparison) -> Vec<String> {
    let FleetComparison { trace, cluster, queues, nodes, size, jobs, strangers, seeds, .. } =
        comparison;
    let queues =
        queues.as_ref().map_or(String::new(), |queues| format!(", queues of {}", clean(queues)));
    let load = format!("{} of {}", grouped_count(*jobs, "job"), clean(trace));
    let is_one = comparison.variants.is_empty();
    let mut lines = if is_one {
        let nodes = grouped_count(*nodes, "node");
        let size = words::amount(*size);
        let unit = unit(comparison.unit);
        vec![format!("{load} on {} ({nodes}, {size} {unit}s){queues}", clean(cluster))]
    } else {
        let mut lines = vec![format!("{load}, the same on each variant:")];
        lines.extend(variants(comparison));
        lines
    };
    let too_large = if is_one {
        "that do not fit the idle cluster"
    } else {
        "that do not fit the idle cluster of every variant"
    };
    let left_out = [
        (comparison.never_ran, "without a known runtime"),
        (comparison.too_large, too_large),
        (comparison.bad_rows, "that cannot be read"),
    ];
    for (number, why) in left_out.into_iter().filter(|(number, _)| *number > 0) {
        lines.push(format!("left out: {} {why}", grouped(number)));
    }
    if is_one && *strangers > 0 {
        let jobs = grouped_count(*strangers, "job");
        lines.push(format!("in the default queue: {jobs} whose queue does not exist"));
    }
    if seeds.len() > 1 {
        let runs = seeds.len();
        let drawn = match comparison.resampled {
            None => "",
            Some(Resampled::Weeks) => ", which draws the weeks of the trace anew, with replacement",
            Some(Resampled::Users) => ", which draws the users of the trace anew, with replacement",
        };
        lines.push(format!(
            "means of {runs} runs, one for each seed{drawn}; ± is the half-width of the 95 % confidence interval"
        ));
    }
    lines
}

/// Returns the name of the unit, `GPU` or `CPU`.
pub(crate) fn unit(unit: FleetUnit) -> &'static str {
    match unit {
        FleetUnit::Gpu => "GPU",
        FleetUnit::Cpu => "CPU",
    }
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
