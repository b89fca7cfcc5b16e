//! Recorded beside simulated waits, on a load whose waits are worked out by hand.

use muster_model::simulation::{Calibration, CalibrationVerdict};
use muster_model::{Span, Time};
use muster_sim::fleet::{Failures, Fleet, FleetJob, SchedulerKind, StopCosts, calibration};

use crate::fleet::{gang, played, site};

/// Runtime of each job.
const SECS: u64 = 900;

/// Returns the calibration of 40 jobs that arrive together, each holding all eight GPUs for a
/// quarter of an hour: job n waits n quarters.
fn queued(recorded_secs: impl Fn(u64) -> Option<u64>) -> Calibration {
    calibration(SchedulerKind::Muster, queue(recorded_secs).cluster(), 3, false)
}

/// Returns the run of these jobs.
fn queue(recorded_secs: impl Fn(u64) -> Option<u64>) -> Fleet {
    let job = |at: u64| FleetJob {
        recorded_start: recorded_secs(at).map(|secs| Time(0) + Span::from_secs(secs)),
        user: "ann".into(),
        ..gang(&format!("j{at}"), 0, 8, SECS)
    };
    let site = site(1, 8);
    let jobs: Vec<FleetJob> = (0..40).map(job).collect();
    played(&site, SchedulerKind::Muster.begin(&site, 1).unwrap(), &jobs)
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn waits_like_the_recorded_ones_are_close_and_others_are_not() {
    // 1. The same waits: 39 of 40 jobs wait for more than 10 minutes.
    let same = queued(|at| Some(at * SECS));
    assert_eq!((same.jobs, same.long_waits, same.without_start, same.not_replayed), (40, 39, 0, 3));
    assert_eq!(same.recorded_secs, same.simulated_secs);
    near(same.simulated_secs.mean, 19.5 * SECS as f64);
    assert_eq!((same.near, same.near_of_long, same.median_error_secs), (1.0, 1.0, 0.0));
    assert_eq!((same.verdict, same.never_started), (CalibrationVerdict::Close, 0));
    let [size] = &same.sizes[..] else { panic!("one size") };
    assert_eq!((size.size.as_str(), size.jobs, size.near), ("2 to 8", 40, 1.0));
    // 2. Three times as long: only the job that never waits is near. The errors are 0, 2, 4, ...
    // quarters, of which the twentieth is 38.
    let longer = queued(|at| Some(3 * at * SECS));
    near(longer.near, 1.0 / 40.0);
    near(longer.median_error_secs, 38.0 * SECS as f64);
    assert_eq!(longer.verdict, CalibrationVerdict::Poor);
    // 3. Nine minutes too long are within ten minutes.
    let shifted = queued(|at| Some(at * SECS + 540));
    assert_eq!((shifted.near, shifted.verdict), (1.0, CalibrationVerdict::Close));
    // 4. Few recorded starts say nothing.
    let few = queued(|at| (at < 20).then_some(at * SECS));
    assert_eq!((few.jobs, few.without_start, few.verdict), (20, 20, CalibrationVerdict::TooFew));
}

#[test]
fn the_verdict_is_over_the_long_waits_and_needs_a_whole_run() {
    let same = queue(|at| Some(at * SECS));
    let judged = |is_partial| calibration(SchedulerKind::Muster, same.cluster(), 0, is_partial);
    // Job 0 does not wait: the mean of the others is that of 1 to 39 quarters.
    near(judged(false).long_simulated_secs, 20.0 * SECS as f64);
    near(judged(false).long_recorded_secs, 20.0 * SECS as f64);
    assert_eq!(judged(true).verdict, CalibrationVerdict::Interrupted);
    assert_eq!(judged(true).near_of_long, 1.0);
}

#[test]
fn jobs_that_never_start_are_not_near() {
    let site = site(1, 8);
    let job = |at: u64| FleetJob {
        recorded_start: Some(Time(0)),
        user: "ann".into(),
        ..gang(&format!("j{at}"), 0, 8, SECS)
    };
    let jobs: Vec<FleetJob> = (0..40).map(job).collect();
    let mut fleet = Fleet::new(
        &site,
        SchedulerKind::Muster.begin(&site, 1).unwrap(),
        jobs,
        StopCosts::default(),
        Failures::default(),
    );
    // The run ends after the first step: one job runs, and 39 have waited for no time.
    fleet.step().unwrap();
    let found = calibration(SchedulerKind::Muster, fleet.cluster(), 0, false);
    assert_eq!((found.jobs, found.never_started, found.long_waits), (40, 39, 39));
    near(found.near, 1.0 / 40.0);
    assert_eq!((found.near_of_long, found.verdict), (0.0, CalibrationVerdict::Poor));
}

#[test]
fn a_start_before_the_submission_is_counted_and_not_compared() {
    let site = site(1, 8);
    let job = |at: u64| FleetJob {
        recorded_start: Some(Time(0) + Span::from_secs(1000 * (at % 2))),
        ..gang(&format!("j{at}"), 500, 1, SECS)
    };
    let jobs: Vec<FleetJob> = (0..4).map(job).collect();
    let fleet = played(&site, SchedulerKind::Muster.begin(&site, 1).unwrap(), &jobs);
    let found = calibration(SchedulerKind::Muster, fleet.cluster(), 0, false);
    assert_eq!((found.jobs, found.start_before_submit, found.without_start), (2, 2, 0));
    near(found.recorded_secs.mean, 500.0);
}
