//! Time in a scenario: its start, and how transcripts show an instant.

use muster_model::Time;
use muster_report::{RenderContext, clock};

/// Start of every scenario: noon of 20 November 2026, UTC.
pub(crate) const NOON: Time = Time(1_795_176_000_000);

/// Formats a time of day, with the date on other days than the first.
pub(crate) fn format_time(now: Time) -> String {
    let context = RenderContext::plain();
    let time = clock::time(now, context.at(now));
    let far = clock::time(now, context.at(NOON));
    match far.rsplit_once(' ') {
        Some((day, _)) => format!("{day} {time}"),
        None => time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_begins_at_noon() {
        assert_eq!(muster_spec::quantity::parse_instant("2026-11-20T12:00:00Z"), Ok(NOON));
    }
}
