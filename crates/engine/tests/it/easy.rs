//! Backfill compared with independent simple implementations: EASY and conservative on one flat
//! machine, in order of arrival. All starts must be at the same instants.

use std::collections::BTreeMap;

use muster_engine::Engine;
use muster_model::queue::{Backfill, PlannedRuntimes};
use muster_model::{
    ElementId, Event, JobId, JobSpec, Observation, QueueTree, Span, TaskExit, Time,
};
use proptest::prelude::*;

use crate::cluster::{job, node_of, task_event};
use crate::random::TestRng;

/// Rigid job with a width, a time limit, an actual run time, and the run time that planning expects.
#[derive(Clone, Copy, Debug)]
struct Rigid {
    arrives: u64,
    width: u32,
    limit: u64,
    runtime: u64,
    expected: u64,
}

/// Returns a random workload in milliseconds, in whole seconds, with frequent ties.
fn workload(rng: &mut TestRng, jobs: usize, width: u32) -> Vec<Rigid> {
    let mut arrives = 1_000;
    (0..jobs)
        .map(|_| {
            arrives += 1_000 * [0, 0, 1, 2, 5, 20][rng.below(6) as usize];
            let limit = 1_000 * (1 + rng.below(60));
            let early = if rng.chance(30) { limit } else { 1_000 * (1 + rng.below(limit / 1_000)) };
            let wide = if rng.chance(20) { width } else { width / 3 };
            let width = 1 + rng.below(u64::from(wide)) as u32;
            Rigid { arrives, width, limit, runtime: early, expected: limit }
        })
        .collect()
}

/// Returns the same jobs, of which any run time up to the limit is expected: often less than they run.
fn with_expectations(rng: &mut TestRng, jobs: &[Rigid]) -> Vec<Rigid> {
    let any = |job: &Rigid| Rigid { expected: 1_000 * (1 + rng.below(job.limit / 1_000)), ..*job };
    jobs.iter().map(any).collect()
}

impl Rigid {
    /// Returns the end that is promised of a job that started then: after the expected run time, or, once
    /// it has run longer, at the limit. Limits are shorter than the minute that is added first.
    fn promised_end(self, start: u64, now: u64) -> u64 {
        let end = start + self.expected;
        if end > now { end } else { start + self.limit }
    }
}

/// Scheduling discipline of the reference.
trait Discipline {
    /// Returns the waiting jobs (oldest first) that start now.
    fn starts(&self, now: u64, free: u32, running: &[(u64, u32)], waiting: &[Rigid]) -> Vec<usize>;
}

/// EASY: starts in order; the first job that does not fit gets the earliest instant at which enough
/// will have ended (its shadow time); later ones start if they end by then, or fit into what is
/// left over at that time.
struct Easy;

impl Discipline for Easy {
    fn starts(
        &self,
        now: u64,
        mut free: u32,
        running: &[(u64, u32)],
        waiting: &[Rigid],
    ) -> Vec<usize> {
        let mut running = running.to_vec();
        let mut started = Vec::new();
        let mut queue = waiting.iter().enumerate();
        let mut head = None;
        for (at, job) in queue.by_ref() {
            if job.width > free {
                head = Some(job);
                break;
            }
            free -= job.width;
            running.push((now + job.limit, job.width));
            started.push(at);
        }
        let Some(head) = head else { return started };
        running.sort_unstable();
        let mut at_shadow = free;
        let mut shadow = now;
        for (end, width) in &running {
            if at_shadow >= head.width && *end > shadow {
                break;
            }
            at_shadow += width;
            shadow = *end;
        }
        let mut extra = at_shadow - head.width;
        for (at, job) in queue {
            let ends_before = now + job.limit <= shadow;
            if job.width <= free && (ends_before || job.width <= extra) {
                free -= job.width;
                extra -= if ends_before { 0 } else { job.width };
                started.push(at);
            }
        }
        started
    }
}

/// Conservative: every job in order gets the earliest slot in a profile of free width over time.
struct Conservative;

impl Discipline for Conservative {
    fn starts(&self, now: u64, free: u32, running: &[(u64, u32)], waiting: &[Rigid]) -> Vec<usize> {
        // Free width from each instant on.
        let mut steps: BTreeMap<u64, i64> = BTreeMap::from([(now, i64::from(free))]);
        let mut sum = i64::from(free);
        let mut ends = running.to_vec();
        ends.sort_unstable();
        for (end, width) in ends {
            sum += i64::from(width);
            steps.insert(end, sum);
        }
        let mut started = Vec::new();
        for (at, job) in waiting.iter().enumerate() {
            let fits = |steps: &BTreeMap<u64, i64>, from: u64| {
                let base = *steps.range(..=from).next_back().unwrap().1;
                let lowest = steps
                    .range(from..from + job.limit)
                    .map(|(_, free)| *free)
                    .min()
                    .unwrap_or(base);
                base.min(lowest) >= i64::from(job.width)
            };
            let from = *steps.keys().find(|from| fits(&steps, **from)).unwrap();
            let until = from + job.limit;
            let after = *steps.range(..=until).next_back().unwrap().1;
            steps.entry(until).or_insert(after);
            for (_, free) in steps.range_mut(from..until) {
                *free -= i64::from(job.width);
            }
            if from == now {
                started.push(at);
            }
        }
        started
    }
}

/// Returns the start of each job under a discipline.
fn oracle(jobs: &[Rigid], width: u32, discipline: &dyn Discipline) -> Vec<u64> {
    let mut starts = vec![0; jobs.len()];
    let mut waiting: Vec<usize> = Vec::new();
    let mut running: Vec<usize> = Vec::new();
    let mut next = 0;
    loop {
        let ends = running.iter().map(|at| starts[*at] + jobs[*at].runtime);
        let arrives = jobs.get(next).map(|job| job.arrives);
        let Some(now) = ends.chain(arrives).min() else { return starts };
        running.retain(|at| starts[*at] + jobs[*at].runtime > now);
        while jobs.get(next).is_some_and(|job| job.arrives == now) {
            waiting.push(next);
            next += 1;
        }
        let held: u32 = running.iter().map(|at| jobs[*at].width).sum();
        let promised =
            running.iter().map(|at| (jobs[*at].promised_end(starts[*at], now), jobs[*at].width));
        let promised: Vec<(u64, u32)> = promised.collect();
        let planned = |at: &usize| Rigid { limit: jobs[*at].expected, ..jobs[*at] };
        let queue: Vec<Rigid> = waiting.iter().map(planned).collect();
        let chosen = discipline.starts(now, width - held, &promised, &queue);
        for at in chosen.iter().rev() {
            let index = waiting.remove(*at);
            starts[index] = now;
            running.push(index);
        }
    }
}

/// Resource that makes up a job's width.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Machine {
    /// CPUs of one node, one task per job.
    Cpus,
    /// GPUs of one node, one task per job.
    Gpus,
    /// GPUs of one node, as many tasks.
    Tasks,
}

/// Returns the start of each job in the engine.
fn engine(jobs: &[Rigid], width: u32, backfill: Backfill, machine: Machine) -> Vec<u64> {
    let mut tree = QueueTree::single();
    tree.backfill = backfill;
    tree.estimates = PlannedRuntimes::Predicted;
    let mut engine = Engine::new(tree).unwrap();
    let gpus = if machine == Machine::Cpus { 0 } else { width as usize };
    let cpus = if machine == Machine::Cpus { width } else { 1 };
    engine.apply(Time(0), &Event::NodeJoined(Box::new(node_of("flat", gpus, "h100", cpus))));
    let mut starts = vec![0; jobs.len()];
    let mut ends: BTreeMap<(u64, usize), ()> = BTreeMap::new();
    let mut next = 0;
    loop {
        let arrives = jobs.get(next).map(|job| job.arrives);
        let end = ends.keys().next().map(|(end, _)| *end);
        let Some(now) = arrives.into_iter().chain(end).min() else { return starts };
        // 1. Ends, then arrivals of this instant, then one pass.
        while let Some(((end, at), ())) = ends.pop_first() {
            if end > now {
                ends.insert((end, at), ());
                break;
            }
            report(&mut engine, now, at, Observation::Exited(TaskExit::Code { code: 0 }));
        }
        while jobs.get(next).is_some_and(|job| job.arrives == now) {
            let event = Event::Submitted {
                job: JobId(next as u64 + 1),
                spec: spec(jobs[next], machine).into(),
            };
            engine.validate(&event).unwrap();
            engine.apply(Time(now), &event);
            next += 1;
        }
        let plan = engine.plan(Time(now));
        engine.check(Time(now), &plan).unwrap();
        engine.commit(Time(now), &plan);
        // 2. Started jobs run at once.
        for (id, ..) in plan.starts() {
            let at = id.element.job.0 as usize - 1;
            starts[at] = now;
            ends.insert((now + jobs[at].runtime, at), ());
            report(&mut engine, now, at, Observation::Prepared);
            report(&mut engine, now, at, Observation::Started);
        }
    }
}

fn spec(rigid: Rigid, machine: Machine) -> JobSpec {
    let ask = match machine {
        Machine::Cpus => job("rigid").cpus(rigid.width),
        Machine::Gpus => job("rigid").gpus(rigid.width),
        Machine::Tasks => job("rigid").tasks(rigid.width).gpus(1),
    };
    let terms = |spec: &mut JobSpec| {
        spec.time_limit = Some(Span(rigid.limit));
        spec.expected_runtime = Some(Span(rigid.expected));
    };
    ask.with(terms).spec
}

fn report(engine: &mut Engine, now: u64, at: usize, what: Observation) {
    let element = ElementId::single(JobId(at as u64 + 1));
    let Some((id, placement)) = engine.placement(element) else { return };
    for rank in 0..placement.len() as u32 {
        engine.apply(Time(now), &task_event(id, rank, what.clone()));
    }
}

fn compare(seed: u64, backfill: Backfill, discipline: &dyn Discipline, machine: Machine) {
    let mut rng = TestRng::new(seed);
    let width = 4 + rng.below(28) as u32;
    let jobs = workload(&mut rng, 60, width);
    compare_jobs(&jobs, width, backfill, discipline, machine);
}

fn compare_jobs(
    jobs: &[Rigid],
    width: u32,
    backfill: Backfill,
    discipline: &dyn Discipline,
    machine: Machine,
) {
    let expected = oracle(jobs, width, discipline);
    assert_eq!(engine(jobs, width, backfill, machine), expected, "width {width}, {jobs:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn easy_equals_the_textbook(seed in any::<u64>()) {
        for machine in [Machine::Cpus, Machine::Gpus, Machine::Tasks] {
            compare(seed, Backfill::Easy, &Easy, machine);
        }
    }

    #[test]
    fn by_expected_run_times_they_equal_the_textbook_too(seed in any::<u64>()) {
        let mut rng = TestRng::new(seed);
        let width = 4 + rng.below(28) as u32;
        let jobs = workload(&mut rng, 60, width);
        let jobs = with_expectations(&mut rng, &jobs);
        for machine in [Machine::Cpus, Machine::Gpus, Machine::Tasks] {
            compare_jobs(&jobs, width, Backfill::Easy, &Easy, machine);
        }
        let conservative = Backfill::Conservative { depth: 1_000 };
        compare_jobs(&jobs, width, conservative, &Conservative, Machine::Cpus);
    }

    #[test]
    fn conservative_equals_the_textbook(seed in any::<u64>()) {
        compare(seed, Backfill::Conservative { depth: 1_000 }, &Conservative, Machine::Cpus);
    }
}

/// First come, first served, without backfill.
struct Strict;

impl Discipline for Strict {
    fn starts(&self, _: u64, mut free: u32, _: &[(u64, u32)], waiting: &[Rigid]) -> Vec<usize> {
        let fits = |job: &&Rigid| {
            let fits = job.width <= free;
            free -= if fits { job.width } else { 0 };
            fits
        };
        (0..waiting.iter().take_while(fits).count()).collect()
    }
}

#[test]
fn without_backfill_no_job_passes() {
    for seed in 0..50 {
        compare(seed, Backfill::None, &Strict, Machine::Gpus);
    }
}

#[test]
fn the_oracles_differ_from_each_other() {
    // Otherwise the comparisons above could not distinguish the disciplines.
    let mut rng = TestRng::new(11);
    let jobs = workload(&mut rng, 200, 16);
    let strict = oracle(&jobs, 16, &Strict);
    let easy = oracle(&jobs, 16, &Easy);
    let conservative = oracle(&jobs, 16, &Conservative);
    assert_ne!(strict, easy);
    assert_ne!(easy, conservative);
}

#[test]
fn short_jobs_far_behind_in_a_long_queue_are_backfilled() {
    // Behind the first waiting job, far more jobs than are examined one by one are too long for the
    // free capacity; then follow some that are as wide and short enough.
    let rigid =
        |arrives, width, limit| Rigid { arrives, width, limit, runtime: limit, expected: limit };
    let mut jobs = vec![rigid(1_000, 9, 100_000), rigid(2_000, 10, 100_000)];
    jobs.extend((0..100).map(|_| rigid(3_000, 1, 1_000_000)));
    jobs.extend([rigid(4_000, 1, 50_000), rigid(5_000, 1, 20_000), rigid(6_000, 1, 25_000)]);
    for machine in [Machine::Cpus, Machine::Gpus] {
        let starts = engine(&jobs, 10, Backfill::Easy, machine);
        assert_eq!(starts, oracle(&jobs, 10, &Easy));
        assert_eq!(starts[102..], [4_000, 54_000, 74_000]);
    }
}
