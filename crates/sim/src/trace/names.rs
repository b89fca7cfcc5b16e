//! Counts of jobs and held time by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::trace::{NameShare, TraceNames};

/// Number of names that are reported.
const TOP: usize = 10;

#[derive(Clone, Debug, Default)]
pub(super) struct NameCounts {
    counts: BTreeMap<Arc<str>, (u64, HeldTime)>,
    jobs_without: u64,
}

/// Held thousandths times milliseconds, of GPUs and of processors, until the trace's unit is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldTime {
    pub(super) gpus: u128,
    pub(super) cpus: u128,
}

impl HeldTime {
    pub(super) fn add(&mut self, other: HeldTime) {
        self.gpus += other.gpus;
        self.cpus += other.cpus;
    }

    pub(super) fn secs(self, gpus: bool) -> u64 {
        let held = if gpus { self.gpus } else { self.cpus };
        u64::try_from(held / 1_000_000).unwrap_or(u64::MAX)
    }
}

impl NameCounts {
    pub(super) fn add(&mut self, name: Option<&Arc<str>>, held: HeldTime) {
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
        let share = |(name, (jobs, held)): (Arc<str>, (u64, HeldTime))| NameShare {
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
