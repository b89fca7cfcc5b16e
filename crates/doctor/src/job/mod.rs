//! Verification that a job got what it was allocated: the probes' observations in, one report out.
//! The checks are a closed list of data, each with three outcomes. Runs no probe.

mod check;
mod devices;
mod document;
mod gang;
mod list;
mod nccl;
mod ray;
mod strangers;
mod surroundings;
mod topology;

use muster_model::Time;
use muster_model::check::ProbeOutcome;
use muster_model::verify::{ProbeObservation, VerifyCheck, VerifyReport};

pub use document::document;
pub use ray::RayNodes;
pub use topology::leaves;

use check::JobCheckOutcome;
use list::CHECKS;

/// Everything known about one start of a job.
#[derive(Clone, Debug, Default)]
pub struct JobEvidence {
    /// Job number in its scheduler.
    pub job: u64,
    /// Index of the array element.
    pub index: Option<u32>,
    /// Time of the probes.
    pub at: Time,
    /// True on a daemon that runs as the job's user, and so cannot close devices to its jobs.
    pub is_personal: bool,
    /// Other jobs that were allocated shares of the same GPUs.
    pub sharing_jobs: Vec<u64>,
    /// Expected ranks, in order.
    pub expected: Vec<ExpectedRank>,
    /// Set when the timeout passed before all probes answered: ranks that were not seen may still
    /// be running.
    pub timed_out: bool,
    /// Observations of the probes.
    pub seen: Vec<ProbeObservation>,
    /// Result of connecting to the port beside rank 0, by node; `Some` is the error.
    pub reached: Vec<(String, Option<String>)>,
    /// Bounds on each node's clock against that of the caller.
    pub clocks: Vec<ClockBound>,
    /// Nodes of each leaf switch; `None` where unknown.
    pub leaves: Option<Vec<Vec<String>>>,
    /// Output of the ranks; `None` before they start.
    pub output: Option<String>,
    /// Nodes of the Ray cluster, or the reason why it did not answer; `None` for a job without one.
    pub ray: Option<Result<RayNodes, String>>,
}

/// Rank that the job should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedRank {
    /// Rank number in the job.
    pub rank: u32,
    /// Node of the rank, if known.
    pub node: Option<String>,
    /// Number of GPUs of the rank, if known.
    pub gpus: Option<u32>,
}

/// Bounds on how far a node's clock is ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockBound {
    /// Name of the node.
    pub node: String,
    /// Lower bound in nanoseconds.
    pub low_nanos: i64,
    /// Upper bound in nanoseconds.
    pub high_nanos: i64,
}

impl ClockBound {
    /// Derives bounds from one query: the other clock was read between the sending and the answer.
    #[must_use]
    pub fn of(node: String, sent_nanos: i64, read_nanos: i64, heard_nanos: i64) -> Self {
        Self { node, low_nanos: read_nanos - heard_nanos, high_nanos: read_nanos - sent_nanos }
    }

    /// Intersects the bounds with those of another query.
    pub fn narrow(&mut self, other: &Self) {
        self.low_nanos = self.low_nanos.max(other.low_nanos);
        self.high_nanos = self.high_nanos.min(other.high_nanos);
    }
}

impl JobEvidence {
    /// Returns the nodes that it runs on, each once, in the order of its ranks.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        let expected = self.expected.iter().filter_map(|one| one.node.as_ref());
        let mut nodes: Vec<String> = Vec::new();
        for node in expected.chain(self.seen.iter().map(|seen| &seen.node)) {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        nodes
    }
}

impl JobEvidence {
    /// Returns the number of ranks that no probe saw.
    fn unseen_ranks(&self) -> usize {
        let is_seen =
            |rank: u32| self.seen.iter().flat_map(|seen| &seen.ranks).any(|one| one.rank == rank);
        self.expected.iter().filter(|one| !is_seen(one.rank)).count()
    }
}

/// Runs all checks and returns the report.
#[must_use]
pub fn verify(evidence: &JobEvidence) -> VerifyReport {
    let answer = |check: &check::JobCheck| {
        let verdict = if check.needs_probe && evidence.seen.is_empty() {
            JobCheckOutcome::NotTested("a probe on its nodes while it runs".to_owned())
        } else {
            (check.evaluate)(evidence)
        };
        let verdict = match (verdict, evidence.unseen_ranks()) {
            (JobCheckOutcome::Passed(says), silent) if check.needs_probe && silent > 0 => {
                JobCheckOutcome::NotTested(format!(
                    "observations of all ranks: {silent} are missing; of the others, {says}"
                ))
            }
            (verdict, _) => verdict,
        };
        let (outcome, says) = match verdict {
            JobCheckOutcome::Passed(says) => (ProbeOutcome::Passed, says),
            JobCheckOutcome::Failed(says) => (ProbeOutcome::Failed, says),
            JobCheckOutcome::NotTested(says) => (ProbeOutcome::NotTested, says),
        };
        let cure = (outcome == ProbeOutcome::Failed).then(|| check.cure.to_owned());
        VerifyCheck { check: check.id.to_owned(), outcome, text: says, cure }
    };
    // Most jobs have no Ray cluster: a line about it would tell them nothing.
    let applies = |check: &&check::JobCheck| evidence.ray.is_some() || check.id != list::RAY;
    VerifyReport {
        job: evidence.job,
        index: evidence.index,
        at: evidence.at,
        ranks: u32::try_from(evidence.expected.len()).unwrap_or(u32::MAX),
        nodes: evidence.nodes(),
        checks: CHECKS.iter().filter(applies).map(answer).collect(),
    }
}
