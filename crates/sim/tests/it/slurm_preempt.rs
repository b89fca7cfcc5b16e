//! The model of Slurm with preemption by QOS, on loads that can be worked out by hand.

use muster_model::Span;
use muster_sim::fleet::{Fleet, FleetJob, FleetSite, JobNo, SchedulerKind};
use muster_sim::peers::slurm::{QosPreemption, SlurmSettings};

use crate::fleet::{gang, played, site};

/// A job of a QOS.
fn of_qos(priority: i32, job: FleetJob) -> FleetJob {
    FleetJob { priority, ..job }
}

fn play(site: &FleetSite, rules: QosPreemption, jobs: &[FleetJob]) -> Fleet {
    let settings = SlurmSettings { preemption: Some(rules), ..SlurmSettings::default() };
    played(site, SchedulerKind::SlurmPreempt.begin_as(site, 1, settings).unwrap(), jobs)
}

/// Returns the first start, the last start and the end of a job, in seconds.
fn times(fleet: &Fleet, job: u32) -> [u64; 3] {
    let status = fleet.cluster().status(JobNo(job));
    [status.began, status.last_began, status.ended].map(|at| at.unwrap().0 / 1000)
}

fn stops(fleet: &Fleet) -> Vec<u32> {
    let jobs = 0..fleet.cluster().jobs().len() as u32;
    jobs.map(|job| fleet.cluster().status(JobNo(job)).stops).collect()
}

#[test]
fn a_job_of_higher_qos_has_a_running_one_requeued() {
    let one = site(1, 4);
    let jobs = [gang("low", 0, 4, 1_000), of_qos(9, gang("high", 10, 4, 100))];
    let fleet = play(&one, QosPreemption::default(), &jobs);
    // Preempted at its submission, gone a second later; the next main pass is three seconds after
    // that of second 10. The first may start again 121 s after it was requeued.
    assert_eq!([times(&fleet, 1), times(&fleet, 0)], [[13, 13, 113], [0, 132, 1_132]]);
    assert_eq!(fleet.cluster().record().evictions, 1);
    // The model `slurm` has no preemption, whatever the settings say.
    let settings =
        SlurmSettings { preemption: Some(QosPreemption::default()), ..SlurmSettings::default() };
    let plain = SchedulerKind::Slurm.begin_as(&one, 1, settings).unwrap();
    assert_eq!(times(&played(&one, plain, &jobs), 1)[0], 1_000);
}

#[test]
fn jobs_of_one_qos_do_not_preempt_each_other_and_higher_qos_comes_first() {
    let one = site(1, 4);
    let jobs = [
        of_qos(5, gang("a", 0, 4, 1_000)),
        of_qos(0, gang("low", 1, 4, 100)),
        of_qos(5, gang("b", 900, 4, 100)),
    ];
    let fleet = play(&one, QosPreemption::default(), &jobs);
    assert_eq!(stops(&fleet), [0, 0, 0]);
    // By age the second would come first.
    assert_eq!([times(&fleet, 2)[0], times(&fleet, 1)[0]], [1_000, 1_100]);
}

#[test]
fn the_candidates_are_sorted_anew_so_that_few_are_preempted() {
    // Of 2, 4 and 8 nodes, in this order; eight nodes are free only once all three are gone. Sorted
    // anew, the last one comes first, and is enough.
    let nodes = site(14, 1);
    let jobs = [
        gang("two", 0, 2, 5_000),
        gang("four", 0, 4, 5_000),
        gang("eight", 0, 8, 5_000),
        of_qos(1, gang("high", 10, 8, 100)),
    ];
    let fleet = play(&nodes, QosPreemption::default(), &jobs);
    assert_eq!((times(&fleet, 3)[0], stops(&fleet)), (13, vec![0, 0, 1, 0]));
}

#[test]
fn lower_qos_and_fewer_nodes_are_preempted_first() {
    let nodes = site(4, 1);
    let jobs = [
        of_qos(1, gang("one", 0, 1, 5_000)),
        of_qos(0, gang("wide", 0, 2, 5_000)),
        of_qos(0, gang("small", 0, 1, 5_000)),
        of_qos(2, gang("high", 10, 1, 100)),
    ];
    assert_eq!(stops(&play(&nodes, QosPreemption::default(), &jobs)), [0, 0, 1, 0]);
}

#[test]
fn a_job_is_exempt_for_a_time_and_has_its_grace_time() {
    let one = site(1, 4);
    let jobs = [gang("low", 0, 4, 1_000), of_qos(9, gang("high", 10, 4, 100))];
    // Backfill tries it every 30 s, and at 300 the first is no longer exempt. The main scheduler ran
    // at 300, too, after priorities were calculated, and runs again three seconds later.
    let exempt = QosPreemption { exempt_time: Span::from_secs(300), ..QosPreemption::default() };
    assert_eq!(times(&play(&one, exempt, &jobs), 1)[0], 303);
    let grace = QosPreemption { grace_time: Span::from_secs(60), ..QosPreemption::default() };
    assert_eq!(times(&play(&one, grace, &jobs), 1)[0], 70);
    // It ends within its grace time: no work is lost.
    let short = [gang("low", 0, 4, 30), jobs[1].clone()];
    let fleet = play(&one, grace, &short);
    assert_eq!((times(&fleet, 1)[0], stops(&fleet)), (30, vec![0, 0]));
}

#[test]
fn backfill_preempts_for_a_job_that_delays_no_reservation() {
    // The third needs both nodes, and may not preempt the first. The fourth needs the node of the
    // second only, until long before the first ends.
    let two = site(2, 4);
    let jobs = [
        of_qos(5, gang("mid", 0, 4, 5_000)),
        of_qos(0, gang("low", 0, 4, 5_000)),
        of_qos(5, gang("wide", 1, 8, 600)),
        of_qos(5, gang("short", 2, 4, 600)),
    ];
    let fleet = play(&two, QosPreemption::default(), &jobs);
    // Preempted by the backfill pass of second 30; the main scheduler stops at the third, so the
    // fourth starts in the next backfill pass.
    assert_eq!([times(&fleet, 3)[0], times(&fleet, 2)[0]], [60, 5_000]);
    assert_eq!(stops(&fleet), [0, 1, 0, 0]);
}
