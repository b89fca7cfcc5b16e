//! Quota with borrowing and lending, per GPU model. It must not know limits, shares or order.
//!
//! # Definition
//!
//! All numbers are for one GPU model, in thousandths of GPUs. A queue that lists the model in its
//! `quota` *sets* one. A queue is *bounded* when it or a queue above it sets one; an unbounded leaf
//! may use any amount and takes no part in what follows.
//!
//! * `nominal(q)`: what `q` sets; if it sets none, the sum over its children. The root above the
//!   top-level queues sets none.
//! * `kept(q)`: the part of its nominal that `q` never lends, `nominal - min(lend, nominal)`; 0
//!   without a `lend` limit, and 0 where `q` sets no quota (borrow and lend limits go with a
//!   quota).
//! * `taken(q)`: for a leaf, its use. For an inner queue, the sum over its bounded children `c` of
//!   `max(taken(c), kept(c))`: what is not lent counts as taken, whether or not it is used.
//! * `ceiling(q)`: `nominal(q) + borrow(q)`; endless without a `borrow` limit or without a quota;
//!   for the root, `nominal(root)`.
//!
//! A start that adds `x` to a leaf is **admitted iff, walking from the leaf to the root, `taken`
//! after the start is at most `ceiling` at every queue**; the walk ends early at a queue whose
//! `max(taken, kept)` does not grow, since nothing above can notice. So what `q` may borrow is the
//! least of its own borrow limit, what its siblings leave lendable together with its parent's spare
//! nominal, and what its parent may in turn borrow from its cousins. A sibling that borrows is
//! counted with all it uses.
//!
//! Where `q` limits borrowed time and sets a quota, an element that would hold what it starts with
//! for longer has `nominal(q)` in place of `ceiling(q)`: it starts on what is `q`'s own, or not.
//! Time counts limit and grace, as in budgets: when it is back is what a lender asks.
//!
//! A tree whose children set more than their parent is refused
//! ([`crate::TreeError::ChildrenExceedParent`]). Therefore:
//!
//! * **No overdraft**: `taken(q) ≤ ceiling(q)` for every queue, always, if only admitted starts are
//!   held; the use below a parent never exceeds the parent's nominal plus what it may borrow.
//! * **What is kept is there**: a start that leaves a leaf within `kept` is admitted whatever the
//!   others do.
//! * **What is lent can be taken back**: if every queue used at most its nominal, any start within
//!   nominal would be admitted. So reclaiming from leaves above their nominal is always enough for
//!   one below its own; which elements to preempt for that is the engine's choice,
//!   [`Policy::borrowed`] says how much there is.
//!
//! # Example
//!
//! ```text
//! research            quota 32
//! ├ vision            quota 16, borrow 8
//! └ language          quota 8, lend 2        (8 of research's 32 belong to no child)
//! ```
//!
//! `language` idle keeps 6. `vision` may use `min(16 + 8, 32 - 6) = 24`: its borrow limit binds.
//! With `language` at 10 (its 8 and 2 of the spare 8), `vision` may use `min(24, 32 - 10) = 22`.
//! With `vision` at 22, `language` is at its end: a start of 1 there is refused with nominal 8,
//! used 10, borrowable 2.
//!
//! A verdict costs one step per level: `taken` is maintained on every change.

use crate::Policy;
use crate::intern::{LeafId, ModelId};
use crate::tree::ROOT;

/// Quota of one queue for one GPU model, in thousandths of GPUs, with its maintained sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The queue itself sets a quota.
    pub(crate) is_set: bool,
    /// It or a queue above sets one.
    pub(crate) is_bounded: bool,
    /// Own, or the sum of its children's.
    pub(crate) nominal: u64,
    /// Of `nominal`, never lent.
    pub(crate) kept: u64,
    /// Most that `taken` may reach.
    pub(crate) ceiling: u64,
    /// Use, including what children keep.
    pub(crate) taken: u64,
    /// What `taken` is when nobody holds anything.
    pub(crate) taken_idle: u64,
}

impl Quota {
    /// No quota anywhere near.
    pub(crate) const UNBOUNDED: Quota = Quota {
        is_set: false,
        is_bounded: false,
        nominal: 0,
        kept: 0,
        ceiling: u64::MAX,
        taken: 0,
        taken_idle: 0,
    };

    /// What the parent sees of this queue.
    pub(crate) fn claim(&self) -> u64 {
        self.taken.max(self.kept)
    }

    /// What the parent would see after `taken` has grown by `milli`.
    pub(crate) fn claim_with(&self, milli: u64) -> u64 {
        self.taken.saturating_add(milli).max(self.kept)
    }
}

/// How much `path[0]` can grow in thousandths of GPUs, given the quotas from it up to the root;
/// `u64::MAX` is endless.
pub(crate) fn headroom(path: impl DoubleEndedIterator<Item = Quota>) -> u64 {
    path.rev().fold(u64::MAX, |above, quota| {
        let unnoticed = quota.kept.saturating_sub(quota.taken);
        quota.ceiling.saturating_sub(quota.taken).min(above.saturating_add(unnoticed))
    })
}

impl Policy {
    /// Thousandths of GPUs that a leaf uses beyond its nominal quota: what a reclaim could take
    /// back for others. 0 where no quota counts.
    #[must_use]
    pub fn borrowed(&self, leaf: LeafId, model: ModelId) -> u64 {
        let quota = &self.nodes[self.node_of(leaf)].quota[usize::from(model.0)];
        if quota.is_bounded { quota.taken.saturating_sub(quota.nominal) } else { 0 }
    }

    /// How many queues from a leaf up use more of a model than they own.
    #[must_use]
    pub fn beyond(&self, leaf: LeafId, model: ModelId) -> u32 {
        let at = usize::from(model.0);
        self.path(leaf).filter(|node| node.held[at] > node.quota[at].nominal).count() as u32
    }

    /// Thousandths of GPUs that a start of `milli` in `lender` may take back from `borrower`: what
    /// the borrower uses beyond its nominal quota, at every queue from below the one that both are
    /// under down to the leaf; nothing unless the lender's side stays within its own nominal with
    /// the start. A queue without a quota owns nothing: all of its use is borrowed, and it takes
    /// nothing back.
    #[must_use]
    pub fn owed(&self, lender: LeafId, borrower: LeafId, model: ModelId, milli: u64) -> u64 {
        let at = usize::from(model.0);
        // 1. The borrower's side gives only what is not its own.
        let mut owed = u64::MAX;
        let lending = self.apart(lender, borrower, |index| {
            let node = &self.nodes[index];
            owed = owed.min(node.held[at].saturating_sub(node.quota[at].nominal));
        });
        // 2. The lender's side takes only what is.
        let takes_its_own = lending.is_some_and(|index| self.is_within(index, model, milli));
        if takes_its_own { owed } else { 0 }
    }

    /// True when a start of `milli` leaves the lender's side within its own nominal quota: at the
    /// queue below the one that both are under.
    #[must_use]
    pub fn takes_its_own(
        &self,
        lender: LeafId,
        borrower: LeafId,
        model: ModelId,
        milli: u64,
    ) -> bool {
        self.apart(lender, borrower, |_| ())
            .is_some_and(|index| self.is_within(index, model, milli))
    }

    fn is_within(&self, index: usize, model: ModelId, milli: u64) -> bool {
        let (node, at) = (&self.nodes[index], usize::from(model.0));
        node.held[at].saturating_add(milli) <= node.quota[at].nominal
    }

    /// False where nobody can ever come to owe a leaf anything: no queue that it is in has quota of
    /// its own.
    #[must_use]
    pub fn has_quota(&self, leaf: LeafId) -> bool {
        let up = std::iter::successors(Some(self.node_of(leaf)), |index| self.nodes[*index].parent);
        up.take_while(|index| *index != ROOT)
            .any(|index| self.nodes[index].quota.iter().any(|quota| quota.nominal > 0))
    }

    /// False where nobody owes a leaf anything, whoever borrows: no queue that it is in has quota
    /// of its own left.
    #[must_use]
    pub fn may_be_owed(&self, lender: LeafId) -> bool {
        let has_left = |index: usize| {
            let node = &self.nodes[index];
            node.quota.iter().zip(&node.held).any(|(quota, held)| quota.nominal > *held)
        };
        let up =
            std::iter::successors(Some(self.node_of(lender)), |index| self.nodes[*index].parent);
        up.take_while(|index| *index != ROOT).any(has_left)
    }

    /// Shows all queues from `borrower` up to below the one that both are under; answers that of
    /// the lender's side. Nothing for a leaf and itself.
    fn apart(
        &self,
        lender: LeafId,
        borrower: LeafId,
        mut show: impl FnMut(usize),
    ) -> Option<usize> {
        let (mut to, mut from, mut side) = (self.node_of(lender), self.node_of(borrower), None);
        // Parents come before their children, so the later of the two is not above the other.
        while to != from {
            if to > from {
                side = Some(to);
                to = self.nodes[to].parent?;
            } else {
                show(from);
                from = self.nodes[from].parent?;
            }
        }
        side
    }
}
