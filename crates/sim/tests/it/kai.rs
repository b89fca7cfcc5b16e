//! KAI's queues, gangs and shares of GPUs, on numbers that can be checked by hand.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Protection, Resources};
use muster_model::queue::Preemption;
use muster_model::{GpuMilli, NodeId, QueueSpec, QueueTree, Span, Time};
use muster_sim::fleet::{
    ClusterState, Failures, Fleet, FleetJob, FleetSite, JobNo, Scheduler, SchedulerKind, StopCosts,
};

use crate::fleet::{gang, played, site};

fn with_queues(site: FleetSite, queues: Vec<QueueSpec>) -> FleetSite {
    let tree = QueueTree { queues, preemption: Preemption::default(), ..QueueTree::single() };
    FleetSite { tree, ..site }
}

fn queue(name: &str, weight: u32) -> QueueSpec {
    QueueSpec { weight, ..QueueSpec::named(name) }
}

fn of(queue: &str, job: FleetJob) -> FleetJob {
    FleetJob { queue: queue.into(), ..job }
}

fn kai(site: &FleetSite) -> Box<dyn Scheduler> {
    SchedulerKind::Kai.begin(site, 3).unwrap()
}

/// The fleet at an instant.
fn at(site: &FleetSite, jobs: &[FleetJob], secs: u64) -> Fleet {
    let mut fleet =
        Fleet::new(site, kai(site), jobs.to_vec(), StopCosts::default(), Failures::default());
    while fleet.cluster().now() < Time(secs * 1_000) && fleet.step().unwrap() {}
    fleet
}

/// Pods that jobs of each queue hold.
fn held<const COUNT: usize>(cluster: &ClusterState, queues: [&str; COUNT]) -> [u32; COUNT] {
    queues.map(|queue| {
        let numbers =
            cluster.jobs().iter().zip(0..).filter(|(job, _)| job.queue.to_string() == queue);
        numbers.map(|(_, number)| cluster.placed(JobNo(number))).sum()
    })
}

/// Jobs of one GPU.
fn ones(queue: &str, submit_secs: u64, count: u32) -> Vec<FleetJob> {
    (0..count).map(|at| of(queue, gang(&format!("{queue}{at}"), submit_secs, 1, 100_000))).collect()
}

#[test]
fn queues_share_by_weight_and_take_their_share_back() {
    let site = with_queues(site(1, 12), vec![queue("a", 1), queue("b", 3)]);
    let together: Vec<FleetJob> = [ones("a", 0, 20), ones("b", 0, 20)].concat();
    assert_eq!(held(at(&site, &together, 1).cluster(), ["a", "b"]), [3, 9]);
    // The later queue finds everything lent, and reclaims nine, once.
    let later: Vec<FleetJob> = [ones("a", 0, 20), ones("b", 100, 20)].concat();
    let fleet = at(&site, &later, 300);
    assert_eq!(held(fleet.cluster(), ["a", "b"]), [3, 9]);
    assert_eq!(fleet.cluster().record().evictions, 9);
}

#[test]
fn shares_are_divided_level_by_level() {
    let upper = QueueSpec { queues: vec![queue("x", 1), queue("y", 2)], ..queue("upper", 1) };
    let site = with_queues(site(1, 12), vec![upper, queue("other", 1)]);
    let jobs = [ones("upper/x", 0, 20), ones("upper/y", 0, 20), ones("other", 0, 20)].concat();
    assert_eq!(held(at(&site, &jobs, 1).cluster(), ["upper/x", "upper/y", "other"]), [2, 4, 6]);
}

#[test]
fn quota_comes_before_weight_and_a_limit_holds() {
    let promised = QueueSpec { quota: [("a100".into(), 6)].into(), ..queue("a", 1) };
    let limited =
        QueueSpec { quota: [("a100".into(), 1)].into(), borrow: Some(1), ..queue("b", 100) };
    let site = with_queues(site(1, 12), vec![promised, limited]);
    let jobs = [ones("a", 0, 8), ones("b", 0, 20)].concat();
    assert_eq!(held(at(&site, &jobs, 1).cluster(), ["a", "b"]), [8, 2]);
}

#[test]
fn jobs_are_moved_together_for_a_gang_that_needs_a_node() {
    // Two nodes of four GPUs. Four jobs of two fill them; of each node one ends, and four GPUs are
    // free, two and two.
    let pairs = |id: &str, secs| {
        let task = Resources { gpu: GpuRequest::whole(2), ..Resources::default() };
        FleetJob { task: Arc::new(task), asked_milli: 2_000, ..gang(id, 0, 1, secs) }
    };
    let four = |id: &str, submit| {
        let task = Resources { gpu: GpuRequest::whole(4), ..Resources::default() };
        FleetJob { task: Arc::new(task), asked_milli: 4_000, ..gang(id, submit, 1, 100) }
    };
    let jobs =
        [pairs("a", 50), pairs("b", 1_000), pairs("c", 50), pairs("d", 1_000), four("e", 10)];
    let fleet = at(&site(2, 4), &jobs, 50);
    let cluster = fleet.cluster();
    // It arrived at 10 s, when nothing was free, and gets a node at 50 s; one of the others was
    // moved, and none was evicted for good.
    assert_eq!(cluster.status(JobNo(4)).began, Some(Time(50_000)));
    assert_eq!(cluster.record().evictions, 1);
    assert!(cluster.runs(JobNo(1)) && cluster.runs(JobNo(3)));
    let node = |job: u32| cluster.place_of(JobNo(job), 0).unwrap().0;
    assert_eq!(node(1), node(3));
    assert_ne!(node(4), node(1));
}

#[test]
fn no_job_is_moved_when_less_is_free_than_requested() {
    let jobs = [gang("a", 0, 3, 1_000), gang("b", 0, 3, 1_000), gang("c", 5, 3, 1_000)];
    let fleet = played(&site(2, 4), kai(&site(2, 4)), &jobs);
    assert_eq!(fleet.cluster().record().evictions, 0);
    assert_eq!(fleet.cluster().status(JobNo(2)).began, Some(Time(1_000_000)));
}

#[test]
fn higher_priority_starts_first_and_preempts_lower() {
    let site = site(1, 4);
    let urgent = FleetJob { priority: 10, ..gang("urgent", 100, 4, 50) };
    let fleet =
        played(&site, kai(&site), &[gang("a", 0, 2, 1_000), gang("b", 0, 2, 1_000), urgent]);
    let fate = |job| fleet.cluster().status(JobNo(job)).clone();
    assert_eq!((fate(2).began, fate(0).stops, fate(1).stops), (Some(Time(100_000)), 1, 1));
    assert_eq!(
        (fate(0).last_began, fate(1).last_began),
        (Some(Time(150_000)), Some(Time(150_000)))
    );
}

#[test]
fn jobs_are_safe_for_as_long_as_their_queue_says() {
    let safe = QueueSpec { protect: Some(Protection::For(Span::from_secs(500))), ..queue("a", 1) };
    let site = with_queues(site(1, 8), vec![safe, queue("b", 1)]);
    let jobs = [
        of("a", gang("a0", 0, 4, 2_000)),
        of("a", gang("a1", 0, 4, 2_000)),
        of("b", gang("b", 100, 4, 1_000)),
    ];
    let fleet = played(&site, kai(&site), &jobs);
    // Only the protection ends at 500 s: the newer of the two is evicted.
    assert_eq!(fleet.cluster().status(JobNo(2)).began, Some(Time(500_000)));
    assert_eq!(
        (fleet.cluster().status(JobNo(0)).stops, fleet.cluster().status(JobNo(1)).stops),
        (0, 1)
    );
}

#[test]
fn gpu_shares_join_shared_gpus_and_pods_the_fullest_node() {
    let share = |id: &str, milli| {
        let gpu = GpuRequest { share: GpuMilli(milli), ..GpuRequest::default() };
        let task = Resources { gpu, ..Resources::default() };
        FleetJob { task: Arc::new(task), asked_milli: milli, ..gang(id, 0, 1, 1_000) }
    };
    // The first node is fuller, but a share goes beside other shares.
    let jobs = [gang("a", 0, 3, 1_000), share("b", 400), share("c", 700), share("d", 500)];
    let fleet = at(&site(2, 4), &jobs, 1);
    let place = |job: u32| fleet.cluster().place_of(JobNo(job), 0).unwrap();
    assert_eq!(place(0).0, NodeId(0));
    // The last GPU of the full node, then the idle node, then beside the first share.
    assert_eq!((place(1).0, place(2).0, place(3)), (NodeId(0), NodeId(1), place(1)));
}

#[test]
fn a_gang_that_loses_a_node_holds_its_other_nodes_for_a_minute() {
    // Eight pods on two nodes, and no third: the rest of the gang is held until the grace is over.
    let site = site(2, 4);
    let failures = Failures {
        node_mtbf: Some(Span::from_secs(8_000)),
        repair: Span::from_secs(600),
        ..Failures::default()
    };
    let mut fleet =
        Fleet::new(&site, kai(&site), vec![gang("a", 0, 8, 6_000)], StopCosts::default(), failures);
    let mut since = None;
    let mut longest = Span(0);
    while fleet.step().unwrap() {
        let now = fleet.cluster().now();
        match (fleet.cluster().placed(JobNo(0)), since) {
            (0 | 8, Some(start)) => (longest, since) = (longest.max(now.since(start)), None),
            (1..8, None) => since = Some(now),
            _ => {}
        }
    }
    assert!(fleet.cluster().has_ended(JobNo(0)) && fleet.cluster().status(JobNo(0)).stops > 0);
    assert!(longest >= Span::from_secs(60) && longest <= Span::from_secs(61), "{longest:?}");
}
