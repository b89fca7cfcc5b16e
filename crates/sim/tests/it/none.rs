//! People with ssh: what they take, how long they keep it, and who gets it next, worked out by
//! hand.

use muster_model::{Span, Time};
use muster_sim::fleet::{Failures, Fleet, FleetJob, JobNo, Scheduler, Site, Terms};

use crate::fleet::{gang, played, site};

const MINUTE: u64 = 60_000;

fn people(site: &Site) -> Box<dyn muster_sim::fleet::Plane> {
    Scheduler::None.begin(site, 1).unwrap()
}

#[test]
fn a_person_takes_a_whole_machine_and_comes_back_two_hours_after_the_end() {
    // One GPU of eight, ten minutes.
    let one = site(1, 8);
    let jobs = [gang("a", 0, 1, 600), gang("b", 60, 1, 600)];
    let fleet = played(&one, people(&one), &jobs);
    let desk = fleet.desk();
    // The second looks at minute 1 and every 30 minutes from then on; the machine is free from
    // minute 130 on.
    assert_eq!(desk.fate(JobNo(0)).began, Some(Time(0)));
    assert_eq!(desk.fate(JobNo(1)).began, Some(Time(151 * MINUTE)));
    let total = &desk.record().total;
    assert_eq!(total.running, u128::from(2 * 10 * MINUTE) * 1000);
    // All eight GPUs: minute 0 to 130, and from 151 until the last work ends at 161.
    assert_eq!(total.held, u128::from((130 + 10) * MINUTE) * 8000);
}

#[test]
fn wide_work_takes_as_few_machines_as_it_needs_and_a_busy_machine_is_left_alone() {
    let three = site(3, 4);
    let jobs = [gang("a", 0, 6, 600), gang("b", 1, 6, 600), gang("c", 2, 1, 600)];
    let mut fleet =
        Fleet::new(&three, people(&three), jobs.to_vec(), Terms::default(), Failures::default());
    fleet.keep_bars();
    while fleet.step().unwrap() {}
    let desk = fleet.desk();
    // Two machines for the first; the second needs two and finds one; the third comes later and
    // takes it.
    let began = |job| desk.fate(JobNo(job)).began;
    assert_eq!([began(0), began(2)], [Some(Time(0)), Some(Time(2_000))]);
    // Both machines of the first are let go at minute 130; it looks at second 1 and every half
    // hour.
    assert_eq!(began(1), Some(Time(150 * MINUTE + 1_000)));
    assert_eq!((desk.fate(JobNo(0)).nodes, desk.fate(JobNo(1)).nodes), (2, 2));
    // What the bars say adds up to what was held, until the last work ended.
    let end = began(1).unwrap() + Span(10 * MINUTE);
    let bars = desk.record().bars.as_ref().unwrap();
    let length = |bar: &muster_sim::fleet::Bar| bar.to.min(end).since(bar.from).0;
    let shown: u128 =
        bars.iter().map(|bar| u128::from(length(bar)) * u128::from(bar.devices.len()) * 1000).sum();
    assert_eq!(shown, desk.record().total.held);
}

#[test]
fn who_loses_a_machine_finds_out_at_the_next_look_and_starts_again() {
    let two = site(2, 1);
    let failures = Failures {
        node_mtbf: Some(Span::from_secs(5_000)),
        repair: Span::from_secs(60),
        seed: 5,
        ..Failures::default()
    };
    let mut fleet =
        Fleet::new(&two, people(&two), vec![gang("a", 0, 2, 5_000)], Terms::default(), failures);
    let mut broke = None;
    while fleet.step().unwrap() {
        let fate = fleet.desk().fate(JobNo(0));
        if fate.stops == 1 && broke.is_none() {
            broke = Some(fleet.desk().now());
            // The other machine is taken still, and does nothing.
            assert_eq!(fleet.desk().placed(JobNo(0)), 0);
        }
        if broke.is_some_and(|at| fleet.desk().now() < at + Span(30 * MINUTE)) {
            assert!(!fleet.desk().runs(JobNo(0)), "nobody was there to start it again");
        }
    }
    assert!(broke.is_some(), "with this seed a node breaks while it runs");
    assert!(fleet.desk().has_ended(JobNo(0)));
}

#[test]
fn further_work_of_a_person_goes_on_the_machine_that_is_taken_already() {
    let one = site(1, 8);
    let of = |job: FleetJob, user: &str| FleetJob { user: user.into(), ..job };
    let jobs = [
        of(gang("a1", 0, 6, 600), "a"),
        of(gang("b", 30, 1, 600), "b"),
        of(gang("a2", 60, 2, 1_200), "a"),
        of(gang("a3", 120, 4, 600), "a"),
    ];
    let fleet = played(&one, people(&one), &jobs);
    let began = |job| fleet.desk().fate(JobNo(job)).began;
    // The second fits beside the first; the third has to wait for the first to end, and for its
    // owner to look again.
    assert_eq!([began(0), began(2)], [Some(Time(0)), Some(Time(MINUTE))]);
    assert_eq!(began(3), Some(Time(32 * MINUTE)));
    // The owner is back at minute 130, two hours after the end of the first, when nothing runs any
    // more.
    assert_eq!(began(1), Some(Time(150 * MINUTE + 30_000)));
}
