//! Report of a check: findings, rules that passed, and rules that could not be tested. The rules
//! are in `doctor`; this module holds only values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Works, but worse than it could.
    Low,
    /// Some jobs or users are treated wrongly at times.
    Medium,
    /// A guarantee of the cluster does not hold.
    High,
}

impl Severity {
    /// Returns the word in tables, options and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }
}

/// Report of a check of a cluster. Every rule is in exactly one of the three lists; in `findings`
/// once per finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckReport {
    /// Name of the checked system, such as `slurm`.
    pub subject: &'static str,
    /// Files and commands that were read, in order.
    pub read: Vec<String>,
    /// Findings, the most severe first.
    pub findings: Vec<CheckFinding>,
    /// Rules without a finding.
    pub passed: Vec<CheckOutcome>,
    /// Rules that could not be tested, each with what is missing for the test.
    pub not_tested: Vec<CheckOutcome>,
    /// Results of the probe jobs; empty when none were requested.
    pub probes: Vec<CheckProbe>,
}

/// Result of a probe job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckProbe {
    /// Id of the probe.
    pub probe: &'static str,
    /// Outcome of the probe.
    pub outcome: ProbeOutcome,
    /// Observation, or what is missing for the test.
    #[serde(rename = "says")]
    pub text: String,
}

/// Outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeOutcome {
    /// The observation is as expected.
    Passed,
    /// The observation is not as expected.
    Failed,
    /// The probe could not run.
    NotTested,
}

/// Finding: a problem of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckFinding {
    /// Id of the rule, which is the heading of its entry in docs/check.md.
    pub rule: &'static str,
    /// Severity of the problem.
    pub severity: Severity,
    /// Title of the rule, as a fragment.
    pub title: &'static str,
    /// Observation in this cluster.
    pub evidence: String,
    /// Place of the observation; `None` when something is missing from the configuration.
    pub place: Option<CheckPlace>,
    /// Consequence of the problem.
    pub meaning: &'static str,
    /// Advice to fix the problem.
    pub cure: &'static str,
    /// Title of the page that the rule is based on.
    pub page: String,
    /// URL of that page.
    pub url: String,
    /// Stable id of this finding: unchanged when lines move or the wording changes.
    pub fingerprint: String,
    /// True when the baseline contains the finding.
    pub known: bool,
}

/// Line of a file, or a command whose output was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct CheckPlace {
    /// Path of the file as the user gave it, or the command.
    pub source: String,
    /// Line, from 1; `None` for the output of a command.
    pub line: Option<u32>,
}

/// Rule without a finding, or that could not be tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckOutcome {
    /// Id of the rule.
    pub rule: &'static str,
    /// Observation, or what is missing for the test.
    #[serde(rename = "says")]
    pub text: String,
}
