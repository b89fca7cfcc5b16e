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
//! * `ceiling(q)`: `nominal(q) + borrow(q)`; unlimited without a `borrow` limit or without a quota;
//!   for the root, `nominal(root)`.
//!
//! A start that adds `x` to a leaf is **admitted iff, walking from the leaf to the root, `taken`
//! after the start is at most `ceiling` at every queue**; the walk ends early at a queue whose
//! `max(taken, kept)` does not grow, since nothing above it changes. So what `q` may borrow is the
//! least of its own borrow limit, what its siblings leave lendable together with its parent's spare
//! nominal, and what its parent may in turn borrow from its siblings. A sibling that borrows counts
//! with all it uses.
//!
//! Where `q` limits borrowed time and sets a quota, an element that would hold its GPUs for longer
//! has `nominal(q)` in place of `ceiling(q)`: it starts on `q`'s own quota, or not. The time is
//! limit plus grace, as in budgets: what matters to a lender is when its quota is returned.
//!
//! A tree whose children set more than their parent is rejected
//! ([`crate::TreeError::ChildrenExceedParent`]). Therefore:
//!
//! * **No overdraft**: `taken(q) ≤ ceiling(q)` for every queue, always, if only admitted starts are
//!   held; the use below a parent never exceeds the parent's nominal plus what it may borrow.
//! * **What is kept is available**: a start that leaves a leaf within `kept` is admitted whatever
//!   other queues use.
//! * **What is lent can be reclaimed**: if every queue used at most its nominal, any start within
//!   nominal would be admitted. So reclaiming from leaves above their nominal always suffices for
//!   one below its own; the engine chooses the victims, [`crate::Queues::borrowed`] returns the amount.
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
//! With `vision` at 22, `language` is at its limit: a start of 1 there is refused with nominal 8,
//! used 10, borrowable 2.
//!
//! A verdict costs one step per level: `taken` is maintained on every change.

/// Quota of one queue for one GPU model, in thousandths of GPUs, with its maintained sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelQuota {
    /// True if the queue itself sets a quota.
    pub(crate) is_set: bool,
    /// True if it or a queue above sets one.
    pub(crate) is_bounded: bool,
    /// Its own quota, or the sum of its children's.
    pub(crate) nominal: u64,
    /// Part of `nominal` that is never lent.
    pub(crate) kept: u64,
    /// Largest value that `taken` may reach.
    pub(crate) ceiling: u64,
    /// Use, including what children keep.
    pub(crate) taken: u64,
    /// Value of `taken` when nothing is held.
    pub(crate) taken_idle: u64,
}

impl ModelQuota {
    /// No quota at the queue or above.
    pub(crate) const UNBOUNDED: ModelQuota = ModelQuota {
        is_set: false,
        is_bounded: false,
        nominal: 0,
        kept: 0,
        ceiling: u64::MAX,
        taken: 0,
        taken_idle: 0,
    };

    /// Returns what this queue adds to its parent's `taken`.
    pub(crate) fn charge_to_parent(&self) -> u64 {
        self.taken.max(self.kept)
    }

    /// Returns the same after `taken` has grown by `milli`.
    pub(crate) fn charge_to_parent_with(&self, milli: u64) -> u64 {
        self.taken.saturating_add(milli).max(self.kept)
    }
}

/// Returns how much `path[0]` can grow in thousandths of GPUs, given the quotas from it up to the
/// root; `u64::MAX` is unlimited.
pub(crate) fn headroom(path: impl DoubleEndedIterator<Item = ModelQuota>) -> u64 {
    path.rev().fold(u64::MAX, |above, quota| {
        let unnoticed = quota.kept.saturating_sub(quota.taken);
        quota.ceiling.saturating_sub(quota.taken).min(above.saturating_add(unnoticed))
    })
}
