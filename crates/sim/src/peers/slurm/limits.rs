//! Use of accounts and users, and Slurm's caps: `GrpTRES=gres/gpu`, `GrpJobs` and
//! `MaxTRESPerUser=gres/gpu`. A job above a cap is pending and blocks no other (unless
//! `assoc_limit_stop` is set, which by default it is not). Caps are hard: there is no borrowing.

use super::accounts::{AccountNo, Accounts, UserNo};

/// A cap that keeps a job from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cap {
    /// `GrpTRES=gres/gpu` of the account or one above it.
    AccountGpus,
    /// `GrpJobs` of the account or one above it.
    AccountJobs,
    /// `MaxTRESPerUser=gres/gpu` of the account's QOS.
    UserGpus,
}

#[derive(Clone, Debug)]
pub(super) struct HeldLimits {
    accounts: Vec<AccountHolding>,
    users: Vec<u64>,
    /// True if some account has a cap.
    has_any: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct AccountHolding {
    milli: u64,
    jobs: u32,
}

impl HeldLimits {
    pub(super) fn new(accounts: &Accounts) -> Self {
        let caps = |account: usize| {
            let account = accounts.get(AccountNo(account));
            account.gpus_milli.or(account.gpus_per_user_milli).is_some()
                || account.running_jobs.is_some()
        };
        let has_any = (0..accounts.count()).any(caps);
        Self {
            accounts: vec![AccountHolding::default(); accounts.count()],
            users: Vec::new(),
            has_any,
        }
    }

    pub(super) fn enter(&mut self) {
        self.users.push(0);
    }

    /// Returns the cap that a job with this many thousandths of GPUs would exceed now.
    pub(super) fn exceeded(&self, accounts: &Accounts, user: UserNo, milli: u64) -> Option<Cap> {
        if !self.has_any {
            return None;
        }
        accounts.up(accounts.account_of(user)).find_map(|number| {
            let account = accounts.get(number);
            let holds = self.accounts[number.0];
            let is_over = |cap: Option<u64>, held: u64| {
                milli > 0 && cap.is_some_and(|cap| held + milli > cap)
            };
            if is_over(account.gpus_milli, holds.milli) {
                Some(Cap::AccountGpus)
            } else if account.running_jobs.is_some_and(|cap| holds.jobs >= cap) {
                Some(Cap::AccountJobs)
            } else if is_over(account.gpus_per_user_milli, self.users[user.0]) {
                Some(Cap::UserGpus)
            } else {
                None
            }
        })
    }

    pub(super) fn take(&mut self, accounts: &Accounts, user: UserNo, milli: u64) {
        self.users[user.0] += milli;
        for account in accounts.up(accounts.account_of(user)) {
            let holds = &mut self.accounts[account.0];
            (holds.milli, holds.jobs) = (holds.milli + milli, holds.jobs + 1);
        }
    }

    pub(super) fn give(&mut self, accounts: &Accounts, user: UserNo, milli: u64) {
        self.users[user.0] -= milli;
        for account in accounts.up(accounts.account_of(user)) {
            let holds = &mut self.accounts[account.0];
            (holds.milli, holds.jobs) = (holds.milli - milli, holds.jobs - 1);
        }
    }
}
