//! People with ssh: which machines they take, for how long, and which user gets them next, worked
//! out by hand.

use muster_model::{Span, Time};
use muster_sim::fleet::{Failures, Fleet, FleetJob, FleetSite, JobNo, SchedulerKind, StopCosts};

use crate::fleet::{gang, played, site};

const MINUTE: u64 = 60_000;

fn people(site: &FleetSite) -> Box<dyn muster_sim::fleet::Scheduler> {
    SchedulerKind::None.begin(site, 1).unwrap()
}

#[test]
fn a_user_takes_a_whole_machine_and_returns_two_hours_after_the_end() {
    // One GPU of eight, ten minutes.
    let one = site(1, 8);
    let jobs = [gang("a", 0, 1, 600), gang("b", 60, 1, 600)];
    let fleet = played(&one, people(&one), &jobs);
    let cluster = fleet.cluster();
    // The second looks at minute 1 and every 30 minutes from then on; the machine is free from
    // minute 130 on.
    assert_eq!(cluster.status(JobNo(0)).began, Some(Time(0)));
    assert_eq!(cluster.status(JobNo(1)).began, Some(Time(151 * MINUTE)));
    let total = &cluster.record().total;
    assert_eq!(total.running, u128::from(2 * 10 * MINUTE) * 1000);
    // All eight GPUs: minute 0 to 130, and from 151 until the last work ends at 161.
    assert_eq!(total.held, u128::from((130 + 10) * MINUTE) * 8000);
}

#[test]
fn wide_work_takes_the_fewest_machines_and_no_busy_one() {
    let three = site(3, 4);
    let jobs = [gang("a", 0, 6, 600), gang("b", 1, 6, 600), gang("c", 2, 1, 600)];
    let mut fleet = Fleet::new(
        &three,
        people(&three),
        jobs.to_vec(),
        StopCosts::default(),
        Failures::default(),
    );
    fleet.record_bars();
    while fleet.step().unwrap() {}
    let cluster = fleet.cluster();
    // Two machines for the first; the second needs two and finds one; the third arrives later and
    // takes it.
    let began = |job| cluster.status(JobNo(job)).began;
    assert_eq!([began(0), began(2)], [Some(Time(0)), Some(Time(2_000))]);
    // Both machines of the first are released at minute 130; the second looks at second 1 and every
    // half hour.
    assert_eq!(began(1), Some(Time(150 * MINUTE + 1_000)));
    assert_eq!((cluster.status(JobNo(0)).nodes, cluster.status(JobNo(1)).nodes), (2, 2));
    // The bars add up to what was held, until the last work ended.
    let end = began(1).unwrap() + Span(10 * MINUTE);
    let bars = cluster.record().bars.as_ref().unwrap();
    let length = |bar: &muster_sim::fleet::AllocationBar| bar.to.min(end).since(bar.from).0;
    let shown: u128 =
        bars.iter().map(|bar| u128::from(length(bar)) * u128::from(bar.devices.len()) * 1000).sum();
    assert_eq!(shown, cluster.record().total.held);
}

#[test]
fn a_lost_machine_is_noticed_at_the_next_look_and_its_work_restarts() {
    let two = site(2, 1);
    let failures = Failures {
        node_mtbf: Some(Span::from_secs(5_000)),
        repair: Span::from_secs(60),
        seed: 5,
        ..Failures::default()
    };
    let mut fleet = Fleet::new(
        &two,
        people(&two),
        vec![gang("a", 0, 2, 5_000)],
        StopCosts::default(),
        failures,
    );
    let mut broke = None;
    while fleet.step().unwrap() {
        let fate = fleet.cluster().status(JobNo(0));
        if fate.stops == 1 && broke.is_none() {
            broke = Some(fleet.cluster().now());
            // The other machine is still taken, and idle.
            assert_eq!(fleet.cluster().placed(JobNo(0)), 0);
        }
        if broke.is_some_and(|at| fleet.cluster().now() < at + Span(30 * MINUTE)) {
            assert!(!fleet.cluster().runs(JobNo(0)), "its user was not there to restart it");
        }
    }
    assert!(broke.is_some(), "with this seed a node breaks while it runs");
    assert!(fleet.cluster().has_ended(JobNo(0)));
}

#[test]
fn further_work_of_a_user_runs_on_the_machine_it_holds() {
    let one = site(1, 8);
    let of = |job: FleetJob, user: &str| FleetJob { user: user.into(), ..job };
    let jobs = [
        of(gang("a1", 0, 6, 600), "a"),
        of(gang("b", 30, 1, 600), "b"),
        of(gang("a2", 60, 2, 1_200), "a"),
        of(gang("a3", 120, 4, 600), "a"),
    ];
    let fleet = played(&one, people(&one), &jobs);
    let began = |job| fleet.cluster().status(JobNo(job)).began;
    // The second fits beside the first; the third has to wait for the first to end, and for its
    // user to look again.
    assert_eq!([began(0), began(2)], [Some(Time(0)), Some(Time(MINUTE))]);
    assert_eq!(began(3), Some(Time(32 * MINUTE)));
    // The user is back at minute 130, two hours after the end of the first, when nothing runs any
    // more.
    assert_eq!(began(1), Some(Time(150 * MINUTE + 30_000)));
}
