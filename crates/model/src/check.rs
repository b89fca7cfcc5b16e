//! The answer of a check: what is wrong, what passed, and what could not be tested. Which rule
//! finds what is known in `doctor`; nothing here judges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something is worse than it could be.
    Low,
    /// Jobs or people are treated wrongly now and then.
    Medium,
    /// What the cluster promises does not hold.
    High,
}

impl Severity {
    /// The word in tables, options and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }
}

/// What a check of a cluster came to. Every rule is in exactly one of the three lists; in
/// `findings` once for each thing that it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckReport {
    /// What was checked, such as `slurm`.
    pub subject: &'static str,
    /// What was read: files and commands, in their order.
    pub read: Vec<String>,
    /// What is wrong, the most severe first.
    pub findings: Vec<CheckFinding>,
    /// Rules that found nothing wrong.
    pub passed: Vec<CheckOutcome>,
    /// Rules that could not be judged, each with what would be needed.
    pub not_tested: Vec<CheckOutcome>,
    /// What probe jobs came to; empty when none was asked for.
    pub probes: Vec<CheckProbe>,
}

/// What a probe job came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckProbe {
    /// Id of the probe.
    pub probe: &'static str,
    /// What came of it.
    pub outcome: ProbeOutcome,
    /// What was seen, or what would be needed.
    pub says: String,
}

/// The three outcomes of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeOutcome {
    /// It is as it should be.
    Passed,
    /// It is not.
    Failed,
    /// The probe could not be made.
    NotTested,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckFinding {
    /// Id of the rule, the heading of its entry in docs/check.md.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong in general, as a fragment.
    pub title: &'static str,
    /// What was seen here.
    pub evidence: String,
    /// Where it was seen; `None` where it is about what is missing.
    pub place: Option<CheckPlace>,
    /// What follows from it.
    pub meaning: &'static str,
    /// What to do.
    pub cure: &'static str,
    /// The page that the rule comes from.
    pub page: String,
    /// Where that page is.
    pub url: String,
    /// Names this finding: the same when lines move or the wording changes.
    pub fingerprint: String,
    /// Whether the baseline holds it already.
    pub known: bool,
}

/// A line of a file, or a command whose output it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct CheckPlace {
    /// File as it was named, or the command.
    pub source: String,
    /// Line, from 1; `None` in the output of a command.
    pub line: Option<u32>,
}

/// A rule that found nothing wrong, or could not be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckOutcome {
    /// Id of the rule.
    pub rule: &'static str,
    /// What was seen, or what would be needed.
    pub says: String,
}
