//! The same few jobs on the same few GPUs under every control plane: who gets what is known
//! beforehand.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::simulation::FleetHappening;
use muster_model::{Bytes, CpuMilli, Device, NodeSpec, QueueSpec, QueueTree, Span, Time};
use muster_sim::fleet::{
    Desk, Failures, Fleet, FleetJob, JobNo, Plane, Scheduler, Site, Terms, event, figures, gantt,
    instant,
};
use muster_sim::peers::kube::{Creation, KubeDefault};

use crate::oracle::every_order;

/// So many nodes with so many GPUs each, and one queue.
pub(crate) fn site(nodes: u32, gpus: usize) -> Site {
    let device = Device {
        model: "a100".into(),
        memory: Bytes(0),
        uuid: "".into(),
        is_virtual: true,
        slice_of: None,
    };
    let node = |number| NodeSpec {
        name: format!("n{number}").into(),
        devices: vec![device.clone(); gpus],
        cpus: CpuMilli(64_000),
        memory: Bytes(256 << 30),
        extras: [].into(),
        labels: [].into(),
        domains: Vec::new(),
    };
    Site { nodes: (0..nodes).map(node).collect(), levels: Vec::new(), tree: QueueTree::single() }
}

/// A gang of single-GPU tasks that works for so long.
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
    }
}

/// Until nothing more happens.
pub(crate) fn played(site: &Site, plane: Box<dyn Plane>, jobs: &[FleetJob]) -> Fleet {
    let mut fleet = Fleet::new(site, plane, jobs.to_vec(), Terms::default(), Failures::default());
    while fleet.step().unwrap() {}
    fleet
}

/// A gang that two nodes can host, in one rack of two or over both.
#[test]
fn a_gang_lies_in_as_few_racks_as_can_be_where_whoever_decides_knows_of_racks() {
    let mut racks = site(4, 8);
    racks.levels = vec!["rack".into()];
    for (nth, node) in racks.nodes.iter_mut().enumerate() {
        node.domains = vec![format!("r{}", nth % 2).into()];
    }
    for (scheduler, spread) in [
        (Scheduler::Muster, 1.0),
        (Scheduler::Slurm, 1.0),
        (Scheduler::KueueTas, 1.0),
        (Scheduler::KubeDefault, 2.0),
    ] {
        let fleet = played(&racks, scheduler.begin(&racks, 1).unwrap(), &[gang("a", 0, 16, 60)]);
        let [level] = &figures(scheduler, fleet.desk(), false).domain_spread[..] else {
            panic!("one level")
        };
        assert_eq!(level.level, "rack");
        assert!((level.spread - spread).abs() < 1e-9, "{}: {level:?}", scheduler.name());
    }
}

/// Pods that each job holds, and whether it runs, after the instant at which the last arrived.
fn after_arrivals(site: &Site, plane: Box<dyn Plane>, jobs: &[FleetJob]) -> Vec<(u32, bool)> {
    let mut fleet = Fleet::new(site, plane, jobs.to_vec(), Terms::default(), Failures::default());
    while fleet.desk().jobs().len() < jobs.len() && fleet.step().unwrap() {}
    standing(fleet.desk())
}

fn standing(desk: &Desk) -> Vec<(u32, bool)> {
    let jobs = (0..desk.jobs().len() as u32).map(JobNo);
    jobs.map(|job| (desk.placed(job), desk.runs(job))).collect()
}

/// Two gangs of five whose raw pods were created in turns.
fn in_turns(site: &Site) -> Box<dyn Plane> {
    let order = [0, 1].repeat(5).into_iter().map(JobNo).collect();
    Box::new(KubeDefault::new(site, 1).creating(Creation::Given(order)))
}

#[test]
fn raw_pods_in_turns_deadlock_on_one_node_and_on_eight() {
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    for site in [site(1, 8), site(8, 1)] {
        let fleet = played(&site, in_turns(&site), &jobs);
        assert_eq!(standing(fleet.desk()), [(4, false), (4, false)]);
        assert_eq!(fleet.desk().record().total.running, 0);
    }
}

/// In the first eight pods of an order either both gangs have four, and wait for each other, or one
/// has five and runs while the other holds three: 2 · C(8, 4) and 2 · C(8, 3) of the C(10, 5)
/// orders.
#[test]
fn every_order_of_raw_pods_ends_as_the_arithmetic_says() {
    let site = site(1, 8);
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    let (mut deadlocks, mut wastes) = (0, 0);
    for order in every_order(&[5, 5]) {
        let order = order.into_iter().map(|gang| JobNo(gang as u32)).collect();
        let plane = KubeDefault::new(&site, 1).creating(Creation::Given(order));
        match after_arrivals(&site, Box::new(plane), &jobs)[..] {
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
        let stock = || Scheduler::KubeDefault.begin(&site, 7).unwrap();
        assert_eq!(after_arrivals(&site, stock(), &jobs), [(5, true), (3, false)]);
        // The second holds three GPUs for as long as the first runs, and then runs.
        let fleet = played(&site, stock(), &jobs);
        let record = fleet.desk().record();
        assert_eq!(record.total.held - record.total.running, 3_000 * 599_000);
        assert_eq!(fleet.desk().fate(JobNo(1)).began, Some(Time(600_000)));
    }
}

/// What is held when nothing more happens is drawn, and told at an instant with why.
#[test]
fn a_deadlock_is_drawn_and_told() {
    let site = site(1, 8);
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    let mut fleet =
        Fleet::new(&site, in_turns(&site), jobs.to_vec(), Terms::default(), Failures::default());
    fleet.keep_bars();
    fleet.follow();
    while fleet.step().unwrap() {}
    let drawn = gantt(Scheduler::KubeDefault, &site, &fleet);
    let rows: u32 = drawn.bars.iter().map(|bar| bar.last_row - bar.first_row + 1).sum();
    assert!(
        rows == 8 && drawn.bars.iter().all(|bar| !bar.runs && bar.to_ms == 600_000),
        "{drawn:?}"
    );
    let told = instant(Scheduler::KubeDefault, &mut fleet, &[]);
    assert_eq!((told.running, told.waiting, told.held_milli), (0, 2, 8_000));
    assert!(told.jobs[0].why.contains("4 of its 5 pods"), "{}", told.jobs[0].why);
    let events: Vec<_> =
        fleet.take_happenings().iter().map(|(at, what)| event(&fleet, *at, what).what).collect();
    let placed = |event: &&FleetHappening| matches!(event, FleetHappening::Placed { .. });
    assert_eq!((events.len(), events.iter().filter(placed).count()), (10, 8));
}

/// The same seed breaks the same nodes at the same times, whoever decides; all jobs end, and what
/// is lost is counted.
#[test]
fn failures_cost_what_was_not_saved() {
    let site = site(4, 8);
    let jobs: Vec<FleetJob> =
        (0..40).map(|at| gang(&format!("j{at}"), at * 600, 8, 7_200)).collect();
    let failures = |seed| Failures {
        node_mtbf: Some(Span::from_secs(40_000)),
        gpu_mtbf: Some(Span::from_secs(400_000)),
        repair: Span::from_secs(3_600),
        seed,
    };
    let lost = |scheduler: Scheduler, checkpoint_every| {
        let terms = Terms { checkpoint_every, restart: Span::from_secs(60), ..Terms::default() };
        let plane = scheduler.begin(&site, 3).unwrap();
        let mut fleet = Fleet::new(&site, plane, jobs.clone(), terms, failures(3));
        while fleet.step().unwrap() {}
        let record = fleet.desk().record();
        assert!((0..40).all(|job| fleet.desk().has_ended(JobNo(job))), "{scheduler:?}");
        assert!(record.breakdowns > 0, "{scheduler:?}");
        let worked: u128 = 40 * 8_000 * 7_200_000;
        assert_eq!(record.total.running, worked + record.lost, "{scheduler:?}");
        record.lost
    };
    for (_, scheduler) in Scheduler::ALL {
        let (all, some) = (lost(scheduler, None), lost(scheduler, Some(Span::from_secs(900))));
        assert!(some < all, "{scheduler:?}: {some} of {all}");
    }
    // Another run of the same is the same.
    assert_eq!(lost(Scheduler::Muster, None), lost(Scheduler::Muster, None));
}

#[test]
fn whoever_places_gangs_whole_runs_one_and_queues_the_other() {
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    // Who has no scheduler holds whole machines, also after the end (none.rs).
    for (name, scheduler) in
        Scheduler::ALL.into_iter().filter(|(name, _)| !["kube-default", "none"].contains(name))
    {
        for site in [site(1, 8), site(8, 1)] {
            let fleet = played(&site, scheduler.begin(&site, 7).unwrap(), &jobs);
            let desk = fleet.desk();
            let ended = |job| {
                desk.fate(JobNo(job)).ended.unwrap_or_else(|| panic!("{name}: {job} has not ended"))
            };
            let (first, last) = (ended(0).min(ended(1)), ended(0).max(ended(1)));
            assert_eq!(
                desk.record().total.held,
                desk.record().total.running,
                "{name} held what it did not use"
            );
            // Schedulers that look every so often may lose a minute or two, not more.
            assert!(
                first < Time(720_000) && last < Time(1_440_000),
                "{name}: {first:?} and {last:?}"
            );
        }
    }
}

#[test]
fn whatever_breaks_and_whoever_reclaims_every_job_ends() {
    let queue = |name: &str, weight| QueueSpec { weight, ..QueueSpec::named(name) };
    let tree = QueueTree {
        queues: vec![queue("a", 1), queue("b", 2), queue("c", 3)],
        ..QueueTree::single()
    };
    let site = Site { tree, ..site(4, 8) };
    let jobs: Vec<FleetJob> = (0..300u64)
        .map(|at| {
            // Widths from 1 to 5 and runtimes from 50 s to half an hour, with no pattern that
            // matters.
            let (width, runtime) = (at * at % 23 % 5 + 1, 50 + at * 7_919 % 1_750);
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
        let scheduler = Scheduler::named(name).unwrap();
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
            Terms::default(),
            failures,
        );
        while fleet.step().unwrap() {}
        let desk = fleet.desk();
        let left = (0..jobs.len() as u32).filter(|job| !desk.has_ended(JobNo(*job))).count();
        assert_eq!(left, 0, "{name} lost jobs");
        assert!(desk.record().breakdowns > 10, "{name}: too little broke to say anything");
        // Only Volcano and KAI take back, and only Volcano gives up a whole gang at once when it
        // loses a pod.
        assert_eq!(desk.record().evictions > 0, name != "ray", "{name}");
        assert_eq!(
            desk.record().total.held == desk.record().total.running,
            name == "volcano",
            "{name}"
        );
    }
}

/// A queue's head that does not fit is set aside, and does not block those behind it.
#[test]
fn kueue_goes_on_to_who_fits() {
    let site = site(1, 8);
    let jobs = [gang("first", 0, 5, 600), gang("wide", 1, 5, 600), gang("small", 2, 3, 60)];
    for scheduler in [Scheduler::Kueue, Scheduler::KueueTas, Scheduler::KueueReady] {
        let fleet = played(&site, scheduler.begin(&site, 0).unwrap(), &jobs);
        let began = |job| fleet.desk().fate(JobNo(job)).began.unwrap().0 / 1000;
        assert_eq!([0, 1, 2].map(began), [0, 600, 2], "{scheduler:?}");
    }
}
