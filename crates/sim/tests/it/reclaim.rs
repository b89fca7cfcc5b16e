//! The engine reclaims lent quota where jobs of one GPU, whole nodes and gangs borrow from each other: every plan
//! passes its check, and every job ends.

use muster_model::{QueueSpec, QueueTree};
use muster_sim::flat::Estimates;
use muster_sim::fleet::{Failures, Fleet, FleetLoad, FleetSite, JobNo, SchedulerKind, StopCosts};
use muster_sim::trace::generate;
use muster_spec::TraceJob;
use muster_spec::recipe::parse_recipe;

use crate::fleet::site;

/// Twice as much work as eight nodes do in four days.
const MIX: &str = "\
length: 4d
every: 200s
classes:
- {name: vision, weight: 70, gpus: 1, queue: vision, runtime: {median: 1h, p95: 12h, max: 2d}, overestimate: 4}
- {name: nlp, weight: 30, gpus: 1, queue: nlp, runtime: {median: 1h, p95: 12h, max: 2d}, overestimate: 4}
- {name: node, weight: 12, gpus: 8, queue: nlp, runtime: {median: 2h, p95: 12h, max: 1d}, overestimate: 4}
- {name: gang, weight: 4, gpus: 8, tasks: [2, 4], queue: core, runtime: {median: 2h, p95: 12h, max: 1d}, overestimate: 4}
";

#[test]
fn plans_hold_where_jobs_of_all_sizes_borrow() {
    let queue = |name: &str, quota| QueueSpec {
        quota: [("a100".into(), quota)].into(),
        ..QueueSpec::named(name)
    };
    let queues = vec![queue("vision", 20), queue("nlp", 20), queue("core", 24)];
    let tree = QueueTree { queues, default_queue: "vision".into(), ..QueueTree::single() };
    let site = FleetSite { tree, ..site(8, 8) };
    let recipe = parse_recipe(MIX, None).unwrap();
    for seed in 1..=6 {
        let trace: Vec<TraceJob> = generate(&recipe, seed, None).collect();
        for estimates in [Estimates::Requested, Estimates::Actual] {
            let jobs = FleetLoad::of(&trace, &site, estimates, true).jobs;
            let count = jobs.len() as u32;
            let engine = SchedulerKind::Muster.begin(&site, 1).unwrap();
            let mut fleet =
                Fleet::new(&site, engine, jobs, StopCosts::default(), Failures::default());
            while fleet.step().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}")) {}
            assert!((0..count).all(|job| fleet.cluster().has_ended(JobNo(job))), "seed {seed}");
        }
    }
}
