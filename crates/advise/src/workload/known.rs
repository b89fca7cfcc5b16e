//! Answers to cases that the rules can tell apart, each found once. The search for flips asks about
//! the same case from many sides; a batch of ten thousand lines pays for each.

use std::cell::OnceCell;
use std::sync::LazyLock;

use muster_model::advice::{Fact, Facts, Kind, Ruleset, Threshold, Thresholds};

use super::RULES;
use crate::case::{Case, Outcome};
use crate::decide::decide;
use crate::{disputes, overrides, warnings};

/// What the rules read: the flags of a workload, and the thresholds of its numbers.
pub(super) struct Read {
    /// In the order of facts, numbers among them.
    pub(super) facts: Vec<Fact>,
    pub(super) thresholds: Vec<Threshold>,
    /// Those that only warnings and disputes read among them: a site's own number is shown wherever
    /// it counts.
    pub(super) shown: Vec<Threshold>,
    flags: Vec<Fact>,
}

/// Follows from the rules, which never change while the program runs.
pub(super) static READ: LazyLock<Read> = LazyLock::new(|| {
    let facts = overrides::facts_read(RULES, Fact::WORKLOAD);
    let flags = facts.iter().copied().filter(|fact| fact.kind() == Kind::Flag).collect();
    let thresholds = overrides::read(RULES);
    let shown = overrides::shown(RULES, warnings::WORKLOAD, disputes::WORKLOAD);
    Read { facts, thresholds, shown, flags }
});

/// Answers under one set of numbers and rules.
pub(super) struct Known<'a> {
    thresholds: &'a Thresholds,
    ruleset: Ruleset,
    /// By the flags that are set and the thresholds that are reached, a bit each.
    answers: Vec<OnceCell<Outcome>>,
}

impl<'a> Known<'a> {
    pub(super) fn new(thresholds: &'a Thresholds, ruleset: Ruleset) -> Self {
        let distinct = 1 << (READ.flags.len() + READ.thresholds.len());
        Self { thresholds, ruleset, answers: vec![OnceCell::new(); distinct] }
    }

    /// The answer to these facts.
    pub(super) fn ask(&self, facts: &Facts) -> &Outcome {
        let flags = READ.flags.iter().map(|flag| facts.is(*flag));
        let reached = READ.thresholds.iter();
        let reached =
            reached.map(|threshold| facts.get(threshold.fact()) >= self.thresholds.get(*threshold));
        let slot = flags.chain(reached).fold(0, |slot, bit| slot << 1 | usize::from(bit));
        self.answers[slot].get_or_init(|| {
            let mut case = Case::new(facts, self.thresholds, self.ruleset);
            decide(RULES, &mut case, |_| {});
            case.outcome()
        })
    }
}
