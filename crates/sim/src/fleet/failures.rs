//! Random failures of nodes and devices, each kind with its own mean time between failures, and
//! repairs. Drawn from one seed, node by node: as long as anything is active (`run.rs`), failures
//! do not depend on the scheduler.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_model::{NodeId, NodeSpec, Span, Time};

use crate::rng::Rng;

/// Rates of failures. Times between failures are exponential, repair times constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Mean time between failures of a node; `None`: never.
    pub node_mtbf: Option<Span>,
    /// Mean time between failures of a GPU; `None`: never.
    pub gpu_mtbf: Option<Span>,
    /// Time from a failure to the repair.
    pub repair: Span,
    /// Seed of the random times.
    pub seed: u64,
}

/// A node, or one device of it, that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailedPart {
    pub(super) node: NodeId,
    pub(super) device: Option<usize>,
}

/// Generator of the next failures and repairs.
#[derive(Clone, Debug)]
pub(super) struct FailureGenerator {
    terms: Failures,
    rng: Vec<Rng>,
    breaks: BinaryHeap<Reverse<(Time, FailedPart)>>,
    mends: BinaryHeap<Reverse<(Time, FailedPart)>>,
}

impl FailureGenerator {
    /// Starts with everything working at `start`.
    pub(super) fn new(terms: Failures, nodes: &[NodeSpec], start: Time) -> Self {
        // Each node has a random stream of its own: the odd constant separates the streams of
        // neighbouring seeds.
        let rng = (0..nodes.len() as u64)
            .map(|at| Rng::new(terms.seed.wrapping_add(at << 32 | 0x5EED)))
            .collect();
        let mut failure_generator =
            Self { terms, rng, breaks: BinaryHeap::new(), mends: BinaryHeap::new() };
        for (at, node) in nodes.iter().enumerate() {
            let node_id = NodeId(at as u32);
            failure_generator.draw(start, FailedPart { node: node_id, device: None });
            for device in 0..node.devices.len() {
                failure_generator.draw(start, FailedPart { node: node_id, device: Some(device) });
            }
        }
        failure_generator
    }

    /// Returns the time of the next failure.
    pub(super) fn next_failure(&self) -> Option<Time> {
        self.breaks.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the time of the next repair.
    pub(super) fn next_repair(&self) -> Option<Time> {
        self.mends.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the next part that fails by now.
    pub(super) fn next_failed_part(&mut self, now: Time) -> Option<FailedPart> {
        if self.next_failure()? > now {
            return None;
        }
        let Reverse((_, part)) = self.breaks.pop()?;
        self.mends.push(Reverse((now + self.terms.repair, part)));
        Some(part)
    }

    /// Draws failures that are due anew, from now on: nothing was active, so nothing failed
    /// meanwhile. Otherwise they would happen at the very instant at which a repair starts jobs
    /// again.
    pub(super) fn delay_due(&mut self, now: Time) {
        while self.next_failure().is_some_and(|at| at <= now) {
            if let Some(Reverse((_, part))) = self.breaks.pop() {
                self.draw(now, part);
            }
        }
    }

    /// Returns the next part that is repaired by now.
    pub(super) fn mend_next(&mut self, now: Time) -> Option<FailedPart> {
        if self.next_repair()? > now {
            return None;
        }
        let Reverse((_, part)) = self.mends.pop()?;
        self.draw(now, part);
        Some(part)
    }

    fn draw(&mut self, now: Time, part: FailedPart) {
        let mean = if part.device.is_some() { self.terms.gpu_mtbf } else { self.terms.node_mtbf };
        let Some(mean) = mean else { return };
        let unit = self.rng[part.node.0 as usize].unit();
        // The inverse of the exponential distribution, at least a millisecond.
        let after = (-(1.0 - unit).ln() * mean.0 as f64).max(1.0);
        self.breaks.push(Reverse((now + Span(after as u64), part)));
    }
}
