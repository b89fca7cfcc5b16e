//! The input of conditions ([`FactsCase`]): the facts, the site's thresholds, and the decisions of
//! earlier rules.

use muster_model::advice::{ControlPlane, Facts, Label, Ruleset, Thresholds};

use crate::flips::Answer;

/// Facts under evaluation, with the decisions made so far.
#[derive(Clone, Debug)]
pub(crate) struct FactsCase<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) thresholds: &'a Thresholds,
    pub(crate) ruleset: Ruleset,
    /// Chosen control plane; `None` until a rule chooses one.
    pub(crate) primary: Option<ControlPlane>,
    /// Required parts, which the label names before the add-ons.
    pub(crate) required: Vec<&'static str>,
    pub(crate) addons: Vec<&'static str>,
    pub(crate) hybrid: Option<&'static str>,
}

impl<'a> FactsCase<'a> {
    /// Returns a case before the first rule.
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

    /// Returns the label of the finished case.
    pub(crate) fn label(&self) -> Label {
        self.outcome().into_label()
    }

    /// Returns the outcome of the finished case, which is cheaper than its label.
    ///
    /// Every list of rules has a last choosing rule without a condition, so a control plane was
    /// chosen.
    pub(crate) fn outcome(&self) -> RuleOutcome {
        RuleOutcome {
            primary: self.primary.expect("the last choosing rule of every list has no condition"),
            parts: self.required.iter().chain(&self.addons).copied().collect(),
            hybrid: self.hybrid,
        }
    }
}

/// A label before its text is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleOutcome {
    primary: ControlPlane,
    parts: Vec<&'static str>,
    hybrid: Option<&'static str>,
}

impl Answer for &RuleOutcome {
    fn primary(&self) -> ControlPlane {
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
