//! Runs all rules and collects their results in one report.

use std::collections::BTreeSet;

use muster_model::check::{CheckFinding, CheckOutcome, CheckPlace, CheckReport};
use muster_model::hash::fnv1a;
use muster_model::imported::ImportReport;

use crate::document::is_on_ray;
use crate::kubernetes::Snapshot;
use crate::kubernetes::view::{ClusterView, count, some_of};
use crate::ray::{HostView, RayHost};
use crate::rule::{RuleFinding, RuleResult, RuleText, RuleVerdict};
use crate::{kubernetes, ray, rules};
use muster_slurm::conf::evidence::{Evidence, MissingInput};

/// Returns the report on a Slurm cluster. Findings whose fingerprint is in the baseline are marked
/// as known.
#[must_use]
pub fn check(evidence: &Evidence, baseline: &BTreeSet<String>) -> CheckReport {
    let results = rules::all().map(|rule| (rule.text(), (rule.check)(evidence)));
    judge("slurm", evidence.read.clone(), results, baseline)
}

/// Returns the report on a Kubernetes cluster, as [`check`] does on Slurm.
#[must_use]
pub fn check_kubernetes(snapshot: &Snapshot, baseline: &BTreeSet<String>) -> CheckReport {
    let view = ClusterView::of(snapshot);
    let results = kubernetes::rules::all().map(|rule| (rule.text(), (rule.check)(&view)));
    judge("kubernetes", snapshot.read.clone(), results, baseline)
}

/// Returns the report on the Ray clusters of a Kubernetes cluster: the rules on objects of KubeRay alone.
#[must_use]
pub fn check_ray_objects(snapshot: &Snapshot, baseline: &BTreeSet<String>) -> CheckReport {
    let view = ClusterView::of(snapshot);
    let results = kubernetes::rules::ray::all().map(|rule| (rule.text(), (rule.check)(&view)));
    judge("ray", snapshot.read.clone(), results, baseline)
}

/// Returns the report on the Ray clusters of a machine, as [`check`] does on Slurm.
#[must_use]
pub fn check_ray_host(host: &RayHost, baseline: &BTreeSet<String>) -> CheckReport {
    let view = HostView::of(host);
    let results = ray::rules::all().map(|rule| (rule.text(), (rule.check)(&view)));
    judge("ray", host.read.clone(), results, baseline)
}

/// Sorts the results of all rules into a report.
fn judge(
    subject: &'static str,
    read: Vec<String>,
    results: impl Iterator<Item = (RuleText, RuleResult)>,
    baseline: &BTreeSet<String>,
) -> CheckReport {
    let mut report = CheckReport {
        subject,
        read,
        findings: Vec::new(),
        passed: Vec::new(),
        not_tested: Vec::new(),
        probes: Vec::new(),
    };
    for (rule, result) in results {
        match result {
            Ok(RuleVerdict::Pass(says)) => {
                report.passed.push(CheckOutcome { rule: rule.id, text: says })
            }
            Ok(RuleVerdict::Fail(found)) => {
                let found = found.into_iter().map(|one| finding(rule.clone(), one, baseline));
                report.findings.extend(found);
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

/// Returns the report on the Ray clusters that scripts of running jobs start: the findings of their imports
/// that are on Ray. `unread` are jobs whose script could not be read.
#[must_use]
pub fn check_ray_scripts(
    scripts: &[ImportReport],
    unread: &[String],
    baseline: &BTreeSet<String>,
) -> CheckReport {
    let mut report = CheckReport {
        subject: "ray",
        read: scripts.iter().map(|one| format!("the script of {}", one.script)).collect(),
        findings: Vec::new(),
        passed: Vec::new(),
        not_tested: Vec::new(),
        probes: Vec::new(),
    };
    for script in scripts {
        report.findings.extend(of_import(script, baseline).findings);
    }
    report.findings.retain(|finding| is_on_ray(finding.rule));
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for (rule, ..) in muster_slurm::import::ids().filter(|(rule, ..)| is_on_ray(rule)) {
        if report.findings.iter().any(|finding| finding.rule == rule) {
            continue;
        }
        if unread.is_empty() {
            let text = count(scripts.len(), "script");
            report.passed.push(CheckOutcome { rule, text });
        } else {
            let text = format!("the script of job {}", some_of(unread));
            report.not_tested.push(CheckOutcome { rule, text });
        }
    }
    report
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
