//! What breaks, and when: nodes and devices, each at random times by its own mean, each mended
//! after its own. Drawn from one number, node by node: as long as anything stirs (`run.rs`), what
//! breaks does not depend on who decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_model::{NodeId, NodeSpec, Span, Time};

use crate::dice::Dice;

/// How often things break. Times between failures are exponential, those to repair are always the
/// same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Mean time between failures of a node. `None`: never.
    pub node_mtbf: Option<Span>,
    /// Mean time between failures of a GPU. `None`: never.
    pub gpu_mtbf: Option<Span>,
    /// Until it is there again.
    pub repair: Span,
    /// What chance comes from.
    pub seed: u64,
}

/// Something that breaks: a node, or one device of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) node: NodeId,
    pub(super) device: Option<usize>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    terms: Failures,
    dice: Vec<Dice>,
    breaks: BinaryHeap<Reverse<(Time, Part)>>,
    mends: BinaryHeap<Reverse<(Time, Part)>>,
}

impl Weather {
    /// Everything works at `start`.
    pub(super) fn new(terms: Failures, nodes: &[NodeSpec], start: Time) -> Self {
        // A stream of its own for each node: the odd constant keeps streams of neighbouring seeds
        // apart.
        let dice = (0..nodes.len() as u64)
            .map(|at| Dice::new(terms.seed.wrapping_add(at << 32 | 0x5EED)))
            .collect();
        let mut weather = Self { terms, dice, breaks: BinaryHeap::new(), mends: BinaryHeap::new() };
        for (at, node) in nodes.iter().enumerate() {
            let node_id = NodeId(at as u32);
            weather.draw(start, Part { node: node_id, device: None });
            for device in 0..node.devices.len() {
                weather.draw(start, Part { node: node_id, device: Some(device) });
            }
        }
        weather
    }

    /// The next failure.
    pub(super) fn next_break(&self) -> Option<Time> {
        self.breaks.peek().map(|Reverse((at, _))| *at)
    }

    /// The next repair.
    pub(super) fn next_mend(&self) -> Option<Time> {
        self.mends.peek().map(|Reverse((at, _))| *at)
    }

    /// What breaks by now, one at a time.
    pub(super) fn break_next(&mut self, now: Time) -> Option<Part> {
        if self.next_break()? > now {
            return None;
        }
        let Reverse((_, part)) = self.breaks.pop()?;
        self.mends.push(Reverse((now + self.terms.repair, part)));
        Some(part)
    }

    /// Draws anew, from now on, what would have broken by now: nothing stirred, and nothing broke
    /// meanwhile. Left as it is, it would break at the very instant at which what was mended starts
    /// jobs again.
    pub(super) fn put_off(&mut self, now: Time) {
        while self.next_break().is_some_and(|at| at <= now) {
            if let Some(Reverse((_, part))) = self.breaks.pop() {
                self.draw(now, part);
            }
        }
    }

    /// What is mended by now, one at a time.
    pub(super) fn mend_next(&mut self, now: Time) -> Option<Part> {
        if self.next_mend()? > now {
            return None;
        }
        let Reverse((_, part)) = self.mends.pop()?;
        self.draw(now, part);
        Some(part)
    }

    fn draw(&mut self, now: Time, part: Part) {
        let mean = if part.device.is_some() { self.terms.gpu_mtbf } else { self.terms.node_mtbf };
        let Some(mean) = mean else { return };
        let unit = self.dice[part.node.0 as usize].unit();
        // The inverse of the exponential distribution, at least a millisecond.
        let after = (-(1.0 - unit).ln() * mean.0 as f64).max(1.0);
        self.breaks.push(Reverse((now + Span(after as u64), part)));
    }
}
