//! Held GPU time of a scenario, summed from accounting facts apart from the daemon's own account.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{
    AttemptId, ElementId, JobId, JobSpec, QueueName, TaskPlacement, Time, UserName,
};
use muster_runtime::engine::AccountingFact;

/// Held GPU time, as `usage` shows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsageAccount {
    /// Elements that held something, and thousandths of GPUs times milliseconds.
    rows: BTreeMap<(UserName, QueueName), (BTreeSet<ElementId>, u64)>,
    open: BTreeMap<AttemptId, OpenAttempt>,
}

/// Resources of an attempt that has not ended.
#[derive(Clone, Debug)]
struct OpenAttempt {
    whose: (UserName, QueueName),
    milli: u64,
    from: Time,
}

/// Thousandths of a GPU times milliseconds in a GPU-second.
const PER_GPU_SECOND: u64 = 1_000_000;

impl UsageAccount {
    /// Adds facts. `spec` returns the spec of a job.
    pub(crate) fn enter<'a>(
        &mut self,
        facts: &[AccountingFact],
        spec: impl Fn(JobId) -> Option<&'a JobSpec>,
    ) {
        for fact in facts {
            match fact {
                AccountingFact::Started { id, at, placement } => {
                    let Some(spec) = spec(id.element.job) else { continue };
                    let whose = (spec.user.clone(), spec.queue.clone());
                    let held = |task: &TaskPlacement| {
                        u64::from(task.devices.len()) * u64::from(task.share.0)
                    };
                    let milli = placement.iter().map(held).sum();
                    self.open.insert(*id, OpenAttempt { whose, milli, from: *at });
                }
                AccountingFact::AttemptEnded { id, at, .. } => {
                    let Some(open) = self.open.remove(id) else { continue };
                    let (elements, held) = self.rows.entry(open.whose).or_default();
                    elements.insert(id.element);
                    *held = held.saturating_add(open.milli.saturating_mul(at.since(open.from).0));
                }
                _ => {}
            }
        }
    }

    /// Returns the number of elements that have run and their GPU-seconds, by user and queue.
    pub(crate) fn rows(&self, now: Time) -> BTreeMap<(UserName, QueueName), (u64, u64)> {
        let mut rows = self.rows.clone();
        for (id, open) in &self.open {
            let (elements, held) = rows.entry(open.whose.clone()).or_default();
            elements.insert(id.element);
            *held = held.saturating_add(open.milli.saturating_mul(now.since(open.from).0));
        }
        rows.into_iter()
            .map(|(whose, (elements, held))| {
                (whose, (elements.len() as u64, held / PER_GPU_SECOND))
            })
            .collect()
    }
}
