//! Small loads whose schedule can be worked out by hand, and random ones on which engine and
//! textbook must agree.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{Span, Time};
use muster_sim::flat::{Estimates, FlatJob, FlatLoad, FlatScheduler, RunInterval, rows};
use muster_sim::peers::textbook::{self, Passing};
use muster_spec::TraceFormat;
use proptest::prelude::*;

use crate::data;

/// Jobs as `submit runtime estimate width`, in seconds.
fn load(text: &str) -> Vec<FlatJob> {
    let job = |(at, line): (usize, &str)| {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [submit, runtime, estimate, width] = numbers[..] else { panic!("{line}") };
        FlatJob {
            id: Arc::from(at.to_string()),
            submit: Time(submit * 1000),
            runtime: Span::from_secs(runtime),
            estimate: Span::from_secs(estimate),
            width: width as u32,
            predicted_by: None,
        }
    };
    text.lines().enumerate().map(job).collect()
}

/// Checks the starts in seconds, job by job.
fn check(scheduler: FlatScheduler, procs: u32, jobs: &str, starts: &[u64]) {
    let ran = scheduler.run(procs, &load(jobs)).unwrap();
    let got: Vec<u64> = ran.iter().map(|ran| ran.unwrap().start.0 / 1000).collect();
    assert_eq!(got, starts, "{}", scheduler.name());
}

/// 0 holds 6 of 10 until 100; 1 needs all; the others arrive behind it.
const BLOCKED: &str = "0 100 100 6
1 10 10 10
2 90 98 4
2 10 10 4
4 200 200 2
5 5 5 2";

#[test]
fn each_policy_picks_the_expected_node() {
    // 2, 3 and 4 fill the pool behind 1; 5 follows 3.
    check(FlatScheduler::Fcfs, 10, BLOCKED, &[0, 100, 110, 110, 110, 120]);
    // 2 is estimated to end by 100, and passes; when it ends at 92, 5 ends by 100, too, and 3 would
    // not.
    check(FlatScheduler::Easy, 10, BLOCKED, &[0, 100, 2, 110, 110, 92]);
    check(FlatScheduler::Conservative, 10, BLOCKED, &[0, 100, 2, 110, 110, 92]);
    // 3 is shorter than 2, then 5; 2 no longer ends in time.
    check(FlatScheduler::EasySjf, 10, BLOCKED, &[0, 100, 110, 2, 110, 12]);
    // 5 is shorter than 1, which blocks all others.
    check(FlatScheduler::Sjf, 10, BLOCKED, &[0, 100, 110, 110, 110, 5]);
    // 1 suspends 0 until 5 arrives, with which 1 does not fit; 3 and 2 do. 4 begins when 5 has
    // ended.
    check(FlatScheduler::Srtf, 10, BLOCKED, &[0, 1, 5, 5, 10, 5]);
}

#[test]
fn a_trace_is_run_unchanged_and_infeasible_jobs_are_counted() {
    let trace = "; MaxProcs: 4
1 0 -1 50 2 -1 -1 2 40 -1 1 7 1 1 1 1 -1 -1
2 0 -1 -1 2 -1 -1 2 40 -1 5 7 1 1 1 1 -1 -1
3 10 -1 5 8 -1 -1 8 40 -1 1 7 1 1 1 1 -1 -1
4 5 -1 20 3 -1 -1 3 -1 -1 1 8 1 1 1 1 -1 -1
";
    let trace = data::read(trace, TraceFormat::Swf);
    let load = FlatLoad::of(&trace, 4, Estimates::Requested);
    assert_eq!((load.never_ran, load.too_wide), (1, 1));
    let ran = FlatScheduler::Easy.run(4, &load.jobs).unwrap();
    // Job 1 asked for 40 seconds and is ended there; with its true runtime known it runs for 50.
    let expected = "job_id,submit,wait,start,runtime,procs\n1,0,0,0,40,2\n4,5,35,40,20,3\n";
    assert_eq!(rows(&load.jobs, &ran).to_string(), expected);
    let known = FlatLoad::of(&trace, 4, Estimates::Actual);
    let ran = FlatScheduler::Easy.run(4, &known.jobs).unwrap();
    assert!(rows(&known.jobs, &ran).to_string().ends_with("4,5,45,50,20,3\n"));
}

fn jobs() -> impl Strategy<Value = Vec<FlatJob>> {
    let job = (0..40u64, 0..30u64, 0..20u64, 1..9u32);
    proptest::collection::vec(job, 1..40).prop_map(|rows| {
        let mut jobs: Vec<FlatJob> = rows
            .into_iter()
            .map(|(submit, runtime, slack, width)| FlatJob {
                id: Arc::from("job"),
                submit: Time(submit * 1000),
                runtime: Span::from_secs(runtime),
                estimate: Span::from_secs((runtime + slack).max(1)),
                width,
                predicted_by: None,
            })
            .collect();
        jobs.sort_by_key(|job| job.submit);
        jobs
    })
}

/// Replays EASY with the shortest first by its definition: at each instant, the whole queue is sorted and tried.
fn easy_sjf_by_sorting(procs: u32, jobs: &[FlatJob]) -> Vec<Option<RunInterval>> {
    let mut ran: Vec<Option<RunInterval>> = vec![None; jobs.len()];
    let mut instants: BTreeSet<Time> = jobs.iter().map(|job| job.submit).collect();
    while let Some(now) = instants.pop_first() {
        // 1. Running jobs by their estimated ends, and pending ones in order of arrival.
        let mut running: Vec<(Time, u32)> = Vec::new();
        let mut waiting: Vec<usize> = Vec::new();
        for (at, job) in jobs.iter().enumerate() {
            match ran[at] {
                Some(interval) if interval.end > now => {
                    running.push((interval.start + job.estimate, job.width))
                }
                None if job.submit <= now => waiting.push(at),
                _ => {}
            }
        }
        let mut free = procs - running.iter().map(|(_, width)| width).sum::<u32>();
        // 2. The first ones start while they fit, then others that delay the first no further.
        let mut reserved: Option<(Time, u32)> = None;
        while !waiting.is_empty() {
            let at = waiting.remove(0);
            let FlatJob { runtime, estimate, width, .. } = jobs[at];
            let is_over_in_time = |(shadow, _): (Time, u32)| now + estimate <= shadow;
            if width > free {
                if reserved.is_none() {
                    reserved = Some(reservation(free, &mut running, width));
                    waiting.sort_by_key(|other| jobs[*other].estimate);
                }
                continue;
            }
            match &mut reserved {
                Some(head) if is_over_in_time(*head) => {}
                Some((_, extra)) if width <= *extra => *extra -= width,
                Some(_) => continue,
                None => running.push((now + estimate, width)),
            }
            free -= width;
            ran[at] = Some(RunInterval { start: now, end: now + runtime });
            instants.insert(now + runtime);
        }
    }
    ran
}

/// Returns when a job of this width can start by the estimated ends, and what it leaves free then.
fn reservation(free: u32, running: &mut [(Time, u32)], width: u32) -> (Time, u32) {
    running.sort();
    let free_at = |at: Time| {
        free + running.iter().filter(|(end, _)| *end <= at).map(|(_, width)| width).sum::<u32>()
    };
    let shadow = running.iter().map(|(end, _)| *end).find(|end| free_at(*end) >= width).unwrap();
    (shadow, free_at(shadow) - width)
}

proptest! {
    #[test]
    fn shortest_first_starts_what_its_definition_starts(jobs in jobs()) {
        prop_assert_eq!(FlatScheduler::EasySjf.run(8, &jobs).unwrap(), easy_sjf_by_sorting(8, &jobs));
    }

    #[test]
    fn engine_and_reference_schedulers_agree(jobs in jobs()) {
        for (scheduler, passing) in [(FlatScheduler::Fcfs, Passing::Never), (FlatScheduler::Easy, Passing::InTurn)] {
            prop_assert_eq!(scheduler.run(8, &jobs).unwrap(), textbook::easy(8, &jobs, passing));
        }
    }

    #[test]
    fn every_job_ends_and_no_processor_is_allocated_twice(jobs in jobs()) {
        for (_, scheduler) in FlatScheduler::ALL {
            let ran = scheduler.run(8, &jobs).unwrap();
            for (job, one) in jobs.iter().zip(&ran) {
                let one = one.unwrap();
                prop_assert!(one.start >= job.submit && one.end >= one.start + job.runtime);
                // A suspended job holds less than the time between.
                if scheduler != FlatScheduler::Srtf {
                    prop_assert_eq!(one.end, one.start + job.runtime);
                    let held = jobs.iter().zip(&ran).filter_map(|(other, ran)| {
                        let ran = ran.unwrap();
                        (ran.start <= one.start && one.start < ran.end).then_some(other.width)
                    });
                    prop_assert!(held.sum::<u32>() <= 8, "{} at {:?}", scheduler.name(), one.start);
                }
            }
        }
    }

    #[test]
    fn srtf_is_no_worse_than_shortest_first_on_one_processor(jobs in jobs()) {
        let jobs: Vec<FlatJob> =
            jobs.into_iter().map(|job| FlatJob { width: 1, estimate: job.runtime, ..job }).collect();
        let total = |scheduler: FlatScheduler| -> u64 {
            let ran = scheduler.run(1, &jobs).unwrap();
            ran.iter().zip(&jobs).map(|(ran, job)| ran.unwrap().end.since(job.submit).0).sum()
        };
        prop_assert!(total(FlatScheduler::Srtf) <= total(FlatScheduler::Sjf));
    }
}

#[test]
fn overestimates_are_at_most_fivefold() {
    let exact = FlatLoad { jobs: load(BLOCKED), ..FlatLoad::default() };
    let noisy = exact.clone().with_noise(7);
    assert_eq!(noisy, exact.clone().with_noise(7));
    assert_ne!(noisy, exact.clone().with_noise(8));
    for (exact, noisy) in exact.jobs.iter().zip(&noisy.jobs) {
        let times = noisy.estimate.0 as f64 / exact.runtime.0 as f64;
        assert!((1.0..=5.0).contains(&times) && noisy.runtime == exact.runtime, "{times}");
    }
}
