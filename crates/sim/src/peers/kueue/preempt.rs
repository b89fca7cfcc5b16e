//! Whom Kueue evicts for a workload that does not fit: those of its own queue with a lower
//! priority, and those of queues that use more than their own quota, if the workload fits within
//! its queue's own. As few as needed, those of other queues first, then lower priority, then who
//! was admitted last; whoever turns out not to stand in the way stays.
//!
//! Source: pkg/scheduler/preemption (candidates' order and fill-back), Kueue 0.15, without fair
//! sharing. `withinClusterQueue: LowerPriority` and `reclaimWithinCohort: Any` where the queue file
//! lets queues preempt and reclaim, else `Never`.

use std::cmp::Reverse;

use muster_model::Time;
use muster_model::queue::Preemption;

use super::quota::{Demand, Flavor, Quotas};
use crate::fleet::JobNo;

/// A workload that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) job: JobNo,
    pub(super) queue: usize,
    pub(super) flavor: Flavor,
    pub(super) amount: u64,
    pub(super) priority: i32,
    pub(super) since: Time,
    /// Not all of its pods have run since then, if they do not.
    pub(super) unready_since: Time,
}

/// Who has to go so that a workload fits on one of its flavors, and on which. `None` when nobody's
/// going would do.
pub(super) fn victims(
    quotas: &Quotas,
    admitted: &[Admitted],
    rights: Preemption,
    queue: usize,
    priority: i32,
    demand: &Demand,
) -> Option<(Flavor, Vec<Admitted>)> {
    demand.flavors.iter().find_map(|flavor| {
        let gone = on_flavor(quotas, admitted, rights, queue, priority, *flavor, demand.amount)?;
        Some((*flavor, gone))
    })
}

fn on_flavor(
    quotas: &Quotas,
    admitted: &[Admitted],
    rights: Preemption,
    queue: usize,
    priority: i32,
    flavor: Flavor,
    amount: u64,
) -> Option<Vec<Admitted>> {
    // 1. Who may be asked to go.
    let reclaims = rights.reclaim && !quotas.would_borrow(queue, flavor, amount);
    let may_go = |one: &&Admitted| {
        one.flavor == flavor
            && match one.queue == queue {
                true => rights.priority && one.priority < priority,
                false => reclaims && quotas.borrows(one.queue, flavor),
            }
    };
    let mut candidates: Vec<Admitted> = admitted.iter().filter(may_go).copied().collect();
    candidates.sort_by_key(|one| (one.queue == queue, one.priority, Reverse(one.since), one.job));
    // 2. One after the other, until it fits.
    let mut trial = quotas.clone();
    let mut gone = Vec::new();
    for one in candidates {
        if trial.available(queue, flavor) >= amount {
            break;
        }
        if one.queue != queue && !trial.borrows(one.queue, flavor) {
            continue;
        }
        trial.remove(one.queue, flavor, one.amount);
        gone.push(one);
    }
    if trial.available(queue, flavor) < amount {
        return None;
    }
    // 3. Who need not have gone, last first.
    for at in (0..gone.len().saturating_sub(1)).rev() {
        let one = gone[at];
        trial.add(one.queue, flavor, one.amount);
        match trial.available(queue, flavor) >= amount {
            true => drop(gone.remove(at)),
            false => trial.remove(one.queue, flavor, one.amount),
        }
    }
    Some(gone)
}
