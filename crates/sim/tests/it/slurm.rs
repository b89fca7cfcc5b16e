//! The model of Slurm: backfill, priority, caps, and placement of gangs.

use muster_model::{GpuModel, QueueSpec, Span, Time};
use muster_sim::fleet::{Failures, Fleet, FleetJob, FleetSite, JobNo, SchedulerKind, StopCosts};

use crate::fleet::{gang, played, site};

/// Time of an instant in seconds.
fn at(secs: u64) -> Option<Time> {
    Some(Time(secs * 1000))
}

/// Returns when each job began first.
fn began(site: &FleetSite, jobs: &[FleetJob]) -> Vec<Option<Time>> {
    let fleet = played(site, SchedulerKind::Slurm.begin(site, 1).unwrap(), jobs);
    (0..jobs.len() as u32).map(|job| fleet.cluster().status(JobNo(job)).began).collect()
}

/// Sets user and queue of a job.
fn owned(job: FleetJob, user: &str, queue: &str) -> FleetJob {
    FleetJob { user: user.into(), queue: queue.into(), ..job }
}

fn with_queues(mut site: FleetSite, queues: Vec<QueueSpec>) -> FleetSite {
    site.tree.default_queue = queues[0].name.to_string().as_str().into();
    site.tree.queues = queues;
    site
}

#[test]
fn backfill_fills_a_hole_and_delays_nobody_before_it() {
    // Two nodes of four. The first holds one for 1,000 s; the second needs both and is planned at
    // second 1,020, the end of the first's limit in whole minutes. The third ends before that, the
    // fourth does not.
    let two = site(2, 4);
    let jobs = [
        gang("a", 0, 4, 1_000),
        gang("wide", 1, 8, 600),
        gang("short", 2, 4, 600),
        gang("long", 3, 4, 1_200),
    ];
    let began = began(&two, &jobs);
    // The main scheduler stops at the wide one; the first backfill pass is at second 30.
    assert_eq!(began[..3], [at(0), at(1_000), at(30)]);
    // After the wide one: it would have kept it from starting.
    assert_eq!(began[3], at(1_600));
}

#[test]
fn the_main_scheduler_lets_no_job_pass_the_head() {
    let two = site(2, 4);
    // An event per second, each with a main pass at most every three seconds: no job passes before
    // second 30.
    let mut jobs = vec![gang("a", 0, 4, 3_000), gang("wide", 1, 8, 600)];
    jobs.extend((2..25).map(|second| gang(&format!("j{second}"), second, 1, 600)));
    let began = began(&two, &jobs);
    let passed = began[2..].iter().flatten().min();
    assert_eq!((began[1], passed), (at(3_000), at(30).as_ref()));
    // Four fit beside the first; all are equal, and earlier ones are first.
    assert_eq!(began.iter().filter(|began| **began == at(30)).count(), 4);
    assert_eq!(began[2..6], [at(30); 4]);
}

#[test]
fn the_account_with_less_usage_starts_first() {
    let one = with_queues(site(1, 1), vec![QueueSpec::named("a"), QueueSpec::named("b")]);
    // Account a uses the GPU for an hour; then one job of each is pending, that of a for longer
    // than that of b.
    let jobs = [
        owned(gang("a1", 0, 1, 3_600), "x", "a"),
        owned(gang("a2", 1, 1, 600), "y", "a"),
        owned(gang("b1", 2, 1, 600), "z", "b"),
    ];
    assert_eq!(began(&one, &jobs), [at(0), at(4_200), at(3_600)]);
    // Ten times the shares change nothing: b has used nothing at all.
    let heavy = QueueSpec { weight: 10, ..QueueSpec::named("a") };
    let one = with_queues(site(1, 1), vec![heavy, QueueSpec::named("b")]);
    assert_eq!(began(&one, &jobs), [at(0), at(4_200), at(3_600)]);
}

#[test]
fn usage_is_forgotten_with_its_half_life() {
    // a used one hour long ago, b half an hour just now: with a half-life of an hour a has used
    // less.
    let mut one = with_queues(site(1, 1), vec![QueueSpec::named("a"), QueueSpec::named("b")]);
    one.tree.half_life = Span::from_secs(3_600);
    let jobs = [
        owned(gang("a1", 0, 1, 3_600), "x", "a"),
        owned(gang("b1", 20_000, 1, 1_800), "z", "b"),
        owned(gang("b2", 20_001, 1, 600), "z", "b"),
        owned(gang("a2", 20_002, 1, 600), "x", "a"),
    ];
    assert_eq!(began(&one, &jobs), [at(0), at(20_000), at(22_400), at(21_800)]);
    one.tree.half_life = Span::from_secs(0);
    assert_eq!(began(&one, &jobs)[2..], [at(21_800), at(22_400)]);
}

#[test]
fn a_quota_is_a_limit_and_delays_no_other_account() {
    let capped =
        QueueSpec { quota: [(GpuModel::from("a100"), 2)].into(), ..QueueSpec::named("capped") };
    let one = with_queues(site(1, 8), vec![capped, QueueSpec::named("free")]);
    let jobs = [
        owned(gang("c1", 0, 1, 600), "x", "capped"),
        owned(gang("c2", 0, 1, 600), "x", "capped"),
        owned(gang("c3", 1, 1, 600), "x", "capped"),
        owned(gang("f", 2, 1, 600), "y", "free"),
    ];
    // Idle GPUs are not lent. The last is behind a pending job, and the next main pass continues
    // beyond that.
    assert_eq!(began(&one, &jobs), [at(0), at(0), at(600), at(3)]);
    let mut fleet = Fleet::new(
        &one,
        SchedulerKind::Slurm.begin(&one, 1).unwrap(),
        jobs.to_vec(),
        StopCosts::default(),
        Failures::default(),
    );
    while fleet.cluster().now() < Time(10_000) && fleet.step().unwrap() {}
    assert!(fleet.why(JobNo(2)).starts_with("AssocGrpGRES"));
}

#[test]
fn a_limit_per_user_is_respected() {
    let mut queue = QueueSpec::named("all");
    queue.limits.gpus_per_user = Some(3);
    let one = with_queues(site(1, 8), vec![queue]);
    let jobs = [
        owned(gang("x1", 0, 3, 600), "x", "all"),
        owned(gang("x2", 1, 1, 600), "x", "all"),
        owned(gang("y", 2, 1, 600), "y", "all"),
    ];
    assert_eq!(began(&one, &jobs), [at(0), at(600), at(3)]);
}

#[test]
fn a_gang_gets_the_fewest_leaf_switches() {
    let mut racks = site(8, 1);
    racks.levels = vec!["rack".into()];
    // Racks of 3, 2 and 3 nodes, in turns, so that nodes in their order are of different racks.
    for (node, rack) in racks.nodes.iter_mut().zip(["a", "b", "c", "a", "b", "c", "a", "c"]) {
        node.domains = vec![rack.into()];
    }
    let jobs = [gang("two", 0, 2, 600), gang("three", 0, 3, 600), gang("rest", 0, 3, 600)];
    let mut fleet = Fleet::new(
        &racks,
        SchedulerKind::Slurm.begin(&racks, 1).unwrap(),
        jobs.to_vec(),
        StopCosts::default(),
        Failures::default(),
    );
    fleet.step().unwrap();
    let cluster = fleet.cluster();
    let racks_of = |job: u32| {
        let nodes =
            (0..jobs[job as usize].tasks).map(|rank| cluster.place_of(JobNo(job), rank).unwrap().0);
        let mut racks: Vec<&str> =
            nodes.map(|node| &*cluster.pool().node(node).spec.domains[0]).collect();
        racks.dedup();
        racks
    };
    // The tightest rack that is enough; each has one of its own.
    assert_eq!([racks_of(0), racks_of(1), racks_of(2)], [["b"], ["a"], ["c"]]);
}

#[test]
fn a_job_that_loses_a_node_is_requeued_whole_after_two_minutes() {
    let two = site(2, 1);
    let node_mtbf = Some(Span::from_secs(5_000));
    let failures =
        Failures { node_mtbf, repair: Span::from_secs(10), seed: 5, ..Failures::default() };
    let instance = SchedulerKind::Slurm.begin(&two, 1).unwrap();
    let mut fleet =
        Fleet::new(&two, instance, vec![gang("a", 0, 2, 5_000)], StopCosts::default(), failures);
    let mut broke = None;
    while fleet.step().unwrap() {
        let cluster = fleet.cluster();
        if cluster.status(JobNo(0)).stops == 1 && broke.is_none() {
            broke = Some(cluster.now());
            assert_eq!(cluster.placed(JobNo(0)), 0, "all of it is gone");
        }
        if cluster.status(JobNo(0)).stops == 1 && cluster.runs(JobNo(0)) {
            assert_eq!(
                cluster.status(JobNo(0)).last_began,
                broke.map(|at| at + Span::from_secs(121))
            );
        }
    }
    assert!(broke.is_some(), "with this seed a node breaks while it runs");
    assert!(fleet.cluster().has_ended(JobNo(0)));
    let total = &fleet.cluster().record().total;
    assert_eq!(total.held, total.running, "nothing is held idle");
}

/// Many small gangs of three users, with sizes and lengths derived from their number.
fn many(count: u64) -> Vec<FleetJob> {
    let job = |number: u64| {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        let tasks = 1 + mixed % 12;
        let minutes = 1 + mixed / 12 % 90;
        let job = gang(&format!("j{number}"), number * 97, tasks as u32, minutes * 60);
        // Some have no limit.
        let estimate = job.estimate.filter(|_| !number.is_multiple_of(5));
        owned(FleetJob { estimate, ..job }, ["x", "y", "z"][(mixed % 3) as usize], "default")
    };
    (0..count).map(job).collect()
}

#[test]
fn every_job_ends_despite_failures_and_no_gang_holds_idle_nodes() {
    let six = site(6, 4);
    let node_mtbf = Some(Span::from_secs(20_000));
    let gpu_mtbf = Some(Span::from_secs(80_000));
    for seed in 0..5 {
        let failures = Failures { node_mtbf, gpu_mtbf, repair: Span::from_secs(900), seed };
        let terms =
            StopCosts { checkpoint_every: Some(Span::from_secs(600)), ..StopCosts::default() };
        for scheduler in [SchedulerKind::Slurm, SchedulerKind::None] {
            let instance = scheduler.begin(&six, 1).unwrap();
            let mut fleet = Fleet::new(&six, instance, many(300), terms, failures);
            while fleet.step().unwrap() {}
            let cluster = fleet.cluster();
            assert!(cluster.record().breakdowns > 0, "with this seed nothing breaks that runs");
            assert!(
                (0..300).all(|job| cluster.has_ended(JobNo(job))),
                "{scheduler:?}, seed {seed}"
            );
            assert!(
                scheduler == SchedulerKind::None
                    || cluster.record().total.held == cluster.record().total.running
            );
        }
    }
}
