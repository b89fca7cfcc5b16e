//! Cache of answers ([`Known`]), one per case that the rules distinguish. The search for flips
//! evaluates the same case many times, and a batch may have ten thousand lines.

use std::cell::OnceCell;
use std::sync::LazyLock;

use muster_model::advice::{Fact, FactKind, Facts, Ruleset, Threshold, Thresholds};

use super::RULES;
use crate::case::{FactsCase, RuleOutcome};
use crate::decide::decide;
use crate::{disputes, overrides, warnings};

/// Inputs that the rules read: flags of a workload, and thresholds of its numbers.
pub(super) struct Read {
    /// Flags and numbers, in the order of facts.
    pub(super) facts: Vec<Fact>,
    pub(super) thresholds: Vec<Threshold>,
    /// Thresholds that rules, warnings or disputes read: a site's own number is shown wherever it
    /// has an effect.
    pub(super) shown: Vec<Threshold>,
    flags: Vec<Fact>,
}

/// Inputs of [`RULES`], which are constant.
pub(super) static READ: LazyLock<Read> = LazyLock::new(|| {
    let facts = overrides::facts_read(RULES, Fact::WORKLOAD);
    let flags = facts.iter().copied().filter(|fact| fact.kind() == FactKind::Flag).collect();
    let thresholds = overrides::read(RULES);
    let shown = overrides::shown(RULES, warnings::WORKLOAD, disputes::WORKLOAD);
    Read { facts, thresholds, shown, flags }
});

/// Answers under one set of thresholds and one ruleset.
pub(super) struct Known<'a> {
    thresholds: &'a Thresholds,
    ruleset: Ruleset,
    /// Indexed by the flags that are set and the thresholds that are reached, one bit each.
    answers: Vec<OnceCell<RuleOutcome>>,
}

impl<'a> Known<'a> {
    pub(super) fn new(thresholds: &'a Thresholds, ruleset: Ruleset) -> Self {
        let distinct = 1 << (READ.flags.len() + READ.thresholds.len());
        Self { thresholds, ruleset, answers: vec![OnceCell::new(); distinct] }
    }

    /// Returns the answer to these facts.
    pub(super) fn ask(&self, facts: &Facts) -> &RuleOutcome {
        let flags = READ.flags.iter().map(|flag| facts.is(*flag));
        let reached = READ.thresholds.iter();
        let reached =
            reached.map(|threshold| facts.get(threshold.fact()) >= self.thresholds.get(*threshold));
        let slot = flags.chain(reached).fold(0, |slot, bit| slot << 1 | usize::from(bit));
        self.answers[slot].get_or_init(|| {
            let mut case = FactsCase::new(facts, self.thresholds, self.ruleset);
            decide(RULES, &mut case, |_| {});
            case.outcome()
        })
    }
}
