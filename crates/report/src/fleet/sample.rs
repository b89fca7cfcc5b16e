//! A comparison for tests: the contention of two gangs, and a load on a cluster under several
//! control planes.

use muster_model::simulation::{
    CalibratedSize, Calibration, CalibrationVerdict, ConfidenceInterval, FigureChange,
    FleetComparison, FleetCurve, FleetFigures, FleetHours, FleetUnit, JobsChange, OwnerFigures,
    SiteVariant, SizeFigures, Spread, TimeLimits, VariantDifference,
};

pub(crate) fn spread(mean: f64) -> Spread {
    Spread { mean, p50: mean / 2.0, p95: mean * 3.0, p99: mean * 5.0, max: mean * 9.0 }
}

pub(crate) fn size(size: &str, jobs: u64, mean: f64) -> SizeFigures {
    let waited_quantiles = (0..=100).map(|percent| mean * f64::from(percent) / 50.0).collect();
    let turnaround_secs = spread(mean + 7200.0);
    SizeFigures {
        size: size.to_owned(),
        jobs,
        turnaround_secs,
        waited_secs: spread(mean),
        waited_quantiles,
    }
}

fn owner(name: &str, jobs: u64, stretch: f64) -> OwnerFigures {
    let hours = jobs as f64 * 2.5;
    OwnerFigures {
        name: name.to_owned(),
        jobs,
        hours,
        turnaround_secs: stretch * 600.0,
        waited_secs: stretch * 60.0,
        stretch,
    }
}

/// A run in which all jobs ended; all its waits are in proportion to `wait_secs`.
pub(crate) fn run(scheduler: &str, wait_secs: f64) -> FleetFigures {
    FleetFigures {
        scheduler: scheduler.to_owned(),
        variant: String::new(),
        is_engine: scheduler == "muster",
        model_of: match scheduler {
            "kube-default" => Some("Kubernetes 1.37".to_owned()),
            "kueue" => Some("Kueue 0.19.2".to_owned()),
            _ => None,
        },
        is_partial: false,
        arrived: 1200,
        ended: 1200,
        left: 0,
        refused: 0,
        left_holding: 0,
        left_held: 0.0,
        left_why: None,
        turnaround_secs: spread(wait_secs + 7200.0),
        waited_secs: spread(wait_secs),
        first_start_secs: spread(wait_secs / 2.0),
        horizon_secs: 864_000.0,
        bounded_slowdown: spread(1.0 + wait_secs / 1000.0),
        makespan_secs: 864_000.0,
        hours: FleetHours { all: 23_040.0, ran: 15_800.5, ..FleetHours::default() },
        evictions: 0,
        breakdowns: 0,
        node_spread: 1.05,
        domain_spread: Vec::new(),
        user_fairness: 0.93,
        queue_fairness: 0.97,
        sizes: vec![
            size("1", 1000, wait_secs / 4.0),
            size("2 to 8", 180, wait_secs / 2.0),
            size("9 to 64", 20, wait_secs * 8.0),
        ],
        users: vec![owner("ann", 900, 1.5), owner("bob", 300, 2.5)],
        queues: vec![owner("prod", 200, 1.1), owner("research", 1000, 2.0)],
        curve: FleetCurve {
            start_secs: 60.0,
            width_secs: 432_000.0,
            running: vec![0.75, 0.5],
            held: vec![0.875, 0.5],
            waiting: vec![12.5, 3.0],
        },
        intervals: Vec::new(),
    }
}

pub(crate) fn comparison(runs: Vec<FleetFigures>) -> FleetComparison {
    FleetComparison {
        trace: "philly.csv.gz".to_owned(),
        cluster: "site.yaml".to_owned(),
        queues: Some("queues.yaml".to_owned()),
        command: "muster simulate --cluster site.yaml --trace philly.csv.gz --scheduler muster,kube-default"
            .to_owned(),
        nodes: 12,
        size: 96.0,
        unit: FleetUnit::Gpu,
        jobs: 1200,
        never_ran: 7,
        too_large: 0,
        strangers: 3,
        bad_rows: 1,
        duplicate_ids: 0,
        limits: TimeLimits::Requested,
        load: 1.0,
        resampled: None,
        without_limit: 0,
        seeds: vec![42],
        variants: Vec::new(),
        differences: Vec::new(),
        calibration: Vec::new(),
        runs,
    }
}

/// Two gangs of 5 on 8 GPUs, pod by pod.
pub(crate) fn stuck(mut run: FleetFigures) -> FleetFigures {
    (run.ended, run.left, run.left_holding, run.left_held) = (0, 2, 2, 8.0);
    run.hours = FleetHours { all: 0.08, held_idle: 0.08, ..FleetHours::default() };
    run
}

pub(crate) fn interval(figure: &str, mean: f64, margin: f64) -> ConfidenceInterval {
    ConfidenceInterval { figure: figure.to_owned(), mean, margin }
}

/// A variant with nodes of eight GPUs.
pub(crate) fn variant(name: &str, nodes: u64) -> SiteVariant {
    SiteVariant {
        name: name.to_owned(),
        cluster: "site.yaml".to_owned(),
        queues: Some("queues.yaml".to_owned()),
        added: None,
        nodes,
        size: nodes as f64 * 8.0,
        too_large: 1,
        left_out: 0,
        left_out_share: 0.0,
        strangers: 3,
        capacity_hours: nodes as f64 * 8.0 * 240.0,
    }
}

/// The difference of runs with these waits, of 12 and 16 nodes.
pub(crate) fn difference(scheduler: &str, first: f64, here: f64) -> VariantDifference {
    let change = |first, here| FigureChange { first, here, margin: None, may_be_chance: false };
    VariantDifference {
        scheduler: scheduler.to_owned(),
        variant: "site + 4".to_owned(),
        first: "site".to_owned(),
        turnaround_secs: change(first + 7200.0, here + 7200.0),
        waited_secs: change(first, here),
        stranded_hours: change(0.0, 0.0),
        capacity_hours: change(23_040.0, 30_720.0),
        refused: JobsChange { first: 0, here: 0 },
        left: JobsChange { first: 0, here: 0 },
    }
}

/// A calibration with jobs of two sizes.
pub(crate) fn calibration(scheduler: &str, verdict: CalibrationVerdict) -> Calibration {
    let size = |size: &str, jobs| CalibratedSize {
        size: size.to_owned(),
        jobs,
        recorded_secs: spread(1200.0),
        simulated_secs: spread(1500.0),
        median_error_secs: 240.0,
        near: 0.875,
    };
    Calibration {
        scheduler: scheduler.to_owned(),
        is_partial: false,
        jobs: 1200,
        never_started: 0,
        without_start: 0,
        start_before_submit: 0,
        refused: 0,
        not_replayed: 4,
        recorded_secs: spread(1200.0),
        simulated_secs: spread(1500.0),
        median_error_secs: 240.0,
        near: 0.875,
        long_waits: 400,
        near_of_long: match verdict {
            CalibrationVerdict::Close => 0.85,
            CalibrationVerdict::Rough => 0.625,
            _ => 0.375,
        },
        long_recorded_secs: 3600.0,
        long_simulated_secs: 4200.0,
        verdict,
        sizes: vec![size("1", 1000), size("9 to 64", 200)],
    }
}
