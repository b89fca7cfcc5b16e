//! Falling back to time limits. Planning by expected run times may start jobs that run longer than
//! expected before a queue head, and delay it each time. So once the head has waited for long, the rest of
//! the pass is planned by time limits: then its planned start is a promise, as without expectations.

use muster_model::Span;

use super::PlanningPass;
use super::candidate::Candidate;
use crate::pool::ends::HoldingEnd;
use crate::pool::{HoldKey, Holding};
use crate::state::State;
use crate::state::job::{JobRecord, Phase};

/// Wait of a queue head, in multiples of the tree's `patience`, after which planning no longer goes by
/// expected run times: a week by default. It guards against starvation and is no tuning: on SDSC-SP2,
/// where jobs wait for hours, a day makes the mean wait longer by a sixth.
const TRUSTED_PATIENCES: u64 = 672;

impl PlanningPass<'_> {
    /// Returns true if what is planned from now on goes by predicted run times.
    pub(crate) fn plans_by_predictions(&self) -> bool {
        !self.plans_by_limits && self.state.plans_by_predictions()
    }

    /// Returns the time for which planning takes an element to hold resources from now on.
    pub(super) fn planned_duration(&self, record: &JobRecord) -> Option<Span> {
        if self.plans_by_limits {
            return record.duration();
        }
        self.state.planned_duration(self.now, record)
    }

    /// Returns a queue head with the duration of its time limit if it has waited for so long that planning must go
    /// by limits; the rest of the pass does so, too. `None` for any other head.
    pub(crate) fn plan_head_by_limits(&mut self, head: &Candidate) -> Option<Candidate> {
        self.is_kept_waiting(head).then(|| {
            stop_expecting(self);
            Candidate { duration: head.limit, ..head.clone() }
        })
    }

    /// Returns true if a queue head has waited for so long that planning must go by time limits, and does not
    /// yet.
    fn is_kept_waiting(&self, head: &Candidate) -> bool {
        !self.plans_by_limits
            && self.state.trusts_predictions()
            && self.state.policy.tree().patience.is_some_and(|patience| {
                let longest = Span(patience.0.saturating_mul(TRUSTED_PATIENCES));
                self.now.since(head.waits_since) >= longest
            })
    }
}

/// Plans the rest of the pass by time limits: those of running attempts, of what this pass has started, and
/// of what it considers from now on.
fn stop_expecting(pass: &mut PlanningPass<'_>) {
    pass.plans_by_limits = true;
    let state = &mut *pass.state;
    let evicted = &pass.evicted;
    let later: Vec<(HoldKey, HoldingEnd)> = state
        .pool
        .holdings_by_key()
        .filter(|(key, _)| !evicted.contains(key))
        .filter_map(|(key, holding)| Some((key, limit_of(state, holding)?)))
        .filter(|(key, end)| *end != state.pool.holding(*key).end)
        .collect();
    for (key, end) in later {
        state.pool.move_end_on_scratch(key, end);
    }
    pass.cache.release_holdings();
}

/// Returns the end of a holding by its time limit.
fn limit_of(state: &State, holding: &Holding) -> Option<HoldingEnd> {
    let record = &state.jobs.get(&holding.element.job)?.record;
    let element = record.elements.get(&record.ordinal_of(holding.element.index)?);
    let active = element.filter(|element| element.phase == Phase::Active);
    let run = active.and_then(|element| element.run.as_ref());
    Some(run.map_or_else(|| record.end_from_start(), |run| run.end).into())
}
