//! The same jobs under four kinds of runtime estimates, by the engine: `cargo bench -p muster-sim --bench estimates`. Two
//! public traces of identical processors under EASY backfilling, a generated mix of a lab, and Philly.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads files")]

mod public;
mod sites;

use muster_model::QueueTree;
use muster_model::queue::PlannedRuntimes;
use muster_model::simulation::Spread;
use muster_sim::flat::{self, Estimates, FlatLoad, FlatScheduler};
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetLoad, FleetSite, SchedulerKind, StopCosts,
};
use muster_sim::trace::generate;
use muster_spec::recipe::parse_recipe;
use muster_spec::{TraceFormat, TraceJob, parse_cluster};
use sites::{LAB, LAB_CLUSTER, PHILLY_CLUSTER};

/// Kinds of estimates, and whether they are drawn.
const KINDS: [(&str, Estimates, bool); 4] = [
    ("requested", Estimates::Requested, false),
    ("predicted", Estimates::Predicted, false),
    ("noisy", Estimates::Actual, true),
    ("actual", Estimates::Actual, false),
];
/// Seed of the drawn estimates.
const SEED: u64 = 1;
/// Public traces of identical processors.
const FLAT: [(&str, u32, &str); 2] = [
    ("KTH-SP2", 100, "swf/KTH-SP2-filtered-predictsim.swf.gz"),
    ("SDSC-SP2", 128, "swf/SDSC-SP2-last10k-ppt.swf.gz"),
];

fn main() {
    println!("load      estimates   mean wait    p99 wait   mean bounded slowdown");
    for (name, procs, file) in FLAT {
        match public::jobs(file, TraceFormat::Swf) {
            Some(trace) => flat(name, procs, &trace),
            None => println!("{name}: not measured: the public traces are not there"),
        }
    }
    let site = |cluster: &str| {
        let cluster = parse_cluster(cluster, None).expect("the cluster is right");
        FleetSite { nodes: cluster.nodes, levels: cluster.levels, tree: QueueTree::single() }
    };
    let recipe = parse_recipe(LAB, None).expect("the recipe is right");
    let lab: Vec<TraceJob> = generate(&recipe, SEED, None).collect();
    fleet("lab", &site(LAB_CLUSTER), &lab, true);
    match public::jobs("philly/philly.csv.gz", TraceFormat::Philly) {
        Some(trace) => fleet("philly", &site(PHILLY_CLUSTER), &trace, false),
        None => println!("philly: not measured: the public traces are not there"),
    }
}

fn flat(name: &str, procs: u32, trace: &[TraceJob]) {
    for (kind, estimates, is_drawn) in KINDS {
        let load = FlatLoad::of(trace, procs, estimates);
        let load = if is_drawn { load.with_noise(SEED) } else { load };
        let ran = FlatScheduler::Easy.run(procs, &load.jobs).expect("the engine replays it");
        let figures = flat::figures(FlatScheduler::Easy, procs, &load.jobs, &ran, false);
        show(name, kind, &figures.wait_secs, &figures.bounded_slowdown);
    }
}

fn fleet(name: &str, site: &FleetSite, trace: &[TraceJob], as_tasks: bool) {
    for (kind, estimates, is_drawn) in KINDS {
        let mut site = site.clone();
        if estimates == Estimates::Predicted {
            site.tree.estimates = PlannedRuntimes::Predicted;
        }
        let site = &site;
        let load = FleetLoad::of(trace, site, estimates, as_tasks);
        let load = if is_drawn { load.with_noise(SEED) } else { load };
        let engine = SchedulerKind::Muster.begin(site, SEED).expect("the engine takes the site");
        let mut fleet =
            Fleet::new(site, engine, load.jobs, StopCosts::default(), Failures::default());
        while fleet.step().expect("every plan passes its check") {}
        let finished = Finished::of(SchedulerKind::Muster, fleet, false);
        let figures = finished.figures();
        show(name, kind, &figures.waited_secs, &figures.bounded_slowdown);
    }
}

fn show(name: &str, kind: &str, wait_secs: &Spread, slowdown: &Spread) {
    let hours = |secs: f64| secs / 3600.0;
    println!(
        "{name:<9} {kind:<9} {:>9.2} h {:>9.1} h   {:>10.2}",
        hours(wait_secs.mean),
        hours(wait_secs.p99),
        slowdown.mean
    );
}
