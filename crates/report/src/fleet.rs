//! What control planes made of a trace on a fleet: `muster simulate` with a cluster. Numbers are made in `sim`; `findings.rs`
//! says what they mean, for the terminal and the page alike.

mod findings;
mod runs;
mod sizes;
mod words;

use muster_model::simulation::{FleetComparison, FleetUnit};

use crate::amount::{grouped, grouped_count};
use crate::style::{Style, clean, wrap};

pub use findings::findings;

/// Columns where there is no terminal.
const WIDTH: usize = 100;
/// Before the second line of a sentence.
const INDENT: &str = "  ";

/// The load and the fleet, a row per control plane, their waits by size of job, and what differs.
#[must_use]
pub fn comparison(comparison: &FleetComparison, style: &Style) -> String {
    let width = style.width.unwrap_or(WIDTH);
    let mut text = head(comparison);
    text.push('\n');
    text.push_str(&runs::tables(comparison, width, style));
    if let Some(table) = sizes::table(comparison, width.min(WIDTH), style) {
        text.push('\n');
        text.push_str(&table);
    }
    let findings = findings(comparison);
    if !findings.is_empty() {
        text.push('\n');
    }
    for finding in findings {
        text.push_str(&wrap(&finding, width.saturating_sub(INDENT.len())).join(&format!("\n{INDENT}")));
        text.push('\n');
    }
    text
}

/// What arrives where, and what is left out of it.
fn head(comparison: &FleetComparison) -> String {
    let FleetComparison { trace, cluster, queues, nodes, size, jobs, strangers, seeds, .. } = comparison;
    let queues = queues.as_ref().map_or(String::new(), |queues| format!(", queues of {}", clean(queues)));
    let mut text = format!(
        "{} of {} on {} ({}, {} {}s){queues}\n",
        grouped_count(*jobs, "job"),
        clean(trace),
        clean(cluster),
        grouped_count(*nodes, "node"),
        words::amount(*size),
        unit(comparison.unit),
    );
    let left_out = [
        (comparison.never_ran, "that never ran where they come from"),
        (comparison.too_large, "that not even the idle cluster could host"),
        (comparison.bad_rows, "that cannot be read"),
    ];
    for (number, why) in left_out.into_iter().filter(|(number, _)| *number > 0) {
        text.push_str(&format!("left out: {} {why}\n", grouped(number)));
    }
    if *strangers > 0 {
        let jobs = grouped_count(*strangers, "job");
        text.push_str(&format!("in the default queue: {jobs} of queues that are not there\n"));
    }
    if seeds.len() > 1 {
        let runs = seeds.len();
        text.push_str(&format!(
            "means of {runs} runs, one for each seed; ± is how near they lie to the true ones with 95 % confidence\n"
        ));
    }
    text
}

/// `GPU` or `CPU`.
fn unit(unit: FleetUnit) -> &'static str {
    match unit {
        FleetUnit::Gpu => "GPU",
        FleetUnit::Cpu => "CPU",
    }
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
