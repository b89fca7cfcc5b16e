//! The evaluator: applies a list of rules from top to bottom, once. It is independent of the rules.

use crate::case::FactsCase;
use crate::rule::{Rule, RuleChange};

/// Applies a list of rules to a case and calls `fired` with each rule that took effect.
pub(crate) fn decide(
    rules: &'static [Rule],
    case: &mut FactsCase<'_>,
    mut fired: impl FnMut(&'static Rule),
) {
    for rule in rules {
        if may_take_effect(rule.effect, case) && rule.when.holds(case) {
            take_effect(rule.effect, case);
            fired(rule);
        }
    }
}

/// Returns true if the effect is still possible: the first choice and the first split stay, and no
/// part is required or added twice.
fn may_take_effect(effect: RuleChange, case: &FactsCase<'_>) -> bool {
    match effect {
        RuleChange::Choose { .. } => case.primary.is_none(),
        RuleChange::Split(_) => case.hybrid.is_none(),
        RuleChange::Require(what) => !case.required.contains(&what),
        RuleChange::Add(what) => !case.addons.contains(&what),
        RuleChange::Reason => true,
    }
}

fn take_effect(effect: RuleChange, case: &mut FactsCase<'_>) {
    match effect {
        RuleChange::Choose { primary, addon } => {
            case.primary = Some(primary);
            if !addon.is_empty() {
                case.addons.push(addon);
            }
        }
        RuleChange::Split(how) => case.hybrid = Some(how),
        RuleChange::Require(what) => case.required.push(what),
        RuleChange::Add(what) => case.addons.push(what),
        RuleChange::Reason => {}
    }
}
