//! Findings: problems of objects, by a closed list of independent rules, one file per subject.

mod gangs;
mod launching;
mod operators;
mod pods;
mod queues;
mod ray;
mod ray_nodes;
mod services;
mod versions;

use muster_model::check::Severity;
use muster_model::imported::ImportFinding;

use super::finding::{ObjectFacts, ObjectRule};

fn rules() -> impl Iterator<Item = &'static ObjectRule> {
    let rules = [
        pods::RULES,
        gangs::RULES,
        launching::RULES,
        operators::RULES,
        services::RULES,
        queues::RULES,
        ray::RULES,
        ray_nodes::RULES,
        versions::RULES,
    ];
    rules.into_iter().flatten()
}

/// Returns id, severity and title of every rule.
pub fn ids() -> impl Iterator<Item = (&'static str, Severity, &'static str)> {
    rules().map(|rule| (rule.id, rule.severity, rule.title))
}

/// Returns all findings, most severe first, then by line.
pub(super) fn findings(facts: &ObjectFacts<'_>) -> Vec<ImportFinding> {
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
