//! Comparison of schedulers on generated mixes of two labs and on Philly: `cargo bench -p muster-sim --bench mixes --
//! [MIX…] [--seeds N] [--predicted] [--fair-share-after MINUTES]`. For each scheduler: turnaround, waiting, and what was lost and stranded, in
//! means over generated traces of several seeds. Philly is replayed once, if the public trace exists. With
//! `--predicted` schedulers that plan by run times learn them from each user's earlier jobs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads files")]

mod public;
mod sites;

use std::process::ExitCode;

use muster_model::queue::PlannedRuntimes;
use muster_model::simulation::FleetFigures;
use muster_model::{QueueTree, Span};
use muster_sim::flat::Estimates;
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetLoad, FleetSite, SchedulerKind, StopCosts,
};
use muster_sim::trace::generate;
use muster_spec::recipe::parse_recipe;
use muster_spec::{TraceFormat, TraceJob, parse_cluster, parse_queues};
use sites::{LAB, LAB_CLUSTER, PHILLY_CLUSTER};

const SCHEDULERS: [&str; 6] = ["muster", "kueue-tas", "kai", "slurm", "kube-gang", "kueue"];
/// Three teams with 16 nodes, time limits up to seven times the run times.
const TEAMS: &str = "\
length: 14d
every: 333s
users: 30
classes:
- {name: vision, weight: 70, gpus: 1, queue: vision, runtime: {median: 1h, p95: 12h, max: 2d}, overestimate: 7}
- {name: nlp, weight: 30, gpus: 1, queue: nlp, runtime: {median: 1h, p95: 12h, max: 2d}, overestimate: 7}
- {name: node, weight: 12, gpus: 8, queue: nlp, runtime: {median: 2h, p95: 12h, max: 1d}, overestimate: 7}
- {name: gang, weight: 4, gpus: 8, tasks: [2, 4, 8], queue: core, runtime: {median: 2h, p95: 12h, max: 1d}, overestimate: 7}
";
const TEAM_QUEUES: &str = "\
queues:
- {name: vision, quota: {h100: 40}}
- {name: nlp, quota: {h100: 40}}
- {name: core, quota: {h100: 48}}
";

/// A site with the loads that are replayed on it.
struct Mix {
    name: &'static str,
    what: &'static str,
    site: FleetSite,
    /// Jobs of each seed; empty if the trace does not exist.
    traces: Vec<Vec<TraceJob>>,
    as_tasks: bool,
}

fn main() -> ExitCode {
    let mut seeds = 4;
    let mut estimates = Estimates::Requested;
    let mut fair_share_after = Some(QueueTree::FAIR_SHARE_AFTER);
    let mut names = Vec::new();
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        if arg == "--seeds" || arg == "--fair-share-after" {
            let Some(number) = args.next().and_then(|text| text.parse().ok()) else {
                eprintln!("error: `{arg}` takes a number");
                return ExitCode::FAILURE;
            };
            match arg.as_str() {
                "--seeds" => seeds = number,
                _ => fair_share_after = Some(Span::from_secs(60 * number)),
            }
        } else if arg == "--predicted" {
            estimates = Estimates::Predicted;
        } else {
            names.push(arg);
        }
    }
    let mut mixes = mixes(seeds);
    for mix in &mut mixes {
        mix.site.tree.fair_share_after = fair_share_after;
    }
    if let Some(name) = names.iter().find(|name| mixes.iter().all(|mix| mix.name != **name)) {
        let known: Vec<&str> = mixes.iter().map(|mix| mix.name).collect();
        eprintln!("error: there is no mix `{name}`; the mixes are {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    for mix in mixes {
        if names.is_empty() || names.iter().any(|name| name == mix.name) {
            show(&mix, estimates);
        }
    }
    ExitCode::SUCCESS
}

fn mixes(seeds: u64) -> Vec<Mix> {
    let generated = |recipe: &str| {
        let recipe = parse_recipe(recipe, None).expect("the recipe is right");
        (1..=seeds).map(|seed| generate(&recipe, seed, None).collect()).collect()
    };
    let site = |cluster: &str, queues: Option<&str>| {
        let cluster = parse_cluster(cluster, None).expect("the cluster is right");
        let tree = queues.map_or_else(QueueTree::single, |queues| {
            parse_queues(queues, None).expect("the queues are right")
        });
        FleetSite { nodes: cluster.nodes, levels: cluster.levels, tree }
    };
    let philly = public::jobs("philly/philly.csv.gz", TraceFormat::Philly).into_iter().collect();
    let mix = |name, what, site, traces, as_tasks| Mix { name, what, site, traces, as_tasks };
    vec![
        mix("lab", "128 GPUs, one queue", site(LAB_CLUSTER, None), generated(LAB), true),
        mix("teams-free", "128 GPUs, no quota", site(LAB_CLUSTER, None), generated(TEAMS), true),
        mix(
            "teams",
            "128 GPUs, quotas",
            site(LAB_CLUSTER, Some(TEAM_QUEUES)),
            generated(TEAMS),
            true,
        ),
        mix("philly", "640 GPUs, one queue", site(PHILLY_CLUSTER, None), philly, false),
    ]
}

/// Prints a row for each scheduler, in hours.
fn show(mix: &Mix, estimates: Estimates) {
    let Mix { name, what, traces, .. } = mix;
    if traces.is_empty() {
        println!("{name}: not measured: the public traces are not there");
        return;
    }
    println!("{name}: {what}, {} traces of {} jobs", traces.len(), traces[0].len());
    println!(
        "scheduler   turnaround    p99  waited    p99  stranded   lost  stops  left  fairness"
    );
    for scheduler in SCHEDULERS {
        let runs: Vec<FleetFigures> =
            traces.iter().map(|trace| figures(mix, trace, scheduler, estimates)).collect();
        let mean =
            |of: fn(&FleetFigures) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        println!(
            "{scheduler:<10} {:>11.2} {:>6.1} {:>7.2} {:>6.1} {:>9.0} {:>6.0} {:>6.0} {:>5.0} {:>9.2}",
            mean(|run| run.turnaround_secs.mean / 3600.0),
            mean(|run| run.turnaround_secs.p99 / 3600.0),
            mean(|run| run.waited_secs.mean / 3600.0),
            mean(|run| run.waited_secs.p99 / 3600.0),
            mean(|run| run.hours.stranded),
            mean(|run| run.hours.lost),
            mean(|run| run.evictions as f64),
            mean(|run| run.left as f64),
            mean(|run| run.user_fairness),
        );
    }
}

fn figures(mix: &Mix, trace: &[TraceJob], scheduler: &str, estimates: Estimates) -> FleetFigures {
    let kind = SchedulerKind::named(scheduler).expect("the schedulers are known");
    let mut site = mix.site.clone();
    if estimates == Estimates::Predicted {
        site.tree.estimates = PlannedRuntimes::Predicted;
    }
    let load = FleetLoad::of(trace, &site, estimates, mix.as_tasks);
    let jobs = if kind.gives_shares() { load.jobs } else { load.in_whole_gpus() };
    let instance = kind.begin(&site, 1).expect("every scheduler takes the site");
    let mut fleet = Fleet::new(&site, instance, jobs, StopCosts::default(), Failures::default());
    while fleet.step().expect("every plan passes its check") {}
    Finished::of(kind, fleet, false).figures().clone()
}
