//! The section of the page on versions, estimates and assumptions: what decided in each run, and
//! the parts of docs/models.md on the models in the comparison. It must not repeat what that
//! document says: assumptions are taken from its tables.

use muster_model::simulation::{FleetComparison, FleetFigures, TimeLimits};

use super::escape::escaped;
use crate::amount::{grouped, grouped_count};
use crate::fleet::runs::decided_by;

/// Description of all models; a section per model or group of models, named in its heading.
const DOCUMENT: &str = include_str!("../../../../docs/models.md");

/// Returns the section's content.
pub(super) fn section(comparison: &FleetComparison) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut parts: Vec<&str> = Vec::new();
    let mut list = String::new();
    for run in &comparison.runs {
        if names.contains(&run.scheduler.as_str()) {
            continue;
        }
        names.push(&run.scheduler);
        let part = part_on(&run.scheduler).filter(|_| !run.is_engine);
        list.push_str(&entry(run, part));
        parts.extend(part.filter(|part| !parts.contains(part)));
    }
    let parts: String = parts.iter().map(|part| details(part)).collect();
    format!("<p>{}</p>\n<dl id=\"models\">{list}</dl>\n{parts}", escaped(&estimates(comparison)))
}

/// Describes the source of the time limits.
fn estimates(comparison: &FleetComparison) -> String {
    let FleetComparison { limits, without_limit, jobs, .. } = comparison;
    let source = match limits {
        TimeLimits::Requested => "those that users requested",
        TimeLimits::Predicted => {
            "those that users requested; the engine plans by predictions from earlier jobs"
        }
        TimeLimits::Actual => "the true runtimes, which no user knows",
        TimeLimits::Noisy => "random, one to five times the runtime",
    };
    let without = match without_limit {
        0 => String::new(),
        _ => format!("; {} of {} have none", grouped(*without_limit), grouped_count(*jobs, "job")),
    };
    format!(
        "Time limits are {source}{without}. Runtimes are those of the trace on any node. No figure here was measured on a control \
         plane other than in simulation."
    )
}

/// Returns the entry of a scheduler: what decided, and what is assumed of it.
fn entry(run: &FleetFigures, part: Option<&str>) -> String {
    let assumed: String = part
        .map(assumptions)
        .unwrap_or_default()
        .iter()
        .map(|assumed| format!("<li>{}</li>", escaped(assumed)))
        .collect();
    let assumed = if assumed.is_empty() { assumed } else { format!("Assumed: <ul>{assumed}</ul>") };
    let link = part.map_or(String::new(), |part| {
        format!("<a href=\"#{}\">What is modelled, and what not</a>", anchor(part))
    });
    let name = escaped(&run.scheduler);
    format!("<dt>{name}: {}</dt><dd>{assumed}{link}</dd>", escaped(&decided_by(run)))
}

/// Returns a part of the document, folded.
fn details(part: &str) -> String {
    let (heading, text) = part.split_once('\n').unwrap_or((part, ""));
    format!(
        "<details id=\"{}\"><summary>docs/models.md: {}</summary><pre>{}</pre></details>\n",
        anchor(part),
        escaped(heading),
        escaped(text.trim())
    )
}

/// Returns the id of a part, from the first name in its heading.
fn anchor(part: &str) -> String {
    format!("model-{}", part.split([',', '\n']).next().unwrap_or_default())
}

/// Returns the part of the document on a scheduler, from its heading on.
fn part_on(scheduler: &str) -> Option<&'static str> {
    DOCUMENT.split("\n## ").skip(1).find(|part| {
        let heading = part.lines().next().unwrap_or_default();
        heading.split(", ").any(|name| name == scheduler)
    })
}

/// Returns the rows of a part's table of constants whose source is an assumption.
fn assumptions(part: &str) -> Vec<String> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let [name, value, from] = [cells.next()?, cells.next()?, cells.next()?];
        let why = from.strip_prefix("assumption")?;
        Some(format!("{name}: {value}{why}").replace('`', ""))
    };
    part.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assumptions_of_a_model_are_those_of_its_table() {
        let kueue = part_on("kueue-tas").expect("it is in the heading");
        assert!(kueue.starts_with("kueue, kueue-ready, kueue-tas\n"));
        let assumed = assumptions(kueue);
        assert_eq!(assumed.len(), 2, "{assumed:?}");
        assert!(assumed[0].starts_with("EVICTION: 1 s: time until the pods"), "{assumed:?}");
        assert_eq!(part_on("muster"), None);
    }
}
