//! The account of a budget: what was used and promised of the present window. Arithmetic on one
//! queue; it must not know the tree.
//!
//! # Definition
//!
//! Windows are `[start + k·every, start + (k+1)·every)` for whole `k`, before `start` as well as
//! after it. All amounts are thousandths of GPUs × milliseconds.
//!
//! * An element with a limit is paid for, whole, in the window in which it starts: `GPUs × length`.
//!   What it runs beyond the end of that window was paid for already, so every GPU-hour is paid for
//!   once. When it ends, what it did not use is given back; once the window is over there is
//!   nothing to give it back to.
//! * An endless element takes of every window what it can use of it: from its start, or the
//!   window's, to the window's end.
//! * `charged = used by what ended + promised by what holds`, in the present window. It falls to
//!   what endless elements take when a window ends.
//!
//! A start is **admitted iff `charged + its own ≤ budget`, and, for an endless one, if what all
//! endless elements take of a whole window stays within the budget, too**. Hence `charged ≤ budget`
//! at every instant if only admitted starts are held: inside a window only starts raise it, since
//! an element is never charged more than it promised, and at its beginning the second condition
//! bounds it.

use std::collections::BTreeMap;

use muster_model::queue::Budget;
use muster_model::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::PER_GPU_HOUR;
use crate::intern::UserId;

/// From when something holds GPUs, and for how long at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// From when.
    pub from: Time,
    /// For how long at most; `None` is endless.
    pub length: Option<Span>,
}

/// What elements took of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Used by elements that ended. This part is stored.
    pub(crate) used: u64,
    /// Promised by elements that hold GPUs.
    pub(crate) promised: u64,
    /// Thousandths of GPUs held by endless elements.
    endless: u64,
    /// Of `promised` and `endless`, what is only tried by a planning pass: kept apart, since a pass
    /// begins no window.
    tried: (u64, u64),
}

impl Tally {
    fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

/// The account of a queue that has a budget.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) terms: Budget,
    /// Beginning of the window that the tallies are of.
    window: Time,
    all: Tally,
    /// By user, where users have a budget.
    users: BTreeMap<UserId, Tally>,
}

/// The part of an account that a snapshot keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredAccount {
    window: Time,
    used: u64,
    users: BTreeMap<UserId, u64>,
}

/// Why a budget refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    /// It is the user's own budget that is short.
    pub(crate) of_user: bool,
    pub(crate) asked: u64,
    pub(crate) used: u64,
    pub(crate) promised: u64,
    pub(crate) budget: u64,
}

impl Account {
    pub(crate) fn new(terms: Budget) -> Self {
        Self { terms, window: Time(0), all: Tally::default(), users: BTreeMap::new() }
    }

    // ---- windows ----

    /// Beginning of the window that an instant lies in. The one that holds the epoch may have begun
    /// before it.
    fn window_of(&self, at: Time) -> Time {
        let every = self.terms.every.0.max(1);
        let phase = self.terms.start.0 % every;
        if at.0 < phase { Time(0) } else { Time(at.0 - (at.0 - phase) % every) }
    }

    /// The first instant after the window that an instant lies in.
    pub(crate) fn refills_at(&self, at: Time) -> Time {
        let every = self.terms.every.0.max(1);
        let phase = self.terms.start.0 % every;
        if at.0 < phase { Time(phase) } else { self.window_of(at) + Span(every) }
    }

    /// What a promise takes of the window that begins at `window`.
    fn charge(&self, window: Time, milli: u64, promise: Promise) -> u64 {
        match promise.length {
            Some(length) if self.window_of(promise.from) == window => {
                milli.saturating_mul(length.0)
            }
            Some(_) => 0,
            None => milli.saturating_mul(self.refills_at(window).since(promise.from.max(window)).0),
        }
    }

    /// What holders of so many thousandths take of a whole window.
    fn whole_window(&self, milli: u64) -> u64 {
        milli.saturating_mul(self.terms.every.0)
    }

    /// A tally as it stands at an instant: used and promised, what is tried included.
    fn at(&self, now: Time, tally: &Tally) -> (u64, u64) {
        let (used, promised) = match self.window_of(now) <= self.window {
            true => (tally.used, tally.promised),
            false => (0, self.whole_window(tally.endless)),
        };
        (used, promised.saturating_add(tally.tried.0))
    }

    /// Begins the window that `now` lies in, unless it has begun.
    fn begin_window(&mut self, now: Time) {
        let window = self.window_of(now);
        if window <= self.window {
            return;
        }
        self.window = window;
        let every = self.terms.every.0;
        for tally in std::iter::once(&mut self.all).chain(self.users.values_mut()) {
            (tally.used, tally.promised) = (0, tally.endless.saturating_mul(every));
        }
        self.users.retain(|_, tally| !tally.is_blank());
    }

    // ---- verdicts ----

    /// May this be promised from `promise.from` on? The first budget that is short of it.
    pub(crate) fn judge(&self, user: UserId, milli: u64, promise: Promise) -> Result<(), Short> {
        self.judge_with(&self.all, self.users.get(&user), milli, promise)
    }

    /// Could this ever be promised, if nobody else took anything?
    pub(crate) fn judge_ever(&self, milli: u64, length: Option<Span>) -> Result<(), Short> {
        let promise = Promise { from: self.refills_at(Time(0)), length };
        self.judge_with(&Tally::default(), None, milli, promise)
    }

    fn judge_with(
        &self,
        all: &Tally,
        own: Option<&Tally>,
        milli: u64,
        promise: Promise,
    ) -> Result<(), Short> {
        let own = own.copied().unwrap_or_default();
        let budgets =
            [(false, self.terms.gpu_hours, *all), (true, self.terms.gpu_hours_per_user, own)];
        let window = self.window_of(promise.from);
        let asked = self.charge(window, milli, promise);
        for (of_user, hours, tally) in budgets {
            let Some(hours) = hours else { continue };
            let budget = hours.saturating_mul(PER_GPU_HOUR);
            // 1. This window.
            let (used, promised) = self.at(promise.from, &tally);
            if used.saturating_add(promised).saturating_add(asked) > budget {
                return Err(Short { of_user, asked, used, promised, budget });
            }
            // 2. Those that follow.
            let promised = self.whole_window(tally.endless.saturating_add(tally.tried.1));
            let asked = self.whole_window(milli);
            if promise.length.is_none() && promised.saturating_add(asked) > budget {
                return Err(Short { of_user, asked, used: 0, promised, budget });
            }
        }
        Ok(())
    }

    /// The longest that so many thousandths may be held from `now` on; `None` is any length.
    pub(crate) fn longest(&self, now: Time, user: UserId, milli: u64) -> Option<Span> {
        let own = self.users.get(&user).copied().unwrap_or_default();
        let budgets = [(self.terms.gpu_hours, self.all), (self.terms.gpu_hours_per_user, own)];
        let left = budgets.into_iter().filter_map(|(hours, tally)| {
            let (used, promised) = self.at(now, &tally);
            Some(hours?.saturating_mul(PER_GPU_HOUR).saturating_sub(used.saturating_add(promised)))
        });
        Some(Span(left.min()? / milli.max(1)))
    }

    // ---- changes ----

    /// From `promise.from`, which is now, so many thousandths are held.
    pub(crate) fn promise(&mut self, user: UserId, milli: u64, promise: Promise) {
        self.begin_window(promise.from);
        self.restore(user, milli, promise);
    }

    /// As [`Account::promise`], for what has been held for a while: it counts as it did when it
    /// began.
    pub(crate) fn restore(&mut self, user: UserId, milli: u64, promise: Promise) {
        let charge = self.charge(self.window, milli, promise);
        let endless = if promise.length.is_none() { milli } else { 0 };
        self.change(user, |tally| {
            tally.promised = tally.promised.saturating_add(charge);
            tally.endless = tally.endless.saturating_add(endless);
        });
    }

    /// What was promised ends now: what it used stays charged, the rest is given back.
    pub(crate) fn settle(&mut self, now: Time, user: UserId, milli: u64, promise: Promise) {
        self.begin_window(now);
        let charge = self.charge(self.window, milli, promise);
        let endless = if promise.length.is_none() { milli } else { 0 };
        // An element that gets ready for long holds its GPUs for longer than it promised; that is
        // not its doing.
        let used = charge.min(milli.saturating_mul(now.since(promise.from.max(self.window)).0));
        self.change(user, |tally| {
            debug_assert!(
                tally.promised >= charge && tally.endless >= endless,
                "settled what was promised"
            );
            tally.promised = tally.promised.saturating_sub(charge);
            tally.endless = tally.endless.saturating_sub(endless);
            tally.used = tally.used.saturating_add(used);
        });
    }

    /// Counts a promise that a planning pass tries.
    pub(crate) fn attempt(&mut self, user: UserId, milli: u64, promise: Promise) {
        let (charge, endless) = self.tried(milli, promise);
        self.change(user, |tally| {
            tally.tried =
                (tally.tried.0.saturating_add(charge), tally.tried.1.saturating_add(endless));
        });
    }

    /// The exact inverse of [`Account::attempt`].
    pub(crate) fn undo(&mut self, user: UserId, milli: u64, promise: Promise) {
        let (charge, endless) = self.tried(milli, promise);
        self.change(user, |tally| {
            tally.tried =
                (tally.tried.0.saturating_sub(charge), tally.tried.1.saturating_sub(endless));
        });
    }

    fn tried(&self, milli: u64, promise: Promise) -> (u64, u64) {
        let charge = self.charge(self.window_of(promise.from), milli, promise);
        (charge, if promise.length.is_none() { milli } else { 0 })
    }

    fn change(&mut self, user: UserId, change: impl Fn(&mut Tally)) {
        change(&mut self.all);
        if self.terms.gpu_hours_per_user.is_some() {
            let tally = self.users.entry(user).or_default();
            change(tally);
            if tally.is_blank() {
                self.users.remove(&user);
            }
        }
    }

    // ---- what outlives it ----

    /// Goes on where the account of a former tree stood at `now`: with what was used, if the
    /// windows are the same ones. What holds is restored by the caller.
    pub(crate) fn follow(&mut self, now: Time, old: Option<&Account>) {
        let grid = |terms: &Budget| (terms.every, terms.start.0 % terms.every.0.max(1));
        match old.filter(|old| grid(&old.terms) == grid(&self.terms)) {
            Some(old) => self.read(&old.stored()),
            None => self.window = self.window_of(now),
        }
    }

    pub(crate) fn stored(&self) -> StoredAccount {
        let users = self.users.iter().filter(|(_, tally)| tally.used > 0);
        StoredAccount {
            window: self.window,
            used: self.all.used,
            users: users.map(|(user, tally)| (*user, tally.used)).collect(),
        }
    }

    pub(crate) fn read(&mut self, stored: &StoredAccount) {
        self.window = stored.window;
        self.all.used = stored.used;
        if self.terms.gpu_hours_per_user.is_some() {
            let tally = |used: u64| Tally { used, ..Tally::default() };
            self.users = stored.users.iter().map(|(user, used)| (*user, tally(*used))).collect();
        }
    }

    // ---- reads ----

    /// Used and promised at an instant, by all.
    pub(crate) fn taken(&self, now: Time) -> (u64, u64) {
        self.at(now, &self.all)
    }

    /// Used and promised at an instant, by each user who used or promised something.
    pub(crate) fn taken_by_users(&self, now: Time) -> impl Iterator<Item = (UserId, (u64, u64))> {
        let users = self.users.iter().map(move |(user, tally)| (*user, self.at(now, tally)));
        users.filter(|(_, taken)| *taken != (0, 0))
    }
}
