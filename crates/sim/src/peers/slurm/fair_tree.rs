//! Fair share as Slurm calculates it since 19.05: decaying usage of users and accounts, and a rank
//! of all users from it by Fair Tree (doc/html/fair_tree.shtml; src/plugins/priority/multifactor).
//! It orders users, not jobs.
//!
//! Usage counts GPU time. Stock Slurm counts CPU time, unless the partition has
//! `TRESBillingWeights`; the modelled site has `TRESBillingWeights="GRES/gpu=1.0"` (without GPUs:
//! CPUs).
//!
//! Floating point, as in Slurm. Only products, sums and quotients are taken, always in the same
//! order, so that every machine gets the same bits.

use std::cmp::Ordering;

use muster_model::Span;

use super::accounts::{AccountNo, Accounts, UserNo};

/// ln 2 as Slurm has it (priority_multifactor.c, where the decay factor of a second is set).
const LN_2: f64 = 0.693;

/// Usage, in thousandths of GPUs × milliseconds, and ranks.
#[derive(Clone, Debug)]
pub(super) struct FairTree {
    /// Decay factor of one second; 1 if usage never decays.
    per_second: f64,
    accounts: Vec<f64>,
    users: Vec<f64>,
    /// Usage by user that is not yet added.
    fresh: Vec<u128>,
    /// Ranks by user, descending from the number of users.
    ranks: Vec<u32>,
}

/// A user, or an account, below the same parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sibling {
    User(UserNo),
    Account(AccountNo),
}

impl FairTree {
    pub(super) fn new(accounts: &Accounts, half_life: Span) -> Self {
        let half_life_secs = half_life.as_secs();
        let per_second = if half_life_secs == 0 { 1.0 } else { 1.0 - LN_2 / half_life_secs as f64 };
        let usage = vec![0.0; accounts.count()];
        Self {
            per_second,
            accounts: usage,
            users: Vec::new(),
            fresh: Vec::new(),
            ranks: Vec::new(),
        }
    }

    pub(super) fn enter(&mut self) {
        self.users.push(0.0);
        self.fresh.push(0);
        self.ranks.push(0);
    }

    /// Adds usage of a user: this much for this long.
    pub(super) fn used(&mut self, user: UserNo, milli: u64, span: Span) {
        self.fresh[user.0] += u128::from(milli) * u128::from(span.0);
    }

    /// Ends a period: usage decays, and the usage of the period is added, decayed as well.
    pub(super) fn pass(&mut self, accounts: &Accounts, period: Span) {
        let decay = power(self.per_second, period.as_secs());
        self.accounts.iter_mut().chain(&mut self.users).for_each(|usage| *usage *= decay);
        for user in (0..self.users.len()).map(UserNo) {
            let fresh = std::mem::take(&mut self.fresh[user.0]);
            if fresh == 0 {
                continue;
            }
            let usage = fresh as f64 * decay;
            self.users[user.0] += usage;
            for account in accounts.up(accounts.account_of(user)) {
                self.accounts[account.0] += usage;
            }
        }
    }

    /// Returns the user's rank; the first has the number of users.
    pub(super) fn rank(&self, user: UserNo) -> u32 {
        self.ranks[user.0]
    }

    /// Ranks all users anew.
    pub(super) fn rank_all(&mut self, accounts: &Accounts) {
        let count = self.users.len() as u32;
        let mut counter = Counter { rank: count, next: count };
        self.rank_siblings(accounts, &[Accounts::ROOT], &mut counter, false);
    }

    /// Ranks the users below accounts of equal level, which are treated as one.
    fn rank_siblings(
        &mut self,
        accounts: &Accounts,
        above: &[AccountNo],
        counter: &mut Counter,
        is_tied: bool,
    ) {
        let mut siblings = self.siblings(accounts, above);
        siblings.sort_by(|one, other| by_level(*one, *other));
        let mut before = is_tied.then(|| siblings.first().map(|(level, _)| *level)).flatten();
        let mut at = 0;
        while let Some((level, sibling)) = siblings.get(at).copied() {
            let is_tied = before == Some(level);
            before = Some(level);
            match sibling {
                Sibling::User(user) => {
                    self.ranks[user.0] = counter.take(is_tied);
                    at += 1;
                }
                Sibling::Account(_) => {
                    // Users come before accounts of the same level, so all further siblings of this
                    // level are accounts.
                    let level_with = siblings[at..].iter().take_while(|(other, _)| *other == level);
                    let tied: Vec<AccountNo> =
                        level_with.filter_map(|(_, sibling)| sibling.account()).collect();
                    at += tied.len();
                    self.rank_siblings(accounts, &tied, counter, is_tied);
                }
            }
        }
    }

    /// Returns the children of these accounts with their level: shares among siblings ÷ usage among
    /// siblings.
    fn siblings(&self, accounts: &Accounts, above: &[AccountNo]) -> Vec<(f64, Sibling)> {
        let mut siblings = Vec::new();
        for parent in above {
            let account = accounts.get(*parent);
            let shares_of = |child: &AccountNo| accounts.get(*child).shares;
            let shares: u32 =
                account.accounts.iter().map(shares_of).sum::<u32>() + account.users.len() as u32;
            let level = |own: u32, usage: f64| {
                let used = self.accounts[parent.0];
                let share = f64::from(own) / f64::from(shares);
                if used == 0.0 || usage == 0.0 { f64::INFINITY } else { share / (usage / used) }
            };
            for child in &account.accounts {
                let usage = self.accounts[child.0];
                siblings.push((level(shares_of(child), usage), Sibling::Account(*child)));
            }
            for user in &account.users {
                siblings.push((level(1, self.users[user.0]), Sibling::User(*user)));
            }
        }
        siblings
    }
}

impl Sibling {
    fn account(self) -> Option<AccountNo> {
        match self {
            Sibling::Account(account) => Some(account),
            Sibling::User(_) => None,
        }
    }
}

/// Orders by level, highest first, and users before accounts.
fn by_level(one: (f64, Sibling), other: (f64, Sibling)) -> Ordering {
    let is_account = |sibling: Sibling| sibling.account().is_some();
    other.0.total_cmp(&one.0).then(is_account(one.1).cmp(&is_account(other.1)))
}

/// Rank of the next user.
#[derive(Clone, Copy, Debug)]
struct Counter {
    rank: u32,
    /// Rank that it would be without ties.
    next: u32,
}

impl Counter {
    fn take(&mut self, is_tied: bool) -> u32 {
        if !is_tied {
            self.rank = self.next;
        }
        self.next -= 1;
        self.rank
    }
}

/// Power by squaring: a library's `pow` need not give the same bits everywhere.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use muster_model::{QueueSpec, QueueTree};

    use super::*;

    fn tree(weights: &[(&str, u32)]) -> QueueTree {
        let queue =
            |(name, weight): &(&str, u32)| QueueSpec { weight: *weight, ..QueueSpec::named(name) };
        QueueTree { queues: weights.iter().map(queue).collect(), ..QueueTree::single() }
    }

    /// Ranks of users, each given as account, name and GPU-hours used in one period without decay.
    fn check(weights: &[(&str, u32)], used: &[(&str, &str, u64)], expected: &[u32]) {
        let mut accounts = Accounts::new(&tree(weights));
        let mut fair = FairTree::new(&accounts, Span(0));
        for (account, name, hours) in used {
            let (user, is_new) = accounts.user(&(*account).into(), &(*name).into());
            assert!(is_new);
            fair.enter();
            fair.used(user, 1000, Span::from_secs(hours * 3600));
        }
        fair.pass(&accounts, Span::from_secs(300));
        fair.rank_all(&accounts);
        assert_eq!(fair.ranks, expected);
    }

    #[test]
    fn jobs_of_an_underserved_account_precede_all_of_an_overserved_one() {
        // Equal shares: b used less, so both of its users come first.
        check(
            &[("a", 1), ("b", 1)],
            &[("a", "x", 1), ("a", "y", 8), ("b", "z", 5), ("b", "w", 2)],
            &[2, 1, 3, 4],
        );
        // a has four times the shares, and comes first with the same usage.
        check(
            &[("a", 4), ("b", 1)],
            &[("a", "x", 1), ("a", "y", 8), ("b", "z", 5), ("b", "w", 2)],
            &[4, 3, 1, 2],
        );
    }

    #[test]
    fn ties_share_a_rank_and_level_accounts_are_taken_as_one() {
        check(&[("a", 1)], &[("a", "x", 3), ("a", "y", 3), ("a", "z", 1)], &[2, 2, 3]);
        // Both accounts have used the same: users of both compare with each other, by their part of
        // their own account.
        check(
            &[("a", 1), ("b", 1)],
            &[("a", "x", 1), ("a", "y", 9), ("b", "z", 5), ("b", "w", 5)],
            &[4, 1, 3, 3],
        );
    }

    #[test]
    fn usage_halves_in_its_half_life() {
        let accounts = &mut Accounts::new(&tree(&[("a", 1)]));
        let mut fair = FairTree::new(accounts, Span::from_secs(86_400));
        accounts.user(&"a".into(), &"x".into());
        fair.enter();
        fair.used(UserNo(0), 1000, Span::from_secs(3600));
        fair.pass(accounts, Span(0));
        let before = fair.users[0];
        (0..288).for_each(|_| fair.pass(accounts, Span::from_secs(300)));
        // Slurm's 0.693 for ln 2 leaves a ten-thousandth more.
        assert!((fair.users[0] / before - 0.5).abs() < 2e-4);
    }
}
