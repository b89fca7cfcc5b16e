//! Advice on one workload: the guide's labeller as rules, and all that stands behind its label.

mod rules;

use muster_model::advice::{Advice, Fact, Facts, FiredRule, Label, Ruleset, Thresholds};

use crate::case::Case;
use crate::decide::decide;
use crate::flips::Search;
use crate::{disputes, overrides, warnings};

pub(crate) use rules::RULES;

/// The id of the warning that a fact which was given changes nothing.
pub(crate) const SILENT_FACT: &str = "silent-fact";

/// The label alone.
#[must_use]
pub fn label(facts: &Facts, thresholds: &Thresholds, ruleset: Ruleset) -> Label {
    let mut case = Case::new(facts, thresholds, ruleset);
    decide(RULES, &mut case, |_| {});
    case.label()
}

/// The label with its reasons, warnings, composition, flips and disputes.
#[must_use]
pub fn advise(facts: &Facts, thresholds: &Thresholds, ruleset: Ruleset) -> Advice {
    let mut case = Case::new(facts, thresholds, ruleset);
    let mut rules: Vec<FiredRule> = Vec::new();
    decide(RULES, &mut case, |rule| rules.push(FiredRule::from(rule)));
    rules.extend(overrides::fired(RULES, thresholds));
    let read = overrides::read(RULES);
    let search = Search { askable: Fact::WORKLOAD, read: &read, together: Fact::WORKLOAD.len() };
    Advice {
        label: case.label(),
        rules,
        warnings: warnings::due(warnings::WORKLOAD, &case),
        composition: Vec::new(),
        flips: search.flips(facts, thresholds, |facts| label(facts, thresholds, ruleset)),
        disputes: disputes::touched(disputes::WORKLOAD, &case),
    }
}
