//! Flips are exact: every promise is kept, and none is missing, by a definition that shares nothing
//! with the search.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod asked;

use std::collections::BTreeMap;

use asked::{FLAGS, changed, combinations, flags, stored};
use muster_advise::{advise, label};
use muster_model::advice::{Fact, Facts, Label, Ruleset, Threshold, Thresholds, Warning};
use proptest::prelude::*;

/// A change by the facts that it touches: bit 0 is nodes, the flags follow.
fn apply(facts: &Facts, mask: u32, other_nodes: Option<u32>) -> Option<Facts> {
    let mut changed = *facts;
    if mask & 1 == 1 {
        changed.set(Fact::Nodes, other_nodes?);
    }
    for (bit, (_, flag)) in FLAGS.iter().enumerate() {
        if mask >> (bit + 1) & 1 == 1 {
            changed.set(*flag, 1 - facts.get(*flag));
        }
    }
    Some(changed)
}

/// Returns the minimal changes, by brute force: those of which no part changes the answer, and
/// those that lead to another primary to which no part leads.
fn expected(facts: &Facts, thresholds: &Thresholds, ruleset: Ruleset) -> BTreeMap<Facts, Label> {
    let edge = thresholds.get(Threshold::MultiNode);
    let below = facts.get(Fact::Nodes) < edge;
    let other_nodes =
        if below { Some(edge) } else { edge.checked_sub(1).filter(|nodes| *nodes > 0) };
    let present = label(facts, thresholds, ruleset);
    let altering: BTreeMap<u32, (Facts, Label)> = (1..128)
        .filter_map(|mask| Some((mask, apply(facts, mask, other_nodes)?)))
        .map(|(mask, changed)| (mask, (changed, label(&changed, thresholds, ruleset))))
        .filter(|(_, (_, label))| *label != present)
        .collect();
    let parts = |mask: u32| {
        altering.iter().filter(move |(part, _)| **part != mask && **part & mask == **part)
    };
    let smallest = |mask: u32, label: &Label| {
        let leads_to_it = |(_, (_, part)): (&u32, &(Facts, Label))| part.primary == label.primary;
        parts(mask).next().is_none()
            || (label.primary != present.primary && !parts(mask).any(leads_to_it))
    };
    let kept = altering.iter().filter(|(mask, (_, label))| smallest(**mask, label));
    kept.map(|(_, (changed, label))| (*changed, label.clone())).collect()
}

fn exact(facts: &Facts, thresholds: &Thresholds) {
    for ruleset in [Ruleset::Corrected, Ruleset::Guide] {
        let advice = advise(facts, thresholds, ruleset);
        assert_eq!(advice.label, label(facts, thresholds, ruleset));
        let mut found = BTreeMap::new();
        for flip in &advice.flips {
            // Every promise is kept.
            let changed = changed(facts, flip);
            assert_eq!(label(&changed, thresholds, ruleset), flip.label, "{facts:?} {flip:?}");
            assert_ne!(flip.label, advice.label, "{facts:?} {flip:?}");
            // And states no fact that stays.
            assert!(
                flip.change.0.iter().all(|(fact, value)| stored(*value) != facts.get(*fact)),
                "{flip:?}"
            );
            assert!(
                found.insert(changed, flip.label.clone()).is_none(),
                "{facts:?} {flip:?} twice"
            );
        }
        // None is missing and none is too many.
        assert_eq!(found, expected(facts, thresholds, ruleset), "{ruleset:?} {facts:?}");
        assert!(!found.is_empty(), "some change always leads elsewhere: {facts:?}");
        // Small changes come first.
        assert!(advice.flips.is_sorted_by_key(|flip| flip.change.0.len()));
    }
}

#[test]
fn flips_are_those_of_brute_force_on_the_whole_space() {
    for facts in [1, 2, 3, 8, 16].into_iter().flat_map(combinations) {
        exact(&facts, &Thresholds::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn also_with_a_sites_own_threshold(bits in 0u32..64, nodes in 1u32..40, multi_node in 1u32..40) {
        let mut thresholds = Thresholds::default();
        thresholds.set(Threshold::MultiNode, multi_node);
        exact(&flags(bits).with(Fact::Nodes, nodes), &thresholds);
    }
}

/// No change of one fact is missing, whatever the number: where a value leads elsewhere, a flip of
/// that fact alone leads there too, from no farther away.
#[test]
fn no_single_fact_flip_is_missing() {
    let thresholds = Thresholds::default();
    for facts in [1, 2, 3, 8, 16].into_iter().flat_map(combinations) {
        let advice = advise(&facts, &thresholds, Ruleset::Corrected);
        let now = facts.get(Fact::Nodes);
        let flags = FLAGS.iter().map(|(_, flag)| (*flag, 1 - facts.get(*flag)));
        for (fact, value) in flags.chain((1..=40).map(|nodes| (Fact::Nodes, nodes))) {
            let there = label(&facts.with(fact, value), &thresholds, Ruleset::Corrected);
            let known = advice.flips.iter().any(|flip| match flip.change.0[..] {
                [(alone, nearest)] => {
                    let no_farther =
                        fact != Fact::Nodes || stored(nearest).abs_diff(now) <= value.abs_diff(now);
                    alone == fact && flip.label == there && no_farther
                }
                _ => false,
            });
            assert_eq!(known, there != advice.label, "{fact}: {value} on {facts:?}");
        }
    }
}

/// Facts that "it would decide with …" names, parsed back.
fn promised(warning: &Warning) -> Option<Vec<(Fact, u32)>> {
    let (_, steps) = warning.cure.split_once("it would decide with ")?;
    let step = |step: &str| {
        let (fact, value) = step.split_once(": ").unwrap();
        let stored = match value {
            "true" => 1,
            "false" => 0,
            number => number.parse().unwrap(),
        };
        (Fact::find(fact).unwrap(), stored)
    };
    Some(steps.split(", ").map(step).collect())
}

/// A given fact is reported as silent exactly if the label is the same without it; the reported
/// change makes it matter, and no part of that change does.
#[test]
fn a_fact_that_changes_nothing_is_named() {
    let thresholds = Thresholds::default();
    let ask = |facts: &Facts| label(facts, &thresholds, Ruleset::Corrected);
    let matters = |facts: &Facts, fact: Fact| ask(facts) != ask(&facts.with(fact, fact.default()));
    for facts in [1, 2, 8].into_iter().flat_map(combinations) {
        let advice = advise(&facts, &thresholds, Ruleset::Corrected);
        let silent: Vec<&Warning> =
            advice.warnings.iter().filter(|warning| warning.id == "silent-fact").collect();
        let expected: Vec<Fact> =
            facts.given().map(|(fact, _)| fact).filter(|fact| !matters(&facts, *fact)).collect();
        assert_eq!(silent.len(), expected.len(), "{facts:?}");
        for (warning, fact) in silent.into_iter().zip(expected) {
            assert!(
                warning.sentence.starts_with(&format!("{}: ", fact.name())),
                "{facts:?} {warning:?}"
            );
            let Some(steps) = promised(warning) else {
                assert_eq!(fact, Fact::MultiTenant, "only tenancy is read by no rule");
                continue;
            };
            let with = |steps: &[(Fact, u32)]| {
                steps.iter().fold(facts, |facts, (fact, to)| facts.with(*fact, *to))
            };
            assert!(matters(&with(&steps), fact), "{facts:?} {warning:?}");
            for left_out in 0..steps.len() {
                let mut fewer = steps.clone();
                fewer.remove(left_out);
                assert!(!matters(&with(&fewer), fact), "{facts:?} {warning:?}");
            }
        }
    }
}
