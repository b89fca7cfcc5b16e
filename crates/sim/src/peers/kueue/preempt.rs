//! Evictions of Kueue for a workload that does not fit: workloads of its own queue with a lower
//! priority, and those of queues above their own quota, if the workload fits within its queue's
//! own. As few as needed, other queues first, then lower priority, then later admission; those that
//! turn out to be unnecessary stay.
//!
//! Source: pkg/scheduler/preemption (candidates' order and fill-back), Kueue 0.15, without fair
//! sharing. `withinClusterQueue: LowerPriority` and `reclaimWithinCohort: Any` where the queue file
//! lets queues preempt and reclaim, else `Never`.

use std::cmp::Reverse;

use muster_model::queue::Preemption;

use super::quota::{AdmittedWorkload, Flavor, QuotaDemand, Quotas};

/// Returns the evictions that let a workload fit on one of its flavors, and the flavor. `None` if
/// no evictions suffice.
pub(super) fn victims(
    quotas: &Quotas,
    admitted: &[AdmittedWorkload],
    policy: Preemption,
    queue: usize,
    priority: i32,
    demand: &QuotaDemand,
) -> Option<(Flavor, Vec<AdmittedWorkload>)> {
    demand.flavors.iter().find_map(|flavor| {
        let gone = on_flavor(quotas, admitted, policy, queue, priority, *flavor, demand.amount)?;
        Some((*flavor, gone))
    })
}

fn on_flavor(
    quotas: &Quotas,
    admitted: &[AdmittedWorkload],
    policy: Preemption,
    queue: usize,
    priority: i32,
    flavor: Flavor,
    amount: u64,
) -> Option<Vec<AdmittedWorkload>> {
    // 1. Workloads that may be evicted.
    let reclaims = policy.reclaim && !quotas.would_borrow(queue, flavor, amount);
    let may_go = |one: &&AdmittedWorkload| {
        one.flavor == flavor
            && if one.queue == queue {
                policy.priority && one.priority < priority
            } else {
                reclaims && quotas.borrows(one.queue, flavor)
            }
    };
    let mut candidates: Vec<AdmittedWorkload> = admitted.iter().filter(may_go).copied().collect();
    candidates.sort_by_key(|one| (one.queue == queue, one.priority, Reverse(one.since), one.job));
    // 2. Evict one after the other, until it fits.
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
    // 3. Put back unnecessary victims, last first.
    for at in (0..gone.len().saturating_sub(1)).rev() {
        let one = gone[at];
        trial.add(one.queue, flavor, one.amount);
        if trial.available(queue, flavor) >= amount {
            gone.remove(at);
        } else {
            trial.remove(one.queue, flavor, one.amount)
        }
    }
    Some(gone)
}
