//! Warning about time limits that are not the users' own. Schedulers that plan by limits (backfill,
//! reservations) gain more from good limits than from any rule, so this is shown with the figures.

use muster_model::simulation::{FleetComparison, TimeLimits};

use super::words::percent;
use crate::amount::{grouped, grouped_count};

/// Returns the warning; `None` if every job has a time limit set by its user.
#[must_use]
pub fn caveat(comparison: &FleetComparison) -> Option<String> {
    let FleetComparison { limits, without_limit, jobs, .. } = comparison;
    let differ = "schedulers that plan by limits can differ several times less, or in the opposite direction, with the limits \
                  that users set";
    match limits {
        TimeLimits::Requested | TimeLimits::Predicted if *without_limit == 0 => None,
        TimeLimits::Requested | TimeLimits::Predicted => {
            let share = percent(*without_limit as f64 / (*jobs).max(1) as f64);
            let without = grouped(*without_limit);
            let all = grouped_count(*jobs, "job");
            Some(format!(
                "{without} of {all} ({share}) name no time limit, so differences depend on assumed limits: slurm plans with one of \
                 7 days unless configured otherwise, muster with none; {differ}. Compare with `--estimates noisy` too"
            ))
        }
        TimeLimits::Actual => Some(format!(
            "time limits are the true runtimes, which no user knows: differences depend on that; {differ}. Compare with \
             `--estimates requested` or `noisy` too"
        )),
        TimeLimits::Noisy => Some(format!(
            "time limits are drawn, one to five times the runtime, and are not those of the users; {differ}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn limits_that_are_not_the_users_own_are_warned_of() {
        let mut shown = sample::comparison(Vec::new());
        assert_eq!(caveat(&shown), None);
        shown.without_limit = 300;
        let text = caveat(&shown).unwrap();
        assert!(text.starts_with("300 of 1,200 jobs (25.0 %) name no time limit"), "{text}");
        for (limits, word) in [(TimeLimits::Actual, "true runtimes"), (TimeLimits::Noisy, "drawn")]
        {
            shown.limits = limits;
            assert!(caveat(&shown).is_some_and(|text| text.contains(word)), "{limits:?}");
        }
    }
}
