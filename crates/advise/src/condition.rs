//! Conditions as data: they can be evaluated, printed for the documentation and searched for their
//! thresholds. Whether a condition is right is not known here.

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
        let reaches = |threshold: Threshold| {
            case.facts.get(threshold.fact()) >= case.thresholds.get(threshold)
        };
        match self {
            Condition::Always => true,
            Condition::Is(fact) => case.facts.is(*fact),
            Condition::Not(fact) => !case.facts.is(*fact),
            Condition::Reaches(threshold) => reaches(*threshold),
            Condition::Below(threshold) => !reaches(*threshold),
            Condition::Chosen(planes) => {
                case.primary.is_some_and(|primary| planes.contains(&primary))
            }
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
        self.parts(&mut |part| {
            if let Condition::Reaches(threshold) | Condition::Below(threshold) = part {
                see(*threshold);
            }
        });
    }

    /// Whether the value of a fact is looked at anywhere in it.
    pub(crate) fn reads(&self, fact: Fact) -> bool {
        let mut reads = false;
        self.parts(&mut |part| {
            reads |= match part {
                Condition::Is(read) | Condition::Not(read) => *read == fact,
                Condition::Reaches(threshold) | Condition::Below(threshold) => {
                    threshold.fact() == fact
                }
                _ => false,
            };
        });
        reads
    }

    /// Calls `see` with every part that has no parts.
    fn parts(&self, see: &mut impl FnMut(&Condition)) {
        match self {
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().for_each(|part| part.parts(see))
            }
            Condition::Never(part) => part.parts(see),
            Condition::Always
            | Condition::Is(_)
            | Condition::Not(_)
            | Condition::Reaches(_)
            | Condition::Below(_)
            | Condition::Chosen(_)
            | Condition::Gang
            | Condition::Hybrid
            | Condition::Under(_) => see(self),
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
                write!(
                    f,
                    "{} at least {} ({})",
                    threshold.fact(),
                    number(threshold),
                    threshold.name()
                )
            }
            Condition::Below(threshold) => {
                write!(f, "{} below {} ({})", threshold.fact(), number(threshold), threshold.name())
            }
            Condition::Chosen(planes) => {
                f.write_str("the choice is ")?;
                joined(f, planes, |_| false, ", ", " or ")
            }
            Condition::Gang => f.write_str("a gang scheduler is required"),
            Condition::Hybrid => f.write_str("the fleet is split"),
            Condition::Under(Ruleset::Corrected) => f.write_str("the default ruleset"),
            Condition::Under(Ruleset::Guide) => f.write_str("the guide's ruleset"),
            Condition::All(parts) => {
                joined(f, parts, |part| matches!(part, Condition::Any(_)), " and ", " and ")
            }
            Condition::Any(parts) => {
                joined(f, parts, |part| matches!(part, Condition::All(_)), " or ", " or ")
            }
            Condition::Never(Condition::Any(parts)) => {
                f.write_str("neither ")?;
                joined(f, parts, |part| matches!(part, Condition::All(_)), " nor ", " nor ")
            }
            Condition::Never(condition) => write!(f, "not ({condition})"),
        }
    }
}

/// Parts with a word between them and another before the last; a part that would read wrong without
/// is in parentheses.
fn joined<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    parts: &[T],
    wraps: impl Fn(&T) -> bool,
    word: &str,
    last: &str,
) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(if index + 1 == parts.len() { last } else { word })?;
        }
        if wraps(part) { write!(f, "({part})")? } else { write!(f, "{part}")? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(condition: Condition, words: &str) {
        assert_eq!(condition.to_string(), words);
    }

    #[test]
    fn conditions_in_words() {
        const BIG: Condition = Condition::Reaches(Threshold::MultiNode);
        const TENANTS: Condition = Condition::Is(Fact::MultiTenant);
        const SMALL: Condition = Condition::Below(Threshold::PlatformFte);
        reads(Condition::Always, "always");
        reads(BIG, "nodes at least 2 (multi-node)");
        reads(SMALL, "people.platform-fte below 0.25 (platform-fte)");
        reads(
            Condition::All(&[TENANTS, Condition::Any(&[BIG, SMALL])]),
            &format!("multi_tenant and ({BIG} or {SMALL})"),
        );
        reads(
            Condition::All(&[Condition::All(&[TENANTS, BIG]), SMALL]),
            &format!("multi_tenant and {BIG} and {SMALL}"),
        );
        reads(
            Condition::Any(&[Condition::All(&[TENANTS, BIG]), SMALL]),
            &format!("(multi_tenant and {BIG}) or {SMALL}"),
        );
        reads(
            Condition::Never(&Condition::Any(&[TENANTS, BIG])),
            &format!("neither multi_tenant nor {BIG}"),
        );
        reads(
            Condition::Never(&Condition::All(&[TENANTS, BIG])),
            &format!("not (multi_tenant and {BIG})"),
        );
        reads(Condition::Chosen(&[Plane::Slurm]), "the choice is slurm");
        reads(
            Condition::Chosen(&[Plane::Kubernetes, Plane::K3s, Plane::Ray]),
            "the choice is kubernetes, k3s or ray",
        );
    }

    /// What is read decides what is searched for flips: a fact that is overlooked would be one that
    /// never flips.
    #[test]
    fn facts_are_found_at_any_depth() {
        const DEEP: Condition = Condition::Any(&[
            Condition::Never(&Condition::All(&[
                Condition::Not(Fact::BareMetal),
                Condition::Always,
            ])),
            Condition::Below(Threshold::K3sNodes),
        ]);
        let read: Vec<&Fact> = Fact::WORKLOAD.iter().filter(|fact| DEEP.reads(**fact)).collect();
        assert_eq!(read, [&Fact::Nodes, &Fact::BareMetal]);
        let mut thresholds = Vec::new();
        DEEP.thresholds(&mut |threshold| thresholds.push(threshold));
        assert_eq!(thresholds, [Threshold::K3sNodes]);
    }
}
