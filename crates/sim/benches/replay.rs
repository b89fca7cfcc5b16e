//! Speed of whole simulations: `cargo bench -p muster-sim --bench replay -- [NAME…] [--jobs N]
//! [--runs N]`. Jobs are generated or read beforehand; the replay with the production engine, every
//! plan checked, is measured in CPU time. The public trace is measured if it exists.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench reads files and the clock"
)]

mod public;

use std::process::ExitCode;
use std::time::Duration;

use muster_model::QueueTree;
use muster_sim::flat::{Estimates, FlatJob, FlatLoad, FlatRun, FlatScheduler};
use muster_sim::fleet::{Failures, Fleet, FleetLoad, FleetSite, SchedulerKind, StopCosts};
use muster_sim::trace::generate;
use muster_spec::recipe::parse_recipe;
use muster_spec::{TraceFormat, TraceJob, parse_cluster};
use nix::time::{ClockId, clock_gettime};

/// Processors of KTH's SP2, and the path of its trace below the public traces.
const KTH: (u32, &str) = (100, "swf/KTH-SP2-filtered-predictsim.swf.gz");
/// 5,000 nodes of which three quarters are in use.
const CLUSTER: &str =
    "nodes:\n- {name: 'node[1-5000]', cpus: 128, memory: 2TiB, gpus: 8, gpu: h100}\n";
const RECIPE: &str = "\
jobs: 1000000
every: 1.6s
users: 200
classes:
- {name: one, weight: 70, gpus: 1, cpus: 8, runtime: {from: 30m, to: 6h}, overestimate: 4}
- {name: node, weight: 20, gpus: 8, cpus: 64, runtime: {from: 30m, to: 6h}, overestimate: 4}
- {name: gang, weight: 10, gpus: 8, cpus: 64, tasks: [2, 4, 8], runtime: {from: 30m, to: 6h}, overestimate: 4}
";
/// Jobs that arrive within minutes and then wait for hours, on `BACKLOG_PROCS` GPUs.
const BACKLOG: &str = "\
jobs: 700
every: 1s
users: 20
classes:
- {name: any, weight: 1, gpus: 1, tasks: [1, 2, 3, 5, 8, 13, 21, 34, 50], runtime: {from: 10m, to: 10h}, overestimate: 4}
";
const BACKLOG_PROCS: u32 = 100;
/// Default number of jobs of the recipe.
const JOBS: u64 = 100_000;
/// Number of runs, of which the fastest counts.
const RUNS: usize = 3;

struct BenchCase {
    name: &'static str,
    what: &'static str,
    /// Returns the number of jobs and the time of their replay; `None` if its trace does not exist.
    run: fn(u64) -> Option<(usize, Duration)>,
}

const CASES: [BenchCase; 7] = [
    BenchCase {
        name: "kth-easy",
        what: "KTH-SP2, 100 processors, EASY",
        run: |_| flat(FlatScheduler::Easy),
    },
    BenchCase {
        name: "kth-fcfs",
        what: "KTH-SP2, 100 processors, FCFS",
        run: |_| flat(FlatScheduler::Fcfs),
    },
    BenchCase {
        name: "fleet",
        what: "5,000 nodes, three quarters in use",
        run: |jobs| Some(fleet(jobs)),
    },
    BenchCase {
        name: "conservative-175",
        what: "175 waiting, conservative",
        run: |_| Some(backlog(FlatScheduler::Conservative, 175)),
    },
    BenchCase {
        name: "conservative-350",
        what: "350 waiting, conservative",
        run: |_| Some(backlog(FlatScheduler::Conservative, 350)),
    },
    BenchCase {
        name: "conservative-700",
        what: "700 waiting, conservative",
        run: |_| Some(backlog(FlatScheduler::Conservative, 700)),
    },
    BenchCase {
        name: "easy-sjf-50000",
        what: "50,000 waiting, EASY, shortest first",
        run: |_| Some(backlog(FlatScheduler::EasySjf, 50_000)),
    },
];

fn main() -> ExitCode {
    let mut jobs = JOBS;
    let mut runs = RUNS;
    let mut names = Vec::new();
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--jobs" | "--runs" => match args.next().and_then(|text| text.parse().ok()) {
                Some(number) if arg == "--jobs" => jobs = number,
                Some(number) => runs = number as usize,
                None => return usage("`--jobs` and `--runs` take a number"),
            },
            name if CASES.iter().any(|row| row.name == name) => names.push(arg),
            other => return usage(&format!("there is no row `{other}`")),
        }
    }
    for row in
        CASES.iter().filter(|row| names.is_empty() || names.iter().any(|name| name == row.name))
    {
        let runs: Option<Vec<_>> = (0..runs).map(|_| (row.run)(jobs)).collect();
        match runs.and_then(|runs| runs.into_iter().min_by_key(|(_, taken)| *taken)) {
            Some((jobs, taken)) => {
                let rate = jobs as f64 / taken.as_secs_f64();
                println!(
                    "{:<16} {:<36} {jobs:>9} jobs {:>8.3} s {rate:>9.0} jobs/s",
                    row.name,
                    row.what,
                    taken.as_secs_f64()
                );
            }
            None => {
                println!(
                    "{:<16} {:<36} not measured: the public traces are not there",
                    row.name, row.what
                )
            }
        }
    }
    ExitCode::SUCCESS
}

fn usage(message: &str) -> ExitCode {
    let names: Vec<&str> = CASES.iter().map(|row| row.name).collect();
    eprintln!(
        "error: {message}\nusage: cargo bench -p muster-sim --bench replay -- [{}] [--jobs N] [--runs N]",
        names.join(" ")
    );
    ExitCode::FAILURE
}

fn flat(scheduler: FlatScheduler) -> Option<(usize, Duration)> {
    let (procs, file) = KTH;
    let load = FlatLoad::of(&public::jobs(file, TraceFormat::Swf)?, procs, Estimates::Requested);
    Some(replay_flat(scheduler, procs, &load.jobs))
}

/// Replays jobs that arrive within a small part of the time that they need.
fn backlog(scheduler: FlatScheduler, jobs: u64) -> (usize, Duration) {
    let recipe = parse_recipe(BACKLOG, None).expect("the recipe is right");
    let trace: Vec<TraceJob> = generate(&recipe, 1, Some(jobs)).collect();
    let load = FlatLoad::of(&trace, BACKLOG_PROCS, Estimates::Requested);
    replay_flat(scheduler, BACKLOG_PROCS, &load.jobs)
}

fn replay_flat(scheduler: FlatScheduler, procs: u32, jobs: &[FlatJob]) -> (usize, Duration) {
    let began = own_time();
    // A model has run to its end when it begins.
    if let FlatRun::Engine(mut fleet) = scheduler.begin(procs, jobs).expect("the pool is right") {
        replay(&mut fleet);
    }
    (jobs.len(), own_time() - began)
}

fn fleet(jobs: u64) -> (usize, Duration) {
    let cluster = parse_cluster(CLUSTER, None).expect("the cluster is right");
    let site =
        FleetSite { nodes: cluster.nodes, levels: cluster.levels, tree: QueueTree::single() };
    let recipe = parse_recipe(RECIPE, None).expect("the recipe is right");
    let trace: Vec<TraceJob> = generate(&recipe, 1, Some(jobs)).collect();
    let load = FleetLoad::of(&trace, &site, Estimates::Requested, true);
    let count = load.jobs.len();
    let began = own_time();
    let instance = SchedulerKind::Muster.begin(&site, 1).expect("the engine takes the site");
    let mut fleet =
        Fleet::new(&site, instance, load.jobs, StopCosts::default(), Failures::default());
    replay(&mut fleet);
    (count, own_time() - began)
}

fn replay(fleet: &mut Fleet) {
    while fleet.step().expect("every plan passes its check") {}
}

/// Returns the CPU time of this thread, so that other processes matter little.
fn own_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock"))
}
