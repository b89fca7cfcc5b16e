//! Draws parts of a trace anew, with replacement (the bootstrap, Efron 1979), so that runs with several seeds
//! also show how much the figures depend on the weeks or the users that the trace happens to have.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::simulation::Resampled;
use muster_model::{Span, Time, UserName};

use super::load::{FleetJob, FleetLoad};
use crate::rng::Rng;

/// Length of a week: arrivals repeat by weekday and hour.
const WEEK: Span = Span::from_secs(7 * 86_400);

impl FleetLoad {
    /// Returns the number of parts that can be drawn: weeks, or users. What is left of a week at the end counts as
    /// one if it is more than half of it.
    #[must_use]
    pub fn parts(&self, by: Resampled) -> usize {
        match by {
            Resampled::Weeks => {
                let ends = self.jobs.first().zip(self.jobs.last());
                let length = ends.map_or(Span(0), |(first, last)| last.submit.since(first.submit));
                usize::try_from((length.0 + WEEK.0 / 2) / WEEK.0).unwrap_or(usize::MAX)
            }
            Resampled::Users => self.by_user().len(),
        }
    }

    /// Returns a load of as many parts as there are, each drawn from all of them. Jobs of a part that is
    /// drawn again have other ids; users that are drawn again have other names. Recorded starts are
    /// dropped: they belong to the trace as it was.
    #[must_use]
    pub fn resampled(&self, by: Resampled, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut jobs = match by {
            Resampled::Weeks => self.weeks(&mut rng),
            Resampled::Users => self.users(&mut rng),
        };
        jobs.sort_by_key(|job| job.submit);
        Self { jobs: Arc::new(jobs), ..self.clone() }
    }

    fn weeks(&self, rng: &mut Rng) -> Vec<FleetJob> {
        let Some(first) = self.jobs.first().map(|job| job.submit) else { return Vec::new() };
        let mut weeks: Vec<Vec<&FleetJob>> = vec![Vec::new(); self.parts(Resampled::Weeks)];
        for job in self.jobs.iter() {
            let week = usize::try_from(job.submit.since(first).0 / WEEK.0).unwrap_or(usize::MAX);
            // Jobs after the last week are left out.
            weeks.get_mut(week).into_iter().for_each(|week| week.push(job));
        }
        let mut drawn = DrawnTimes::default();
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for place in 0..weeks.len() {
            let week = rng.roll(weeks.len() as u64) as usize;
            let time = drawn.next(week);
            let from = Time(first.0 + WEEK.0 * week as u64);
            let to = Time(first.0 + WEEK.0 * place as u64);
            jobs.extend(
                weeks[week]
                    .iter()
                    .map(|job| FleetJob { submit: to + job.submit.since(from), ..copy(job, time) }),
            );
        }
        jobs
    }

    fn users(&self, rng: &mut Rng) -> Vec<FleetJob> {
        let users: Vec<Vec<&FleetJob>> = self.by_user().into_values().collect();
        let mut drawn = DrawnTimes::default();
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for _ in 0..users.len() {
            let user = rng.roll(users.len() as u64) as usize;
            let time = drawn.next(user);
            jobs.extend(users[user].iter().map(|job| {
                let name = |user: &UserName| UserName::from(again(user.as_str(), time).as_str());
                FleetJob {
                    user: name(&job.user),
                    predicted_by: job.predicted_by.as_ref().map(name),
                    ..copy(job, time)
                }
            }));
        }
        jobs
    }

    fn by_user(&self) -> BTreeMap<&UserName, Vec<&FleetJob>> {
        let mut users: BTreeMap<&UserName, Vec<&FleetJob>> = BTreeMap::new();
        for job in self.jobs.iter() {
            users.entry(&job.user).or_default().push(job);
        }
        users
    }
}

/// Counts how often each part was drawn.
#[derive(Default)]
struct DrawnTimes(BTreeMap<usize, u32>);

impl DrawnTimes {
    /// Counts a part; returns how often it has been drawn by now, from 1.
    fn next(&mut self, part: usize) -> u32 {
        let times = self.0.entry(part).or_default();
        *times += 1;
        *times
    }
}

fn copy(job: &FleetJob, time: u32) -> FleetJob {
    FleetJob { id: again(&job.id, time).into(), recorded_start: None, ..job.clone() }
}

/// Returns the name of something that is drawn for the given time: `7`, `7#2`.
fn again(name: &str, time: u32) -> String {
    if time == 1 { name.to_owned() } else { format!("{name}#{time}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_model::job::Resources;
    use muster_model::{Bytes, CpuMilli, NodeSpec, QueueTree};
    use muster_spec::{JobEnd, TraceJob};

    use super::*;
    use crate::flat::Estimates;
    use crate::fleet::FleetSite;

    /// A load of three weeks: in each a job of each of two users, an hour after its begin, and one in the last
    /// second.
    fn load() -> FleetLoad {
        let site = FleetSite {
            nodes: vec![NodeSpec::plain("a", CpuMilli(8_000), Bytes(1 << 30))],
            levels: Vec::new(),
            tree: QueueTree::single(),
        };
        let mut jobs = Vec::new();
        for week in 0..3u64 {
            for (user, secs) in [("ada", 3_600), ("bob", 3_600), ("bob", 604_799)] {
                jobs.push(TraceJob {
                    id: jobs.len().to_string().into(),
                    submit: Time(1_000 + (week * 604_800 + secs) * 1000),
                    runtime: Some(Span::from_secs(week + 1)),
                    requested: None,
                    tasks: 1,
                    task: Resources { cpus: CpuMilli(1000), ..Resources::default() },
                    user: Some(user.into()),
                    queue: None,
                    priority: 0,
                    started: None,
                    ended: JobEnd::Completed,
                });
            }
        }
        FleetLoad::of(&jobs, &site, Estimates::Actual, false)
    }

    #[test]
    fn weeks_keep_weekday_and_hour() {
        let load = load();
        assert_eq!(load.parts(Resampled::Weeks), 3);
        let first = load.jobs[0].submit;
        let mut seen = BTreeSet::new();
        for seed in 0..20 {
            let drawn = load.resampled(Resampled::Weeks, seed);
            assert_eq!(drawn.jobs.len(), 9, "weeks of three jobs each");
            let ids: BTreeSet<&str> = drawn.jobs.iter().map(|job| &*job.id).collect();
            assert_eq!(ids.len(), 9, "every job has its own id");
            let in_week = |job: &FleetJob| job.submit.since(first).0 % WEEK.0;
            let known: BTreeSet<u64> = load.jobs.iter().map(in_week).collect();
            assert!(drawn.jobs.iter().all(|job| known.contains(&in_week(job))));
            seen.insert(drawn.jobs.iter().map(|job| job.runtime.0).collect::<Vec<_>>());
            assert_eq!(drawn.jobs, load.resampled(Resampled::Weeks, seed).jobs, "a seed is a load");
        }
        assert!(seen.len() > 5, "seeds differ");
    }

    #[test]
    fn users_come_whole_at_their_own_times() {
        let load = load();
        assert_eq!(load.parts(Resampled::Users), 2);
        let mut seen = BTreeSet::new();
        for seed in 0..20 {
            let drawn = load.resampled(Resampled::Users, seed);
            let of = |user: &str| drawn.jobs.iter().filter(|job| job.user.as_str() == user).count();
            let counts = [of("ada"), of("ada#2"), of("bob"), of("bob#2")];
            assert!(
                [[3, 3, 0, 0], [3, 0, 6, 0], [0, 0, 6, 6]].contains(&counts),
                "{counts:?} of seed {seed}"
            );
            assert!(drawn.jobs.is_sorted_by_key(|job| job.submit));
            seen.insert(counts);
        }
        assert_eq!(seen.len(), 3);
    }
}
