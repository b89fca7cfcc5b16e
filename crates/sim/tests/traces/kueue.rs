//! Kueue's own performance test as a load: the workloads of its generator, under its quotas. Quotas
//! are in CPUs there and in GPUs here, one for one, and a workload may be on any nodes, since its
//! test has none.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::{Preemption, QueueSpec};
use muster_model::{Bytes, CpuMilli, Device, NodeSpec, QueueTree, Span};
use muster_sim::flat::Estimates;
use muster_sim::fleet::{
    ClusterState, Failures, Fleet, FleetJob, FleetLoad, FleetSite, JobNo, Scheduler, SchedulerKind,
    StopCosts,
};
use muster_sim::peers::kueue::{Binding, Kueue};
use muster_sim::trace::generate;
use muster_spec::TraceJob;
use muster_spec::recipe::{Recipe, parse_recipe};

use crate::data;

/// 5 cohorts of 6 queues with 20 each, of which 100 more may be borrowed, as in the generator.
const COHORTS: usize = 5;
const QUEUES: usize = 6;
const NOMINAL: u64 = 20;
const BORROWING: u64 = 100;
/// Work of a queue ÷ its quota: 350 × 0.2 + 100 × 5 × 0.5 + 50 × 20 × 1 = 1,320 over 20.
const BOUND_SECS: f64 = 66.0;

fn recipe() -> Option<Recipe> {
    let text = data::plain(&data::traces()?.join("kueue/baseline-generator.yaml"));
    Some(parse_recipe(&text, None).unwrap())
}

fn site(preemption: Preemption) -> FleetSite {
    let device = Device::declared("slot", Bytes(0));
    let node = |at| NodeSpec {
        devices: vec![device.clone(); NOMINAL as usize],
        ..NodeSpec::plain(format!("n{at}"), CpuMilli(0), Bytes(0))
    };
    let leaf = |cohort: usize, queue: usize| QueueSpec {
        quota: [("slot".into(), NOMINAL)].into(),
        borrow: Some(BORROWING),
        ..QueueSpec::named(&format!("cq-0-{queue}-cohort-{cohort}"))
    };
    let cohort = |cohort| QueueSpec {
        queues: (0..QUEUES).map(|queue| leaf(cohort, queue)).collect(),
        quota: [("slot".into(), NOMINAL * QUEUES as u64)].into(),
        borrow: Some(0),
        ..QueueSpec::named(&format!("cohort-{cohort}"))
    };
    let tree = QueueTree {
        preemption,
        default_queue: "cohort-0/cq-0-0-cohort-0".into(),
        queues: (0..COHORTS).map(cohort).collect(),
        ..QueueTree::single()
    };
    FleetSite { nodes: (0..COHORTS * QUEUES).map(node).collect(), levels: Vec::new(), tree }
}

fn load(recipe: &Recipe, site: &FleetSite) -> FleetLoad {
    let gang = |job: TraceJob| TraceJob {
        tasks: job.tasks * job.task.cpus.0 / 1000,
        task: Resources { gpu: GpuRequest::whole(1), ..Resources::default() },
        ..job
    };
    let jobs: Vec<TraceJob> = generate(recipe, 0, None).map(gang).collect();
    let load = FleetLoad::of(&jobs, site, Estimates::Actual, true);
    assert_eq!((load.jobs.len(), load.strangers, load.too_large), (15_000, 0, 0));
    load
}

fn played(
    site: &FleetSite,
    instance: Box<dyn Scheduler>,
    jobs: Arc<Vec<FleetJob>>,
    saves_when_told: bool,
) -> Fleet {
    // As where Kueue's figures were measured: workloads without pods, so that nothing has to stop.
    let terms = StopCosts { saves_when_told, stopping: Span(0), ..StopCosts::default() };
    let mut fleet = Fleet::new(site, instance, jobs, terms, Failures::default());
    while fleet.step().unwrap() {}
    fleet
}

/// Returns the seconds from the first creation to the last end.
fn makespan_secs(cluster: &ClusterState) -> f64 {
    let ends =
        (0..cluster.jobs().len() as u32).map(|job| cluster.status(JobNo(job)).ended.unwrap());
    ends.max().unwrap().0 as f64 / 1000.0
}

/// Returns the mean time until a class began, in seconds. The class is in the place of the user.
fn mean_wait_secs(cluster: &ClusterState, class: &str) -> f64 {
    let waits: Vec<f64> = (0..cluster.jobs().len() as u32)
        .map(JobNo)
        .filter(|job| cluster.job(*job).user.as_str() == class)
        .map(|job| {
            cluster.status(job).began.unwrap().since(cluster.job(job).submit).0 as f64 / 1000.0
        })
        .collect();
    waits.iter().sum::<f64>() / waits.len() as f64
}

/// Without preemption, and with the generator's, where evicted jobs save their work first: then
/// nothing is lost.
#[test]
fn muster_ends_kueues_baseline_within_a_twentieth_of_the_bound() {
    let Some(recipe) = recipe() else { return };
    for (preemption, saves_when_told) in [(Preemption::OFF, false), (Preemption::default(), true)] {
        let site = site(preemption);
        let jobs = load(&recipe, &site).jobs;
        let fleet =
            played(&site, SchedulerKind::Muster.begin(&site, 0).unwrap(), jobs, saves_when_told);
        let secs = makespan_secs(fleet.cluster());
        println!("{preemption:?}: {secs:.1} s");
        assert!((BOUND_SECS..BOUND_SECS * 1.05).contains(&secs), "{preemption:?}: {secs} s");
    }
}

/// Published for the real controller: 15,000 workloads in 351.1 s, which is 42.7 a second; mean
/// times to admission of large, medium and small 16.5, 76.8 and 215.5 s; 55.9 % of the quota used.
/// Only the controller's time for an admission is calibrated here, from the rate; the order of the
/// classes and the use follow.
#[test]
fn kueue_admits_the_classes_in_the_order_that_is_published() {
    let Some(recipe) = recipe() else { return };
    let site = site(Preemption::default());
    let jobs = load(&recipe, &site).jobs;
    let kueue = || Kueue::new(&site, 0, Binding::Topology);
    // 1. A controller that needs no time: the policy alone.
    let ideal = played(&site, Box::new(kueue()), jobs.clone(), true);
    let waits = ["large", "medium", "small"].map(|class| mean_wait_secs(ideal.cluster(), class));
    assert!(waits.is_sorted(), "{waits:?}");
    let ideal_secs = makespan_secs(ideal.cluster());
    assert!((BOUND_SECS..BOUND_SECS * 1.2).contains(&ideal_secs), "{ideal_secs} s");
    // 2. One as slow as the real one.
    let per_admission = Span(1000 * 3511 / 150_000);
    let slow = played(&site, Box::new(kueue().taking(per_admission)), jobs, true);
    let waits = ["large", "medium", "small"].map(|class| mean_wait_secs(slow.cluster(), class));
    let secs = makespan_secs(slow.cluster());
    assert!(waits.is_sorted(), "{waits:?}");
    assert!((345.0..365.0).contains(&secs), "{secs} s");
    println!(
        "ideal: {ideal_secs:.1} s; as slow as the real one: {secs:.1} s, mean waits {waits:?}"
    );
}
