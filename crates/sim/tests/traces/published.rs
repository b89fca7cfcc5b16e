//! Published schedules, reproduced wait by wait.
//!
//! The rule, for all of them: at one instant ends come first, then arrivals, then one pass. The
//! first pending job is planned at the time at which it fits by the limits of running jobs; another
//! may pass it if its own limit ends by then, or if it takes only what the first leaves over. A job
//! that would run beyond its limit is ended there.

use muster_model::simulation::ScheduleFigures;
use muster_sim::flat::{Estimates, FlatLoad, FlatScheduler, figures, rows};
use muster_spec::TraceFormat;

use crate::data;

const KTH: &str = "swf/KTH-SP2-filtered-predictsim.swf.gz";
const SDSC: &str = "swf/SDSC-SP2-last10k-ppt.swf.gz";

/// Runs a trace and compares its schedule with a published one; returns its figures.
fn compare(
    trace: &str,
    procs: u32,
    estimates: Estimates,
    scheduler: FlatScheduler,
    expected: &str,
) -> Option<ScheduleFigures> {
    let load = FlatLoad::of(&data::jobs(trace, TraceFormat::Swf)?, procs, estimates);
    let ran = scheduler.run(procs, &load.jobs).unwrap();
    let got = rows(&load.jobs, &ran).to_string();
    let expected = data::text(expected)?;
    let differ =
        got.lines().zip(expected.lines()).filter(|(got, expected)| got != expected).count();
    assert_eq!(
        (differ, got.lines().count()),
        (0, expected.lines().count()),
        "rows that differ, and rows"
    );
    Some(figures(scheduler, procs, &load.jobs, &ran, false))
}

/// Compares to as many digits as were published.
fn check(got: f64, published: f64, tolerance: f64) {
    assert!((got - published).abs() <= tolerance, "{got} is not {published}");
}

#[test]
fn easy_on_kth() {
    let Some(figures) = compare(
        KTH,
        100,
        Estimates::Requested,
        FlatScheduler::Easy,
        "swf/expected/KTH-filtered.EASY.csv.gz",
    ) else {
        return;
    };
    assert!(figures.is_engine && figures.begun == 28_481);
    check(figures.bounded_slowdown.mean, 92.69, 0.005);
    check(figures.wait_secs.mean, 6834.59, 0.005);
    assert_eq!(
        [figures.wait_secs.p95, figures.wait_secs.p99, figures.wait_secs.max],
        [37_634.0, 76_052.0, 262_194.0]
    );
    check(figures.utilisation, 0.6856, 0.00005);
    assert_eq!(figures.makespan_secs, 29_363_626.0);
}

#[test]
fn easy_on_kth_when_runtimes_are_known() {
    let expected = "swf/expected/KTH-filtered.EASY-clairvoyant.csv.gz";
    let Some(figures) = compare(KTH, 100, Estimates::Actual, FlatScheduler::Easy, expected) else {
        return;
    };
    check(figures.bounded_slowdown.mean, 71.72, 0.005);
}

#[test]
fn first_come_first_served_on_kth() {
    let expected = "swf/expected/KTH-filtered.FCFS.csv.gz";
    let Some(figures) = compare(KTH, 100, Estimates::Requested, FlatScheduler::Fcfs, expected)
    else {
        return;
    };
    check(figures.bounded_slowdown.mean, 6815.0, 0.5);
    check(figures.wait_secs.mean, 353_776.0, 0.5);
}

#[test]
fn easy_and_first_come_first_served_on_sdsc() {
    for (scheduler, expected, slowdown, tolerance) in [
        (FlatScheduler::Easy, "swf/expected/SDSC10k.EASY.csv.gz", 141.97, 0.005),
        (FlatScheduler::Fcfs, "swf/expected/SDSC10k.FCFS.csv.gz", 6419.0, 0.5),
    ] {
        let Some(figures) = compare(SDSC, 128, Estimates::Requested, scheduler, expected) else {
            return;
        };
        assert_eq!(figures.begun, 8_510);
        check(figures.bounded_slowdown.mean, slowdown, tolerance);
    }
}

/// One pool, GPUs without placement, durations known. The table of the trace is not sorted; the
/// figures are of jobs in order of submission, those of one second by duration (in the order of the
/// table, the mean wait under FCFS is 33,166.7 s).
#[test]
fn philly_on_640_gpus() {
    let Some(mut trace) = data::jobs("philly/philly.csv.gz", TraceFormat::Philly) else { return };
    trace.sort_by_key(|job| (job.submit, job.runtime));
    let load = FlatLoad::of(&trace, 640, Estimates::Requested);
    assert_eq!(load.jobs.len(), 82_247);
    for (scheduler, wait_secs, slowdown) in [
        (FlatScheduler::Fcfs, 33_161.0, 190.8),
        (FlatScheduler::Easy, 26_186.0, 90.1),
        (FlatScheduler::EasySjf, 21_862.0, 26.9),
    ] {
        let ran = scheduler.run(640, &load.jobs).unwrap();
        let figures = figures(scheduler, 640, &load.jobs, &ran, false);
        check(figures.wait_secs.mean, wait_secs, 0.5);
        check(figures.bounded_slowdown.mean, slowdown, 0.05);
        check(figures.utilisation, 0.585, 0.0005);
    }
}
