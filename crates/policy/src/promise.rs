//! Budgets of the tree: what is promised counts at every queue from its leaf upwards. `promise` and
//! `settle` are for committed changes; `try_promise` and `undo_promise` are for planning and leave
//! no trace.
//!
//! Kept apart from what is held ([`Policy::hold`]), since a promise needs an instant and a length,
//! and lasts beyond a snapshot or a new tree only through [`Policy::restore_promise`]: the caller
//! knows each element, the sums here do not.

use muster_model::view::{BudgetView, UserBudgetView};
use muster_model::{JobSpec, QueueName, Reason, Span, Time, UserName};

use crate::PER_GPU_SEC;
use crate::Policy;
use crate::budget::{Account, Promise, Short};
use crate::intern::{LeafId, UserId};
use crate::tree::Node;

/// What was taken of a window at an instant: used and promised, in thousandths of GPUs ×
/// milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// By all.
    pub all: (u64, u64),
    /// By users, where users have a budget.
    pub users: Vec<(UserName, (u64, u64))>,
}

impl Policy {
    /// May `user` promise so many thousandths of GPUs in `leaf`, from `promise.from` on?
    ///
    /// # Errors
    /// The nearest budget that has not enough left.
    pub fn judge_promise(
        &self,
        leaf: LeafId,
        user: UserId,
        milli: u64,
        promise: Promise,
    ) -> Result<(), Reason> {
        if milli == 0 {
            return Ok(());
        }
        for (node, account) in
            self.path(leaf).filter_map(|node| Some((node, node.account.as_ref()?)))
        {
            account.judge(user, milli, promise).map_err(|short| {
                budget_reason(node, self.user_name(user), &short, account.refills_at(promise.from))
            })?;
        }
        Ok(())
    }

    /// True when a budget counts for what starts in a leaf, so that its length matters to verdicts.
    #[must_use]
    pub fn is_budgeted(&self, leaf: LeafId) -> bool {
        self.path(leaf).any(|node| node.account.is_some())
    }

    /// Some queue has a budget.
    #[must_use]
    pub fn has_budgets(&self) -> bool {
        self.nodes.iter().any(|node| node.account.is_some())
    }

    /// The longest that `user` may hold so many thousandths of GPUs from `now` on in `leaf`; `None`
    /// is any length.
    #[must_use]
    pub fn longest_promise(
        &self,
        now: Time,
        leaf: LeafId,
        user: UserId,
        milli: u64,
    ) -> Option<Span> {
        let accounts = self.path(leaf).filter_map(|node| node.account.as_ref());
        accounts.filter_map(|account| account.longest(now, user, milli)).min()
    }

    /// An element of `user` starts to hold so many thousandths of GPUs in `leaf` at `promise.from`.
    pub fn promise(&mut self, leaf: LeafId, user: UserId, milli: u64, promise: Promise) {
        self.change_accounts(leaf, milli, |account| account.promise(user, milli, promise));
    }

    /// An element that began with [`Policy::promise`] gives its GPUs back at `now`.
    pub fn settle(&mut self, now: Time, leaf: LeafId, user: UserId, milli: u64, promise: Promise) {
        self.change_accounts(leaf, milli, |account| account.settle(now, user, milli, promise));
    }

    /// After a restore or a new tree: an element has held so many thousandths since `promise.from`.
    pub fn restore_promise(&mut self, leaf: LeafId, user: UserId, milli: u64, promise: Promise) {
        self.change_accounts(leaf, milli, |account| account.restore(user, milli, promise));
    }

    /// Counts a promise for planning: verdicts see it.
    pub fn try_promise(&mut self, leaf: LeafId, user: UserId, milli: u64, promise: Promise) {
        self.change_accounts(leaf, milli, |account| account.attempt(user, milli, promise));
    }

    /// The exact inverse of [`Policy::try_promise`] with the same arguments.
    pub fn undo_promise(&mut self, leaf: LeafId, user: UserId, milli: u64, promise: Promise) {
        self.change_accounts(leaf, milli, |account| account.undo(user, milli, promise));
    }

    fn change_accounts(&mut self, leaf: LeafId, milli: u64, change: impl Fn(&mut Account)) {
        let mut next = (milli > 0).then(|| self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            if let Some(account) = &mut node.account {
                change(account);
            }
            next = node.parent;
        }
    }

    /// What was taken of a queue's window at `now`; `None` without a budget.
    #[must_use]
    pub fn taken(&self, now: Time, queue: &QueueName) -> Option<Taken> {
        let account = self.nodes.iter().find(|node| node.name == *queue)?.account.as_ref()?;
        let users = account.taken_by_users(now);
        let users = users.map(|(user, taken)| (self.user_name(user).clone(), taken));
        Some(Taken { all: account.taken(now), users: users.collect() })
    }

    pub(crate) fn budget_view(&self, now: Time, account: &Account) -> BudgetView {
        let secs = |hours: u64| hours.saturating_mul(3600);
        let (used, promised) = account.taken(now);
        let mut users: Vec<UserBudgetView> = account
            .taken_by_users(now)
            .map(|(user, (used, promised))| UserBudgetView {
                user: self.user_name(user).clone(),
                used_gpu_secs: used.div_ceil(PER_GPU_SEC),
                promised_gpu_secs: promised.div_ceil(PER_GPU_SEC),
            })
            .collect();
        users.sort_by(|one, other| one.user.cmp(&other.user));
        BudgetView {
            gpu_secs: account.terms.gpu_hours.map(secs),
            used_gpu_secs: used.div_ceil(PER_GPU_SEC),
            promised_gpu_secs: promised.div_ceil(PER_GPU_SEC),
            per_user_gpu_secs: account.terms.gpu_hours_per_user.map(secs),
            users,
            every: account.terms.every,
            refills_at: account.refills_at(now),
        }
    }
}

/// Refuses what a budget could never take, even in a window of its own.
pub(crate) fn judge_budget_ever(node: &Node, spec: &JobSpec) -> Result<(), Reason> {
    let Some(account) = &node.account else { return Ok(()) };
    let length = spec.time_limit.map(|limit| limit + spec.grace);
    // The instant says nothing to one who need not wait for it.
    let reason = |short| budget_reason(node, &spec.user, &short, Time::NEVER);
    account.judge_ever(spec.min_gpus(), length).map_err(reason)
}

/// Amounts are rounded up, so that what is refused reads as too much.
fn budget_reason(node: &Node, user: &UserName, short: &Short, refills_at: Time) -> Reason {
    Reason::Budget {
        queue: node.name.clone(),
        user: short.of_user.then(|| user.clone()),
        asked_gpu_secs: short.asked.div_ceil(PER_GPU_SEC),
        used_gpu_secs: short.used.div_ceil(PER_GPU_SEC),
        promised_gpu_secs: short.promised.div_ceil(PER_GPU_SEC),
        budget_gpu_secs: short.budget / PER_GPU_SEC,
        refills_at,
    }
}
