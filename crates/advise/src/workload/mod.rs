//! Advice on one workload: the guide's labeller as rules, and all that stands behind its label.

mod compose;
mod known;
mod rules;
pub(crate) mod terms;

use std::borrow::Cow;

use muster_model::advice::{
    Advice, Changes, Fact, Facts, FiredRule, Label, Page, Ruleset, Source, Thresholds, Value,
    Warning,
};

use self::known::{Known, READ};
use crate::case::Case;
use crate::decide::decide;
use crate::flips::Search;
use crate::{disputes, overrides, warnings};

pub(crate) use compose::{LAYERS, Stratum, stack};
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
    // 1. Decide, and keep the reasons.
    let mut case = Case::new(facts, thresholds, ruleset);
    let mut rules: Vec<FiredRule> = Vec::new();
    decide(RULES, &mut case, |rule| rules.push(FiredRule::from(rule)));
    rules.extend(overrides::of(&READ.shown, thresholds));

    // 2. Ask again with other facts.
    let known = Known::new(thresholds, ruleset);
    let search =
        Search { askable: &READ.facts, read: &READ.thresholds, together: READ.facts.len() };
    let flips = search.flips(facts, thresholds, |facts| known.ask(facts));

    // 3. What this answer invites, and where it is disputed.
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

/// Facts that were given and leave this answer as it is. For each, the smallest change of other
/// facts after which it would matter.
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
                Some(Changes(changes)) if changes.is_empty() => None,
                Some(changes) => Some(silent(fact, value, &would_matter(fact, &changes))),
                None => Some(silent(fact, value, &never_matters(fact))),
            }
        })
        .collect()
}

fn silent(fact: Fact, value: Value, cure: &str) -> Warning {
    Warning {
        id: SILENT_FACT,
        sentence: Cow::Owned(format!("{fact}: {value} changes nothing in this answer")),
        tell: Cow::Borrowed("the label is the same without it"),
        cure: Cow::Owned(cure.to_owned()),
        source: Source::new(Page::Muster, "found by asking again without it"),
    }
}

fn would_matter(fact: Fact, changes: &Changes) -> String {
    let steps: Vec<String> =
        changes.0.iter().map(|(other, value)| format!("{other}: {value}")).collect();
    format!("do not count on {fact} as a reason; it would decide with {}", steps.join(", "))
}

/// No rule reads it, or this site's thresholds leave no combination in which it decides.
fn never_matters(fact: Fact) -> String {
    format!(
        "do not count on {fact} as a reason: it decides no label; it is read by the warnings, the disputes and the stack"
    )
}

#[cfg(test)]
mod tests {
    use muster_model::advice::{Kind, Threshold};

    use super::*;

    /// The cases that are told apart in `known`: flags and thresholds are all that the rules look
    /// at.
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
        assert!(READ.facts.iter().all(|fact| fact.kind() == Kind::Flag || by_threshold(fact)));
    }
}
