//! The planner: makes plans, and remembers from pass to pass what is still valid. It is no part of
//! the state: a planner that remembers nothing makes the same plans.

use muster_model::{HeadReservation, Plan, Reservation, Time};

use super::PlanningPass;
use super::cache::{PlanCache, SHORTEST_SPAN};
use super::elastic::grow;
use super::pass_starts::{MAX_PASSES, PassStarts, StartPhases};
use super::scratch::Scratch;
use crate::state::State;

/// Plans, and remembers what is still valid between passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planner {
    /// Results of earlier passes.
    pub(super) cache: PlanCache,
    /// Buffers that a pass reuses.
    pub(super) scratch: Scratch,
    outlook: Outlook,
}

/// Results of the last pass that are no decisions: what it planned for later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlook {
    /// Future starts, with their devices.
    pub(crate) reservations: Vec<Reservation>,
    /// Capacity that it kept free for queue heads.
    pub(crate) head_reservations: Vec<HeadReservation>,
    pub(crate) wake_times: WakeTimes,
}

/// Next times at which planning may give another result although no event arrives. Computed by each
/// pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WakeTimes {
    /// First refill of a budget that refused an element.
    pub(crate) budget_refill: Option<Time>,
    /// First expiry of a protection that kept a running attempt from being preempted.
    pub(crate) protection_expiry: Option<Time>,
    /// First time at which a queue head has waited longer than `patience`.
    pub(crate) patience_expiry: Option<Time>,
    /// First time at which the share of a user counts for one more entry.
    pub(crate) share_counts: Option<Time>,
}

impl Planner {
    /// Makes a plan. Brings into force what began by `now`, and wakes entries; all else is changed on
    /// scratch, and is as before at the end.
    pub(crate) fn plan(&mut self, state: &mut State, now: Time) -> Plan {
        state.wake(now);
        let (wake_times, plan) = if state.has_nothing_to_plan() {
            (WakeTimes::default(), Plan::default())
        } else {
            self.passes(state, now, |_| {})
        };
        self.outlook.wake_times = wake_times;
        self.outlook.reservations.clone_from(&plan.reservations);
        self.outlook.head_reservations.clone_from(&plan.head_reservations);
        plan
    }

    /// Returns what the last pass planned for later.
    pub(crate) fn outlook(&self) -> &Outlook {
        &self.outlook
    }

    /// Runs passes until one starts nothing that the next pass would preempt.
    pub(super) fn passes(
        &mut self,
        state: &mut State,
        now: Time,
        prepare: impl Fn(&mut PlanningPass<'_>),
    ) -> (WakeTimes, Plan) {
        let mut phases = StartPhases::default();
        for pass_number in 1.. {
            let mut pass = PlanningPass::new(state, self, now);
            pass.pass_starts = PassStarts::with_phases(phases);
            pass.pass_starts.is_watched = pass_number < MAX_PASSES;
            prepare(&mut pass);
            pass.run(|_| false);
            while pass.pass_starts.retry_with.is_none() && grow(&mut pass) {
                pass.begin_round();
                pass.rounds(|_| false);
            }
            let wake_times = pass.wake_times();
            let retry_with = pass.pass_starts.retry_with.take();
            let only_starts = pass.decides_only_starts();
            let pool_version = pass.state.pool.version();
            // What was planned with other ends than those of the holdings says nothing about the next pass.
            let is_reusable = only_starts && !pass.plans_by_limits;
            let plan = pass.finish();
            if is_reusable {
                self.cache.end_pass(&mut state.pool, now, &plan, pool_version);
            }
            match retry_with {
                Some(next) => phases = next,
                None => return (wake_times, plan),
            }
        }
        unreachable!("a pass that does not check its starts is the last")
    }

    /// Commits a plan to the state. If it is the plan of the last pass, and all its starts are made,
    /// the results of that pass stay valid.
    pub(crate) fn commit(&mut self, state: &mut State, now: Time, plan: &Plan) {
        let planned_at = self.cache.take_planned_at(&state.pool, plan);
        let all_started = state.commit(now, plan);
        if let Some(planned_at) = planned_at.filter(|_| all_started) {
            self.cache.mark_unchanged(&mut state.pool, planned_at);
        }
    }
}

impl PlanningPass<'_> {
    /// Returns the instants at which this pass wants another one.
    fn wake_times(&self) -> WakeTimes {
        // A job that may preempt the holder of a nominated allocation may have arrived since the
        // nomination, and entries after a new start were not reconsidered: the next pass checks
        // both.
        let is_stable =
            self.decisions.is_empty() || self.pass_starts.is_stable() && !self.changed_order;
        let protection_expiry = if is_stable {
            self.eligibility.protection_expiry
        } else {
            Some(self.now + SHORTEST_SPAN)
        };
        WakeTimes {
            budget_refill: self.cache.limits.next_refill(),
            protection_expiry,
            patience_expiry: self.head_reservations.patience_expiry,
            share_counts: self.state.policy.next_share_start(self.now),
        }
    }
}
