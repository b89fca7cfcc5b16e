//! Asks every rule, and puts what they say into one answer. It knows no rule by name.

use std::collections::BTreeSet;

use muster_model::check::{CheckFinding, CheckOutcome, CheckReport};

use crate::evidence::{Evidence, Untested};
use crate::rule::{Rule, Trip, Verdict};
use crate::rules;

/// The answer to evidence. Findings whose fingerprint is in the baseline are marked as known.
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
            Ok(Verdict::Pass(says)) => report.passed.push(CheckOutcome { rule: rule.id, says }),
            Ok(Verdict::Fail(trips)) => {
                report.findings.extend(trips.into_iter().map(|trip| finding(rule, trip, baseline)));
            }
            Err(Untested(says)) => report.not_tested.push(CheckOutcome { rule: rule.id, says }),
        }
    }
    // Stable: of the same severity the order of the rules stays.
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    report
}

fn finding(rule: &Rule, trip: Trip, baseline: &BTreeSet<String>) -> CheckFinding {
    let fingerprint = fingerprint(rule.id, &trip.key);
    CheckFinding {
        rule: rule.id,
        severity: rule.severity,
        title: rule.title,
        evidence: trip.says,
        place: trip.place,
        meaning: rule.meaning,
        cure: rule.cure,
        page: rule.page.name(),
        url: rule.page.url(),
        known: baseline.contains(&fingerprint),
        fingerprint,
    }
}

/// FNV-1a of 64 bits over rule and key: the same on every machine and in every version.
fn fingerprint(rule: &str, key: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = rule.bytes().chain([0]).chain(key.bytes()).fold(OFFSET, step);
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Baselines hold these.
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
