//! Accounts and users: the queue tree as a Slurm site would enter it with `sacctmgr`. A queue is an
//! account, its weight the account's shares, its quota `GrpTRES=gres/gpu=…`; each user has an
//! association with the account that the jobs name, with one share. Slurm has no borrowing and no
//! lending: a quota is a cap. Usage and held resources are kept elsewhere.

use std::collections::BTreeMap;

use muster_model::{QueueName, QueueSpec, QueueTree, UserName};

/// Index of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccountNo(pub(super) usize);

/// Index of a user association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UserNo(pub(super) usize);

/// An account. Caps are in thousandths of GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct SlurmAccount {
    pub(super) parent: Option<AccountNo>,
    pub(super) accounts: Vec<AccountNo>,
    pub(super) users: Vec<UserNo>,
    pub(super) shares: u32,
    /// `GrpTRES=gres/gpu`: the queue's quota over all models together, since Slurm applies a cap on
    /// one model only to jobs that name it.
    pub(super) gpus_milli: Option<u64>,
    /// `GrpJobs`: cap on running jobs.
    pub(super) running_jobs: Option<u32>,
    /// `MaxTRESPerUser=gres/gpu` of the account's QOS.
    pub(super) gpus_per_user_milli: Option<u64>,
}

/// All accounts; the first is the root.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    accounts: Vec<SlurmAccount>,
    by_queue: BTreeMap<QueueName, AccountNo>,
    /// Account of each user association.
    users: Vec<AccountNo>,
    by_user: BTreeMap<(AccountNo, UserName), UserNo>,
}

impl Accounts {
    pub(super) const ROOT: AccountNo = AccountNo(0);

    pub(super) fn new(tree: &QueueTree) -> Self {
        let root = SlurmAccount { shares: 1, ..SlurmAccount::default() };
        let (by_queue, users, by_user) = Default::default();
        let mut accounts = Self { accounts: vec![root], by_queue, users, by_user };
        accounts.enter(&tree.queues, Self::ROOT, "");
        accounts
    }

    fn enter(&mut self, queues: &[QueueSpec], parent: AccountNo, above: &str) {
        for queue in queues {
            let path = if above.is_empty() {
                queue.name.to_string()
            } else {
                format!("{above}/{}", queue.name)
            };
            let quota: u64 = queue.quota.values().sum();
            let number = AccountNo(self.accounts.len());
            self.accounts.push(SlurmAccount {
                parent: Some(parent),
                shares: queue.weight,
                gpus_milli: (!queue.quota.is_empty()).then_some(quota * 1000),
                running_jobs: queue.limits.running_jobs,
                gpus_per_user_milli: queue.limits.gpus_per_user.map(|gpus| gpus * 1000),
                ..SlurmAccount::default()
            });
            self.accounts[parent.0].accounts.push(number);
            self.by_queue.insert(path.as_str().into(), number);
            self.enter(&queue.queues, number, &path);
        }
    }

    pub(super) fn get(&self, account: AccountNo) -> &SlurmAccount {
        &self.accounts[account.0]
    }

    pub(super) fn count(&self) -> usize {
        self.accounts.len()
    }

    pub(super) fn account_of(&self, user: UserNo) -> AccountNo {
        self.users[user.0]
    }

    pub(super) fn users(&self) -> usize {
        self.users.len()
    }

    /// Returns the association of a user with the account of a queue, and whether it is new.
    pub(super) fn user(&mut self, queue: &QueueName, user: &UserName) -> (UserNo, bool) {
        let account = self.by_queue.get(queue).copied().unwrap_or(Self::ROOT);
        let next = UserNo(self.users.len());
        let number = *self.by_user.entry((account, user.clone())).or_insert(next);
        if number == next {
            self.users.push(account);
            self.accounts[account.0].users.push(number);
        }
        (number, number == next)
    }

    /// Returns an account and all above it.
    pub(super) fn up(&self, account: AccountNo) -> impl Iterator<Item = AccountNo> {
        std::iter::successors(Some(account), |account| self.accounts[account.0].parent)
    }
}
