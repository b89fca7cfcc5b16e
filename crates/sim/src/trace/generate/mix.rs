//! Jobs of random classes with random arrivals, more at busy hours than at others.

use muster_model::{Span, Time};
use muster_spec::recipe::{LimitDistribution, Mix};
use muster_spec::{JobEnd, TraceJob};

use super::draw::{Weighted, exponential, length};
use crate::rng::Rng;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Weekday of the epoch, a Thursday, from Sunday as 0.
const EPOCH_DAY: u64 = 4;

/// Returns all jobs, for as long as the recipe submits.
pub(super) fn jobs(mix: &Mix, seed: u64) -> impl Iterator<Item = TraceJob> + '_ {
    let mut rng = Rng::new(seed);
    let classes = Weighted::new(mix.classes.iter().map(|class| class.weight as f64));
    let skew = f64::from(mix.skew_percent) / 100.0;
    let users = Weighted::new((1..=mix.users).map(|user| f64::from(user).powf(-skew)));
    let rates = Rates::new(mix);
    let end = mix.length.map_or(Time::NEVER, |length| mix.start + length);
    let mut now = mix.start.0 as f64;
    (1u64..).map_while(move |number| {
        now = rates.next(mix, &mut rng, now);
        let submit = Time(now as u64);
        (submit < end && submit < Time::NEVER)
            .then(|| job(mix, &classes, &users, &mut rng, number, submit))
    })
}

fn job(
    mix: &Mix,
    classes: &Weighted,
    users: &Weighted,
    rng: &mut Rng,
    number: u64,
    submit: Time,
) -> TraceJob {
    let class = &mix.classes[classes.draw(rng)];
    let user = users.draw(rng) + 1;
    let tasks = *rng.pick(&class.tasks);
    let mut runtime = length(rng, &class.runtime);
    let requested = match class.requested {
        LimitDistribution::Nothing => None,
        LimitDistribution::Fixed(limit) => {
            runtime = runtime.min(limit);
            Some(limit)
        }
        LimitDistribution::Times(times) => {
            let factor = 1.0 + rng.unit() * f64::from(times - 1);
            let minutes = (runtime.0 as f64 * factor / 60_000.0).ceil();
            Some(Span::from_secs((minutes as u64).max(1) * 60))
        }
    };
    let failed = rng.chance(class.failed_percent);
    TraceJob {
        id: format!("{}-{number}", class.name).into(),
        submit: Time(submit.since(mix.zero).0),
        runtime: Some(runtime),
        requested,
        tasks,
        task: class.task.clone(),
        user: Some(format!("u{user}").into()),
        queue: class.queue.clone(),
        priority: 0,
        started: None,
        ended: if failed { JobEnd::Failed } else { JobEnd::Completed },
    }
}

/// Submission rates over the week.
struct Rates {
    /// Rate by hour of a workday and of a weekend day, as a part of the busiest.
    hours: [Vec<f64>; 2],
    /// Mean time between submissions at the busiest hour, such that the mean over the week is as
    /// requested.
    busiest_ms: f64,
}

impl Rates {
    fn new(mix: &Mix) -> Self {
        let weekend = mix.weekend_percent as f64 / 100.0;
        let hours =
            |factor: f64| mix.hours.iter().map(|hour| *hour as f64 * factor).collect::<Vec<f64>>();
        let workdays = hours(1.0);
        let weekends = hours(weekend);
        let busiest = workdays.iter().chain(&weekends).copied().fold(0.0, f64::max);
        let mean =
            (workdays.iter().sum::<f64>() * 5.0 + weekends.iter().sum::<f64>() * 2.0) / 168.0;
        let share = |hours: Vec<f64>| hours.into_iter().map(|hour| hour / busiest).collect();
        Self {
            hours: [share(workdays), share(weekends)],
            busiest_ms: mix.every.0 as f64 * mean / busiest,
        }
    }

    /// Returns the next submission time: drawn as if every hour were the busiest, and thinned out
    /// in the others.
    fn next(&self, mix: &Mix, rng: &mut Rng, mut now: f64) -> f64 {
        if mix.regular {
            return now + mix.every.0 as f64;
        }
        loop {
            now += exponential(rng, self.busiest_ms);
            if now >= Time::NEVER.0 as f64 || rng.unit() < self.share(now as u64) {
                return now;
            }
        }
    }

    fn share(&self, now_ms: u64) -> f64 {
        let day = (now_ms / DAY_MS + EPOCH_DAY) % 7;
        let is_weekend = usize::from(day == 0 || day == 6);
        self.hours[is_weekend][(now_ms / HOUR_MS % 24) as usize]
    }
}

#[cfg(test)]
mod tests {
    use muster_spec::recipe::{Recipe, parse_recipe};

    use super::super::generate;
    use super::*;

    fn made(recipe: &str, seed: u64) -> Vec<TraceJob> {
        generate(&parse_recipe(recipe, None).unwrap(), seed, None).collect()
    }

    const TWO: &str = "
        jobs: 20000
        every: 60s
        hours: [1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1]
        weekend: 50
        users: 10
        classes:
          - {name: small, weight: 9, gpus: 1, runtime: {median: 10m, p95: 2h, max: 8h}, overestimate: 5, failed: 20}
          - {name: gang, tasks: [2, 4], gpus: 8, runtime: {from: 1m, to: 100m}, requested: 1h, queue: q}";

    #[test]
    fn the_same_seed_makes_the_same_trace_and_another_another() {
        assert_eq!(made(TWO, 7), made(TWO, 7));
        assert_ne!(made(TWO, 7), made(TWO, 8));
    }

    /// Each share is within three standard deviations of the recipe's; the seed is fixed, so the
    /// result is stable.
    #[test]
    fn drawn_jobs_match_the_recipe() {
        let jobs = made(TWO, 42);
        assert_eq!(jobs.len(), 20_000);
        assert!(jobs.is_sorted_by_key(|job| job.submit));
        let last = jobs.last().unwrap().submit.0 as f64 / 20_000.0;
        assert!((last - 60_000.0).abs() < 1500.0, "{last} ms between submits");
        let part = |of: &dyn Fn(&TraceJob) -> bool| {
            jobs.iter().filter(|job| of(job)).count() as f64 / 20_000.0
        };
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 0.015, "{found}, not {expected}")
        };
        near(part(&|job| job.id.starts_with("small-")), 0.9);
        near(part(&|job| job.ended == JobEnd::Failed), 0.18);
        near(part(&|job| job.tasks == 4), 0.05);
        near(part(&|job| (8..18).contains(&(job.submit.0 / HOUR_MS % 24))), 30.0 / 44.0);
        near(part(&|job| job.submit.0 / DAY_MS % 7 >= 5), 1.0 / 6.0);
        near(part(&|job| job.user.as_deref() == Some("u1")), 1.0 / 2.929);
        let small: Vec<&TraceJob> =
            jobs.iter().filter(|job| job.id.starts_with("small-")).collect();
        let below =
            |limit: u64| small.iter().filter(|job| job.runtime.unwrap().0 <= limit).count() as f64;
        near(below(600_000) / small.len() as f64, 0.5);
        near(below(7_200_000) / small.len() as f64, 0.95);
        assert!(
            small
                .iter()
                .all(|job| job.runtime <= job.requested && job.runtime.unwrap().0 <= 8 * HOUR_MS)
        );
        let gangs = jobs.iter().filter(|job| job.id.starts_with("gang-"));
        assert!(
            gangs
                .clone()
                .all(|job| job.runtime <= Some(Span(HOUR_MS)) && job.task.gpu.devices == 8)
        );
        assert!(
            gangs.clone().any(|job| job.runtime == Some(Span(HOUR_MS))),
            "cut at what they asked for"
        );
    }

    #[test]
    fn a_trace_ends_where_the_recipe_says() {
        let jobs = made(
            "{length: 1h, every: 10m, arrivals: regular, classes: [{name: a, runtime: 1s}]}",
            1,
        );
        let submits: Vec<u64> = jobs.iter().map(|job| job.submit.0 / 60_000).collect();
        assert_eq!(submits, [10, 20, 30, 40, 50]);
        let dated = "{jobs: 1, start: '2026-03-02T00:00:00Z', every: 10m, arrivals: regular, classes: [{name: a, runtime: 1s}]}";
        assert_eq!(made(dated, 1)[0].submit.0, 1_772_409_600_000 + 600_000);
        let Ok(Recipe::Mix(mix)) = parse_recipe(TWO, None) else { panic!("no mix") };
        assert_eq!(generate(&Recipe::Mix(mix), 1, Some(3)).count(), 3);
    }
}
