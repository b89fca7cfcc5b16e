//! The same few jobs on the same few GPUs under every scheduler, with known placements.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::simulation::FleetEventKind;
use muster_model::{Bytes, CpuMilli, Device, NodeSpec, QueueSpec, QueueTree, Span, Time};
use muster_sim::fleet::{
    ClusterState, Failures, Fleet, FleetJob, FleetSite, JobNo, Scheduler, SchedulerKind, StopCosts,
    event, figures, gantt, instant,
};
use muster_sim::peers::kube::{Creation, KubeDefault};

use crate::oracle::every_order;

/// Nodes with this many GPUs each, and one queue.
pub(crate) fn site(nodes: u32, gpus: usize) -> FleetSite {
    let device = Device::declared("a100", Bytes(0));
    let node = |number| NodeSpec {
        devices: vec![device.clone(); gpus],
        ..NodeSpec::plain(format!("n{number}"), CpuMilli(64_000), Bytes(256 << 30))
    };
    FleetSite {
        nodes: (0..nodes).map(node).collect(),
        levels: Vec::new(),
        tree: QueueTree::single(),
    }
}

/// A gang of single-GPU tasks with this runtime.
pub(crate) fn gang(id: &str, submit_secs: u64, tasks: u32, runtime_secs: u64) -> FleetJob {
    let task = Resources { gpu: GpuRequest::whole(1), ..Resources::default() };
    FleetJob {
        id: id.into(),
        submit: Time(0) + Span::from_secs(submit_secs),
        runtime: Span::from_secs(runtime_secs),
        estimate: Some(Span::from_secs(runtime_secs)),
        tasks,
        asked_milli: 1000,
        task: Arc::new(task),
        user: id.into(),
        queue: "default".into(),
        priority: 0,
        fewest_nodes: 1,
        recorded_start: None,
        predicted_by: None,
    }
}

/// Plays until nothing more happens.
pub(crate) fn played(site: &FleetSite, instance: Box<dyn Scheduler>, jobs: &[FleetJob]) -> Fleet {
    let mut fleet =
        Fleet::new(site, instance, jobs.to_vec(), StopCosts::default(), Failures::default());
    while fleet.step().unwrap() {}
    fleet
}

/// A gang that two nodes can host, in one rack of two or over both.
#[test]
fn a_gang_uses_the_fewest_racks_if_the_scheduler_is_topology_aware() {
    let mut racks = site(4, 8);
    racks.levels = vec!["rack".into()];
    for (nth, node) in racks.nodes.iter_mut().enumerate() {
        node.domains = vec![format!("r{}", nth % 2).into()];
    }
    for (scheduler, spread) in [
        (SchedulerKind::Muster, 1.0),
        (SchedulerKind::Slurm, 1.0),
        (SchedulerKind::KueueTas, 1.0),
        (SchedulerKind::KubeDefault, 2.0),
    ] {
        let fleet = played(&racks, scheduler.begin(&racks, 1).unwrap(), &[gang("a", 0, 16, 60)]);
        let [level] = &figures(scheduler, fleet.cluster(), false).domain_spread[..] else {
            panic!("one level")
        };
        assert_eq!(level.level, "rack");
        assert!((level.spread - spread).abs() < 1e-9, "{}: {level:?}", scheduler.name());
    }
}

/// Pods that each job holds, and whether it runs, after the last arrival.
fn after_arrivals(
    site: &FleetSite,
    instance: Box<dyn Scheduler>,
    jobs: &[FleetJob],
) -> Vec<(u32, bool)> {
    let mut fleet =
        Fleet::new(site, instance, jobs.to_vec(), StopCosts::default(), Failures::default());
    while fleet.cluster().jobs().len() < jobs.len() && fleet.step().unwrap() {}
    standing(fleet.cluster())
}

fn standing(cluster: &ClusterState) -> Vec<(u32, bool)> {
    let jobs = (0..cluster.jobs().len() as u32).map(JobNo);
    jobs.map(|job| (cluster.placed(job), cluster.runs(job))).collect()
}

/// Two gangs of five whose raw pods were created in turns.
fn in_turns(site: &FleetSite) -> Box<dyn Scheduler> {
    let order = [0, 1].repeat(5).into_iter().map(JobNo).collect();
    Box::new(KubeDefault::new(site, 1).creating(Creation::Given(order)))
}

#[test]
fn raw_pods_in_turns_deadlock_on_one_node_and_on_eight() {
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    for site in [site(1, 8), site(8, 1)] {
        let fleet = played(&site, in_turns(&site), &jobs);
        assert_eq!(standing(fleet.cluster()), [(4, false), (4, false)]);
        assert_eq!(fleet.cluster().record().total.running, 0);
    }
}

/// In the first eight pods of an order either both gangs have four, and deadlock, or one has five
/// and runs while the other holds three: 2 · C(8, 4) and 2 · C(8, 3) of the C(10, 5) orders.
#[test]
fn every_order_of_raw_pods_ends_as_calculated() {
    let site = site(1, 8);
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    let mut deadlocks = 0;
    let mut wastes = 0;
    for order in every_order(&[5, 5]) {
        let order = order.into_iter().map(|gang| JobNo(gang as u32)).collect();
        let instance = KubeDefault::new(&site, 1).creating(Creation::Given(order));
        match after_arrivals(&site, Box::new(instance), &jobs)[..] {
            [(4, false), (4, false)] => deadlocks += 1,
            [(5, true), (3, false)] | [(3, false), (5, true)] => wastes += 1,
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!((deadlocks, wastes), (140, 112));
}

#[test]
fn two_jobs_one_after_the_other_end_as_on_a_real_cluster() {
    let jobs = [gang("a", 0, 5, 600), gang("b", 1, 5, 600)];
    for site in [site(1, 8), site(8, 1)] {
        let stock = || SchedulerKind::KubeDefault.begin(&site, 7).unwrap();
        assert_eq!(after_arrivals(&site, stock(), &jobs), [(5, true), (3, false)]);
        // The second holds three GPUs for as long as the first runs, and then runs.
        let fleet = played(&site, stock(), &jobs);
        let record = fleet.cluster().record();
        assert_eq!(record.total.held - record.total.running, 3_000 * 599_000);
        assert_eq!(fleet.cluster().status(JobNo(1)).began, Some(Time(600_000)));
    }
}

/// Checks that what is held at the end is drawn, and listed at an instant with reasons.
#[test]
fn a_deadlock_is_drawn_and_reported() {
    let site = site(1, 8);
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    let mut fleet = Fleet::new(
        &site,
        in_turns(&site),
        jobs.to_vec(),
        StopCosts::default(),
        Failures::default(),
    );
    fleet.record_bars();
    fleet.record_events();
    while fleet.step().unwrap() {}
    let drawn = gantt(SchedulerKind::KubeDefault, &site, &fleet);
    let rows: u32 = drawn.bars.iter().map(|bar| bar.last_row - bar.first_row + 1).sum();
    assert!(
        rows == 8 && drawn.bars.iter().all(|bar| !bar.runs && bar.to_ms == 600_000),
        "{drawn:?}"
    );
    let reported = instant(SchedulerKind::KubeDefault, &mut fleet, &[]);
    assert_eq!((reported.running, reported.waiting, reported.held_milli), (0, 2, 8_000));
    assert!(reported.jobs[0].why.contains("4 of its 5 pods"), "{}", reported.jobs[0].why);
    let events: Vec<_> =
        fleet.take_events().iter().map(|(at, what)| event(&fleet, *at, what).what).collect();
    let placed = |event: &&FleetEventKind| matches!(event, FleetEventKind::Placed { .. });
    assert_eq!((events.len(), events.iter().filter(placed).count()), (10, 8));
}

/// The same seed breaks the same nodes at the same times under every scheduler; all jobs end, and
/// what is lost is counted.
#[test]
fn failures_cost_the_unsaved_work() {
    let site = site(4, 8);
    let jobs: Vec<FleetJob> =
        (0..40).map(|at| gang(&format!("j{at}"), at * 600, 8, 7_200)).collect();
    let failures = |seed| Failures {
        node_mtbf: Some(Span::from_secs(40_000)),
        gpu_mtbf: Some(Span::from_secs(400_000)),
        repair: Span::from_secs(3_600),
        seed,
    };
    let lost = |scheduler: SchedulerKind, checkpoint_every| {
        let terms =
            StopCosts { checkpoint_every, restart: Span::from_secs(60), ..StopCosts::default() };
        let instance = scheduler.begin(&site, 3).unwrap();
        let mut fleet = Fleet::new(&site, instance, jobs.clone(), terms, failures(3));
        while fleet.step().unwrap() {}
        let record = fleet.cluster().record();
        assert!((0..40).all(|job| fleet.cluster().has_ended(JobNo(job))), "{scheduler:?}");
        assert!(record.breakdowns > 0, "{scheduler:?}");
        let worked: u128 = 40 * 8_000 * 7_200_000;
        assert_eq!(record.total.running, worked + record.lost, "{scheduler:?}");
        record.lost
    };
    for (_, scheduler) in SchedulerKind::ALL {
        let all = lost(scheduler, None);
        let some = lost(scheduler, Some(Span::from_secs(900)));
        assert!(some < all, "{scheduler:?}: {some} of {all}");
    }
    // Another run of the same is the same.
    assert_eq!(lost(SchedulerKind::Muster, None), lost(SchedulerKind::Muster, None));
}

#[test]
fn gang_schedulers_run_one_gang_and_queue_the_other() {
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    // People without a scheduler hold whole machines, also after the end (none.rs).
    for (name, scheduler) in SchedulerKind::ALL
        .into_iter()
        .filter(|(name, _)| !["kube-default", "kube-packed", "none"].contains(name))
    {
        for site in [site(1, 8), site(8, 1)] {
            let fleet = played(&site, scheduler.begin(&site, 7).unwrap(), &jobs);
            let cluster = fleet.cluster();
            let ended = |job| {
                cluster
                    .status(JobNo(job))
                    .ended
                    .unwrap_or_else(|| panic!("{name}: {job} has not ended"))
            };
            let first = ended(0).min(ended(1));
            let last = ended(0).max(ended(1));
            assert_eq!(
                cluster.record().total.held,
                cluster.record().total.running,
                "{name} held what it did not use"
            );
            // Schedulers with a period may lose a minute or two, not more.
            assert!(
                first < Time(720_000) && last < Time(1_440_000),
                "{name}: {first:?} and {last:?}"
            );
        }
    }
}

#[test]
fn every_job_ends_despite_failures_and_reclaims() {
    let queue = |name: &str, weight| QueueSpec { weight, ..QueueSpec::named(name) };
    let tree = QueueTree {
        queues: vec![queue("a", 1), queue("b", 2), queue("c", 3)],
        ..QueueTree::single()
    };
    let site = FleetSite { tree, ..site(4, 8) };
    let jobs: Vec<FleetJob> = (0..300u64)
        .map(|at| {
            // Widths from 1 to 5 and runtimes from 50 s to half an hour, with no pattern that
            // matters.
            let width = at * at % 23 % 5 + 1;
            let runtime = 50 + at * 7_919 % 1_750;
            let queue = ["a", "b", "c"][(at * 31 % 7 % 3) as usize];
            let priority = (at % 5 / 4) as i32;
            FleetJob {
                queue: queue.into(),
                priority,
                ..gang(&format!("j{at}"), at * 40, width as u32, runtime)
            }
        })
        .collect();
    for name in ["ray", "volcano", "kai"] {
        let scheduler = SchedulerKind::named(name).unwrap();
        let failures = Failures {
            node_mtbf: Some(Span::from_secs(20_000)),
            gpu_mtbf: Some(Span::from_secs(80_000)),
            repair: Span::from_secs(900),
            seed: 11,
        };
        let mut fleet = Fleet::new(
            &site,
            scheduler.begin(&site, 7).unwrap(),
            jobs.clone(),
            StopCosts::default(),
            failures,
        );
        while fleet.step().unwrap() {}
        let cluster = fleet.cluster();
        let left = (0..jobs.len() as u32).filter(|job| !cluster.has_ended(JobNo(*job))).count();
        assert_eq!(left, 0, "{name} lost jobs");
        assert!(cluster.record().breakdowns > 10, "{name}: too few failures for a result");
        // Only Volcano and KAI reclaim, and only Volcano evicts a whole gang at once when it loses
        // a pod.
        assert_eq!(cluster.record().evictions > 0, name != "ray", "{name}");
        assert_eq!(
            cluster.record().total.held == cluster.record().total.running,
            name == "volcano",
            "{name}"
        );
    }
}

/// A queue's head that does not fit is set aside, and does not block those behind it.
#[test]
fn kueue_continues_with_workloads_that_fit() {
    let site = site(1, 8);
    let jobs = [gang("first", 0, 5, 600), gang("wide", 1, 5, 600), gang("small", 2, 3, 60)];
    for scheduler in [SchedulerKind::Kueue, SchedulerKind::KueueTas, SchedulerKind::KueueReady] {
        let fleet = played(&site, scheduler.begin(&site, 0).unwrap(), &jobs);
        let began = |job| fleet.cluster().status(JobNo(job)).began.unwrap().0 / 1000;
        assert_eq!([0, 1, 2].map(began), [0, 600, 2], "{scheduler:?}");
    }
}
