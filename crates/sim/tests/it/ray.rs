//! Gangs in one Ray application: no group blocks another, so a large one can be pending for ever.

use muster_model::{Span, Time};
use muster_sim::fleet::{Failures, Fleet, JobNo, SchedulerKind, StopCosts};

use crate::fleet::{gang, played, site};

#[test]
fn small_groups_starve_a_large_one_while_they_arrive() {
    let site = site(1, 8);
    let mut jobs = vec![gang("first", 0, 4, 100), gang("large", 1, 8, 100)];
    // One of four every 50 s, each for 100 s: four of eight GPUs are always held.
    jobs.extend((1..40).map(|at| gang(&format!("small-{at}"), at * 50, 4, 100)));
    let fleet = played(&site, SchedulerKind::Ray.begin(&site, 1).unwrap(), &jobs);
    let began = |job| fleet.cluster().status(JobNo(job)).began.unwrap();
    for small in 2..jobs.len() as u32 {
        assert_eq!(began(small), jobs[small as usize].submit, "a small one waited");
    }
    // The last small one ends at 39 × 50 + 100 s, and the large one is tried within a second of it.
    let free = Time(2_050_000);
    assert!(began(1) > free && began(1) < free + Span(1_000), "{:?}", began(1));
    assert_eq!(fleet.cluster().record().evictions, 0);
}

#[test]
fn of_two_pending_pods_the_one_retried_first_is_placed() {
    let site = site(1, 4);
    // Tried at x.079 s after its first try once a second: the one that arrived later is tried at
    // x.029.
    let mut late = gang("late", 1, 4, 10);
    late.submit = Time(1_950);
    let jobs = [gang("runs", 0, 4, 100), gang("early", 1, 4, 10), late];
    let fleet = played(&site, SchedulerKind::Ray.begin(&site, 1).unwrap(), &jobs);
    let began = |job| fleet.cluster().status(JobNo(job)).began;
    assert_eq!(began(2), Some(Time(100_029)));
    assert_eq!(began(1), Some(Time(110_079)));
}

#[test]
fn a_group_packs_onto_the_node_where_most_stays_free() {
    let site = site(3, 4);
    let jobs = [gang("a", 0, 3, 100), gang("b", 0, 1, 100), gang("c", 0, 6, 100)];
    let mut fleet = Fleet::new(
        &site,
        SchedulerKind::Ray.begin(&site, 1).unwrap(),
        jobs.to_vec(),
        StopCosts::default(),
        Failures::default(),
    );
    assert!(fleet.step().unwrap());
    let nodes = |job: u32, tasks: u32| -> Vec<u32> {
        (0..tasks).map(|rank| fleet.cluster().place_of(JobNo(job), rank).unwrap().0.0).collect()
    };
    // Of a node with one free GPU the second would leave nothing, of an idle one three quarters.
    assert_eq!(
        (nodes(0, 3), nodes(1, 1), nodes(2, 6)),
        (vec![0; 3], vec![1], vec![2, 2, 2, 2, 1, 1])
    );
}

#[test]
fn bundles_elsewhere_stay_when_a_node_is_lost() {
    let site = site(3, 4);
    let jobs = [gang("a", 0, 8, 20_000)];
    let failures = Failures {
        node_mtbf: Some(Span::from_secs(8_000)),
        repair: Span::from_secs(600),
        ..Failures::default()
    };
    let mut fleet = Fleet::new(
        &site,
        SchedulerKind::Ray.begin(&site, 1).unwrap(),
        jobs.to_vec(),
        StopCosts::default(),
        failures,
    );
    let mut held = Vec::new();
    let mut stops = 0;
    while fleet.step().unwrap() {
        let cluster = fleet.cluster();
        let now: Vec<_> = (0..8).map(|rank| cluster.place_of(JobNo(0), rank)).collect();
        let of_up = |place: &&Option<_>| {
            place
                .is_some_and(|(node, _): (muster_model::NodeId, _)| cluster.pool().node(node).is_up)
        };
        if cluster.status(JobNo(0)).stops > stops {
            stops = cluster.status(JobNo(0)).stops;
            let kept = held.iter().zip(&now).filter(|(before, _)| of_up(before));
            let kept: Vec<bool> = kept.map(|(before, now)| before == now).collect();
            assert!(kept.len() == 4 && kept.iter().all(|same| *same), "{held:?} became {now:?}");
        }
        held = now;
    }
    assert!(stops > 0 && fleet.cluster().has_ended(JobNo(0)), "{stops} stops");
}
