//! The packing experiment on a cluster that is small enough to be worked out by hand, under every
//! policy.

use muster_model::job::Resources;
use muster_model::queue::PlacementPolicy;
use muster_sim::packing::{Experiment, PackingError, PackingOutcome, PackingScheduler};
use muster_spec::{TraceFormat, TraceReader, openb};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model
a,16000,65536,2,T4
b,16000,65536,2,T4
c,16000,65536,1,P100
";

const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
half,1000,1024,1,500,
whole,1000,1024,1,1000,
pair,1000,1024,2,1000,
old,1000,1024,1,1000,P100
huge,99000,1024,1,1000,
plain,16000,1024,0,0,
";

fn pods() -> Vec<(String, Resources)> {
    let mut reader = TraceReader::new(TraceFormat::Openb);
    let mut pods = Vec::new();
    for line in PODS.lines() {
        let take = &mut |job: Result<muster_spec::TraceJob, _>| {
            let job = job.unwrap();
            pods.push((job.id.to_string(), job.task));
        };
        reader.read(line, take).unwrap();
    }
    pods
}

/// Pods by name, in this order.
fn experiment(order: &str) -> Result<Experiment, PackingError> {
    let mut reader = openb::NodeReader::new();
    let nodes = NODES.lines().filter_map(|line| reader.read(line).unwrap()).collect();
    let pods = pods();
    let named = |name: &str| pods.iter().position(|(known, _)| known == name).unwrap_or(99);
    let order = order.split_whitespace().filter_map(openb::arriving_pod).map(named).collect();
    let asked: Vec<Resources> = pods.iter().map(|(_, task)| task.clone()).collect();
    Experiment::new(nodes, &asked, order)
}

fn run(order: &str, name: &str, seed: u64) -> PackingOutcome {
    experiment(order).unwrap().run(PackingScheduler::named(name).unwrap(), seed).unwrap()
}

#[test]
fn every_policy_places_pods_that_fit_and_rejects_others() {
    for name in PackingScheduler::names() {
        // Five devices: `old` has one place, `huge` none, each pair a node, and then all is held.
        let outcome = run("old old huge pair pair-tuned-0 half", name, 7);
        assert_eq!((outcome.placed, outcome.turned_away), (3, 3), "{name}");
        // 1 + 1 + 1 + 2 + 2 + 0.5 of 5 were asked for.
        assert_eq!(outcome.curve.points().len(), 151, "{name}");
        let last = outcome.curve.last().unwrap();
        assert_eq!((last.allocated_ppm, last.fragmented_ppm), (1_000_000, 0), "{name}");
        let figures = outcome.figures(PackingScheduler::named(name).unwrap(), false);
        assert_eq!((figures.gpu_allocation_percent[150], figures.placed), (100.0, 3), "{name}");
        assert_eq!(
            run("half half pair whole", name, 3),
            run("half half pair whole", name, 3),
            "{name}"
        );
    }
}

#[test]
fn policies_differ_where_the_order_lets_them() {
    // Shares on the nodes of pairs leave none.
    let pairs_fit = |name: &str| run("half half pair pair", name, 1).placed;
    assert_eq!(pairs_fit("spread"), 2);
    assert_eq!(pairs_fit("best-fit"), 4, "the smallest node is the best fit");
    assert_eq!(pairs_fit("gpu-packing"), 4, "and the free node with the fewest devices");
    assert_eq!(pairs_fit("fragmentation"), 4, "pairs cannot use it anyway");
    let random: Vec<u64> =
        (0..50).map(|seed| run("half half pair pair", "random", seed).placed).collect();
    assert!([2, 3, 4].iter().all(|placed| random.contains(placed)), "{random:?}");
}

#[test]
fn invalid_experiments_are_errors() {
    let error = |result: Result<Experiment, PackingError>| result.unwrap_err().to_string();
    assert_eq!(error(experiment("half nobody")), "arrival 2 names pod 99, but there are 6 pods");
    assert_eq!(error(Experiment::new(Vec::new(), &[], Vec::new())), "the cluster has no GPU");
    let mut reader = openb::NodeReader::new();
    let mut node = reader.read("n,1,1,2,T4").unwrap().unwrap();
    node.devices[1].model = "p100".into();
    let twins = vec![node.clone(), node.clone()];
    assert_eq!(error(Experiment::new(twins, &[], Vec::new())), "two nodes are called n");
    assert_eq!(
        error(Experiment::new(vec![node], &[], Vec::new())),
        "node n has GPUs of several models"
    );
    assert_eq!(
        PackingScheduler::named("pack"),
        Some(PackingScheduler::Muster(PlacementPolicy::Pack))
    );
    assert_eq!(PackingScheduler::named("best"), None);
    assert!(
        PackingScheduler::names().all(|name| PackingScheduler::named(name).unwrap().name() == name)
    );
}
