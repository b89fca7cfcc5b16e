//! Conditions as data: they can be evaluated, printed for the documentation and searched for their thresholds. Whether a
//! condition is right is not known here.

use std::fmt;

use muster_model::advice::{Fact, Plane, Ruleset, Threshold};

use crate::case::Case;

/// When a rule fires, a warning is due, a dispute touches the case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    /// Without condition.
    Always,
    /// A flag is set.
    Is(Fact),
    /// A flag is not set.
    Not(Fact),
    /// The threshold's fact has reached it.
    Reaches(Threshold),
    /// The threshold's fact is below it.
    Below(Threshold),
    /// One of these was chosen.
    Chosen(&'static [Plane]),
    /// Something was put in front as required: a gang scheduler.
    Gang,
    /// The fleet is split.
    Hybrid,
    /// This set of rules decides.
    Under(Ruleset),
    /// Every one holds.
    All(&'static [Condition]),
    /// At least one holds.
    Any(&'static [Condition]),
    /// It does not hold.
    Never(&'static Condition),
}

impl Condition {
    /// Whether it holds.
    pub(crate) fn holds(&self, case: &Case<'_>) -> bool {
        let reaches =
            |threshold: Threshold| case.facts.get(threshold.fact()) >= case.thresholds.get(threshold);
        match self {
            Condition::Always => true,
            Condition::Is(fact) => case.facts.is(*fact),
            Condition::Not(fact) => !case.facts.is(*fact),
            Condition::Reaches(threshold) => reaches(*threshold),
            Condition::Below(threshold) => !reaches(*threshold),
            Condition::Chosen(planes) => case.primary.is_some_and(|primary| planes.contains(&primary)),
            Condition::Gang => !case.required.is_empty(),
            Condition::Hybrid => case.hybrid.is_some(),
            Condition::Under(ruleset) => case.ruleset == *ruleset,
            Condition::All(conditions) => conditions.iter().all(|condition| condition.holds(case)),
            Condition::Any(conditions) => conditions.iter().any(|condition| condition.holds(case)),
            Condition::Never(condition) => !condition.holds(case),
        }
    }

    /// Calls `see` with every threshold in it.
    pub(crate) fn thresholds(&self, see: &mut impl FnMut(Threshold)) {
        match self {
            Condition::Reaches(threshold) | Condition::Below(threshold) => see(*threshold),
            Condition::All(conditions) | Condition::Any(conditions) => {
                for condition in *conditions {
                    condition.thresholds(see);
                }
            }
            Condition::Never(condition) => condition.thresholds(see),
            Condition::Always
            | Condition::Is(_)
            | Condition::Not(_)
            | Condition::Chosen(_)
            | Condition::Gang
            | Condition::Hybrid
            | Condition::Under(_) => {}
        }
    }
}

/// In words, with the default numbers.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |threshold: &Threshold| threshold.fact().value(threshold.default());
        match self {
            Condition::Always => f.write_str("always"),
            Condition::Is(fact) => write!(f, "{fact}"),
            Condition::Not(fact) => write!(f, "not {fact}"),
            Condition::Reaches(threshold) => {
                write!(f, "{} at least {} ({})", threshold.fact(), number(threshold), threshold.name())
            }
            Condition::Below(threshold) => {
                write!(f, "{} below {} ({})", threshold.fact(), number(threshold), threshold.name())
            }
            Condition::Chosen(planes) => {
                let names: Vec<&str> = planes.iter().map(|plane| plane.name()).collect();
                write!(f, "the choice is {}", names.join(" or "))
            }
            Condition::Gang => f.write_str("a gang scheduler is required"),
            Condition::Hybrid => f.write_str("the fleet is split"),
            Condition::Under(Ruleset::Corrected) => f.write_str("the default ruleset"),
            Condition::Under(Ruleset::Guide) => f.write_str("the guide's ruleset"),
            Condition::All(conditions) => joined(f, conditions, " and "),
            Condition::Any(conditions) => joined(f, conditions, " or "),
            Condition::Never(condition) => write!(f, "not ({condition})"),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, conditions: &[Condition], word: &str) -> fmt::Result {
    for (index, condition) in conditions.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        match condition {
            Condition::All(_) | Condition::Any(_) => write!(f, "({condition})")?,
            _ => write!(f, "{condition}")?,
        }
    }
    Ok(())
}
