//! Conditions as data ([`Condition`]): they are evaluated, printed for the documentation and
//! searched for the facts and thresholds that they read.

use std::fmt;

use muster_model::advice::{ControlPlane, Fact, Ruleset, Threshold};

use crate::case::FactsCase;

/// Condition under which a rule fires, a warning is due, or a dispute concerns the case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    /// Holds in every case.
    Always,
    /// The flag is set.
    Is(Fact),
    /// The flag is not set.
    Not(Fact),
    /// The threshold's fact is at the threshold or above it.
    Reaches(Threshold),
    /// The threshold's fact is below the threshold.
    Below(Threshold),
    /// One of these control planes was chosen.
    Chosen(&'static [ControlPlane]),
    /// A part is required: only gang schedulers are.
    Gang,
    /// The fleet is split.
    Hybrid,
    /// This set of rules is in use.
    Under(Ruleset),
    /// Every one of the conditions holds.
    All(&'static [Condition]),
    /// At least one condition holds.
    Any(&'static [Condition]),
    /// The condition does not hold.
    Never(&'static Condition),
}

impl Condition {
    /// Returns true if the condition holds for the case.
    pub(crate) fn holds(&self, case: &FactsCase<'_>) -> bool {
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

    /// Calls `see` with every threshold that the condition reads.
    pub(crate) fn thresholds(&self, see: &mut impl FnMut(Threshold)) {
        self.parts(&mut |part| {
            if let Condition::Reaches(threshold) | Condition::Below(threshold) = part {
                see(*threshold);
            }
        });
    }

    /// Returns true if any part of the condition reads the fact.
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

    /// Calls `see` with every part that has no parts of its own.
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

/// Writes the condition in words, with default thresholds.
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

/// Writes parts with `word` between them and `last` before the last one; parts for which `wraps` is
/// true are in parentheses.
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
        reads(Condition::Chosen(&[ControlPlane::Slurm]), "the choice is slurm");
        reads(
            Condition::Chosen(&[ControlPlane::Kubernetes, ControlPlane::K3s, ControlPlane::Ray]),
            "the choice is kubernetes, k3s or ray",
        );
    }

    /// A fact that `reads` overlooked would never be searched for flips.
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
