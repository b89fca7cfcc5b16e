//! Jobs and held time by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::trace::{NameShare, TraceNames};

/// So many names are given back.
const TOP: usize = 10;

/// What is counted of each name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    counts: BTreeMap<Arc<str>, (u64, Held)>,
    jobs_without: u64,
}

/// What was held, in thousandths times milliseconds: of GPUs and of processors, until it is known
/// which of them counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) gpus: u128,
    pub(super) cpus: u128,
}

impl Held {
    pub(super) fn add(&mut self, other: Held) {
        self.gpus += other.gpus;
        self.cpus += other.cpus;
    }

    /// In whole unit-seconds.
    pub(super) fn secs(self, gpus: bool) -> u64 {
        let held = if gpus { self.gpus } else { self.cpus };
        u64::try_from(held / 1_000_000).unwrap_or(u64::MAX)
    }
}

impl Names {
    pub(super) fn add(&mut self, name: Option<&Arc<str>>, held: Held) {
        let Some(name) = name else {
            self.jobs_without += 1;
            return;
        };
        if let Some((jobs, sum)) = self.counts.get_mut(name) {
            *jobs += 1;
            sum.add(held);
        } else {
            self.counts.insert(name.clone(), (1, held));
        }
    }

    pub(super) fn finish(self, gpus: bool) -> TraceNames {
        let count = self.counts.len() as u64;
        let share = |(name, (jobs, held)): (Arc<str>, (u64, Held))| NameShare {
            name: name.to_string(),
            jobs,
            held_unit_secs: held.secs(gpus),
        };
        let mut top: Vec<NameShare> = self.counts.into_iter().map(share).collect();
        top.sort_by_key(|share| std::cmp::Reverse((share.held_unit_secs, share.jobs)));
        top.truncate(TOP);
        TraceNames { count, jobs_without: self.jobs_without, top }
    }
}
