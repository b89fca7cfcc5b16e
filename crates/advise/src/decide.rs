//! The evaluator: reads a list of rules from top to bottom, once. It knows no rule.

use crate::case::Case;
use crate::rule::{Effect, Rule};

/// Applies a list of rules to a case and calls `fired` with each that took effect.
pub(crate) fn decide(
    rules: &'static [Rule],
    case: &mut Case<'_>,
    mut fired: impl FnMut(&'static Rule),
) {
    for rule in rules {
        if may_take_effect(rule.effect, case) && rule.when.holds(case) {
            take_effect(rule.effect, case);
            fired(rule);
        }
    }
}

/// What is decided stays decided, and nothing is asked for twice.
fn may_take_effect(effect: Effect, case: &Case<'_>) -> bool {
    match effect {
        Effect::Choose { .. } => case.primary.is_none(),
        Effect::Split(_) => case.hybrid.is_none(),
        Effect::Require(what) => !case.required.contains(&what),
        Effect::Add(what) => !case.addons.contains(&what),
        Effect::Reason => true,
    }
}

fn take_effect(effect: Effect, case: &mut Case<'_>) {
    match effect {
        Effect::Choose { primary, addon } => {
            case.primary = Some(primary);
            if !addon.is_empty() {
                case.addons.push(addon);
            }
        }
        Effect::Split(how) => case.hybrid = Some(how),
        Effect::Require(what) => case.required.push(what),
        Effect::Add(what) => case.addons.push(what),
        Effect::Reason => {}
    }
}
