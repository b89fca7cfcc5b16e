//! The reference document: one place for everything that an answer can point to.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod asked;

use std::collections::BTreeSet;

use asked::combinations;
use muster_advise::{advise, anchors, doc_link, document};
use muster_model::advice::{CitedPage, Fact, Ruleset, Threshold, Thresholds};

fn headings(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("### ")).collect()
}

#[test]
fn one_anchor_per_id() {
    let text = document();
    let headings = headings(&text);
    assert_eq!(headings, anchors());
    let distinct: BTreeSet<&str> = headings.iter().copied().collect();
    let twice: Vec<&&str> = distinct
        .iter()
        .filter(|id| headings.iter().filter(|other| other == id).count() > 1)
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
    // A heading is its own anchor only in this alphabet; and no heading of a part may take an
    // anchor.
    for id in &headings {
        assert!(
            id.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{id}"
        );
    }
    for part in text.lines().filter_map(|line| line.strip_prefix("## ")) {
        assert!(!distinct.contains(part.to_lowercase().replace(' ', "-").as_str()), "{part}");
    }
}

#[test]
fn every_id_of_every_answer_has_its_place() {
    let places: BTreeSet<&str> = anchors().into_iter().collect();
    let mut seen = BTreeSet::new();
    for facts in [1, 2, 16].into_iter().flat_map(combinations) {
        let mut thresholds = Thresholds::default();
        thresholds.set(Threshold::MultiNode, 3);
        for thresholds in [thresholds, Thresholds::default()] {
            let advice = advise(&facts, &thresholds, Ruleset::Corrected);
            seen.extend(advice.rules.iter().map(|rule| rule.id));
            seen.extend(advice.warnings.iter().map(|warning| warning.id));
            seen.extend(advice.disputes.iter().map(|dispute| dispute.id));
        }
    }
    let lost: Vec<&&str> = seen.iter().filter(|id| !places.contains(**id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(seen.len() > 60, "only {} ids were seen", seen.len());
    assert_eq!(doc_link("gang-required"), "docs/advise.md#gang-required");
}

#[test]
fn every_fact_threshold_and_page_is_listed_once() {
    let text = document();
    let rows =
        |name: &str| text.lines().filter(|line| line.starts_with(&format!("| {name} |"))).count();
    for fact in Fact::ALL {
        assert_eq!(rows(&format!("`{fact}`")), 1, "{fact}");
    }
    for threshold in Threshold::ALL {
        assert_eq!(rows(&format!("`{}`", threshold.name())), 1, "{}", threshold.name());
    }
    for page in CitedPage::ALL {
        assert_eq!(rows(page.name()), 1, "{}", page.name());
    }
}

/// Texts are fragments that other texts put together: no capital at the start but of names, no stop
/// at the end.
#[test]
fn texts_are_fragments() {
    for facts in [1, 2, 16].into_iter().flat_map(combinations) {
        let advice = advise(&facts, &Thresholds::default(), Ruleset::Corrected);
        let mut texts: Vec<String> =
            advice.rules.iter().map(|rule| rule.sentence.to_string()).collect();
        for warning in &advice.warnings {
            texts.extend([
                warning.sentence.to_string(),
                warning.tell.to_string(),
                warning.cure.to_string(),
            ]);
        }
        for dispute in &advice.disputes {
            assert!(
                dispute.question.ends_with('?') && dispute.positions.len() >= 2,
                "{}",
                dispute.id
            );
            texts.extend(dispute.positions.iter().map(|position| position.text.to_owned()));
            texts.push(dispute.muster.to_owned());
        }
        for text in texts {
            assert!(
                !text.ends_with(['.', '!']) && !text.contains("  ") && text.len() > 5,
                "{text:?}"
            );
        }
    }
}

/// Conditions read as English, with the numbers that a site can change.
#[test]
fn conditions_read_as_words() {
    let text = document();
    for line in [
        "- *when*: tightly_coupled and nodes at least 2 (multi-node) and bare_metal",
        "- *when*: the choice is slurm and long_lived_services",
        "- *effect*: requires `Volcano/Kueue/KAI gang scheduler (REQUIRED)`",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}
