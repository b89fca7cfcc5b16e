//! Budget charges over the tree: the GPU time of a whole run is charged in advance at every queue
//! from its leaf upwards. `charge` and `settle_charge` are for committed changes; `try_charge` and
//! `undo_charge` are for planning and leave no trace.
//!
//! Separate from holds ([`Policy::hold`]), since a charge needs a start and a length, and survives
//! a snapshot or a new tree only through [`Queues::restore_charge`]: the caller knows each element,
//! the sums here do not.

use muster_model::view::{BudgetView, UserBudgetView};
use muster_model::{JobSpec, QueueName, Reason, Span, Time, UserName};

use crate::PER_GPU_SEC;
use crate::Policy;
use crate::budget::{BudgetAccount, BudgetCharge, BudgetShortfall};
use crate::intern::{LeafId, UserId};
use crate::queues::Queues;
use crate::tree::QueueNode;

/// Use of a budget period at an instant: used and charged in advance, in thousandths of GPUs ×
/// milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// Used and charged by all users.
    pub all: (u64, u64),
    /// Used and charged by user, if users have a budget.
    pub users: Vec<(UserName, (u64, u64))>,
}

impl Policy {
    /// Checks that the budgets of `leaf` admit a run of `user` with this many thousandths of GPUs.
    ///
    /// # Errors
    /// The nearest budget that has not enough left.
    pub fn check_charge(
        &self,
        leaf: LeafId,
        user: UserId,
        milli: u64,
        run: BudgetCharge,
    ) -> Result<(), Reason> {
        if milli == 0 {
            return Ok(());
        }
        for (node, account) in
            self.queues.path(leaf).filter_map(|node| Some((node, node.account.as_ref()?)))
        {
            account.check(user, milli, run).map_err(|shortfall| {
                budget_reason(node, self.user_name(user), &shortfall, account.refills_at(run.from))
            })?;
        }
        Ok(())
    }

    /// Returns the use of a queue's budget period at `now`; `None` without a budget.
    #[must_use]
    pub fn budget_use(&self, now: Time, queue: &QueueName) -> Option<BudgetUse> {
        let account =
            self.queues.nodes.iter().find(|node| node.name == *queue)?.account.as_ref()?;
        let users = account.used_and_charged_by_user(now);
        let users = users.map(|(user, taken)| (self.user_name(user).clone(), taken));
        Some(BudgetUse { all: account.used_and_charged(now), users: users.collect() })
    }

    pub(crate) fn budget_view(&self, now: Time, account: &BudgetAccount) -> BudgetView {
        let secs = |hours: u64| hours.saturating_mul(3600);
        let (used, charged) = account.used_and_charged(now);
        let mut users: Vec<UserBudgetView> = account
            .used_and_charged_by_user(now)
            .map(|(user, (used, charged))| UserBudgetView {
                user: self.user_name(user).clone(),
                used_gpu_secs: used.div_ceil(PER_GPU_SEC),
                promised_gpu_secs: charged.div_ceil(PER_GPU_SEC),
            })
            .collect();
        users.sort_by(|one, other| one.user.cmp(&other.user));
        BudgetView {
            gpu_secs: account.terms.gpu_hours.map(secs),
            used_gpu_secs: used.div_ceil(PER_GPU_SEC),
            promised_gpu_secs: charged.div_ceil(PER_GPU_SEC),
            per_user_gpu_secs: account.terms.gpu_hours_per_user.map(secs),
            users,
            every: account.terms.every,
            refills_at: account.refills_at(now),
        }
    }
}

impl Queues {
    /// Returns true if a budget applies to starts in a leaf, so that their duration matters.
    #[must_use]
    pub fn is_budgeted(&self, leaf: LeafId) -> bool {
        self.path(leaf).any(|node| node.account.is_some())
    }

    /// Returns true if any queue has a budget.
    #[must_use]
    pub fn has_budgets(&self) -> bool {
        self.nodes.iter().any(|node| node.account.is_some())
    }

    /// Returns the longest time for which budgets let `user` hold this many thousandths of GPUs
    /// from `now` on in `leaf`; `None` is unlimited.
    #[must_use]
    pub fn longest_affordable(
        &self,
        now: Time,
        leaf: LeafId,
        user: UserId,
        milli: u64,
    ) -> Option<Span> {
        let accounts = self.path(leaf).filter_map(|node| node.account.as_ref());
        accounts.filter_map(|account| account.longest_affordable(now, user, milli)).min()
    }

    /// Charges a run of `user` with this many thousandths of GPUs in `leaf`, from its start on.
    pub fn charge(&mut self, leaf: LeafId, user: UserId, milli: u64, run: BudgetCharge) {
        self.change_accounts(leaf, milli, |account| account.begin_charge(user, milli, run));
    }

    /// Ends a run that began with [`Queues::charge`]: what it did not use is refunded.
    pub fn settle_charge(
        &mut self,
        now: Time,
        leaf: LeafId,
        user: UserId,
        milli: u64,
        run: BudgetCharge,
    ) {
        self.change_accounts(leaf, milli, |account| account.settle_charge(now, user, milli, run));
    }

    /// Charges a run that began earlier, after a restore or a new tree.
    pub fn restore_charge(&mut self, leaf: LeafId, user: UserId, milli: u64, run: BudgetCharge) {
        self.change_accounts(leaf, milli, |account| account.restore_charge(user, milli, run));
    }

    /// Adds a charge for planning: verdicts include it.
    pub fn try_charge(&mut self, leaf: LeafId, user: UserId, milli: u64, run: BudgetCharge) {
        self.change_accounts(leaf, milli, |account| account.try_charge(user, milli, run));
    }

    /// Undoes [`Queues::try_charge`] with the same arguments.
    pub fn undo_charge(&mut self, leaf: LeafId, user: UserId, milli: u64, run: BudgetCharge) {
        self.change_accounts(leaf, milli, |account| account.undo_charge(user, milli, run));
    }

    fn change_accounts(&mut self, leaf: LeafId, milli: u64, change: impl Fn(&mut BudgetAccount)) {
        if milli == 0 {
            return;
        }
        self.change_path(leaf, |node| {
            if let Some(account) = &mut node.account {
                change(account);
            }
        });
    }
}

/// Rejects a job that a budget could never admit, even in a period of its own.
pub(crate) fn check_budget_ever(node: &QueueNode, spec: &JobSpec) -> Result<(), Reason> {
    let Some(account) = &node.account else { return Ok(()) };
    let length = spec.time_limit.map(|limit| limit + spec.grace);
    // There is no refill to wait for.
    let reason = |shortfall| budget_reason(node, &spec.user, &shortfall, Time::NEVER);
    account.check_ever(spec.min_gpus(), length).map_err(reason)
}

/// Returns the reason of a refusal. Amounts are rounded up, so that what is refused reads as too
/// much.
fn budget_reason(
    node: &QueueNode,
    user: &UserName,
    shortfall: &BudgetShortfall,
    refills_at: Time,
) -> Reason {
    Reason::Budget {
        queue: node.name.clone(),
        user: shortfall.is_user_budget.then(|| user.clone()),
        asked_gpu_secs: shortfall.asked.div_ceil(PER_GPU_SEC),
        used_gpu_secs: shortfall.used.div_ceil(PER_GPU_SEC),
        promised_gpu_secs: shortfall.charged.div_ceil(PER_GPU_SEC),
        budget_gpu_secs: shortfall.budget / PER_GPU_SEC,
        refills_at,
    }
}
