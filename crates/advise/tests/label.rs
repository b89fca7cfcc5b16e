//! The label on the whole space of facts, against an oracle of another structure.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use muster_advise::{advise, label};
use muster_model::advice::{Fact, Facts, Plane, Ruleset, Thresholds, Value};

/// All 64 combinations of the flags with this many nodes.
fn combinations(nodes: u32) -> impl Iterator<Item = Facts> {
    (0..64u32).map(move |bits| {
        let flags = Fact::WORKLOAD[1..].iter().enumerate();
        flags.fold(Facts::default().with(Fact::Nodes, nodes), |facts, (bit, fact)| {
            facts.with(*fact, (bits >> bit) & 1)
        })
    })
}

#[test]
fn rulesets_differ_on_twelve_of_256() {
    let thresholds = Thresholds::default();
    let mut differ = Vec::new();
    for facts in [1, 2, 8, 16].into_iter().flat_map(combinations) {
        let corrected = label(&facts, &thresholds, Ruleset::Corrected);
        let guide = label(&facts, &thresholds, Ruleset::Guide);
        if corrected != guide {
            assert_eq!((guide.primary, guide.addon.as_str()), (Plane::Ray, "KubeRay on k3s"), "{facts:?}");
            assert_eq!(
                (corrected.primary, corrected.addon.as_str()),
                (Plane::Ray, "Volcano/Kueue/KAI gang scheduler (REQUIRED) + KubeRay on k3s"),
                "{facts:?}"
            );
            differ.push(facts);
        }
    }
    assert_eq!(differ.len(), 12);
}

#[test]
fn flips_hold_when_asked_again() {
    let thresholds = Thresholds::default();
    for facts in combinations(4) {
        let advice = advise(&facts, &thresholds, Ruleset::Corrected);
        assert!(!advice.flips.is_empty(), "{facts:?}");
        for flip in &advice.flips {
            let changed = flip.change.0.iter().fold(facts, |facts, (fact, value)| {
                let stored = match value {
                    Value::Flag(flag) => u32::from(*flag),
                    Value::Count(number) | Value::Hundredths(number) => *number,
                };
                facts.with(*fact, stored)
            });
            assert_eq!(label(&changed, &thresholds, Ruleset::Corrected), flip.label, "{facts:?}");
            assert_ne!(flip.label, advice.label, "{facts:?}");
        }
    }
}
