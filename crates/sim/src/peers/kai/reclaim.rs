//! Reclaim eligibility: the reclaimer stays within its fair share and takes from queues above
//! theirs, or within its quota from queues above theirs; and it does not end up with a larger part
//! of its share than they have of theirs (plugins/proportion/reclaimable).

use std::collections::BTreeMap;

use super::Kai;
use crate::fleet::JobNo;

impl Kai {
    /// Returns whether the queue stays within its fair share with the job (CanReclaimResources).
    pub(super) fn may_reclaim(&self, leaf: usize, milli: u64) -> bool {
        let queue = &self.queues.all[leaf];
        queue.allocated + milli <= queue.fair
    }

    /// Returns whether a queue may lose anything to another (FilterVictim).
    pub(super) fn may_lose(&self, to: usize, milli: u64, from: usize) -> bool {
        let (to, from) = self.queues.level(to, from);
        let to = &self.queues.all[to];
        let from = &self.queues.all[from];
        if to.allocated + milli <= to.deserved {
            from.allocated >= from.deserved
        } else {
            from.allocated > from.allocatable()
        }
    }

    /// Returns whether every victim may be reclaimed, and the shares are no more unequal the other
    /// way round afterwards (Reclaimable).
    pub(super) fn is_reclaimable(&self, leaf: usize, milli: u64, gone: &[JobNo]) -> bool {
        let mut left: BTreeMap<usize, u64> = BTreeMap::new();
        for job in gone {
            let job = &self.jobs[job.at()];
            let (to, from) = self.queues.level(leaf, job.leaf);
            let to = &self.queues.all[to];
            let owner = &self.queues.all[from];
            let has = *left.entry(from).or_insert(owner.allocated);
            let is_within_quota = to.allocated + milli <= to.deserved && has > owner.deserved;
            if has <= owner.allocatable() && !is_within_quota {
                return false;
            }
            for at in self.queues.ancestors(job.leaf) {
                let has = left.entry(at).or_insert(self.queues.all[at].allocated);
                *has -= job.held_milli();
            }
        }
        self.queues.ancestors(leaf).all(|at| {
            let queue = &self.queues.all[at];
            let has = left.get(&at).copied().unwrap_or(queue.allocated) + milli;
            let siblings = left.iter().filter(|(other, _)| {
                **other != at && self.queues.all[**other].parent == queue.parent
            });
            siblings.into_iter().all(|(other, others)| {
                let fair = self.queues.all[*other].fair;
                let is_over = has > queue.fair;
                // Held ÷ fair share of both, multiplied out; the multiplier of one is 1 unless set.
                let is_fuller = u128::from(has) * u128::from(fair)
                    >= u128::from(*others) * u128::from(queue.fair);
                !(is_over && fair > 0 && is_fuller)
            })
        })
    }
}
