//! Runtime estimates from past jobs. Time limits exceed runtimes by far, so a forecast by limits is
//! useless; a job is assumed to use the median part of its limit that its user's jobs used. Nothing
//! is estimated without data.

use std::collections::BTreeMap;

use muster_model::{JobSpec, PastRun, Span, UserName, WorkloadKind};

/// Number of a user's jobs below which the jobs of all users are used.
const ENOUGH: usize = 5;

/// Sorted use of ended jobs.
#[derive(Clone, Debug, Default)]
struct UsedFractions {
    /// Used part of the limit, in millionths.
    ppm: Vec<u64>,
    /// Runtime of jobs without a limit, in milliseconds.
    ms: Vec<u64>,
}

/// Runtime estimates by user and overall.
#[derive(Clone, Debug, Default)]
pub struct RuntimeEstimates {
    users: BTreeMap<UserName, UsedFractions>,
    all: UsedFractions,
    /// True if time limits are the estimates.
    by_limit: bool,
}

impl RuntimeEstimates {
    /// Creates estimates from ended jobs, without those that ran until a user ended them.
    #[must_use]
    pub fn of(past: &[PastRun]) -> Self {
        let mut usual = Self::default();
        for run in past.iter().filter(|run| run.is_over && !run.is_open_ended && run.ran.0 > 0) {
            for used in [usual.users.entry(run.user.clone()).or_default(), &mut usual.all] {
                match run.limit {
                    Some(limit) => {
                        used.ppm.push(run.ran.0.saturating_mul(1_000_000) / limit.0.max(1))
                    }
                    None => used.ms.push(run.ran.0),
                }
            }
        }
        for used in usual.users.values_mut().chain([&mut usual.all]) {
            used.ppm.sort_unstable();
            used.ms.sort_unstable();
        }
        usual
    }

    /// Creates estimates by time limits.
    #[must_use]
    pub fn by_limit() -> Self {
        Self { by_limit: true, ..Self::default() }
    }

    /// Returns the estimated total runtime of a job that has run for `so_far`. `None`: until it is
    /// cancelled, or unknown. A notebook is assumed to use its limit.
    #[must_use]
    pub fn runtime(&self, job: &JobSpec, so_far: Span) -> Option<Span> {
        match job.kind {
            WorkloadKind::Service(_) => return None,
            WorkloadKind::Notebook(_) => return job.time_limit,
            WorkloadKind::Task => {}
        }
        let Some(limit) = job.time_limit else {
            let middle = middle_above(self.known(&job.user, |used| &used.ms)?, so_far.0);
            // It has outrun all of them: assume as long again.
            return Some(Span(middle.unwrap_or(so_far.0.saturating_mul(2))));
        };
        let used = self.known(&job.user, |used| &used.ppm).filter(|_| !self.by_limit);
        let so_far_ppm = so_far.0.saturating_mul(1_000_000) / limit.0.max(1);
        let middle = used.and_then(|used| middle_above(used, so_far_ppm));
        let ms = u128::from(limit.0) * u128::from(middle.unwrap_or(1_000_000)) / 1_000_000;
        Some(Span(ms as u64).min(limit).max(so_far))
    }

    /// Returns the data of a user's jobs, else of all.
    fn known(&self, user: &UserName, of: impl Fn(&UsedFractions) -> &Vec<u64>) -> Option<&[u64]> {
        let own = self.users.get(user).map(&of).filter(|used| used.len() >= ENOUGH);
        own.or_else(|| Some(of(&self.all)).filter(|used| used.len() >= ENOUGH)).map(Vec::as_slice)
    }
}

/// Returns the median of the values above `below`.
fn middle_above(sorted: &[u64], below: u64) -> Option<u64> {
    let rest = &sorted[sorted.partition_point(|one| *one <= below)..];
    rest.get(rest.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use muster_model::job::Resources;
    use muster_model::{ElementId, JobId, TaskGroup, Time};

    use super::*;

    fn ran(user: &str, secs: u64, limit: Option<u64>) -> PastRun {
        PastRun {
            element: ElementId { job: JobId(1), index: 0 },
            user: user.into(),
            queue: "default".into(),
            priority: 0,
            submitted: Time(0),
            began: Time(0),
            ran: Span::from_secs(secs),
            is_over: true,
            limit: limit.map(Span::from_secs),
            is_open_ended: false,
            tasks: 1,
            roles: Vec::new(),
        }
    }

    fn job(user: &str, limit: Option<u64>) -> JobSpec {
        let group = TaskGroup::of("main", 1, Resources::default());
        JobSpec { time_limit: limit.map(Span::from_secs), ..JobSpec::plain("j", user, vec![group]) }
    }

    #[test]
    fn runtime_is_the_median_of_the_users_past_jobs_that_ran_longer() {
        let runs = [100, 200, 300, 400, 900].map(|secs| ran("ann", secs, Some(1000)));
        let usual = RuntimeEstimates::of(&runs);
        let secs = |so_far| {
            usual.runtime(&job("ann", Some(2000)), Span::from_secs(so_far)).unwrap().0 / 1000
        };
        // Shares of the limit: 10, 20, 30, 40 and 90 %.
        assert_eq!(secs(0), 600);
        assert_eq!(secs(700), 1800);
        assert_eq!(secs(1900), 2000);
        // Bob has no past jobs: those of all users count. Limits can be the estimates, too.
        assert_eq!(usual.runtime(&job("bob", Some(10)), Span(0)), Some(Span::from_secs(3)));
        let promised = RuntimeEstimates::by_limit().runtime(&job("ann", Some(2000)), Span(0));
        assert_eq!(promised, Some(Span::from_secs(2000)));
    }

    #[test]
    fn no_estimate_without_past_jobs() {
        let few = [100, 200].map(|secs| ran("ann", secs, None));
        assert_eq!(RuntimeEstimates::of(&few).runtime(&job("ann", None), Span(0)), None);
        assert_eq!(
            RuntimeEstimates::of(&few).runtime(&job("ann", Some(60)), Span(0)),
            Some(Span::from_secs(60))
        );
        let enough = [10, 20, 30, 40, 50].map(|secs| ran("ann", secs, None));
        let usual = RuntimeEstimates::of(&enough);
        assert_eq!(usual.runtime(&job("ann", None), Span(0)), Some(Span::from_secs(30)));
        assert_eq!(
            usual.runtime(&job("ann", None), Span::from_secs(60)),
            Some(Span::from_secs(120))
        );
    }
}
