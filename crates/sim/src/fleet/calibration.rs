//! Calibration: the waits of a replay beside those that the trace recorded. Says how far a forecast
//! of the same model can be trusted.

use muster_model::Span;
use muster_model::simulation::{CalibratedSize, Calibration, CalibrationVerdict};

use super::cluster::ClusterState;
use super::figures::{size_name, size_names};
use super::load::JobNo;
use super::scheduler::SchedulerKind;
use crate::measure::{quantile, secs, spread};

/// Waits that differ by at most this are near, and waits up to this are short: minutes of
/// scheduling intervals and start-up are not modelled.
const NEAR: Span = Span::from_secs(600);
/// Waits that differ by at most this factor are near.
const NEAR_FACTOR: f64 = 2.0;
/// Fewest long waits that are judged.
const FEWEST_LONG: usize = 30;
/// Least share of near waits, and largest factor between the means, of each verdict.
const CLOSE: (f64, f64) = (0.8, 1.25);
const ROUGH: (f64, f64) = (0.5, 2.0);

/// Recorded and simulated wait of a job.
#[derive(Clone, Copy, Debug)]
struct WaitPair {
    recorded: Span,
    /// Time until the first start, or until the end of the run.
    simulated: Span,
    has_started: bool,
}

impl WaitPair {
    /// Returns whether the waits are alike. A job that never starts waits for ever.
    fn is_near(&self) -> bool {
        let low = self.recorded.min(self.simulated);
        let high = self.recorded.max(self.simulated);
        let is_alike = high.0 - low.0 <= NEAR.0 || secs(high) <= secs(low) * NEAR_FACTOR;
        self.has_started && is_alike
    }

    fn is_long(&self) -> bool {
        !self.has_started || self.recorded.max(self.simulated) > NEAR
    }
}

/// Compares the waits of a run with the recorded ones. `not_replayed` is the number of jobs that
/// started in the trace and are not in the load. Jobs whose recorded start is before their
/// submission are counted, not compared.
#[must_use]
pub fn calibration(
    scheduler: SchedulerKind,
    cluster: &ClusterState,
    not_replayed: u64,
    is_partial: bool,
) -> Calibration {
    let jobs = || (0..cluster.jobs().len() as u32).map(JobNo);
    let has_start = |job: JobNo| cluster.job(job).recorded_start.is_some();
    let recorded = |job: JobNo| cluster.job(job).recorded_wait();
    let is_refused = |job: JobNo| cluster.status(job).is_refused;
    let compared = || jobs().filter(|job| recorded(*job).is_some() && !is_refused(*job));
    let pairs: Vec<(&str, WaitPair)> = compared()
        .filter_map(|job| {
            let began = cluster.status(job).began;
            let simulated = began.unwrap_or(cluster.now()).since(cluster.job(job).submit);
            let has_started = began.is_some();
            let pair = WaitPair { recorded: recorded(job)?, simulated, has_started };
            Some((size_name(cluster.width_milli(job)), pair))
        })
        .collect();
    let all: Vec<WaitPair> = pairs.iter().map(|(_, pair)| *pair).collect();
    let long: Vec<WaitPair> = all.iter().copied().filter(WaitPair::is_long).collect();
    let sizes = size_names().filter_map(|size| {
        let of_size = pairs.iter().filter(|(known, _)| *known == size).map(|(_, pair)| *pair);
        let of_size: Vec<WaitPair> = of_size.collect();
        (!of_size.is_empty()).then(|| waits_of(size, &of_size))
    });
    let whole = waits_of("", &all);
    let of_long = waits_of("", &long);
    let long_means_secs = [of_long.recorded_secs.mean, of_long.simulated_secs.mean];
    Calibration {
        scheduler: scheduler.name().to_owned(),
        is_partial,
        jobs: whole.jobs,
        never_started: compared().filter(|job| cluster.status(*job).began.is_none()).count() as u64,
        without_start: jobs().filter(|job| !has_start(*job)).count() as u64,
        start_before_submit: jobs()
            .filter(|job| has_start(*job) && recorded(*job).is_none())
            .count() as u64,
        refused: jobs().filter(|job| recorded(*job).is_some() && is_refused(*job)).count() as u64,
        not_replayed,
        verdict: if is_partial {
            CalibrationVerdict::Interrupted
        } else {
            verdict(long.len(), of_long.near, long_means_secs)
        },
        recorded_secs: whole.recorded_secs,
        simulated_secs: whole.simulated_secs,
        median_error_secs: whole.median_error_secs,
        near: whole.near,
        long_waits: long.len() as u64,
        near_of_long: of_long.near,
        long_recorded_secs: long_means_secs[0],
        long_simulated_secs: long_means_secs[1],
        sizes: sizes.collect(),
    }
}

fn waits_of(size: &str, pairs: &[WaitPair]) -> CalibratedSize {
    let mut errors: Vec<f64> =
        pairs.iter().map(|pair| (secs(pair.simulated) - secs(pair.recorded)).abs()).collect();
    errors.sort_unstable_by(f64::total_cmp);
    CalibratedSize {
        size: size.to_owned(),
        jobs: pairs.len() as u64,
        recorded_secs: spread(pairs.iter().map(|pair| secs(pair.recorded))),
        simulated_secs: spread(pairs.iter().map(|pair| secs(pair.simulated))),
        median_error_secs: if errors.is_empty() { 0.0 } else { quantile(&errors, 50) },
        near: near(pairs),
    }
}

/// Returns the share of near waits; 0 without any.
fn near(pairs: &[WaitPair]) -> f64 {
    let near = pairs.iter().filter(|pair| pair.is_near()).count();
    near as f64 / pairs.len().max(1) as f64
}

/// Judges the long waits: their number, the share that is near, and the recorded and simulated mean.
fn verdict(long: usize, near_of_long: f64, [recorded, simulated]: [f64; 2]) -> CalibrationVerdict {
    let factor = if recorded > simulated { recorded / simulated } else { simulated / recorded };
    let holds = |(least, most): (f64, f64)| near_of_long >= least && factor <= most;
    if long < FEWEST_LONG {
        CalibrationVerdict::TooFew
    } else if holds(CLOSE) {
        CalibrationVerdict::Close
    } else if holds(ROUGH) {
        CalibrationVerdict::Rough
    } else {
        CalibrationVerdict::Poor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_near_within_ten_minutes_or_a_factor_of_two() {
        for (recorded, simulated, is_near, is_long) in [
            (0, 0, true, false),
            (0, 600, true, false),
            (0, 601, false, true),
            (3_600, 1_800, true, true),
            (3_600, 1_799, false, true),
            (1_800, 3_600, true, true),
            (1_800, 3_601, false, true),
        ] {
            let [recorded, simulated] = [recorded, simulated].map(Span::from_secs);
            let pair = WaitPair { recorded, simulated, has_started: true };
            assert_eq!((pair.is_near(), pair.is_long()), (is_near, is_long), "{pair:?}");
            let pair = WaitPair { has_started: false, ..pair };
            assert_eq!((pair.is_near(), pair.is_long()), (false, true), "{pair:?}");
        }
    }

    #[test]
    fn a_verdict_needs_many_long_waits_that_are_near_and_like_means() {
        let check = |long, near, recorded: f64, simulated: f64, expected| {
            assert_eq!(verdict(long, near, [recorded, simulated]), expected);
        };
        check(29, 1.0, 100.0, 100.0, CalibrationVerdict::TooFew);
        check(30, 0.8, 100.0, 80.0, CalibrationVerdict::Close);
        check(30, 0.8, 100.0, 126.0, CalibrationVerdict::Rough);
        check(30, 0.79, 100.0, 100.0, CalibrationVerdict::Rough);
        check(30, 0.9, 100.0, 201.0, CalibrationVerdict::Poor);
        check(30, 0.49, 100.0, 100.0, CalibrationVerdict::Poor);
        check(30, 0.9, 100.0, 0.0, CalibrationVerdict::Poor);
    }
}
