//! Converts the report to SARIF 2.1.0 (OASIS), which code hosts show beside the lines of a file.

use muster_model::check::{CheckFinding, CheckReport, Severity};
use serde_json::{Value, json};

use crate::rule::RuleText;

/// Returns a log with one run of a command. Rules that were not tested become notifications, so
/// that they are not counted as passed.
#[must_use]
pub fn sarif(report: &CheckReport, rules: &[RuleText], command: &str, version: &str) -> Value {
    let described: Vec<Value> = rules.iter().map(described).collect();
    let not_tested: Vec<Value> = report
        .not_tested
        .iter()
        .map(|outcome| {
            json!({
                "level": "note",
                "descriptor": { "id": "not-tested" },
                "associatedRule": { "id": outcome.rule },
                "message": { "text": format!("{} was not tested; needed: {}", outcome.rule, outcome.text) },
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": command, "version": version, "rules": described } },
            "invocations": [{ "executionSuccessful": true, "toolExecutionNotifications": not_tested }],
            "results": report.findings.iter().map(|finding| result(finding, rules)).collect::<Vec<_>>(),
        }],
    })
}

fn described(rule: &RuleText) -> Value {
    let help = [rule.cure, &rule.page].into_iter().filter(|text| !text.is_empty());
    let mut described = json!({
        "id": rule.id,
        "shortDescription": { "text": rule.title },
        "help": { "text": help.collect::<Vec<_>>().join("; ") },
        "defaultConfiguration": { "level": level(rule.severity) },
    });
    if !rule.meaning.is_empty() {
        described["fullDescription"] = json!({ "text": rule.meaning });
    }
    if !rule.url.is_empty() {
        described["helpUri"] = json!(rule.url);
    }
    described
}

fn result(finding: &CheckFinding, rules: &[RuleText]) -> Value {
    let index = rules.iter().position(|rule| rule.id == finding.rule);
    let mut result = json!({
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": level(finding.severity),
        "message": { "text": format!("{}: {}", finding.title, finding.evidence) },
        "partialFingerprints": { "muster/v1": finding.fingerprint },
        "baselineState": if finding.known { "unchanged" } else { "new" },
    });
    if let Some(place) = &finding.place {
        // Output of a command is not a file that a code host can show.
        if let Some(line) = place.line {
            result["locations"] = json!([{
                "physicalLocation": {
                    "artifactLocation": { "uri": place.source },
                    "region": { "startLine": line },
                },
            }]);
        }
    }
    result
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    }
}
