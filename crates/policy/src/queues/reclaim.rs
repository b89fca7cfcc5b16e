//! Borrowed quota, and what a lender may reclaim of it. The amounts follow from what is held and from
//! nominal quotas alone; the engine chooses the victims.

use super::Queues;
use crate::intern::{LeafId, ModelId, ROOT};

impl Queues {
    /// Returns the thousandths of GPUs that a leaf uses beyond its nominal quota: what other queues
    /// could reclaim. 0 where no quota applies.
    #[must_use]
    pub fn borrowed(&self, leaf: LeafId, model: ModelId) -> u64 {
        let quota = &self.nodes[self.node_of(leaf)].quota[usize::from(model.0)];
        if quota.is_bounded { quota.taken.saturating_sub(quota.nominal) } else { 0 }
    }

    /// Returns how many queues from a leaf up use more of a model than their nominal quota.
    #[must_use]
    pub fn levels_beyond_quota(&self, leaf: LeafId, model: ModelId) -> u32 {
        let at = usize::from(model.0);
        self.path(leaf).filter(|node| node.held[at] > node.quota[at].nominal).count() as u32
    }

    /// Returns the thousandths of GPUs that a start of `milli` in `lender` may reclaim from
    /// `borrower`: what the borrower uses beyond its nominal quota, at every queue from just below
    /// their common ancestor down to the leaf; 0 unless the lender's side stays within its own
    /// nominal with the start. A queue without a quota owns nothing: all of its use is borrowed,
    /// and it reclaims nothing.
    #[must_use]
    pub fn reclaimable(&self, lender: LeafId, borrower: LeafId, model: ModelId, milli: u64) -> u64 {
        let at = usize::from(model.0);
        // 1. The borrower's side returns only what exceeds its own.
        let mut reclaimable = u64::MAX;
        let lender_queue = self.to_common_ancestor(lender, borrower, |index| {
            let node = &self.nodes[index];
            reclaimable = reclaimable.min(node.held[at].saturating_sub(node.quota[at].nominal));
        });
        // 2. The lender's side reclaims only up to its own.
        let takes_its_own = lender_queue.is_some_and(|index| self.is_within(index, model, milli));
        if takes_its_own { reclaimable } else { 0 }
    }

    /// Returns true if a start of `milli` leaves the lender's side within its own nominal quota, at
    /// the queue just below the common ancestor.
    #[must_use]
    pub fn stays_within_nominal(
        &self,
        lender: LeafId,
        borrower: LeafId,
        model: ModelId,
        milli: u64,
    ) -> bool {
        self.to_common_ancestor(lender, borrower, |_| ())
            .is_some_and(|index| self.is_within(index, model, milli))
    }

    fn is_within(&self, index: usize, model: ModelId, milli: u64) -> bool {
        let node = &self.nodes[index];
        let at = usize::from(model.0);
        node.held[at].saturating_add(milli) <= node.quota[at].nominal
    }

    /// Returns false if a leaf can never reclaim anything: no queue on its path has a quota.
    #[must_use]
    pub fn may_ever_reclaim(&self, leaf: LeafId) -> bool {
        let up = std::iter::successors(Some(self.node_of(leaf)), |index| self.nodes[*index].parent);
        up.take_while(|index| *index != ROOT)
            .any(|index| self.nodes[index].quota.iter().any(|quota| quota.nominal > 0))
    }

    /// Returns false if a leaf can reclaim nothing now, whatever others borrow: no queue on its
    /// path has unused quota.
    #[must_use]
    pub fn has_unused_quota(&self, lender: LeafId) -> bool {
        let has_left = |index: usize| {
            let node = &self.nodes[index];
            node.quota.iter().zip(&node.held).any(|(quota, held)| quota.nominal > *held)
        };
        let up =
            std::iter::successors(Some(self.node_of(lender)), |index| self.nodes[*index].parent);
        up.take_while(|index| *index != ROOT).any(has_left)
    }

    /// Visits all queues from `borrower` up to just below the common ancestor with `lender`;
    /// returns the lender's queue just below it. `None` for a leaf and itself.
    fn to_common_ancestor(
        &self,
        lender: LeafId,
        borrower: LeafId,
        mut visit: impl FnMut(usize),
    ) -> Option<usize> {
        let mut to = self.node_of(lender);
        let mut from = self.node_of(borrower);
        let mut side = None;
        // Parents come before their children, so the later of the two is not above the other.
        while to != from {
            if to > from {
                side = Some(to);
                to = self.nodes[to].parent?;
            } else {
                visit(from);
                from = self.nodes[from].parent?;
            }
        }
        side
    }
}
