//! How long jobs run. People promise more than they use, and a forecast that believes them is of no
//! use; so a job is taken to use as much of its limit as the middle one of its user's jobs did.
//! Nothing is guessed where nobody knows.

use std::collections::BTreeMap;

use muster_model::{JobSpec, Kind, PastRun, Span, UserName};

/// Runs of a user below which those of all users speak.
const ENOUGH: usize = 5;

/// What ended jobs used, in order.
#[derive(Clone, Debug, Default)]
struct Used {
    /// Of their limits, in millionths.
    ppm: Vec<u64>,
    /// Where there was no limit, in milliseconds.
    ms: Vec<u64>,
}

/// How long jobs ran, by user and in all.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    users: BTreeMap<UserName, Used>,
    all: Used,
    /// Limits are believed.
    by_limit: bool,
}

impl Usual {
    /// As the jobs that have ended ran. What ran until somebody ended it says nothing about others.
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

    /// As their users promised.
    #[must_use]
    pub fn by_limit() -> Self {
        Self { by_limit: true, ..Self::default() }
    }

    /// How long a job runs in all that has run for so long. `None`: until somebody ends it, or
    /// nobody knows. A notebook is taken to be kept up to its limit.
    #[must_use]
    pub fn runtime(&self, job: &JobSpec, so_far: Span) -> Option<Span> {
        match job.kind {
            Kind::Service(_) => return None,
            Kind::Notebook(_) => return job.time_limit,
            Kind::Task => {}
        }
        let Some(limit) = job.time_limit else {
            let middle = middle_above(self.known(&job.user, |used| &used.ms)?, so_far.0);
            // It has outrun all of them: as long again.
            return Some(Span(middle.unwrap_or(so_far.0.saturating_mul(2))));
        };
        let used = self.known(&job.user, |used| &used.ppm).filter(|_| !self.by_limit);
        let so_far_ppm = so_far.0.saturating_mul(1_000_000) / limit.0.max(1);
        let middle = used.and_then(|used| middle_above(used, so_far_ppm));
        let ms = u128::from(limit.0) * u128::from(middle.unwrap_or(1_000_000)) / 1_000_000;
        Some(Span(ms as u64).min(limit).max(so_far))
    }

    /// What is known of a user's jobs, else of all.
    fn known(&self, user: &UserName, of: impl Fn(&Used) -> &Vec<u64>) -> Option<&[u64]> {
        let own = self.users.get(user).map(&of).filter(|used| used.len() >= ENOUGH);
        own.or_else(|| Some(of(&self.all)).filter(|used| used.len() >= ENOUGH)).map(Vec::as_slice)
    }
}

/// The middle one of those that are above.
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
    fn a_job_runs_as_the_middle_one_of_its_users_did_and_longer_once_it_has_outrun_it() {
        let runs = [100, 200, 300, 400, 900].map(|secs| ran("ann", secs, Some(1000)));
        let usual = Usual::of(&runs);
        let secs = |so_far| {
            usual.runtime(&job("ann", Some(2000)), Span::from_secs(so_far)).unwrap().0 / 1000
        };
        // Shares of the limit: 10, 20, 30, 40 and 90 %.
        assert_eq!(secs(0), 600);
        assert_eq!(secs(700), 1800);
        assert_eq!(secs(1900), 2000);
        // Of Bob nothing is known: all speak for him. Promises can be believed too.
        assert_eq!(usual.runtime(&job("bob", Some(10)), Span(0)), Some(Span::from_secs(3)));
        let promised = Usual::by_limit().runtime(&job("ann", Some(2000)), Span(0));
        assert_eq!(promised, Some(Span::from_secs(2000)));
    }

    #[test]
    fn nothing_is_guessed_where_nobody_knows() {
        let few = [100, 200].map(|secs| ran("ann", secs, None));
        assert_eq!(Usual::of(&few).runtime(&job("ann", None), Span(0)), None);
        assert_eq!(
            Usual::of(&few).runtime(&job("ann", Some(60)), Span(0)),
            Some(Span::from_secs(60))
        );
        let enough = [10, 20, 30, 40, 50].map(|secs| ran("ann", secs, None));
        let usual = Usual::of(&enough);
        assert_eq!(usual.runtime(&job("ann", None), Span(0)), Some(Span::from_secs(30)));
        assert_eq!(
            usual.runtime(&job("ann", None), Span::from_secs(60)),
            Some(Span::from_secs(120))
        );
    }
}
