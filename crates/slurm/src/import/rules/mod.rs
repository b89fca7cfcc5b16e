//! Findings: problems of a script, by a closed list of independent rules, one file per subject.

mod launching;
mod losses;
mod ray;
mod rendezvous;
mod requests;
mod shape;

use muster_model::check::Severity;
use muster_model::imported::ImportFinding;

use super::finding::{ImportRule, ScriptFacts};

fn rules() -> impl Iterator<Item = &'static ImportRule> {
    requests::RULES
        .iter()
        .chain(launching::RULES)
        .chain(rendezvous::RULES)
        .chain(shape::RULES)
        .chain(losses::RULES)
        .chain(ray::RULES)
}

/// Returns id, severity, title and cure of every rule.
pub fn ids() -> impl Iterator<Item = (&'static str, Severity, &'static str, &'static str)> {
    rules().map(|rule| (rule.id, rule.severity, rule.title, rule.cure))
}

/// Returns all findings, most severe first, then by line.
pub(super) fn findings(facts: &ScriptFacts<'_>) -> Vec<ImportFinding> {
    let mut findings: Vec<ImportFinding> = rules()
        .flat_map(|rule| {
            (rule.find)(facts).into_iter().map(|(line, evidence)| ImportFinding {
                rule: rule.id,
                severity: rule.severity,
                title: rule.title,
                line,
                evidence,
                cure: rule.cure,
            })
        })
        .collect();
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.line));
    findings
}
