//! The published runs of FGD (Weng et al., USENIX ATC 2023) on the openb trace: 1,213 nodes with
//! 6,212 GPUs, pods that arrive in the published orders until 130 % of the GPUs are requested, none
//! leaving.
//!
//! The rule: after each arrival, GPU allocation is the held part of all GPUs, and the fragmentation
//! ratio is the part of the idle GPUs that typical pods cannot use. A percent is the mean over the
//! arrivals that are nearest to it; the mean of the seeds 42 to 46 is compared. `best-fit` and
//! `fragmentation` are the production engine's, without random choices; the published ones and the
//! other models draw the order of equals.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use muster_sim::packing::{Experiment, PackingScheduler, Point};
use muster_spec::{TraceFormat, openb};

use crate::data;

const SEEDS: std::ops::RangeInclusive<u64> = 42..=46;
const LAST_PERCENT: usize = 130;

/// Percentages by percent arrived.
struct Means {
    allocated: Vec<f64>,
    fragmented: Vec<f64>,
}

static EXPERIMENTS: LazyLock<Option<Vec<(u64, Experiment)>>> = LazyLock::new(|| {
    let nodes = data::traces()?.join("openb/openb_node_list_gpu_node.csv");
    let mut reader = openb::NodeReader::new();
    let nodes: Vec<_> =
        data::plain(&nodes).lines().filter_map(|line| reader.read(line).unwrap()).collect();
    let pods = data::jobs("openb/openb_pod_list_default.csv.gz", TraceFormat::Openb)?;
    let index: BTreeMap<&str, usize> = (0..).zip(&pods).map(|(at, pod)| (&*pod.id, at)).collect();
    let tasks: Vec<_> = pods.iter().map(|pod| pod.task.clone()).collect();
    SEEDS
        .map(|seed| {
            let order =
                data::text(&format!("openb/arrival-order/default-tune1.3-seed{seed}.txt.gz"))?;
            let order =
                order.lines().filter_map(openb::arriving_pod).map(|pod| index[pod]).collect();
            Some((seed, Experiment::new(nodes.clone(), &tasks, order).unwrap()))
        })
        .collect()
});

/// Returns the means of a policy here.
fn means(name: &str) -> Option<Means> {
    let runs: Vec<Vec<Point>> = EXPERIMENTS
        .as_ref()?
        .iter()
        .map(|(seed, experiment)| {
            let outcome = experiment.run(PackingScheduler::named(name).unwrap(), *seed).unwrap();
            assert_eq!(outcome.placed + outcome.turned_away, experiment.arrivals() as u64);
            outcome.curve.points().to_vec()
        })
        .collect();
    let mean = |of: fn(&Point) -> u32, at: usize| {
        runs.iter().map(|run| f64::from(of(&run[at]))).sum::<f64>() / runs.len() as f64 / 1e4
    };
    let curve = |of| (0..=LAST_PERCENT).map(|at| mean(of, at)).collect();
    let means = Means {
        allocated: curve(|point| point.allocated_ppm),
        fragmented: curve(|point| point.fragmented_ppm),
    };
    println!("{name}: {:.2} % allocated", means.allocated[LAST_PERCENT]);
    Some(means)
}

/// Returns the published values of a policy: a row per list of pods, policy and seed, a column per
/// percent.
fn published(file: &str, policy: &str) -> Vec<f64> {
    let text = data::text(&format!("fgd-expected/{file}.csv.gz")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|known| *known == name).unwrap();
    let seeds: Vec<String> = SEEDS.map(|seed| seed.to_string()).collect();
    let is_meant = |row: &Vec<&str>| {
        row[column("workload")] == "openb_pod_list_default"
            && row[column("sc_policy")] == policy
            && seeds.iter().any(|seed| seed == row[column("seed")])
    };
    let rows: Vec<Vec<&str>> = lines.filter(is_meant).collect();
    assert_eq!(rows.len(), seeds.len(), "{policy}");
    let mean = |at: usize| {
        let column = column(&at.to_string());
        rows.iter().map(|row| row[column].parse::<f64>().unwrap()).sum::<f64>() / rows.len() as f64
    };
    (0..=LAST_PERCENT).map(mean).collect()
}

#[test]
fn random_allocates_as_published() {
    let Some(means) = means("random") else { return };
    let allocated = means.allocated[LAST_PERCENT];
    assert!((allocated - 87.5).abs() <= 0.5, "{allocated}");
}

/// Checks that the allocation is within 0.8 of the published mean.
fn check_model(name: &str, policy: &str) {
    let Some(means) = means(name) else { return };
    let expected = published("analysis_allo_discrete", policy)[LAST_PERCENT];
    let allocated = means.allocated[LAST_PERCENT];
    assert!((allocated - expected).abs() <= 0.8, "{name}: {allocated}, published {expected}");
}

#[test]
fn dot_product_allocates_as_published() {
    check_model("dot-product", "02-DotProd");
}

#[test]
fn gpu_clustering_allocates_as_published() {
    check_model("gpu-clustering", "03-GpuClustering");
}

#[test]
fn gpu_packing_allocates_as_published() {
    check_model("gpu-packing", "04-GpuPacking");
}

#[test]
fn best_fit_of_the_engine_allocates_as_published() {
    let Some(means) = means("best-fit") else { return };
    let allocated = means.allocated[LAST_PERCENT];
    assert!((92.8..=93.3).contains(&allocated), "{allocated}");
}

#[test]
fn fragmentation_of_the_engine_allocates_and_fragments_as_published() {
    let Some(means) = means("fragmentation") else { return };
    let allocated = means.allocated[LAST_PERCENT];
    assert!(allocated >= 95.2, "{allocated}, published 95.39");
    for (percent, (got, expected)) in
        means.fragmented.iter().zip(published("analysis_frag_ratio_discrete", "06-FGD")).enumerate()
    {
        assert!(
            (got - expected).abs() <= 1.0,
            "at {percent} % arrived {got}, published {expected}"
        );
    }
}
