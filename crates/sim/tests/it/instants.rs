//! No scheduler starts a job and stops it again within one instant: on a real cluster nothing would
//! have run. And waiting, running and lost time add up to the turnaround, under every scheduler.

use std::collections::BTreeMap;

use muster_model::queue::Preemption;
use muster_model::{QueueSpec, QueueTree, Span, Time};
use muster_sim::fleet::{
    ClusterEvent, Failures, Fleet, FleetJob, FleetSite, JobNo, SchedulerKind, StopCosts,
};

use crate::fleet::{gang, site};

/// Random numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Four nodes of eight GPUs, three queues with quota that lend and reclaim, and jobs that arrive in
/// bursts with two priorities.
fn bursts(seed: u64) -> (FleetSite, Vec<FleetJob>) {
    let mut draw = Draw(seed);
    let queue = |name: &str, weight, quota| QueueSpec {
        weight,
        quota: [("a100".into(), quota)].into(),
        ..QueueSpec::named(name)
    };
    let tree = QueueTree {
        queues: vec![queue("a", 1, 16), queue("b", 2, 8), queue("c", 3, 8)],
        default_queue: "a".into(),
        preemption: Preemption { reclaim: true, priority: true },
        ..QueueTree::single()
    };
    let mut at = 0;
    let jobs = (0..150).map(|number| {
        at += [0, 0, 0, 5, 60, 400][draw.below(6) as usize];
        let width = [1, 1, 2, 4, 8, 12][draw.below(6) as usize];
        let runtime = 20 + draw.below(1_500);
        let job = gang(&format!("j{number}"), at, width, runtime);
        FleetJob {
            queue: ["a", "b", "c"][draw.below(3) as usize].into(),
            priority: [0, 0, 0, 5][draw.below(4) as usize],
            ..job
        }
    });
    let jobs = jobs.collect();
    (FleetSite { tree, ..site(4, 8) }, jobs)
}

fn played(scheduler: SchedulerKind, seed: u64, failures: bool) -> Fleet {
    let (site, jobs) = bursts(seed);
    let failures = Failures {
        node_mtbf: failures.then(|| Span::from_secs(10_000)),
        repair: Span::from_secs(900),
        seed,
        ..Failures::default()
    };
    let mut fleet = Fleet::new(
        &site,
        scheduler.begin(&site, seed).unwrap(),
        jobs,
        StopCosts::default(),
        failures,
    );
    fleet.record_events();
    while fleet.step().unwrap() {}
    fleet
}

#[test]
fn no_scheduler_starts_and_stops_a_job_within_one_instant() {
    let mut evictions: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, scheduler) in SchedulerKind::ALL {
        for seed in 0..12 {
            let mut fleet = played(scheduler, seed, seed % 3 == 0);
            let mut began: BTreeMap<JobNo, Time> = BTreeMap::new();
            for (at, what) in fleet.take_events() {
                match what {
                    ClusterEvent::Began(job) => drop(began.insert(job, at)),
                    ClusterEvent::Stopped(job, _) => {
                        assert!(
                            began.get(&job) < Some(&at),
                            "{name}, seed {seed}: job {job:?} at {at:?}"
                        );
                    }
                    _ => {}
                }
            }
            *evictions.entry(name).or_default() += fleet.cluster().record().evictions;
        }
    }
    // A scheduler without evictions would prove nothing.
    for name in ["muster", "kai", "volcano", "kueue", "kueue-ready", "kueue-tas"] {
        assert!(evictions[name] > 20, "{name}: {evictions:?}");
    }
    // Its caps add up to the cluster, so that jobs within them seldom lack nodes.
    assert!(evictions["slurm-preempt"] > 0, "{evictions:?}");
}

#[test]
fn waiting_and_running_come_to_the_turnaround() {
    for (name, scheduler) in SchedulerKind::ALL {
        for seed in [1, 3] {
            let mut fleet = played(scheduler, seed, true);
            let mut ran: BTreeMap<JobNo, (Option<Time>, u64)> = BTreeMap::new();
            for (at, what) in fleet.take_events() {
                match what {
                    ClusterEvent::Began(job) => ran.entry(job).or_default().0 = Some(at),
                    ClusterEvent::Stopped(job, _) | ClusterEvent::Ended(job) => {
                        let (since, millis) = ran.get_mut(&job).unwrap();
                        *millis += at.since(since.take().unwrap()).0;
                    }
                    _ => {}
                }
            }
            let cluster = fleet.cluster();
            for job in
                (0..cluster.jobs().len() as u32).map(JobNo).filter(|job| cluster.has_ended(*job))
            {
                let ran = ran[&job].1;
                assert_eq!(
                    cluster.waited(job).0 + ran,
                    cluster.turnaround(job).0,
                    "{name}, seed {seed}: {job:?}"
                );
            }
        }
    }
}
