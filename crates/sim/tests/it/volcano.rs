//! What Volcano does with queues and gangs, on numbers that can be followed by hand.

use muster_model::queue::Preemption;
use muster_model::{QueueSpec, QueueTree, Span, Time};
use muster_sim::fleet::{Failures, Fleet, FleetJob, JobNo, Scheduler, Site, Terms};

use crate::fleet::{gang, played, site};

/// The same nodes, with these queues.
fn with_queues(site: Site, queues: Vec<QueueSpec>, preemption: Preemption) -> Site {
    let tree = QueueTree { queues, preemption, ..QueueTree::single() };
    Site { tree, ..site }
}

fn queue(name: &str, weight: u32) -> QueueSpec {
    QueueSpec { weight, ..QueueSpec::named(name) }
}

fn of(queue: &str, job: FleetJob) -> FleetJob {
    FleetJob { queue: queue.into(), ..job }
}

fn volcano(site: &Site) -> Box<dyn muster_sim::fleet::Plane> {
    Scheduler::Volcano.begin(site, 3).unwrap()
}

/// GPUs that jobs of each queue hold at an instant.
fn held_at(site: &Site, jobs: &[FleetJob], at: Time, queues: [&str; 2]) -> [u32; 2] {
    let mut fleet =
        Fleet::new(site, volcano(site), jobs.to_vec(), Terms::default(), Failures::default());
    while fleet.desk().now() < at && fleet.step().unwrap() {}
    let desk = fleet.desk();
    let held = |queue: &str| {
        let of_queue =
            desk.jobs().iter().zip(0..).filter(|(job, _)| &*job.queue.to_string() == queue);
        of_queue.map(|(_, number)| desk.placed(JobNo(number))).sum()
    };
    queues.map(held)
}

/// Twenty jobs of one GPU in each of two queues, by turns.
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
fn with_enqueue_who_is_let_in_first_takes_what_others_have_not_asked_for_yet() {
    let site = with_queues(site(1, 12), vec![queue("a", 1), queue("b", 3)], Preemption::OFF);
    // Jobs of queue a as large as the cluster are let in, and of b what 1.2 × 12 GPUs leave: two.
    // So b deserves two.
    assert_eq!(held_at(&site, &many("a", "b"), Time(1_000), ["a", "b"]), [10, 2]);
}

#[test]
fn a_gang_reclaims_what_its_queue_deserves_and_no_more() {
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
    let fate = |job| fleet.desk().fate(JobNo(job)).clone();
    // Pods are there one session after the job, and one of a's two gangs goes for one of b's.
    assert_eq!((fate(0).stops, fate(1).stops, fleet.desk().record().evictions), (1, 0, 1));
    assert_eq!(fate(2).began, Some(Time(101_000)));
    // Its end gives either queue four; a has them already.
    assert_eq!((fate(3).began, fate(0).last_began), (Some(Time(601_000)), Some(Time(1_001_000))));

    let patient = site_with(Preemption::OFF);
    let fleet = played(&patient, volcano(&patient), &jobs);
    assert_eq!(fleet.desk().record().evictions, 0);
    assert!(fleet.desk().fate(JobNo(2)).began >= Some(Time(1_001_000)));
}

#[test]
fn a_gang_that_does_not_fit_lets_others_pass() {
    let site = site(1, 8);
    let jobs = [gang("runs", 0, 5, 600), gang("large", 1, 8, 600), gang("small", 2, 3, 600)];
    let fleet = played(&site, volcano(&site), &jobs);
    let began = |job| fleet.desk().fate(JobNo(job)).began;
    assert_eq!((began(0), began(2)), (Some(Time(1_000)), Some(Time(3_000))));
    // Let in when 9.6 GPUs less those that run are enough for it, and placed in the session after
    // that.
    assert_eq!(began(1), Some(Time(604_000)));
}

#[test]
fn gangs_wider_than_what_their_queues_deserve_wait_for_each_other() {
    // Each queue deserves four GPUs of eight as long as the other asks for its own, and a gang of
    // five is more.
    let two = vec![queue("a", 1), queue("b", 1)];
    let jobs = [of("a", gang("a", 0, 5, 600)), of("b", gang("b", 0, 5, 600))];
    let site_with = |preemption| with_queues(site(1, 8), two.clone(), preemption);
    let all_ask = site_with(Preemption::default());
    let fleet = played(&all_ask, volcano(&all_ask), &jobs);
    assert_eq!(
        (fleet.desk().fate(JobNo(0)).began, fleet.desk().fate(JobNo(1)).began),
        (None, None)
    );
    // Action `enqueue` lets one in, since ten are more than 1.2 times eight, and nobody else asks.
    let one_asks = site_with(Preemption::OFF);
    let fleet = played(&one_asks, volcano(&one_asks), &jobs);
    let began = |job| fleet.desk().fate(JobNo(job)).began;
    assert_eq!((began(0), began(1)), (Some(Time(1_000)), Some(Time(602_000))));
}

#[test]
fn quota_that_is_not_lent_stays_free_for_its_queue() {
    let kept = QueueSpec { quota: [("a100".into(), 5)].into(), lend: Some(1), ..queue("a", 1) };
    let site = with_queues(site(1, 8), vec![kept, queue("b", 1)], Preemption::default());
    // Of five GPUs one is lent, so four stay free though nobody of queue a asks for them.
    assert_eq!(held_at(&site, &many("b", "b"), Time(5_000), ["a", "b"]), [0, 4]);
}

#[test]
fn a_job_that_loses_a_node_starts_again_whole() {
    let site = site(3, 4);
    let failures = Failures {
        node_mtbf: Some(Span::from_secs(8_000)),
        repair: Span::from_secs(600),
        ..Failures::default()
    };
    let jobs = vec![gang("a", 0, 8, 10_000)];
    let mut fleet = Fleet::new(&site, volcano(&site), jobs, Terms::default(), failures);
    while fleet.step().unwrap() {
        assert!([0, 8].contains(&fleet.desk().placed(JobNo(0))), "part of a gang held GPUs");
    }
    assert!(fleet.desk().fate(JobNo(0)).stops > 0 && fleet.desk().has_ended(JobNo(0)));
}
