//! Types of the knowledge base: rules, failure modes ([`Hazard`]) and disputes ([`Disagreement`]).
//! Their contents are in the lists of the other modules.

use std::fmt;

use muster_model::advice::{Citation, ControlPlane, DisputeKind, DisputePosition, RuleEffect};

use crate::condition::Condition;

/// One step of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Anchor in docs/advise.md; never changes once published.
    pub(crate) id: &'static str,
    pub(crate) source: Citation,
    pub(crate) when: Condition,
    pub(crate) effect: RuleChange,
    /// Reason, one sentence as a lowercase fragment.
    pub(crate) sentence: &'static str,
}

impl Rule {
    /// Returns a rule that gives a reason and changes nothing.
    pub(crate) const fn reason(
        id: &'static str,
        source: Citation,
        when: Condition,
        sentence: &'static str,
    ) -> Self {
        Self { id, source, when, effect: RuleChange::Reason, sentence }
    }
}

/// Effect of a rule on the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleChange {
    /// Chooses the control plane and its add-on. The first choice stays; a later choosing rule does
    /// not fire.
    Choose {
        /// Chosen control plane, the `primary` of the label.
        primary: ControlPlane,
        /// Add-on that the control plane needs; empty if none.
        addon: &'static str,
    },
    /// Puts a required part before the add-ons of the label; each part once only.
    Require(&'static str),
    /// Appends an add-on; each one once only.
    Add(&'static str),
    /// Splits the fleet. The first split stays.
    Split(&'static str),
    /// Gives a reason and changes nothing.
    Reason,
}

impl RuleChange {
    /// Returns the kind of effect that an answer names; the text of the effect is in the label.
    pub(crate) const fn kind(self) -> RuleEffect {
        match self {
            RuleChange::Choose { .. } => RuleEffect::Choice,
            RuleChange::Require(_) => RuleEffect::Required,
            RuleChange::Add(_) => RuleEffect::Added,
            RuleChange::Split(_) => RuleEffect::Split,
            RuleChange::Reason => RuleEffect::Reason,
        }
    }
}

/// Writes the effect in words, for the documentation.
impl fmt::Display for RuleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleChange::Choose { primary, addon: "" } => write!(f, "chooses {primary}"),
            RuleChange::Choose { primary, addon } => write!(f, "chooses {primary}, with `{addon}`"),
            RuleChange::Require(what) => write!(f, "requires `{what}`"),
            RuleChange::Add(what) => write!(f, "adds `{what}`"),
            RuleChange::Split(how) => write!(f, "splits the fleet: `{how}`"),
            RuleChange::Reason => f.write_str("gives a reason, changes nothing"),
        }
    }
}

/// A failure mode that answers warn of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hazard {
    pub(crate) id: &'static str,
    pub(crate) source: Citation,
    /// Evaluated on the finished answer.
    pub(crate) when: Condition,
    /// Failure, as a lowercase fragment.
    pub(crate) sentence: &'static str,
    /// Symptom by which the failure is recognised.
    pub(crate) tell: &'static str,
    /// Fix or prevention of the failure.
    pub(crate) cure: &'static str,
}

/// A disagreement between sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disagreement {
    pub(crate) id: &'static str,
    pub(crate) kind: DisputeKind,
    /// Evaluated on the finished answer.
    pub(crate) when: Condition,
    /// Question whose answer decides.
    pub(crate) question: &'static str,
    /// Positions, two at least; the first two oppose each other, and are those that a short answer states.
    pub(crate) positions: &'static [DisputePosition],
    /// Muster's choice with its reason, as it is said after `here`: `k3s, because …`.
    pub(crate) muster: &'static str,
}
