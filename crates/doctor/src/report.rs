//! Runs all rules and collects their results in one report.

use std::collections::BTreeSet;

use muster_model::check::{CheckFinding, CheckOutcome, CheckPlace, CheckReport};
use muster_model::hash::fnv1a;
use muster_model::imported::ImportReport;

use crate::rule::{RuleFinding, RuleText, RuleVerdict};
use crate::rules;
use muster_slurm::conf::evidence::{Evidence, MissingInput};

/// Returns the report on the evidence. Findings whose fingerprint is in the baseline are marked as
/// known.
#[must_use]
pub fn check(evidence: &Evidence, baseline: &BTreeSet<String>) -> CheckReport {
    let mut report = CheckReport {
        subject: "slurm",
        read: evidence.read.clone(),
        findings: Vec::new(),
        passed: Vec::new(),
        not_tested: Vec::new(),
        probes: Vec::new(),
    };
    for rule in rules::all() {
        match (rule.check)(evidence) {
            Ok(RuleVerdict::Pass(says)) => {
                report.passed.push(CheckOutcome { rule: rule.id, text: says })
            }
            Ok(RuleVerdict::Fail(found)) => {
                report
                    .findings
                    .extend(found.into_iter().map(|one| finding(rule.text(), one, baseline)));
            }
            Err(MissingInput(says)) => {
                report.not_tested.push(CheckOutcome { rule: rule.id, text: says })
            }
        }
    }
    // The sort is stable: findings of the same severity stay in the order of the rules.
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    report
}

/// Returns the findings of an import as a report on its script, so that a baseline and SARIF serve
/// both. A finding is identified by its rule and its evidence.
#[must_use]
pub fn of_import(report: &ImportReport, baseline: &BTreeSet<String>) -> CheckReport {
    let found = report.findings.iter().map(|one| {
        let rule = RuleText {
            id: one.rule,
            severity: one.severity,
            title: one.title,
            meaning: "",
            cure: one.cure,
            page: String::new(),
            url: String::new(),
        };
        let place = CheckPlace { source: report.script.clone(), line: one.line };
        let says = one.evidence.clone();
        finding(rule, RuleFinding { key: says.clone(), says, place: Some(place) }, baseline)
    });
    CheckReport {
        subject: "script",
        read: vec![report.script.clone()],
        findings: found.collect(),
        passed: Vec::new(),
        not_tested: Vec::new(),
        probes: Vec::new(),
    }
}

/// Returns the rules that have findings in a report, each once.
#[must_use]
pub fn failed_rules(report: &CheckReport) -> Vec<RuleText> {
    let mut rules: Vec<RuleText> = Vec::new();
    for one in &report.findings {
        if rules.iter().all(|rule| rule.id != one.rule) {
            rules.push(RuleText {
                id: one.rule,
                severity: one.severity,
                title: one.title,
                meaning: one.meaning,
                cure: one.cure,
                page: one.page.clone(),
                url: one.url.clone(),
            });
        }
    }
    rules
}

fn finding(rule: RuleText, one: RuleFinding, baseline: &BTreeSet<String>) -> CheckFinding {
    let fingerprint = fingerprint(rule.id, &one.key);
    CheckFinding {
        rule: rule.id,
        severity: rule.severity,
        title: rule.title,
        evidence: one.says,
        place: one.place,
        meaning: rule.meaning,
        cure: rule.cure,
        page: rule.page,
        url: rule.url,
        known: baseline.contains(&fingerprint),
        fingerprint,
    }
}

/// Hashes rule and key.
fn fingerprint(rule: &str, key: &str) -> String {
    format!("{:016x}", fnv1a(format!("{rule}\0{key}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Baselines contain these fingerprints.
    #[test]
    fn a_fingerprint_never_changes() {
        assert_eq!(
            fingerprint("no-backfill", "schedulertype"),
            fingerprint("no-backfill", "schedulertype")
        );
        assert_ne!(fingerprint("a", "bc"), fingerprint("ab", "c"));
        assert_eq!(fingerprint("", ""), "af63bd4c8601b7df");
    }
}
