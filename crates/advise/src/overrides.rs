//! A site's own thresholds, shown as rules that fired, so that a tuned answer is not mistaken for
//! the pages' own.

use std::borrow::Cow;

use muster_model::advice::{Fact, FiredRule, RuleEffect, Threshold, Thresholds};

use crate::rule::{Disagreement, Hazard, Rule};

/// Id of these entries; the documentation has one section for all of them.
pub(crate) const SITE_THRESHOLD: &str = "site-threshold";

impl From<&'static Rule> for FiredRule {
    fn from(rule: &'static Rule) -> Self {
        FiredRule {
            id: rule.id,
            effect: rule.effect.kind(),
            sentence: Cow::Borrowed(rule.sentence),
            source: rule.source,
        }
    }
}

/// Returns one entry per overridden threshold among those read.
pub(crate) fn of(read: &[Threshold], thresholds: &Thresholds) -> Vec<FiredRule> {
    let entry = |threshold: Threshold| FiredRule {
        id: SITE_THRESHOLD,
        effect: RuleEffect::Reason,
        sentence: Cow::Owned(format!(
            "this site sets {} to {} ({}; {} by default)",
            threshold.name(),
            thresholds.value(threshold),
            threshold.meaning(),
            threshold.fact().value(threshold.default()),
        )),
        source: threshold.source(),
    };
    thresholds.overridden().filter(|threshold| read.contains(threshold)).map(entry).collect()
}

/// Returns the thresholds that the rules of a list read, each once, in the order of thresholds.
pub(crate) fn read(rules: &'static [Rule]) -> Vec<Threshold> {
    let mut read = Vec::new();
    for rule in rules {
        rule.when.thresholds(&mut |threshold| read.push(threshold));
    }
    read.sort_unstable();
    read.dedup();
    read
}

/// Returns the thresholds that rules, warnings and disputes read: a site's own number is shown
/// wherever it has an effect.
pub(crate) fn shown(
    rules: &'static [Rule],
    warnings: &'static [Hazard],
    disputes: &'static [Disagreement],
) -> Vec<Threshold> {
    let mut shown = read(rules);
    let warnings = warnings.iter().map(|hazard| hazard.when);
    let disputes = disputes.iter().map(|disagreement| disagreement.when);
    for condition in warnings.chain(disputes) {
        condition.thresholds(&mut |threshold| shown.push(threshold));
    }
    shown.sort_unstable();
    shown.dedup();
    shown
}

/// Returns those of the facts that the rules of a list read, in the order given.
pub(crate) fn facts_read(rules: &'static [Rule], facts: &[Fact]) -> Vec<Fact> {
    let read = |fact: &Fact| rules.iter().any(|rule| rule.when.reads(*fact));
    facts.iter().copied().filter(read).collect()
}
