//! Tests of the outputs: SARIF, the baseline, the document.

use std::collections::BTreeSet;

use muster_doctor::{
    baseline, check, document, explain, known_in, kubernetes_rule_texts, ray_host_rule_texts,
    rule_texts, sarif,
};
use muster_slurm::import::ids;

use crate::site::SampleSite;

fn bad() -> SampleSite {
    SampleSite::good()
        .with("PriorityWeightAge=1000\n", "")
        .with("sched/backfill", "sched/builtin")
        .with("low|00:02:00", "low|00:00:00")
}

#[test]
fn sarif_has_what_the_standard_requires() {
    let report = bad().report();
    let all: Vec<_> = rule_texts().collect();
    let log = sarif(&report, &all, "muster check slurm", "0.1.0");
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "muster check slurm");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), all.len());
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert_eq!(result["baselineState"], "new");
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        assert_eq!(result["partialFingerprints"]["muster/v1"].as_str().unwrap().len(), 16);
    }
    let backfill = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(backfill["artifactLocation"]["uri"], "slurm.conf");
    assert!(backfill["region"]["startLine"].as_u64().unwrap() > 1);
}

#[test]
fn the_most_severe_comes_first_and_a_baseline_makes_findings_known() {
    let report = bad().report();
    let rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["no-backfill", "preempt-without-grace", "age-weight-zero"]);
    let known = known_in(&baseline(&report)).unwrap();
    let again = check(&bad().with("KillWait=30", "KillWait=1").evidence(), &known);
    let new: Vec<&str> = again
        .findings
        .iter()
        .filter(|finding| !finding.known)
        .map(|finding| finding.rule)
        .collect();
    assert_eq!((again.findings.len(), new), (4, vec!["no-time-to-save"]));
}

#[test]
fn each_rule_has_one_place_in_the_document() {
    let text = document();
    let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let all = || rule_texts().chain(kubernetes_rule_texts()).chain(ray_host_rule_texts());
    let of_scripts = ids().map(|(id, ..)| id).filter(|id| id.starts_with("ray-"));
    let expected: Vec<&str> = all().map(|rule| rule.id).chain(of_scripts).collect();
    assert_eq!(headings, expected);
    let distinct: BTreeSet<&str> = headings.iter().copied().collect();
    assert_eq!(distinct.len(), headings.len());
    for id in headings {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        assert!(id.bytes().all(|byte| is_plain(byte) || byte == b'-'), "{id}");
    }
    for rule in all() {
        let said = explain(all(), rule.id).unwrap();
        assert!(said.contains("means") && said.contains("cure") && said.contains("page"), "{said}");
    }
    assert_eq!(explain(all(), "no-such-rule"), None);
}

/// Texts are fragments, which reports combine.
#[test]
fn texts_are_fragments() {
    let all = rule_texts().chain(kubernetes_rule_texts()).chain(ray_host_rule_texts());
    for title in all.map(|rule| rule.title) {
        assert!(
            !title.ends_with(['.', '!']) && !title.contains("  ") && title.len() > 5,
            "{title:?}"
        );
    }
}
