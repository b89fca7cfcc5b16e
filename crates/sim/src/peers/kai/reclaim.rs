//! What a queue may take from others: it stays within its fair share, and takes from those who have
//! more than theirs, or, within its quota, from those who have more than theirs; and it does not
//! end up with more of its share than they have of theirs (plugins/proportion/reclaimable).

use std::collections::BTreeMap;

use super::Kai;
use crate::fleet::JobNo;

impl Kai {
    /// With the job its queue would have no more than its fair share (CanReclaimResources).
    pub(super) fn may_reclaim(&self, leaf: usize, milli: u64) -> bool {
        let queue = &self.queues.all[leaf];
        queue.allocated + milli <= queue.fair
    }

    /// A queue may lose something to another at all (FilterVictim).
    pub(super) fn may_lose(&self, to: usize, milli: u64, from: usize) -> bool {
        let (to, from) = self.queues.level(to, from);
        let (to, from) = (&self.queues.all[to], &self.queues.all[from]);
        match to.allocated + milli <= to.deserved {
            true => from.allocated >= from.deserved,
            false => from.allocated > from.allocatable(),
        }
    }

    /// Each of those who go may, and afterwards the shares are no more unequal the other way round
    /// (Reclaimable).
    pub(super) fn is_right_to_reclaim(&self, leaf: usize, milli: u64, gone: &[JobNo]) -> bool {
        let mut left: BTreeMap<usize, u64> = BTreeMap::new();
        for job in gone {
            let job = &self.jobs[job.at()];
            let (to, from) = self.queues.level(leaf, job.leaf);
            let (to, owner) = (&self.queues.all[to], &self.queues.all[from]);
            let has = *left.entry(from).or_insert(owner.allocated);
            let is_within_quota = to.allocated + milli <= to.deserved && has > owner.deserved;
            if has <= owner.allocatable() && !is_within_quota {
                return false;
            }
            for at in self.queues.upwards(job.leaf) {
                let has = left.entry(at).or_insert(self.queues.all[at].allocated);
                *has -= job.held_milli();
            }
        }
        self.queues.upwards(leaf).all(|at| {
            let queue = &self.queues.all[at];
            let has = left.get(&at).copied().unwrap_or(queue.allocated) + milli;
            let siblings = left.iter().filter(|(other, _)| {
                **other != at && self.queues.all[**other].parent == queue.parent
            });
            siblings.into_iter().all(|(other, others)| {
                let fair = self.queues.all[*other].fair;
                let is_over = has > queue.fair;
                // has ÷ fair share of both, multiplied out; the multiplier of one is 1 unless set.
                let is_fuller = u128::from(has) * u128::from(fair)
                    >= u128::from(*others) * u128::from(queue.fair);
                !(is_over && fair > 0 && is_fuller)
            })
        })
    }
}
