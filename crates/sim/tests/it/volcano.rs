//! Volcano's queues and gangs, on numbers that can be checked by hand.

use muster_model::queue::Preemption;
use muster_model::{QueueSpec, QueueTree, Span, Time};
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetJob, FleetSite, JobNo, SchedulerKind, StopCosts,
};

use crate::fleet::{gang, played, site};

/// The same nodes, with these queues.
fn with_queues(site: FleetSite, queues: Vec<QueueSpec>, preemption: Preemption) -> FleetSite {
    let tree = QueueTree { queues, preemption, ..QueueTree::single() };
    FleetSite { tree, ..site }
}

fn queue(name: &str, weight: u32) -> QueueSpec {
    QueueSpec { weight, ..QueueSpec::named(name) }
}

fn of(queue: &str, job: FleetJob) -> FleetJob {
    FleetJob { queue: queue.into(), ..job }
}

fn volcano(site: &FleetSite) -> Box<dyn muster_sim::fleet::Scheduler> {
    SchedulerKind::Volcano.begin(site, 3).unwrap()
}

/// GPUs that jobs of each queue hold at an instant.
fn held_at(site: &FleetSite, jobs: &[FleetJob], at: Time, queues: [&str; 2]) -> [u32; 2] {
    let mut fleet =
        Fleet::new(site, volcano(site), jobs.to_vec(), StopCosts::default(), Failures::default());
    while fleet.cluster().now() < at && fleet.step().unwrap() {}
    let cluster = fleet.cluster();
    let held = |queue: &str| {
        let of_queue =
            cluster.jobs().iter().zip(0..).filter(|(job, _)| &*job.queue.to_string() == queue);
        of_queue.map(|(_, number)| cluster.placed(JobNo(number))).sum()
    };
    queues.map(held)
}

/// Twenty jobs of one GPU in each of two queues, in turns.
fn many(first: &str, second: &str) -> Vec<FleetJob> {
    let job = |at: u32| {
        of(if at.is_multiple_of(2) { first } else { second }, gang(&format!("j{at}"), 0, 1, 1_000))
    };
    (0..40).map(job).collect()
}

#[test]
fn queues_share_by_weight() {
    let site = with_queues(site(1, 12), vec![queue("a", 1), queue("b", 3)], Preemption::default());
    assert_eq!(held_at(&site, &many("a", "b"), Time(1_000), ["a", "b"]), [3, 9]);
}

#[test]
fn with_enqueue_the_first_admitted_takes_unclaimed_resources() {
    let site = with_queues(site(1, 12), vec![queue("a", 1), queue("b", 3)], Preemption::OFF);
    // Jobs of queue a as large as the cluster are enqueued, and of b what 1.2 × 12 GPUs leave: two.
    // So b deserves two.
    assert_eq!(held_at(&site, &many("a", "b"), Time(1_000), ["a", "b"]), [10, 2]);
}

#[test]
fn a_gang_reclaims_up_to_the_deserved_share_of_its_queue() {
    let two = vec![queue("a", 1), queue("b", 1)];
    let jobs = [
        of("a", gang("a1", 0, 4, 1_000)),
        of("a", gang("a2", 0, 4, 1_000)),
        of("b", gang("b1", 100, 4, 500)),
        of("b", gang("b2", 100, 4, 500)),
    ];
    let site_with = |preemption| with_queues(site(1, 8), two.clone(), preemption);
    let reclaiming = site_with(Preemption::default());
    let fleet = played(&reclaiming, volcano(&reclaiming), &jobs);
    let fate = |job| fleet.cluster().status(JobNo(job)).clone();
    // Pods are there one session after the job, and one of a's two gangs is evicted for one of b's.
    assert_eq!((fate(0).stops, fate(1).stops, fleet.cluster().record().evictions), (1, 0, 1));
    assert_eq!(fate(2).began, Some(Time(101_000)));
    // Its end gives either queue four; a has them already.
    assert_eq!((fate(3).began, fate(0).last_began), (Some(Time(601_000)), Some(Time(1_001_000))));

    let patient = site_with(Preemption::OFF);
    let fleet = played(&patient, volcano(&patient), &jobs);
    assert_eq!(fleet.cluster().record().evictions, 0);
    assert!(fleet.cluster().status(JobNo(2)).began >= Some(Time(1_001_000)));
}

#[test]
fn a_gang_that_does_not_fit_lets_others_pass() {
    let site = site(1, 8);
    let jobs = [gang("runs", 0, 5, 600), gang("large", 1, 8, 600), gang("small", 2, 3, 600)];
    let fleet = played(&site, volcano(&site), &jobs);
    let began = |job| fleet.cluster().status(JobNo(job)).began;
    assert_eq!((began(0), began(2)), (Some(Time(1_000)), Some(Time(3_000))));
    // Enqueued when 9.6 GPUs less the running ones are enough for it, and placed in the next
    // session.
    assert_eq!(began(1), Some(Time(604_000)));
}

#[test]
fn gangs_beyond_the_deserved_share_of_their_queues_block_each_other() {
    // Each queue deserves four GPUs of eight as long as the other asks for its own, and a gang of
    // five is more.
    let two = vec![queue("a", 1), queue("b", 1)];
    let jobs = [of("a", gang("a", 0, 5, 600)), of("b", gang("b", 0, 5, 600))];
    let site_with = |preemption| with_queues(site(1, 8), two.clone(), preemption);
    let all_ask = site_with(Preemption::default());
    let fleet = played(&all_ask, volcano(&all_ask), &jobs);
    assert_eq!(
        (fleet.cluster().status(JobNo(0)).began, fleet.cluster().status(JobNo(1)).began),
        (None, None)
    );
    // Action `enqueue` enqueues one, since ten are more than 1.2 times eight, and no other queue
    // asks.
    let one_asks = site_with(Preemption::OFF);
    let fleet = played(&one_asks, volcano(&one_asks), &jobs);
    let began = |job| fleet.cluster().status(JobNo(job)).began;
    assert_eq!((began(0), began(1)), (Some(Time(1_000)), Some(Time(602_000))));
}

/// Explains a job after the first two sessions.
fn why(site: &FleetSite, jobs: &[FleetJob], job: u32) -> String {
    let mut fleet =
        Fleet::new(site, volcano(site), jobs.to_vec(), StopCosts::default(), Failures::default());
    while fleet.cluster().now() < Time(1_000) && fleet.step().unwrap() {}
    fleet.why(JobNo(job))
}

#[test]
fn a_queue_that_refuses_a_gang_is_named_with_its_numbers() {
    let two = |preemption| with_queues(site(1, 8), vec![queue("a", 1), queue("b", 1)], preemption);
    let jobs = [of("a", gang("a", 0, 5, 600)), of("b", gang("b", 0, 5, 600))];
    // Both ask for more than half of the cluster, and deserve half.
    let reclaiming = two(Preemption::default());
    let refused = "queue a refuses the gang: it deserves 4 GPUs while others ask for theirs, and the gang needs 5 (plugin proportion)";
    assert_eq!(why(&reclaiming, &jobs, 0), refused);
    let ended = Finished::of(
        SchedulerKind::Volcano,
        played(&reclaiming, volcano(&reclaiming), &jobs),
        false,
    );
    assert_eq!(ended.figures().left_why.as_deref(), Some(&*format!("job a: {refused}")));
    assert_eq!(ended.figures().model_of.as_deref(), Some("Volcano 1.15.1"));
    // With action enqueue: ten GPUs are more than 1.2 times eight.
    assert_eq!(
        why(&two(Preemption::OFF), &jobs, 1),
        "its pod group is not enqueued: with its 5 GPUs, enqueued pods of all queues would need more than 9 (plugin overcommit)"
    );
    // A quota of four without borrowing, alone and beside a job of one GPU.
    let capped = QueueSpec { quota: [("a100".into(), 4)].into(), borrow: Some(0), ..queue("a", 1) };
    let capped = with_queues(site(1, 8), vec![capped, queue("b", 1)], Preemption::OFF);
    assert_eq!(
        why(&capped, &jobs, 0),
        "queue a refuses its pod group: it may hold 4 GPUs at most, and the gang needs 5 (plugin proportion)"
    );
    let jobs = [of("a", gang("one", 0, 1, 600)), of("a", gang("four", 0, 4, 600))];
    assert_eq!(
        why(&capped, &jobs, 1),
        "queue a does not enqueue its pod group: with its 4 GPUs, enqueued pods would need more than the 4 that the queue may hold (plugin proportion)"
    );
}

#[test]
fn quota_that_is_not_lent_stays_free_for_its_queue() {
    let kept = QueueSpec { quota: [("a100".into(), 5)].into(), lend: Some(1), ..queue("a", 1) };
    let site = with_queues(site(1, 8), vec![kept, queue("b", 1)], Preemption::default());
    // Of five GPUs one is lent, so four stay free without requests in queue a.
    assert_eq!(held_at(&site, &many("b", "b"), Time(5_000), ["a", "b"]), [0, 4]);
}

#[test]
fn a_job_that_loses_a_node_restarts_as_a_whole() {
    let site = site(3, 4);
    let failures = Failures {
        node_mtbf: Some(Span::from_secs(8_000)),
        repair: Span::from_secs(600),
        ..Failures::default()
    };
    let jobs = vec![gang("a", 0, 8, 10_000)];
    let mut fleet = Fleet::new(&site, volcano(&site), jobs, StopCosts::default(), failures);
    while fleet.step().unwrap() {
        assert!([0, 8].contains(&fleet.cluster().placed(JobNo(0))), "part of a gang held GPUs");
    }
    assert!(fleet.cluster().status(JobNo(0)).stops > 0 && fleet.cluster().has_ended(JobNo(0)));
}
