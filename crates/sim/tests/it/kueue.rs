//! Kueue's model on loads whose admission can be worked out by hand.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::{Preemption, QueueSpec};
use muster_model::{Bytes, CpuMilli, Device, NodeSpec, QueueTree, Span, Time};
use muster_sim::fleet::{Failures, Fleet, FleetJob, FleetSite, JobNo, SchedulerKind, StopCosts};

/// Nodes with this many GPUs and 32 CPUs each, and queues with a quota each.
fn site(gpus: &[usize], queues: &[(&str, u64)], preemption: Preemption) -> FleetSite {
    let device = Device::declared("a100", Bytes(0));
    let node = |(at, gpus): (usize, &usize)| NodeSpec {
        devices: vec![device.clone(); *gpus],
        ..NodeSpec::plain(format!("n{at}"), CpuMilli(32_000), Bytes(0))
    };
    let queue = |(name, quota): &(&str, u64)| QueueSpec {
        quota: [("a100".into(), *quota)].into(),
        ..QueueSpec::named(name)
    };
    let tree = QueueTree {
        preemption,
        default_queue: queues[0].0.into(),
        queues: queues.iter().map(queue).collect(),
        ..QueueTree::single()
    };
    FleetSite { nodes: gpus.iter().enumerate().map(node).collect(), levels: Vec::new(), tree }
}

/// Jobs as `submit runtime tasks gpus-of-each cpus-of-each queue priority`.
fn jobs(text: &str) -> Vec<FleetJob> {
    let job = |(at, line): (usize, &str)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: usize| words[word].parse::<u64>().unwrap();
        let task = Resources {
            gpu: GpuRequest::whole(number(3) as u32),
            cpus: CpuMilli(number(4) as u32 * 1000),
            ..Resources::default()
        };
        FleetJob {
            id: format!("j{at}").into(),
            submit: Time(0) + Span::from_secs(number(0)),
            runtime: Span::from_secs(number(1)),
            estimate: None,
            tasks: number(2) as u32,
            asked_milli: number(3) as u32 * 1000,
            task: Arc::new(task),
            user: "all".into(),
            queue: words[5].into(),
            priority: words[6].parse().unwrap(),
            fewest_nodes: 1,
            recorded_start: None,
            predicted_by: None,
        }
    };
    text.trim().lines().enumerate().map(job).collect()
}

/// Returns when each job began first, in seconds, and the number of evictions.
fn began(site: &FleetSite, scheduler: SchedulerKind, text: &str) -> (Vec<u64>, u64) {
    let jobs = jobs(text);
    let count = jobs.len() as u32;
    let instance = scheduler.begin(site, 0).unwrap();
    let mut fleet = Fleet::new(site, instance, jobs, StopCosts::default(), Failures::default());
    while fleet.step().unwrap() {}
    let began = |job| fleet.cluster().status(JobNo(job)).began.unwrap().0 / 1000;
    ((0..count).map(began).collect(), fleet.cluster().record().evictions)
}

#[test]
fn only_as_much_borrowed_quota_as_needed_is_reclaimed() {
    let site = site(&[8], &[("a", 4), ("b", 4)], Preemption { reclaim: true, priority: false });
    // b borrows what a does not use; of its jobs beyond its quota the last admitted is evicted for
    // a's.
    let text = "0 1000 1 2 0 b 0\n1 1000 1 2 0 b 0\n2 1000 1 2 0 b 0\n3 1000 1 2 0 b 0\n10 100 1 2 0 a 0\n20 100 1 2 0 a 0";
    let (began, evictions) = began(&site, SchedulerKind::Kueue, text);
    assert_eq!((began, evictions), (vec![0, 1, 2, 3, 10, 20], 2));
}

#[test]
fn reclaimed_quota_goes_to_the_preemptor() {
    let site = site(&[8], &[("a", 4), ("b", 4)], Preemption { reclaim: false, priority: true });
    // The third needs 4 and evicts the first for it; b's, which would borrow, arrives at the same
    // instant and stays pending.
    let text = "0 1000 1 2 0 a 0\n0 1000 1 4 0 b 0\n5 50 1 4 0 a 9\n5 70 1 2 0 b 0";
    let (began, evictions) = began(&site, SchedulerKind::Kueue, text);
    assert_eq!((began[2], evictions), (5, 1));
    assert!(began[3] >= 55, "{began:?}");
}

#[test]
fn quota_ignores_full_nodes_and_topology_does_not() {
    let site = site(&[4, 4], &[("a", 8)], Preemption::OFF);
    // One GPU of each node is taken; a pod of four fits on neither, and holds quota that the last
    // could have used.
    let text = "0 100 1 3 0 a 0\n0 100 1 3 0 a 0\n1 10 1 4 0 a 0\n2 10 1 1 0 a 0\n3 10 1 1 0 a 0";
    let site_without = began(&site, SchedulerKind::KueueTas, text).0;
    assert_eq!(site_without, [0, 0, 100, 2, 3]);
}

#[test]
fn requests_with_less_of_another_resource_are_another_class() {
    let site = site(&[4], &[("a", 4)], Preemption::OFF);
    // 16 CPUs are left: not enough for the second, enough for the third, which asks for as many
    // GPUs.
    let text = "0 100 1 1 16 a 0\n1 10 1 1 24 a 0\n2 10 1 1 4 a 0";
    assert_eq!(began(&site, SchedulerKind::KueueTas, text).0, [0, 100, 2]);
}

#[test]
fn pods_that_are_not_ready_in_half_an_hour_give_their_quota_back() {
    let site = site(&[4, 4], &[("a", 8)], Preemption::OFF);
    // The third is admitted by its quota and finds no node. The fourth gets the last of the quota
    // once the third is evicted; with blockAdmission it waits for as long, and the first two take a
    // second each until they are ready.
    let text = "0 5000 1 3 0 a 0\n0 5000 1 3 0 a 0\n1 10 1 2 0 a 0\n2 10 1 1 0 a 0";
    for (scheduler, fourth) in [(SchedulerKind::Kueue, 1_801), (SchedulerKind::KueueReady, 1_802)] {
        let (began, evictions) = began(&site, scheduler, text);
        assert_eq!((began[3], began[2] >= 5000), (fourth, true), "{began:?}");
        assert_eq!(evictions, 0, "a workload that is not ready does not run");
    }
}

#[test]
fn a_preempted_workload_keeps_its_place_in_the_queue() {
    let site = site(&[4], &[("a", 4)], Preemption { reclaim: false, priority: true });
    // The third evicts the first, which was created before the second and so starts again at 60.
    let text = "0 100 1 4 0 a 0\n5 10 1 4 0 a 0\n10 50 1 4 0 a 9";
    for scheduler in [SchedulerKind::Kueue, SchedulerKind::KueueTas] {
        assert_eq!(began(&site, scheduler, text), (vec![0, 160, 10], 1));
    }
}

#[test]
fn a_workload_preempts_for_places_although_it_has_quota() {
    let priority = Preemption { reclaim: false, priority: true };
    let reclaim = Preemption { reclaim: true, priority: false };
    // One GPU of each node is free. The third, of two, has quota and no node; of the two it may
    // evict the one that was admitted last, or none.
    for (queues, policy, owner, expected) in [
        (&[("a", 8)][..], priority, "a 0", (10, 1)),
        (&[("a", 8)], Preemption::OFF, "a 0", (1000, 0)),
        (&[("a", 8)], priority, "a 9", (1000, 0)),
        // Queue b uses 6, of which 2 are borrowed; of what is its own, nothing is reclaimed.
        (&[("a", 4), ("b", 4)], reclaim, "b 0", (10, 1)),
        (&[("a", 2), ("b", 6)], reclaim, "b 0", (1000, 0)),
    ] {
        let site = site(&[4, 4], queues, policy);
        let text = format!("0 1000 1 3 0 {owner}\n1 1000 1 3 0 {owner}\n10 20 1 2 0 a 9");
        let (began, evictions) = began(&site, SchedulerKind::KueueTas, &text);
        assert_eq!((began[2], evictions), expected, "{queues:?}, {policy:?}, {owner}");
    }
}

#[test]
fn a_preemptor_stays_at_the_head_of_its_queue() {
    let site = site(&[8], &[("a", 4), ("b", 4)], Preemption { reclaim: true, priority: false });
    // Queue b borrows with its second job, which the last one reclaims. The third, of the same
    // queue and before it, would borrow and does not fit. If it came first again after the
    // eviction, the fourth would take what was freed, and be evicted in turn.
    let text =
        "0 1000 1 4 0 b 0\n1 1000 1 4 0 b 0\n2 10 1 6 0 a 0\n3 1000 1 4 0 b 0\n10 50 1 2 0 a 0";
    for scheduler in [SchedulerKind::Kueue, SchedulerKind::KueueReady, SchedulerKind::KueueTas] {
        let (began, evictions) = began(&site, scheduler, text);
        assert_eq!((began[4], evictions), (10, 1), "{}", scheduler.name());
    }
}

#[test]
fn only_workloads_whose_places_are_needed_are_evicted() {
    let site = site(&[2, 2], &[("a", 4)], Preemption { reclaim: false, priority: true });
    // On the first node are the first and the third, on the second the second. The third goes first
    // as it was admitted last, and is put back, since the place of the second is enough.
    let text = "0 100 1 1 0 a 9\n1 100 1 2 0 a 0\n2 100 1 1 0 a 0\n10 50 1 2 0 a 9";
    assert_eq!(began(&site, SchedulerKind::KueueTas, text), (vec![0, 1, 2, 10], 1));
}

/// A gang that loses a pod after hours gets the full timeout again.
#[test]
fn a_pod_that_is_lost_late_delays_its_job() {
    let site = site(&[1, 1, 1], &[("a", 3)], Preemption::OFF);
    let jobs = jobs("0 20000 2 1 0 a 0");
    let failures = Failures {
        node_mtbf: Some(Span::from_secs(20_000)),
        repair: Span::from_secs(100),
        ..Failures::default()
    };
    for seed in 0..20 {
        let instance = SchedulerKind::KueueReady.begin(&site, 0).unwrap();
        let terms =
            StopCosts { checkpoint_every: Some(Span::from_secs(1)), ..StopCosts::default() };
        let mut fleet =
            Fleet::new(&site, instance, jobs.clone(), terms, Failures { seed, ..failures });
        while fleet.step().unwrap() {}
        let fate = fleet.cluster().status(JobNo(0));
        // A spare node is there at once, or one is repaired after 100 s; 60 s of back-off would
        // show.
        let longest = 20_000 + 101 * u64::from(fate.stops);
        assert!(fate.ended.unwrap().0 / 1000 <= longest, "{seed}: {fate:?}");
    }
}
