//! The checker refuses wrong plans: for each invariant of a plan, a valid plan is broken on
//! purpose.

use std::sync::Arc;

use muster_engine::{Engine, Violation};
use muster_model::job::DependencyKind;
use muster_model::queue::QueueBudget;
use muster_model::{
    Attempt, AttemptId, Decision, DeviceSet, ElementId, Event, Eviction, EvictionCause, Foreign,
    GpuMilli, JobId, NodeId, Plan, QueueSpec, QueueTree, Reason, Replicas, Reservation, Service,
    TaskPlacement, Time, WorkloadKind,
};

use crate::cluster::{TestCluster, job, node, node_of, span};

/// Two gangs wait; the first starts in the next pass, the second is blocked and gets a reservation.
fn setting() -> (TestCluster, Plan) {
    let mut west = node("b", 8);
    west.labels.insert("zone".into(), "west".into());
    let mut cluster = TestCluster::new(&[node("a", 8), west, node_of("c", 2, "a100", 4)]);
    cluster.submit(job("runs").tasks(6).gpus(1).limit("60s"));
    // Submitted without a step, so that the next plan is not committed.
    let ready = job("ready").tasks(2).gpus(4).models(&["h100"]).limit("30s").cpus(1);
    let blocked = job("blocked").tasks(2).per_node(1).gpus(8).limit("30s");
    for (id, ask) in [(2, ready), (3, blocked)] {
        cluster
            .engine
            .apply(cluster.now, &Event::Submitted { job: JobId(id), spec: Arc::new(ask.spec) });
    }
    let plan = cluster.engine.plan(cluster.now);
    assert_eq!(plan.decisions.len(), 1);
    assert_eq!(plan.reservations.len(), 1);
    assert_eq!(cluster.engine.check(cluster.now, &plan), Ok(()));
    (cluster, plan)
}

/// Changes the placement of the only start.
fn replaced(plan: &Plan, edit: impl FnOnce(&mut Vec<TaskPlacement>)) -> Plan {
    let (id, placement, backfilled) = plan.starts().next().unwrap();
    let mut tasks = placement.to_vec();
    edit(&mut tasks);
    let start = Decision::Start { id, placement: tasks.into(), backfilled };
    Plan { decisions: vec![start], ..plan.clone() }
}

/// Changes the attempt of the only start.
fn renamed(plan: &Plan, id: AttemptId) -> Plan {
    let (_, placement, backfilled) = plan.starts().next().unwrap();
    let start = Decision::Start { id, placement: Arc::clone(placement), backfilled };
    Plan { decisions: vec![start], ..plan.clone() }
}

#[track_caller]
fn refused(engine: &Engine, now: Time, plan: &Plan, expected: impl Fn(&Violation) -> bool) {
    let found = engine.check(now, plan).expect_err("the check lets a broken plan pass");
    assert!(found.iter().any(expected), "{found:?}");
}

#[test]
fn broken_placements_are_refused() {
    let (cluster, plan) = setting();
    let check = |edit: &dyn Fn(&mut Vec<TaskPlacement>), expected: &dyn Fn(&Violation) -> bool| {
        let broken = replaced(&plan, |tasks| edit(tasks));
        refused(&cluster.engine, cluster.now, &broken, expected);
    };
    // A partial gang, and one with too many tasks.
    check(&|tasks| tasks.truncate(1), &|v| {
        matches!(v, Violation::PartialGang { tasks: 1, min: 2, .. })
    });
    check(&|tasks| tasks.push(tasks[0].clone()), &|v| {
        matches!(v, Violation::PartialGang { tasks: 3, .. })
    });
    // The same devices twice.
    check(&|tasks| tasks[1] = tasks[0].clone(), &|v| {
        matches!(v, Violation::Device { milli: 2000, .. })
    });
    // Devices held by another job.
    let taken = cluster.engine.placement(cluster.element("runs", 0)).unwrap().1;
    let held = taken.iter().fold(DeviceSet::EMPTY, |all, task| all.or(task.devices));
    let on = taken[0].node;
    check(&|tasks| (tasks[0].node, tasks[0].devices) = (on, held.lowest(4)), &|v| {
        matches!(v, Violation::Device { .. })
    });
    // Too few devices, a share of whole ones, devices that do not exist, another model.
    let wrong = |v: &Violation| matches!(v, Violation::WrongTask { .. });
    check(&|tasks| tasks[0].devices = DeviceSet::one(0), &wrong);
    check(&|tasks| tasks[0].share = GpuMilli(500), &wrong);
    check(&|tasks| tasks[0].devices = DeviceSet(0xF00), &wrong);
    check(&|tasks| tasks[0].node = NodeId(2), &wrong);
    check(&|tasks| tasks[0].group = 1, &wrong);
    // A node that does not exist.
    check(&|tasks| tasks[0].node = NodeId(9), &|v| matches!(v, Violation::WrongNode { .. }));
}

#[test]
fn starts_of_what_may_not_start_are_refused() {
    let (mut cluster, plan) = setting();
    let (id, ..) = plan.starts().next().unwrap();
    let check = |cluster: &TestCluster, plan: &Plan, expected: &dyn Fn(&Violation) -> bool| {
        refused(&cluster.engine, cluster.now, plan, expected);
    };
    let not_startable = |v: &Violation| matches!(v, Violation::NotStartable(..));
    // Attempt numbers increase by one.
    let late = AttemptId { attempt: Attempt(2), ..id };
    check(&cluster, &renamed(&plan, late), &|v| {
        matches!(v, Violation::WrongAttempt { expected: 1, .. })
    });
    // Unknown jobs and elements, and elements that are active.
    let of = |job: u64, index| AttemptId {
        element: ElementId { job: JobId(job), index },
        attempt: Attempt(1),
    };
    check(&cluster, &renamed(&plan, of(99, 0)), &|v| matches!(v, Violation::Unknown(_)));
    check(&cluster, &renamed(&plan, of(2, 5)), &|v| matches!(v, Violation::Unknown(_)));
    check(&cluster, &renamed(&plan, of(1, 0)), &not_startable);
    // Twice the same.
    let mut twice = plan.clone();
    twice.decisions.push(plan.decisions[0].clone());
    check(&cluster, &twice, &|v| matches!(v, Violation::StartedTwice(_)));
    // On hold, before its begin time, before its dependency.
    let target = muster_model::CommandTarget { job: JobId(2), index: None };
    cluster.engine.apply(cluster.now, &Event::Hold(target));
    check(&cluster, &plan, &not_startable);
    cluster.engine.apply(cluster.now, &Event::Release(target));
    let later = job("later").begin(cluster.now + span("1h")).tasks(2).gpus(4);
    let chained = job("chained").after(DependencyKind::AfterOk, JobId(1)).tasks(2).gpus(4);
    for (id, ask) in [(4, later), (5, chained)] {
        cluster
            .engine
            .apply(cluster.now, &Event::Submitted { job: JobId(id), spec: Arc::new(ask.spec) });
        check(&cluster, &renamed(&plan, of(id, 0)), &not_startable);
    }
}

#[test]
fn nodes_that_may_not_be_used_are_refused() {
    let drain = |cluster: &TestCluster, node: &str| Event::NodeDrained {
        node: cluster.engine.nodes()[usize::from(node == "b")].name.clone(),
        drained: true,
        reason: "fan".into(),
    };
    let lost = Event::NodeLost { node: "b".into(), reason: "gone".into() };
    let foreign = Foreign { devices: DeviceSet::first(8), ..Foreign::default() };
    let used = Event::ForeignUse { node: "b".into(), foreign };
    let dead = Foreign { drained: DeviceSet::first(8), ..Foreign::default() };
    let broken = Event::ForeignUse { node: "b".into(), foreign: dead };
    let (cluster, _) = setting();
    for event in [drain(&cluster, "b"), lost, used, broken] {
        let (mut cluster, plan) = setting();
        cluster.engine.apply(cluster.now, &event);
        refused(&cluster.engine, cluster.now, &plan, |violation| {
            matches!(violation, Violation::WrongNode { .. } | Violation::Device { .. })
        });
    }
    // Labels and exclusions.
    for ask in [
        job("east").with(|spec| drop(spec.constraint.labels.insert("zone".into(), "east".into()))),
        job("elsewhere").with(|spec| spec.constraint.exclude.push("b".into())),
    ] {
        let (mut cluster, plan) = setting();
        let spec = Arc::new(ask.tasks(2).gpus(4).spec);
        cluster.engine.apply(cluster.now, &Event::Submitted { job: JobId(4), spec });
        let id = AttemptId { element: ElementId::single(JobId(4)), attempt: Attempt(1) };
        refused(&cluster.engine, cluster.now, &renamed(&plan, id), |violation| {
            matches!(violation, Violation::WrongNode { .. })
        });
    }
}

#[test]
fn blocks_on_one_node_quantities_beyond_a_node_and_caps_are_refused() {
    let (mut cluster, plan) = setting();
    let id = |job| AttemptId { element: ElementId::single(JobId(job)), attempt: Attempt(1) };
    let blocks = job("blocks").tasks(2).per_node(1).gpus(4);
    let greedy = job("greedy").tasks(2).gpus(4).cpus(70);
    let hungry = job("hungry").tasks(2).gpus(4).memory(1 << 40);
    for (number, ask) in [(4, blocks), (5, greedy), (6, hungry)] {
        cluster
            .engine
            .apply(cluster.now, &Event::Submitted { job: JobId(number), spec: Arc::new(ask.spec) });
    }
    let check = |job, expected: &dyn Fn(&Violation) -> bool| {
        refused(&cluster.engine, cluster.now, &renamed(&plan, id(job)), expected);
    };
    check(4, &|violation| matches!(violation, Violation::WrongNode { .. }));
    check(5, &|violation| matches!(violation, Violation::Quantity { what: "cpus", .. }));
    check(6, &|violation| matches!(violation, Violation::Quantity { what: "memory", .. }));
    let capped = job("capped").tasks(2).gpus(1).array(0, 9, Some(1));
    cluster
        .engine
        .apply(cluster.now, &Event::Submitted { job: JobId(7), spec: Arc::new(capped.spec) });
    let element = |index, from: u32| {
        let task = |device: u32| TaskPlacement {
            group: 0,
            node: NodeId(1),
            devices: DeviceSet::one(device as usize),
            share: GpuMilli(1000),
        };
        let id = AttemptId { element: ElementId { job: JobId(7), index }, attempt: Attempt(1) };
        Decision::Start { id, placement: [task(from), task(from + 1)].into(), backfilled: false }
    };
    let two = Plan { decisions: vec![element(0, 0), element(1, 2)], ..Plan::default() };
    refused(&cluster.engine, cluster.now, &two, |violation| {
        *violation == Violation::ArrayCap(JobId(7))
    });
}

#[test]
fn a_start_that_would_delay_a_reservation_is_refused() {
    let (mut cluster, plan) = setting();
    // The same start, but of a job without a time limit.
    let endless = job("endless").tasks(2).gpus(4).cpus(1);
    cluster
        .engine
        .apply(cluster.now, &Event::Submitted { job: JobId(4), spec: Arc::new(endless.spec) });
    let id = AttemptId { element: ElementId::single(JobId(4)), attempt: Attempt(1) };
    let kept_by = ElementId::single(JobId(3));
    refused(
        &cluster.engine,
        cluster.now,
        &renamed(&plan, id),
        |violation| matches!(violation, Violation::Reservation { element, .. } if *element == kept_by),
    );
    // A reservation that begins before running jobs have ended, and two for the same devices.
    let mut early = plan.clone();
    early.reservations[0].start = cluster.now + span("1s");
    refused(&cluster.engine, cluster.now, &early, |violation| {
        matches!(violation, Violation::Reservation { .. })
    });
    let mut twice = plan.clone();
    let other =
        Reservation { element: ElementId::single(JobId(4)), ..plan.reservations[0].clone() };
    twice.reservations.push(other);
    refused(&cluster.engine, cluster.now, &twice, |violation| {
        matches!(violation, Violation::Reservation { .. })
    });
}

#[test]
fn a_start_beyond_a_limit_or_a_quota_is_refused() {
    let limited = |edit: &dyn Fn(&mut QueueSpec, &mut QueueSpec)| {
        let mut team = QueueSpec::named("team");
        let mut red = QueueSpec::named("red");
        edit(&mut team, &mut red);
        team.queues = vec![red, QueueSpec::named("blue")];
        let mut tree = QueueTree::single();
        tree.queues.push(team);
        tree
    };
    let quota = |queue: &mut QueueSpec, gpus| {
        queue.quota.insert("h100".into(), gpus);
    };
    let budget = |gpu_hours, gpu_hours_per_user| {
        Some(QueueBudget { gpu_hours, gpu_hours_per_user, every: span("6h"), start: Time(0) })
    };
    let rows: [(&str, QueueTree); 11] = [
        (
            "leaf quota",
            limited(&|team, red| {
                quota(team, 10);
                quota(red, 3);
                red.borrow = Some(0);
            }),
        ),
        ("parent quota", limited(&|team, _| quota(team, 3))),
        (
            "parent may not borrow",
            limited(&|team, red| {
                quota(team, 3);
                quota(red, 3);
                team.borrow = Some(0);
            }),
        ),
        ("running elements", limited(&|_, red| red.limits.running_jobs = Some(1))),
        ("running elements above", limited(&|team, _| team.limits.running_jobs = Some(1))),
        ("GPUs per user", limited(&|team, _| team.limits.gpus_per_user = Some(3))),
        (
            "borrowed time",
            limited(&|_, red| {
                quota(red, 3);
                red.limits.borrowed_time = Some(span("2h"));
            }),
        ),
        (
            "borrowed time above",
            limited(&|team, red| {
                quota(team, 6);
                quota(red, 1);
                red.lend = Some(0);
                quota(team, 3);
                team.limits.borrowed_time = Some(span("2h"));
            }),
        ),
        ("budget", limited(&|_, red| red.budget = budget(Some(7), None))),
        ("budget above", limited(&|team, _| team.budget = budget(Some(7), None))),
        ("budget of users", limited(&|team, _| team.budget = budget(Some(20), Some(7)))),
    ];
    for (name, tree) in rows {
        // Planned under a tree without limits, checked under one with limits.
        let mut cluster = TestCluster::with_queues(&[node("a", 8)], limited(&|_, _| ()));
        for id in [1, 2] {
            let spec = Arc::new(job("two").gpus(2).limit("2h").queue("team/red").spec);
            cluster.engine.apply(cluster.now, &Event::Submitted { job: JobId(id), spec });
        }
        let plan = cluster.engine.plan(cluster.now);
        assert_eq!(plan.decisions.len(), 2);
        cluster.engine.apply(cluster.now, &Event::QueuesSet(Box::new(tree)));
        refused(&cluster.engine, cluster.now, &plan, |violation| {
            matches!(violation, Violation::Limit(reason) if matches!(
                **reason,
                Reason::Quota { .. }
                    | Reason::RunningJobs { .. }
                    | Reason::GpusPerUser { .. }
                    | Reason::BorrowedTime { .. }
                    | Reason::Budget { .. }
            ))
        });
        let legal = cluster.engine.plan(cluster.now);
        assert_eq!(legal.decisions.len(), 1, "{name}");
        assert_eq!(cluster.engine.check(cluster.now, &legal), Ok(()), "{name}");
    }
}

#[test]
fn an_unlimited_job_beyond_the_next_budget_period_is_refused() {
    let tree = |hours| {
        let mut tree = QueueTree::single();
        let every = span("6h");
        let start = Time(0);
        tree.queues[0].budget =
            Some(QueueBudget { gpu_hours: Some(hours), gpu_hours_per_user: None, every, start });
        tree
    };
    let mut cluster = TestCluster::with_queues(&[node("a", 8)], tree(100));
    // A second before the period ends, two GPUs take next to nothing of it, but twelve GPU-hours of
    // the next one.
    cluster.now = Time(6 * 3_600_000 - 1000);
    let spec = Arc::new(job("endless").gpus(2).spec);
    cluster.engine.apply(cluster.now, &Event::Submitted { job: JobId(1), spec });
    let plan = cluster.engine.plan(cluster.now);
    assert_eq!(plan.decisions.len(), 1);
    cluster.engine.apply(cluster.now, &Event::QueuesSet(Box::new(tree(11))));
    refused(
        &cluster.engine,
        cluster.now,
        &plan,
        |violation| matches!(violation, Violation::Limit(reason) if matches!(**reason, Reason::Budget { .. })),
    );
    cluster.engine.apply(cluster.now, &Event::QueuesSet(Box::new(tree(12))));
    assert_eq!(cluster.engine.check(cluster.now, &plan), Ok(()));
}

/// Guaranteed and opportunistic replicas, and tasks, in one cluster: preemption and borrowing.
#[test]
fn opportunistic_replicas_are_preempted_and_guaranteed_ones_are_not() {
    let mut tree = QueueTree::single();
    let mut serve = QueueSpec::named("serve");
    let mut batch = QueueSpec::named("batch");
    serve.quota.insert("h100".into(), 2);
    batch.quota.insert("h100".into(), 2);
    tree.queues.extend([serve, batch]);
    let mut cluster = TestCluster::with_queues(&[node("a", 4)], tree);
    let mut api = job("api").gpus(1).queue("serve");
    let replicas = Replicas { guaranteed: 2, max: 4 };
    api.spec.kind = WorkloadKind::Service(Service { replicas, port: None });
    cluster.submit(api);
    // 1. A waiting job preempts the opportunistic replicas, and no others.
    let spec = Arc::new(job("train").gpus(2).limit("1h").queue("batch").spec);
    cluster.engine.apply(cluster.now, &Event::Submitted { job: JobId(2), spec });
    let plan = cluster.engine.plan(cluster.now);
    assert_eq!(cluster.engine.check(cluster.now, &plan), Ok(()));
    let [Decision::Nominate { element, placement, evict }] = &plan.decisions[..] else {
        panic!("{plan:?}");
    };
    let evicted: Vec<u32> = evict.iter().map(|one| one.id.element.index).collect();
    assert_eq!(evicted, [3, 2]);
    assert!(evict.iter().all(|one| one.cause == EvictionCause::Opportunistic));
    let with = |indices: [u32; 2], cause| {
        let id =
            |index| AttemptId { element: ElementId { job: JobId(1), index }, attempt: Attempt(1) };
        let evict = indices.map(|index| Eviction { id: id(index), cause }).to_vec();
        let element = *element;
        let placement = Arc::clone(placement);
        Plan { decisions: vec![Decision::Nominate { element, placement, evict }], ..plan.clone() }
    };
    for wrong in [
        // Guaranteed replicas, for any cause; opportunistic ones by priority in a queue that they
        // are not in.
        with([1, 2], EvictionCause::Opportunistic),
        with([1, 2], EvictionCause::Reclaimed),
        with([3, 2], EvictionCause::Outranked),
    ] {
        refused(&cluster.engine, cluster.now, &wrong, |found| {
            matches!(found, Violation::NotEvictable(..))
        });
    }
    // 2. Once they are guaranteed they stay; and with them the queue would borrow.
    let scaled = Event::Scaled {
        job: JobId(1),
        replicas: Replicas { guaranteed: 4, max: 4 },
        by: "ann".into(),
    };
    cluster.engine.apply(cluster.now, &scaled);
    refused(&cluster.engine, cluster.now, &plan, |found| {
        matches!(found, Violation::NotEvictable(..))
    });
}

#[test]
fn guaranteed_replicas_that_would_borrow_are_refused() {
    let mut tree = QueueTree::single();
    tree.queues.push(QueueSpec::named("serve"));
    let mut cluster = TestCluster::with_queues(&[node("a", 4)], tree.clone());
    let mut api = job("api").gpus(1).queue("serve");
    api.spec.kind =
        WorkloadKind::Service(Service { replicas: Replicas { guaranteed: 2, max: 2 }, port: None });
    cluster
        .engine
        .apply(cluster.now, &Event::Submitted { job: JobId(1), spec: Arc::new(api.spec) });
    let plan = cluster.engine.plan(cluster.now);
    assert_eq!(plan.decisions.len(), 2);
    // Planned without a quota, checked with a quota of one GPU beside a lender.
    tree.queues[1].quota.insert("h100".into(), 1);
    tree.queues[0].quota.insert("h100".into(), 3);
    cluster.engine.apply(cluster.now, &Event::QueuesSet(Box::new(tree)));
    refused(
        &cluster.engine,
        cluster.now,
        &plan,
        |found| matches!(found, Violation::Limit(reason) if matches!(**reason, Reason::MayNotBorrow { .. })),
    );
    assert_eq!(cluster.engine.plan(cluster.now).decisions.len(), 1);
}
