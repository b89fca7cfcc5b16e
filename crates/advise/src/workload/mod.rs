//! Advice on one workload: the guide's labeller as rules, and the evidence for its label.

mod compose;
mod known;
mod rules;
pub(crate) mod terms;

use std::borrow::Cow;

use muster_model::advice::{
    Advice, Citation, CitedPage, Fact, FactChanges, FactValue, Facts, FiredRule, Label, Ruleset,
    Thresholds, Warning,
};

use self::known::{Known, READ};
use crate::case::FactsCase;
use crate::decide::decide;
use crate::flips::Search;
use crate::{disputes, overrides, warnings};

pub(crate) use compose::{LAYERS, Stratum, stack};
pub(crate) use rules::RULES;

/// Id of the warning that a given fact changes nothing.
pub(crate) const SILENT_FACT: &str = "silent-fact";

/// Returns the label without the evidence for it.
#[must_use]
pub fn label(facts: &Facts, thresholds: &Thresholds, ruleset: Ruleset) -> Label {
    let mut case = FactsCase::new(facts, thresholds, ruleset);
    decide(RULES, &mut case, |_| {});
    case.label()
}

/// Returns the label with its reasons, warnings, composition, flips and disputes.
#[must_use]
pub fn advise(facts: &Facts, thresholds: &Thresholds, ruleset: Ruleset) -> Advice {
    // 1. Decide, and keep the reasons.
    let mut case = FactsCase::new(facts, thresholds, ruleset);
    let mut rules: Vec<FiredRule> = Vec::new();
    decide(RULES, &mut case, |rule| rules.push(FiredRule::from(rule)));
    rules.extend(overrides::of(&READ.shown, thresholds));

    // 2. Evaluate again with other facts.
    let known = Known::new(thresholds, ruleset);
    let search =
        Search { askable: &READ.facts, read: &READ.thresholds, together: READ.facts.len() };
    let flips = search.flips(facts, thresholds, |facts| known.ask(facts));

    // 3. Warnings and disputes of this answer.
    let mut warnings = warnings::due(warnings::WORKLOAD, &case);
    warnings.extend(silent_facts(&search, facts, thresholds, &known));
    Advice {
        label: case.label(),
        rules,
        warnings,
        composition: compose::stack(LAYERS, &case),
        flips,
        disputes: disputes::touched(disputes::WORKLOAD, &case),
    }
}

/// Returns a warning for each given fact that does not change this answer, with the smallest change
/// of other facts after which it would.
fn silent_facts(
    search: &Search<'_>,
    facts: &Facts,
    thresholds: &Thresholds,
    known: &Known<'_>,
) -> Vec<Warning> {
    let given = facts.given().filter(|(fact, _)| Fact::WORKLOAD.contains(fact));
    given
        .filter_map(|(fact, value)| {
            let read = search.askable.contains(&fact);
            let after = if read {
                search.matters_after(fact, facts, thresholds, |facts| known.ask(facts))
            } else {
                None
            };
            match after {
                Some(FactChanges(changes)) if changes.is_empty() => None,
                Some(changes) => Some(silent(fact, value, &would_matter(fact, &changes))),
                None => Some(silent(fact, value, &never_matters(fact))),
            }
        })
        .collect()
}

fn silent(fact: Fact, value: FactValue, cure: &str) -> Warning {
    Warning {
        id: SILENT_FACT,
        sentence: Cow::Owned(format!("{fact}: {value} changes nothing in this answer")),
        tell: Cow::Borrowed("the label is the same without it"),
        cure: Cow::Owned(cure.to_owned()),
        source: Citation::new(CitedPage::Muster, "found by evaluating the rules without it"),
    }
}

fn would_matter(fact: Fact, changes: &FactChanges) -> String {
    let steps: Vec<String> =
        changes.0.iter().map(|(other, value)| format!("{other}: {value}")).collect();
    format!("do not count on {fact} as a reason; it would decide with {}", steps.join(", "))
}

/// Returns the advice for a fact that never decides: no rule reads it, or this site's thresholds
/// leave no combination in which it decides.
fn never_matters(fact: Fact) -> String {
    format!(
        "do not count on {fact} as a reason: it decides no label; only warnings, disputes and the composition read it"
    )
}

#[cfg(test)]
mod tests {
    use muster_model::advice::{FactKind, Threshold};

    use super::*;

    /// The cases that `known` distinguishes: the rules read only flags and thresholds.
    #[test]
    fn rules_read_what_their_documentation_says() {
        assert_eq!(READ.thresholds, [Threshold::MultiNode]);
        let silent = Fact::WORKLOAD.iter().filter(|fact| !READ.facts.contains(fact));
        assert_eq!(
            silent.collect::<Vec<_>>(),
            [&Fact::MultiTenant],
            "the guide's labeller reads every other fact"
        );
        let by_threshold =
            |fact: &Fact| READ.thresholds.iter().any(|threshold| threshold.fact() == *fact);
        assert!(READ.facts.iter().all(|fact| fact.kind() == FactKind::Flag || by_threshold(fact)));
    }
}
