//! The shapes of what is known: rules, failure modes and disputes. Their contents stand in the
//! lists; nothing here evaluates them.

use std::fmt;

use muster_model::advice::{DisputeKind, Plane, Position, RuleEffect, Source};

use crate::condition::Condition;

/// One step of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Anchor in docs/advise.md; never changes once published.
    pub(crate) id: &'static str,
    pub(crate) source: Source,
    pub(crate) when: Condition,
    pub(crate) effect: Effect,
    /// Why, in one sentence, as a lowercase fragment.
    pub(crate) sentence: &'static str,
}

impl Rule {
    /// A rule that gives a reason and changes nothing.
    pub(crate) const fn reason(
        id: &'static str,
        source: Source,
        when: Condition,
        sentence: &'static str,
    ) -> Self {
        Self { id, source, when, effect: Effect::Reason, sentence }
    }
}

/// What a rule does to the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Chooses the plane, with what belongs to it. The first choice stays; a later choosing rule
    /// does not fire.
    Choose {
        /// The plane.
        primary: Plane,
        /// What belongs to it; empty when nothing does.
        addon: &'static str,
    },
    /// Puts something in front, which the rest cannot do without. Once only.
    Require(&'static str),
    /// Adds something behind. Once only.
    Add(&'static str),
    /// Splits the fleet. The first split stays.
    Split(&'static str),
    /// Gives a reason and changes nothing.
    Reason,
}

impl Effect {
    /// What an answer says of it; what it put into the label stands there.
    pub(crate) const fn kind(self) -> RuleEffect {
        match self {
            Effect::Choose { .. } => RuleEffect::Choice,
            Effect::Require(_) => RuleEffect::Required,
            Effect::Add(_) => RuleEffect::Added,
            Effect::Split(_) => RuleEffect::Split,
            Effect::Reason => RuleEffect::Reason,
        }
    }
}

/// In words.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Choose { primary, addon: "" } => write!(f, "chooses {primary}"),
            Effect::Choose { primary, addon } => write!(f, "chooses {primary}, with `{addon}`"),
            Effect::Require(what) => write!(f, "requires `{what}`"),
            Effect::Add(what) => write!(f, "adds `{what}`"),
            Effect::Split(how) => write!(f, "splits the fleet: `{how}`"),
            Effect::Reason => f.write_str("gives a reason, changes nothing"),
        }
    }
}

/// A failure mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hazard {
    /// Anchor in docs/advise.md.
    pub(crate) id: &'static str,
    pub(crate) source: Source,
    /// Judged on the finished answer.
    pub(crate) when: Condition,
    /// What goes wrong.
    pub(crate) sentence: &'static str,
    /// How it shows.
    pub(crate) tell: &'static str,
    /// What to do.
    pub(crate) cure: &'static str,
}

/// A disagreement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disagreement {
    /// Anchor in docs/advise.md.
    pub(crate) id: &'static str,
    pub(crate) kind: DisputeKind,
    /// Judged on the finished answer.
    pub(crate) when: Condition,
    /// The question that decides.
    pub(crate) question: &'static str,
    /// Two sides at least.
    pub(crate) positions: &'static [Position],
    /// What Muster does, and why.
    pub(crate) muster: &'static str,
}
