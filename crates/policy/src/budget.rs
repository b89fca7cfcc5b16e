//! Account of one queue's budget: GPU time used and charged in the present period. Arithmetic on
//! one queue; it must not know the tree.
//!
//! # Definition
//!
//! Periods are `[start + k·every, start + (k+1)·every)` for integer `k`, before `start` as well as
//! after it. All amounts are thousandths of GPUs × milliseconds.
//!
//! * An element with a time limit is charged in full in the period in which it starts: `GPUs ×
//!   length`. What it runs beyond the end of that period is charged already, so every GPU-hour is
//!   charged once. When it ends, what it did not use is refunded; once the period is over nothing
//!   is refunded.
//! * An unlimited element is charged in every period for what it can use of it: from its start, or
//!   the period's, to the period's end.
//! * `charged = used by what ended + charged in advance for what holds`, in the present period. It
//!   falls to the charges of unlimited elements when a period ends.
//!
//! A start is **admitted iff `charged + its own ≤ budget`, and, for an unlimited one, if the
//! charges of all unlimited elements for a whole period stay within the budget, too**. Hence
//! `charged ≤ budget` at every instant if only admitted starts are held: inside a period only
//! starts raise it, since an element never uses more than was charged, and at its beginning the
//! second condition bounds it.

use std::collections::BTreeMap;

use muster_model::queue::QueueBudget;
use muster_model::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::PER_GPU_HOUR;
use crate::intern::UserId;

/// Run to charge to a budget: its start and longest duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BudgetCharge {
    /// Start of the run.
    pub from: Time,
    /// Longest duration; `None` is unlimited.
    pub length: Option<Span>,
}

/// Use of a budget period by one user or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BudgetTally {
    /// GPU time used by elements that ended. This part is stored.
    pub(crate) used: u64,
    /// GPU time charged in advance for elements that hold GPUs.
    pub(crate) charged: u64,
    /// Thousandths of GPUs held by unlimited elements.
    unlimited_milli: u64,
    /// Part of `charged` and `unlimited_milli` that a planning pass only tries; separate, since a
    /// pass begins no period.
    tentative: (u64, u64),
}

impl BudgetTally {
    fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

/// Account of a queue that has a budget.
#[derive(Clone, Debug)]
pub(crate) struct BudgetAccount {
    pub(crate) terms: QueueBudget,
    /// Beginning of the period that the tallies belong to.
    period_start: Time,
    all: BudgetTally,
    /// Tallies by user, if users have a budget.
    users: BTreeMap<UserId, BudgetTally>,
}

/// Part of an account that a snapshot keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredBudgetAccount {
    #[serde(rename = "window")]
    period_start: Time,
    used: u64,
    users: BTreeMap<UserId, u64>,
}

/// Refusal by a budget, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetShortfall {
    /// True if the per-user budget is exceeded.
    pub(crate) is_user_budget: bool,
    pub(crate) asked: u64,
    pub(crate) used: u64,
    pub(crate) charged: u64,
    pub(crate) budget: u64,
}

impl BudgetAccount {
    pub(crate) fn new(terms: QueueBudget) -> Self {
        Self { terms, period_start: Time(0), all: BudgetTally::default(), users: BTreeMap::new() }
    }

    // ---- periods ----

    /// Returns the beginning of the period that contains an instant. The period that contains the
    /// epoch may have begun before it.
    fn period_of(&self, at: Time) -> Time {
        let every = self.terms.every.0.max(1);
        let phase = self.terms.start.0 % every;
        if at.0 < phase { Time(0) } else { Time(at.0 - (at.0 - phase) % every) }
    }

    /// Returns the first instant after the period that contains an instant.
    pub(crate) fn refills_at(&self, at: Time) -> Time {
        let every = self.terms.every.0.max(1);
        let phase = self.terms.start.0 % every;
        if at.0 < phase { Time(phase) } else { self.period_of(at) + Span(every) }
    }

    /// Returns the charge of a run to the period that begins at `period`.
    fn charge_in_period(&self, period: Time, milli: u64, run: BudgetCharge) -> u64 {
        match run.length {
            Some(length) if self.period_of(run.from) == period => milli.saturating_mul(length.0),
            Some(_) => 0,
            None => milli.saturating_mul(self.refills_at(period).since(run.from.max(period)).0),
        }
    }

    /// Returns the charge for holding this many thousandths during a whole period.
    fn charge_of_whole_period(&self, milli: u64) -> u64 {
        milli.saturating_mul(self.terms.every.0)
    }

    /// Returns a tally at an instant: used and charged in advance, including what is only tried.
    fn at(&self, now: Time, tally: &BudgetTally) -> (u64, u64) {
        let (used, charged) = if self.period_of(now) <= self.period_start {
            (tally.used, tally.charged)
        } else {
            (0, self.charge_of_whole_period(tally.unlimited_milli))
        };
        (used, charged.saturating_add(tally.tentative.0))
    }

    /// Begins the period that contains `now`, unless it has begun.
    fn begin_period(&mut self, now: Time) {
        let period = self.period_of(now);
        if period <= self.period_start {
            return;
        }
        self.period_start = period;
        let every = self.terms.every.0;
        for tally in std::iter::once(&mut self.all).chain(self.users.values_mut()) {
            (tally.used, tally.charged) = (0, tally.unlimited_milli.saturating_mul(every));
        }
        self.users.retain(|_, tally| !tally.is_blank());
    }

    // ---- verdicts ----

    /// Checks that a run can be charged. Returns the first budget that is exceeded.
    pub(crate) fn check(
        &self,
        user: UserId,
        milli: u64,
        run: BudgetCharge,
    ) -> Result<(), BudgetShortfall> {
        self.check_with(&self.all, self.users.get(&user), milli, run)
    }

    /// Checks that a run could be charged in a period without any other use.
    pub(crate) fn check_ever(
        &self,
        milli: u64,
        length: Option<Span>,
    ) -> Result<(), BudgetShortfall> {
        let run = BudgetCharge { from: self.refills_at(Time(0)), length };
        self.check_with(&BudgetTally::default(), None, milli, run)
    }

    fn check_with(
        &self,
        all: &BudgetTally,
        own: Option<&BudgetTally>,
        milli: u64,
        run: BudgetCharge,
    ) -> Result<(), BudgetShortfall> {
        let own = own.copied().unwrap_or_default();
        let budgets =
            [(false, self.terms.gpu_hours, *all), (true, self.terms.gpu_hours_per_user, own)];
        let period = self.period_of(run.from);
        let asked = self.charge_in_period(period, milli, run);
        for (of_user, hours, tally) in budgets {
            let Some(hours) = hours else { continue };
            let budget = hours.saturating_mul(PER_GPU_HOUR);
            // 1. This period.
            let (used, charged) = self.at(run.from, &tally);
            if used.saturating_add(charged).saturating_add(asked) > budget {
                return Err(BudgetShortfall {
                    is_user_budget: of_user,
                    asked,
                    used,
                    charged,
                    budget,
                });
            }
            // 2. Those that follow.
            let charged = self
                .charge_of_whole_period(tally.unlimited_milli.saturating_add(tally.tentative.1));
            let asked = self.charge_of_whole_period(milli);
            if run.length.is_none() && charged.saturating_add(asked) > budget {
                return Err(BudgetShortfall {
                    is_user_budget: of_user,
                    asked,
                    used: 0,
                    charged,
                    budget,
                });
            }
        }
        Ok(())
    }

    /// Returns the longest time for which this many thousandths may be held from `now` on; `None`
    /// is unlimited.
    pub(crate) fn longest_affordable(&self, now: Time, user: UserId, milli: u64) -> Option<Span> {
        let own = self.users.get(&user).copied().unwrap_or_default();
        let budgets = [(self.terms.gpu_hours, self.all), (self.terms.gpu_hours_per_user, own)];
        let left = budgets.into_iter().filter_map(|(hours, tally)| {
            let (used, charged) = self.at(now, &tally);
            Some(hours?.saturating_mul(PER_GPU_HOUR).saturating_sub(used.saturating_add(charged)))
        });
        Some(Span(left.min()? / milli.max(1)))
    }

    // ---- changes ----

    /// Charges a run that starts now.
    pub(crate) fn begin_charge(&mut self, user: UserId, milli: u64, run: BudgetCharge) {
        self.begin_period(run.from);
        self.restore_charge(user, milli, run);
    }

    /// Charges a run that began earlier: it counts as it did when it began.
    pub(crate) fn restore_charge(&mut self, user: UserId, milli: u64, run: BudgetCharge) {
        let charge = self.charge_in_period(self.period_start, milli, run);
        let unlimited = if run.length.is_none() { milli } else { 0 };
        self.change(user, |tally| {
            tally.charged = tally.charged.saturating_add(charge);
            tally.unlimited_milli = tally.unlimited_milli.saturating_add(unlimited);
        });
    }

    /// Ends a run now: what it used stays charged, the rest is refunded.
    pub(crate) fn settle_charge(&mut self, now: Time, user: UserId, milli: u64, run: BudgetCharge) {
        self.begin_period(now);
        let charge = self.charge_in_period(self.period_start, milli, run);
        let unlimited = if run.length.is_none() { milli } else { 0 };
        // An element that takes long to get ready holds its GPUs for longer than was charged; the
        // user is not charged for that.
        let used = charge.min(milli.saturating_mul(now.since(run.from.max(self.period_start)).0));
        self.change(user, |tally| {
            debug_assert!(
                tally.charged >= charge && tally.unlimited_milli >= unlimited,
                "refunded more than was charged"
            );
            tally.charged = tally.charged.saturating_sub(charge);
            tally.unlimited_milli = tally.unlimited_milli.saturating_sub(unlimited);
            tally.used = tally.used.saturating_add(used);
        });
    }

    /// Adds a charge that a planning pass tries.
    pub(crate) fn try_charge(&mut self, user: UserId, milli: u64, run: BudgetCharge) {
        let (charge, unlimited) = self.tentative_charge(milli, run);
        self.change(user, |tally| {
            tally.tentative = (
                tally.tentative.0.saturating_add(charge),
                tally.tentative.1.saturating_add(unlimited),
            );
        });
    }

    /// Undoes [`BudgetAccount::try_charge`] with the same arguments.
    pub(crate) fn undo_charge(&mut self, user: UserId, milli: u64, run: BudgetCharge) {
        let (charge, unlimited) = self.tentative_charge(milli, run);
        self.change(user, |tally| {
            tally.tentative = (
                tally.tentative.0.saturating_sub(charge),
                tally.tentative.1.saturating_sub(unlimited),
            );
        });
    }

    fn tentative_charge(&self, milli: u64, run: BudgetCharge) -> (u64, u64) {
        let charge = self.charge_in_period(self.period_of(run.from), milli, run);
        (charge, if run.length.is_none() { milli } else { 0 })
    }

    fn change(&mut self, user: UserId, change: impl Fn(&mut BudgetTally)) {
        change(&mut self.all);
        if self.terms.gpu_hours_per_user.is_some() {
            let tally = self.users.entry(user).or_default();
            change(tally);
            if tally.is_blank() {
                self.users.remove(&user);
            }
        }
    }

    // ---- persistence ----

    /// Continues the account of a former tree as of `now`: keeps what was used if the periods are
    /// the same. The caller restores the charges of running elements.
    pub(crate) fn adopt(&mut self, now: Time, old: Option<&BudgetAccount>) {
        let grid = |terms: &QueueBudget| (terms.every, terms.start.0 % terms.every.0.max(1));
        match old.filter(|old| grid(&old.terms) == grid(&self.terms)) {
            Some(old) => self.read(&old.stored()),
            None => self.period_start = self.period_of(now),
        }
    }

    pub(crate) fn stored(&self) -> StoredBudgetAccount {
        let users = self.users.iter().filter(|(_, tally)| tally.used > 0);
        StoredBudgetAccount {
            period_start: self.period_start,
            used: self.all.used,
            users: users.map(|(user, tally)| (*user, tally.used)).collect(),
        }
    }

    pub(crate) fn read(&mut self, stored: &StoredBudgetAccount) {
        self.period_start = stored.period_start;
        self.all.used = stored.used;
        if self.terms.gpu_hours_per_user.is_some() {
            let tally = |used: u64| BudgetTally { used, ..BudgetTally::default() };
            self.users = stored.users.iter().map(|(user, used)| (*user, tally(*used))).collect();
        }
    }

    // ---- reads ----

    /// Returns GPU time used and charged in advance at an instant, by all users.
    pub(crate) fn used_and_charged(&self, now: Time) -> (u64, u64) {
        self.at(now, &self.all)
    }

    /// Returns GPU time used and charged in advance at an instant, by each user with any.
    pub(crate) fn used_and_charged_by_user(
        &self,
        now: Time,
    ) -> impl Iterator<Item = (UserId, (u64, u64))> {
        let users = self.users.iter().map(move |(user, tally)| (*user, self.at(now, tally)));
        users.filter(|(_, taken)| *taken != (0, 0))
    }
}
