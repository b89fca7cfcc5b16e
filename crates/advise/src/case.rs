//! What conditions look at: the facts, the site's thresholds, and what earlier rules have decided.

use muster_model::advice::{Facts, Label, Plane, Ruleset, Thresholds};

use crate::flips::Answer;

/// A question on its way to an answer.
#[derive(Clone, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) thresholds: &'a Thresholds,
    pub(crate) ruleset: Ruleset,
    /// Nothing until a rule chose.
    pub(crate) primary: Option<Plane>,
    /// What must stand in front of everything else.
    pub(crate) required: Vec<&'static str>,
    pub(crate) addons: Vec<&'static str>,
    pub(crate) hybrid: Option<&'static str>,
}

impl<'a> Case<'a> {
    /// A question that no rule has looked at.
    pub(crate) fn new(facts: &'a Facts, thresholds: &'a Thresholds, ruleset: Ruleset) -> Self {
        Self {
            facts,
            thresholds,
            ruleset,
            primary: None,
            required: Vec::new(),
            addons: Vec::new(),
            hybrid: None,
        }
    }

    /// What it came to.
    pub(crate) fn label(&self) -> Label {
        self.outcome().into_label()
    }

    /// What it came to, before it is written out. Every list of rules ends with one that always
    /// chooses.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            primary: self.primary.expect("the last choosing rule of every list has no condition"),
            parts: self.required.iter().chain(&self.addons).copied().collect(),
            hybrid: self.hybrid,
        }
    }
}

/// A label before it is written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    primary: Plane,
    parts: Vec<&'static str>,
    hybrid: Option<&'static str>,
}

impl Answer for &Outcome {
    fn primary(&self) -> Plane {
        self.primary
    }

    fn into_label(self) -> Label {
        Label {
            primary: self.primary,
            addon: self.parts.join(" + "),
            hybrid: self.hybrid.map(str::to_owned),
        }
    }
}
