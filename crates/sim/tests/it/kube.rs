//! The model of stock Kubernetes: creation of pods, rendezvous and bin packing, worked out by hand.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::{CpuMilli, Time};
use muster_sim::fleet::{Failures, Fleet, FleetJob, JobNo, SchedulerKind, StopCosts};

use crate::fleet::{gang, played, site};

/// Returns when a job began first, in milliseconds.
fn began(fleet: &Fleet, job: u32) -> u64 {
    fleet.cluster().status(JobNo(job)).began.unwrap().0
}

#[test]
fn the_controller_creates_twenty_pods_a_second_after_a_burst_of_thirty() {
    let nodes = site(10, 8);
    let stock = || SchedulerKind::KubeDefault.begin(&nodes, 1).unwrap();
    // 30 at once, and 20 more within a second.
    let fleet = played(&nodes, stock(), &[gang("a", 0, 30, 60)]);
    assert_eq!(began(&fleet, 0), 0);
    let fleet = played(&nodes, stock(), &[gang("a", 0, 50, 60)]);
    assert_eq!(began(&fleet, 0), 1_000);
    // Two jobs of 25 take turns, in batches: 1 + 1, 2 + 2, 4 + 4 and 8 + 8 pods are 30. The last ten
    // of the first job are next, then those of the second.
    let fleet = played(&nodes, stock(), &[gang("a", 0, 25, 60), gang("b", 0, 25, 60)]);
    assert_eq!([began(&fleet, 0), began(&fleet, 1)], [500, 1_000]);
}

#[test]
fn pods_without_the_others_of_their_job_fail_after_ten_minutes_and_return() {
    // One GPU of eight is used for long; then two gangs of five in turns hold four and three.
    let node = site(1, 8);
    let jobs = [gang("one", 0, 1, 5_000), gang("a", 1, 5, 100), gang("b", 1, 5, 100)];
    let instance = SchedulerKind::KubeDefault.begin(&node, 1).unwrap();
    let mut fleet =
        Fleet::new(&node, instance, jobs.to_vec(), StopCosts::default(), Failures::default());
    let held = |fleet: &Fleet| [1, 2].map(|job| fleet.cluster().placed(JobNo(job)));
    while fleet.next_instant().is_some_and(|next| next < Time(601_000)) {
        fleet.step().unwrap();
    }
    assert_eq!(held(&fleet), [4, 3]);
    // At 601 all seven fail. Their other three pods get a node at once and wait from then on. The
    // job of which four failed returns after 80 s, the other after 40 s: it has all its pods then.
    while fleet.step().unwrap() {}
    assert!((641_000..642_000).contains(&began(&fleet, 2)), "{}", began(&fleet, 2));
    // The four that failed first find one GPU less than they need, until the other ends at 741.
    assert!((741_000..742_000).contains(&began(&fleet, 1)), "{}", began(&fleet, 1));
    let record = fleet.cluster().record();
    assert_eq!((record.evictions, record.lost), (0, 0), "pods that wait do not run");
}

#[test]
fn a_gang_that_runs_has_no_time_limit_for_its_rendezvous() {
    let node = site(1, 8);
    let fleet = played(
        &node,
        SchedulerKind::KubeDefault.begin(&node, 1).unwrap(),
        &[gang("a", 0, 8, 5_000)],
    );
    assert_eq!(fleet.cluster().status(JobNo(0)).ended, Some(Time(5_000_000)));
}

#[test]
fn bin_packing_keeps_whole_nodes_free() {
    // Four jobs of one GPU and 4 CPUs: one on each node, or all on one, so that whole nodes are free
    // for the last job.
    let nodes = site(4, 4);
    let of = |gpus: u32, cpus: u32, job: FleetJob| {
        let gpu = GpuRequest::whole(gpus);
        let cpus = CpuMilli(cpus * 1000);
        FleetJob { task: Arc::new(Resources { gpu, cpus, ..(*job.task).clone() }), ..job }
    };
    let mut jobs: Vec<FleetJob> =
        (0..4).map(|at| of(1, 4, gang(&format!("j{at}"), at, 1, 900))).collect();
    jobs.push(of(4, 4, gang("wide", 10, 2, 100)));
    let began = |scheduler: SchedulerKind| {
        began(&played(&nodes, scheduler.begin(&nodes, 1).unwrap(), &jobs), 4)
    };
    assert_eq!(began(SchedulerKind::KubePacked), 10_000);
    // Nodes are free at 900 and 901. At 900 the second pod does not fit for the second time, so it is
    // tried again after two seconds.
    assert_eq!(began(SchedulerKind::KubeDefault), 902_000);
}
