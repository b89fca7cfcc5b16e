//! Recorded beside simulated waits, on a load whose waits are worked out by hand.

use muster_model::Span;
use muster_model::simulation::{Calibration, CalibrationVerdict};
use muster_sim::fleet::{FleetJob, SchedulerKind, calibration};

use crate::fleet::{gang, played, site};

/// Runtime of each job.
const SECS: u64 = 900;

/// Returns the calibration of 40 jobs that arrive together, each holding all eight GPUs for a
/// quarter of an hour: job n waits n quarters.
fn queued(recorded_secs: impl Fn(u64) -> Option<u64>) -> Calibration {
    let job = |at: u64| FleetJob {
        recorded_wait: recorded_secs(at).map(Span::from_secs),
        user: "ann".into(),
        ..gang(&format!("j{at}"), 0, 8, SECS)
    };
    let site = site(1, 8);
    let jobs: Vec<FleetJob> = (0..40).map(job).collect();
    let fleet = played(&site, SchedulerKind::Muster.begin(&site, 1).unwrap(), &jobs);
    calibration(SchedulerKind::Muster, fleet.cluster(), 3, false)
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
