//! Whether a job got what it was given: what probes saw of it in, one answer out. The checks are a
//! closed list of data, each with three outcomes. It runs no probe.

mod check;
mod devices;
mod document;
mod gang;
mod nccl;
mod surroundings;
mod topology;

use muster_model::Time;
use muster_model::check::ProbeOutcome;
use muster_model::verify::{Seen, VerifyCheck, VerifyReport};

pub use document::document;
pub use topology::leaves;

use check::{CHECKS, Verdict};

/// Everything that is known of one start of a job.
#[derive(Clone, Debug, Default)]
pub struct JobEvidence {
    /// The job.
    pub job: u64,
    /// Which element of an array.
    pub index: Option<u32>,
    /// When the probes looked.
    pub at: Time,
    /// Every rank that there should be, in order.
    pub expected: Vec<Expected>,
    /// Probes were still to come when time was over: who is not among those seen may be there all
    /// the same.
    pub is_late: bool,
    /// What each probe saw.
    pub seen: Vec<Seen>,
    /// Who reached the port beside rank 0, by node; of those who did not, why.
    pub reached: Vec<(String, Option<String>)>,
    /// Bounds of each node's clock against that of the one who asked.
    pub clocks: Vec<ClockBound>,
    /// Nodes of each leaf switch; `None` where that is not known.
    pub leaves: Option<Vec<Vec<String>>>,
    /// What the ranks have printed; `None` before they start.
    pub output: Option<String>,
}

/// A rank that there should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Rank.
    pub rank: u32,
    /// Where, when that is known.
    pub node: Option<String>,
    /// GPUs of it, when that is known.
    pub gpus: Option<u32>,
}

/// How far a node's clock is ahead, at least and at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockBound {
    /// The node.
    pub node: String,
    /// At least.
    pub low_nanos: i64,
    /// At most.
    pub high_nanos: i64,
}

impl ClockBound {
    /// What one question says, of the instants when it was sent and when its answer came: the other
    /// clock was read in between.
    #[must_use]
    pub fn of(node: String, sent_nanos: i64, read_nanos: i64, heard_nanos: i64) -> Self {
        Self { node, low_nanos: read_nanos - heard_nanos, high_nanos: read_nanos - sent_nanos }
    }

    /// What both say.
    pub fn narrow(&mut self, other: &Self) {
        self.low_nanos = self.low_nanos.max(other.low_nanos);
        self.high_nanos = self.high_nanos.min(other.high_nanos);
    }
}

impl JobEvidence {
    /// Nodes that it runs on, each once, in the order of its ranks.
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
    /// Ranks that no probe saw.
    fn silent(&self) -> usize {
        let is_seen =
            |rank: u32| self.seen.iter().flat_map(|seen| &seen.ranks).any(|one| one.rank == rank);
        self.expected.iter().filter(|one| !is_seen(one.rank)).count()
    }
}

/// The answer.
#[must_use]
pub fn verify(evidence: &JobEvidence) -> VerifyReport {
    let answer = |check: &check::Check| {
        let verdict = match check.needs_probe && evidence.seen.is_empty() {
            true => Verdict::NotTested("a probe beside its ranks while it runs".to_owned()),
            false => (check.judge)(evidence),
        };
        let verdict = match (verdict, evidence.silent()) {
            (Verdict::Passed(says), silent) if check.needs_probe && silent > 0 => {
                Verdict::NotTested(format!(
                    "all ranks: {silent} were not seen; of the others, {says}"
                ))
            }
            (verdict, _) => verdict,
        };
        let (outcome, says) = match verdict {
            Verdict::Passed(says) => (ProbeOutcome::Passed, says),
            Verdict::Failed(says) => (ProbeOutcome::Failed, says),
            Verdict::NotTested(says) => (ProbeOutcome::NotTested, says),
        };
        let cure = (outcome == ProbeOutcome::Failed).then(|| check.cure.to_owned());
        VerifyCheck { check: check.id.to_owned(), outcome, says, cure }
    };
    VerifyReport {
        job: evidence.job,
        index: evidence.index,
        at: evidence.at,
        ranks: u32::try_from(evidence.expected.len()).unwrap_or(u32::MAX),
        nodes: evidence.nodes(),
        checks: CHECKS.iter().map(answer).collect(),
    }
}
