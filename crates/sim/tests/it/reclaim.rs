//! The engine reclaims lent quota where jobs of one GPU, whole nodes and gangs borrow from each other: every plan
//! passes its check, and every job ends.

use muster_model::{QueueSpec, QueueTree, Span};
use muster_sim::flat::Estimates;
use muster_sim::fleet::{Failures, Fleet, FleetLoad, FleetSite, JobNo, SchedulerKind, StopCosts};
use muster_sim::trace::generate;
use muster_spec::TraceJob;
use muster_spec::recipe::parse_recipe;

use crate::fleet::site;

/// Half again as much work as sixteen nodes do in four days.
const MIX: &str = "\
length: 4d
every: 200s
users: 30
classes:
- {name: small, weight: 70, gpus: 1, runtime: {median: 1h, p95: 12h, max: 2d}, overestimate: 7, queue: vision}
- {name: small2, weight: 30, gpus: 1, runtime: {median: 1h, p95: 12h, max: 2d}, overestimate: 7, queue: nlp}
- {name: node, weight: 12, gpus: 8, runtime: {median: 2h, p95: 12h, max: 1d}, overestimate: 7, queue: nlp}
- {name: gang, weight: 4, gpus: 8, tasks: [2, 4, 8], runtime: {median: 2h, p95: 12h, max: 1d}, overestimate: 7, queue: core}
";

/// On the load of seed 1, with exact limits and without a wait, the checker once refused a plan. The scenario
/// reclaim/evictions-are-listed-as-they-were-chosen has that fault by itself; this looks for others of its class.
#[test]
fn plans_hold_where_jobs_of_all_sizes_borrow() {
    let queue = |name: &str, quota| QueueSpec {
        quota: [("a100".into(), quota)].into(),
        ..QueueSpec::named(name)
    };
    let queues = vec![queue("vision", 40), queue("nlp", 40), queue("core", 48)];
    let recipe = parse_recipe(MIX, None).unwrap();
    for (seed, reclaim_after) in [(1, Span(0)), (1, QueueTree::RECLAIM_AFTER), (2, Span(0))] {
        let tree = QueueTree {
            queues: queues.clone(),
            default_queue: "vision".into(),
            reclaim_after,
            ..QueueTree::single()
        };
        let site = FleetSite { tree, ..site(16, 8) };
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
