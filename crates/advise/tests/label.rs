//! The label on the whole space of facts: against what the guide's own program answers, and against
//! an oracle of another structure.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod asked;

use std::collections::{BTreeMap, BTreeSet};

use asked::{combinations, facts, flags, parts};
use muster_advise::label;
use muster_model::advice::{Fact, Facts, Ruleset, Threshold, Thresholds};
use proptest::prelude::*;

/// The nodes of the guide's edge 7.
const NODES: [u32; 4] = [1, 2, 8, 16];

/// The program on the guide page was run on every combination; its answers are in guide.tsv.
#[test]
fn guide_ruleset_is_the_guides_own_program() {
    let thresholds = Thresholds::default();
    let mut labels = BTreeMap::new();
    let mut compared = 0;
    for line in include_str!("guide.tsv").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        if let ["=", letter, primary, addon, ref hybrid @ ..] = fields[..] {
            labels.insert(letter, (primary, addon, hybrid.first().copied()));
            continue;
        }
        let [bits, letters] = fields[..] else { panic!("neither label nor combination: {line}") };
        // The first flag is the leftmost digit there and the lowest bit here.
        let bits = u32::from_str_radix(&bits.chars().rev().collect::<String>(), 2).unwrap();
        assert_eq!(letters.len(), NODES.len());
        for (nodes, letter) in
            NODES.iter().zip(letters.split("").filter(|letter| !letter.is_empty()))
        {
            let facts = flags(bits).with(Fact::Nodes, *nodes);
            assert_eq!(
                parts(&label(&facts, &thresholds, Ruleset::Guide)),
                labels[letter],
                "{facts:?}"
            );
            compared += 1;
        }
    }
    assert_eq!((compared, labels.len()), (256, 9));
}

/// Differences of the two rulesets: Ray on k3s, coupled across nodes. Bare metal is Slurm's, so it
/// is in none of them.
#[test]
fn rulesets_differ_on_these_twelve_of_256() {
    const TWELVE: [&str; 12] = [
        "2 coupled python edge",
        "8 coupled python edge",
        "16 coupled python edge",
        "2 coupled services python edge",
        "8 coupled services python edge",
        "16 coupled services python edge",
        "2 coupled tenants python edge",
        "8 coupled tenants python edge",
        "16 coupled tenants python edge",
        "2 coupled services tenants python edge",
        "8 coupled services tenants python edge",
        "16 coupled services tenants python edge",
    ];
    let thresholds = Thresholds::default();
    let differ = |facts: &Facts| {
        let guide = label(facts, &thresholds, Ruleset::Guide);
        let corrected = label(facts, &thresholds, Ruleset::Corrected);
        if guide != corrected {
            assert_eq!(parts(&guide), ("ray", "KubeRay on k3s", None), "{facts:?}");
            let required = "Volcano/Kueue/KAI gang scheduler (REQUIRED) + KubeRay on k3s";
            assert_eq!(parts(&corrected), ("ray", required, None), "{facts:?}");
        }
        guide != corrected
    };
    let found: BTreeSet<Facts> = NODES.into_iter().flat_map(combinations).filter(differ).collect();
    assert_eq!(found, TWELVE.iter().map(|words| facts(words)).collect());
}

/// Computes the same labels in another way: the regions of the space of facts as one match, from
/// the last rule to the first; the rest of the label follows from the plane.
fn oracle(
    facts: &Facts,
    multi_node: u32,
    ruleset: Ruleset,
) -> (&'static str, String, Option<&'static str>) {
    let is = |fact| facts.is(fact);
    let gang = facts.get(Fact::Nodes) >= multi_node && is(Fact::TightlyCoupled);
    let (primary, host) =
        match ((gang, is(Fact::BareMetal)), is(Fact::PythonNativePipeline), is(Fact::EdgeOrDev)) {
            ((true, true), _, _) => ("slurm", "topology.conf for rail-aware placement"),
            (_, true, true) => ("ray", "KubeRay on k3s"),
            (_, true, false) => ("ray", "KubeRay on kubernetes"),
            (_, false, true) => ("k3s", "GPU Operator"),
            (_, false, false) => ("kubernetes", "GPU Operator"),
        };
    let forgotten = host == "KubeRay on k3s" && ruleset == Ruleset::Guide;
    let required = if gang && primary != "slurm" && !forgotten {
        "Volcano/Kueue/KAI gang scheduler (REQUIRED) + "
    } else {
        ""
    };
    let split = (primary == "slurm" && is(Fact::LongLivedServices))
        .then_some("partition nodes: Slurm pool + K8s pool, clear boundary");
    (primary, format!("{required}{host}"), split)
}

fn agrees(facts: &Facts, multi_node: u32) {
    let mut thresholds = Thresholds::default();
    thresholds.set(Threshold::MultiNode, multi_node);
    for ruleset in [Ruleset::Guide, Ruleset::Corrected] {
        let (primary, addon, hybrid) = oracle(facts, multi_node, ruleset);
        let label = label(facts, &thresholds, ruleset);
        assert_eq!(parts(&label), (primary, addon.as_str(), hybrid), "{ruleset:?} {facts:?}");
    }
}

#[test]
fn an_oracle_of_another_structure_agrees_on_the_whole_space() {
    for facts in (1..=20).flat_map(combinations) {
        agrees(&facts, 2);
    }
}

proptest! {
    #[test]
    fn and_beyond_it(bits in 0u32..64, nodes in 1u32..=10_000_000, multi_node in 1u32..=10_000_000) {
        agrees(&flags(bits).with(Fact::Nodes, nodes), 2);
        agrees(&flags(bits).with(Fact::Nodes, nodes), multi_node);
    }
}

/// The load-bearing invariant of the guide, on its own words: whatever is coupled across nodes and
/// lands on a Kubernetes scheduler carries the gang scheduler; nothing else does.
#[test]
fn the_load_bearing_invariant_holds() {
    for facts in (1..=20).flat_map(combinations) {
        let label = label(&facts, &Thresholds::default(), Ruleset::Corrected);
        let coupled = facts.is(Fact::TightlyCoupled) && facts.get(Fact::Nodes) > 1;
        let on_kubernetes = label.primary.name() != "slurm";
        assert_eq!(label.addon.contains("REQUIRED"), coupled && on_kubernetes, "{facts:?}");
    }
}
