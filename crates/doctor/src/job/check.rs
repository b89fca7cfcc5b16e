//! Check of a job, and its outcome.

use super::JobEvidence;

/// Thousandths of a whole GPU.
pub(super) const WHOLE_MILLIS: u32 = 1000;

/// Check of a job. Its id never changes once published: scripts refer to it.
pub(super) struct JobCheck {
    pub(super) id: &'static str,
    /// Statement that holds where the check passes.
    pub(super) title: &'static str,
    /// Consequence where the check fails.
    pub(super) meaning: &'static str,
    /// Next step for the user.
    pub(super) cure: &'static str,
    /// Set where the check cannot be judged without a probe on the job's nodes.
    pub(super) needs_probe: bool,
    pub(super) evaluate: fn(&JobEvidence) -> JobCheckOutcome,
}

/// Outcome of a check, with the observation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobCheckOutcome {
    Passed(String),
    Failed(String),
    NotTested(String),
}

/// Formats a count: `1 node`, `2 nodes`.
pub(super) fn count(many: usize, word: &str) -> String {
    format!("{many} {word}{}", if many == 1 { "" } else { "s" })
}

/// Returns a failure that lists all problems, or a pass where there are none.
pub(super) fn fail_if_any(wrong: &[String], right: impl Into<String>) -> JobCheckOutcome {
    /// Number of problems that are listed; the rest is counted.
    const LISTED: usize = 4;
    match wrong.len() {
        0 => JobCheckOutcome::Passed(right.into()),
        count if count <= LISTED => JobCheckOutcome::Failed(wrong.join("; ")),
        count => JobCheckOutcome::Failed(format!(
            "{}; and {} more",
            wrong[..LISTED].join("; "),
            count - LISTED
        )),
    }
}
