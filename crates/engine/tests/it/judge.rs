//! The judge refuses what is wrong: for each invariant of a plan, a right plan is broken on
//! purpose.

use std::sync::Arc;

use muster_engine::{Engine, Violation};
use muster_model::job::DependencyKind;
use muster_model::queue::Budget;
use muster_model::{
    Attempt, AttemptId, Decision, DeviceSet, ElementId, Event, Eviction, EvictionCause, Foreign,
    GpuMilli, JobId, Kind, NodeId, Plan, QueueSpec, QueueTree, Reason, Replicas, Reservation,
    Service, TaskPlacement, Time,
};

use crate::world::{World, job, node, node_of, span};

/// Two gangs wait; the first starts on the next pass, the second is blocked and gets a reservation.
fn setting() -> (World, Plan) {
    let mut west = node("b", 8);
    west.labels.insert("zone".into(), "west".into());
    let mut world = World::new(&[node("a", 8), west, node_of("c", 2, "a100", 4)]);
    world.submit(job("runs").tasks(6).gpus(1).limit("60s"));
    // Submitted without a step: what comes next is a plan that nobody has committed.
    let ready = job("ready").tasks(2).gpus(4).models(&["h100"]).limit("30s").cpus(1);
    let blocked = job("blocked").tasks(2).per_node(1).gpus(8).limit("30s");
    for (id, ask) in [(2, ready), (3, blocked)] {
        world
            .engine
            .apply(world.now, &Event::Submitted { job: JobId(id), spec: Arc::new(ask.spec) });
    }
    let plan = world.engine.plan(world.now);
    assert_eq!(plan.decisions.len(), 1);
    assert_eq!(plan.reservations.len(), 1);
    assert_eq!(world.engine.check(world.now, &plan), Ok(()));
    (world, plan)
}

/// Changes the placement of the only start.
fn replaced(plan: &Plan, edit: impl FnOnce(&mut Vec<TaskPlacement>)) -> Plan {
    let (id, placement, backfilled) = plan.starts().next().unwrap();
    let mut tasks = placement.to_vec();
    edit(&mut tasks);
    let start = Decision::Start { id, placement: tasks.into(), backfilled };
    Plan { decisions: vec![start], ..plan.clone() }
}

/// Changes which attempt the only start makes.
fn renamed(plan: &Plan, id: AttemptId) -> Plan {
    let (_, placement, backfilled) = plan.starts().next().unwrap();
    let start = Decision::Start { id, placement: Arc::clone(placement), backfilled };
    Plan { decisions: vec![start], ..plan.clone() }
}

#[track_caller]
fn refused(engine: &Engine, now: Time, plan: &Plan, expected: impl Fn(&Violation) -> bool) {
    let found = engine.check(now, plan).expect_err("the judge lets a broken plan pass");
    assert!(found.iter().any(expected), "{found:?}");
}

#[test]
fn broken_placements_are_refused() {
    let (world, plan) = setting();
    let check = |edit: &dyn Fn(&mut Vec<TaskPlacement>), expected: &dyn Fn(&Violation) -> bool| {
        let broken = replaced(&plan, |tasks| edit(tasks));
        refused(&world.engine, world.now, &broken, expected);
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
    // Devices that somebody else holds.
    let taken = world.engine.placement(world.element("runs", 0)).unwrap().1;
    let (held, on) =
        (taken.iter().fold(DeviceSet::EMPTY, |all, task| all.or(task.devices)), taken[0].node);
    check(&|tasks| (tasks[0].node, tasks[0].devices) = (on, held.lowest(4)), &|v| {
        matches!(v, Violation::Device { .. })
    });
    // Too few devices, a share of whole ones, devices that are not there, another model.
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
    let (mut world, plan) = setting();
    let (id, ..) = plan.starts().next().unwrap();
    let check = |world: &World, plan: &Plan, expected: &dyn Fn(&Violation) -> bool| {
        refused(&world.engine, world.now, plan, expected);
    };
    let not_startable = |v: &Violation| matches!(v, Violation::NotStartable(..));
    // Attempt numbers grow by one.
    let late = AttemptId { attempt: Attempt(2), ..id };
    check(&world, &renamed(&plan, late), &|v| {
        matches!(v, Violation::WrongAttempt { expected: 1, .. })
    });
    // Unknown jobs and elements, and elements that are active.
    let of = |job: u64, index| AttemptId {
        element: ElementId { job: JobId(job), index },
        attempt: Attempt(1),
    };
    check(&world, &renamed(&plan, of(99, 0)), &|v| matches!(v, Violation::Unknown(_)));
    check(&world, &renamed(&plan, of(2, 5)), &|v| matches!(v, Violation::Unknown(_)));
    check(&world, &renamed(&plan, of(1, 0)), &not_startable);
    // Twice the same.
    let mut twice = plan.clone();
    twice.decisions.push(plan.decisions[0].clone());
    check(&world, &twice, &|v| matches!(v, Violation::StartedTwice(_)));
    // On hold, before its time, before its dependency.
    let target = muster_model::Target { job: JobId(2), index: None };
    world.engine.apply(world.now, &Event::Hold(target));
    check(&world, &plan, &not_startable);
    world.engine.apply(world.now, &Event::Release(target));
    let later = job("later").begin(world.now + span("1h")).tasks(2).gpus(4);
    let chained = job("chained").after(DependencyKind::AfterOk, JobId(1)).tasks(2).gpus(4);
    for (id, ask) in [(4, later), (5, chained)] {
        world
            .engine
            .apply(world.now, &Event::Submitted { job: JobId(id), spec: Arc::new(ask.spec) });
        check(&world, &renamed(&plan, of(id, 0)), &not_startable);
    }
}

#[test]
fn nodes_that_may_not_be_used_are_refused() {
    let drain = |world: &World, node: &str| Event::NodeDrained {
        node: world.engine.nodes()[usize::from(node == "b")].name.clone(),
        drained: true,
        reason: "fan".into(),
    };
    let lost = Event::NodeLost { node: "b".into(), reason: "gone".into() };
    let foreign = Foreign { devices: DeviceSet::first(8), ..Foreign::default() };
    let used = Event::ForeignUse { node: "b".into(), foreign };
    let dead = Foreign { drained: DeviceSet::first(8), ..Foreign::default() };
    let broken = Event::ForeignUse { node: "b".into(), foreign: dead };
    let (world, _) = setting();
    for event in [drain(&world, "b"), lost, used, broken] {
        let (mut world, plan) = setting();
        world.engine.apply(world.now, &event);
        refused(&world.engine, world.now, &plan, |violation| {
            matches!(violation, Violation::WrongNode { .. } | Violation::Device { .. })
        });
    }
    // Labels and exclusions.
    for ask in [
        job("east").with(|spec| drop(spec.constraint.labels.insert("zone".into(), "east".into()))),
        job("elsewhere").with(|spec| spec.constraint.exclude.push("b".into())),
    ] {
        let (mut world, plan) = setting();
        let spec = Arc::new(ask.tasks(2).gpus(4).spec);
        world.engine.apply(world.now, &Event::Submitted { job: JobId(4), spec });
        let id = AttemptId { element: ElementId::single(JobId(4)), attempt: Attempt(1) };
        refused(&world.engine, world.now, &renamed(&plan, id), |violation| {
            matches!(violation, Violation::WrongNode { .. })
        });
    }
}

#[test]
fn blocks_on_one_node_quantities_beyond_a_node_and_caps_are_refused() {
    let (mut world, plan) = setting();
    let id = |job| AttemptId { element: ElementId::single(JobId(job)), attempt: Attempt(1) };
    let blocks = job("blocks").tasks(2).per_node(1).gpus(4);
    let greedy = job("greedy").tasks(2).gpus(4).cpus(70);
    let hungry = job("hungry").tasks(2).gpus(4).memory(1 << 40);
    for (number, ask) in [(4, blocks), (5, greedy), (6, hungry)] {
        world
            .engine
            .apply(world.now, &Event::Submitted { job: JobId(number), spec: Arc::new(ask.spec) });
    }
    let check = |job, expected: &dyn Fn(&Violation) -> bool| {
        refused(&world.engine, world.now, &renamed(&plan, id(job)), expected);
    };
    check(4, &|violation| matches!(violation, Violation::WrongNode { .. }));
    check(5, &|violation| matches!(violation, Violation::Quantity { what: "cpus", .. }));
    check(6, &|violation| matches!(violation, Violation::Quantity { what: "memory", .. }));
    let capped = job("capped").tasks(2).gpus(1).array(0, 9, Some(1));
    world.engine.apply(world.now, &Event::Submitted { job: JobId(7), spec: Arc::new(capped.spec) });
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
    refused(&world.engine, world.now, &two, |violation| {
        *violation == Violation::ArrayCap(JobId(7))
    });
}

#[test]
fn a_start_that_would_delay_a_reservation_is_refused() {
    let (mut world, plan) = setting();
    // The same start, but of a job without a limit.
    let endless = job("endless").tasks(2).gpus(4).cpus(1);
    world
        .engine
        .apply(world.now, &Event::Submitted { job: JobId(4), spec: Arc::new(endless.spec) });
    let id = AttemptId { element: ElementId::single(JobId(4)), attempt: Attempt(1) };
    let kept_by = ElementId::single(JobId(3));
    refused(
        &world.engine,
        world.now,
        &renamed(&plan, id),
        |violation| matches!(violation, Violation::Reservation { element, .. } if *element == kept_by),
    );
    // A reservation that begins before what runs has ended, and two for the same devices.
    let mut early = plan.clone();
    early.reservations[0].start = world.now + span("1s");
    refused(&world.engine, world.now, &early, |violation| {
        matches!(violation, Violation::Reservation { .. })
    });
    let mut twice = plan.clone();
    let other =
        Reservation { element: ElementId::single(JobId(4)), ..plan.reservations[0].clone() };
    twice.reservations.push(other);
    refused(&world.engine, world.now, &twice, |violation| {
        matches!(violation, Violation::Reservation { .. })
    });
}

#[test]
fn a_start_beyond_a_limit_or_a_quota_is_refused() {
    let limited = |edit: &dyn Fn(&mut QueueSpec, &mut QueueSpec)| {
        let (mut team, mut red) = (QueueSpec::named("team"), QueueSpec::named("red"));
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
        Some(Budget { gpu_hours, gpu_hours_per_user, every: span("6h"), start: Time(0) })
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
        // Planned under a tree without limits, judged under one with them.
        let mut world = World::with_queues(&[node("a", 8)], limited(&|_, _| ()));
        for id in [1, 2] {
            let spec = Arc::new(job("two").gpus(2).limit("2h").queue("team/red").spec);
            world.engine.apply(world.now, &Event::Submitted { job: JobId(id), spec });
        }
        let plan = world.engine.plan(world.now);
        assert_eq!(plan.decisions.len(), 2);
        world.engine.apply(world.now, &Event::QueuesSet(Box::new(tree)));
        refused(&world.engine, world.now, &plan, |violation| {
            matches!(violation, Violation::Limit(reason) if matches!(
                **reason,
                Reason::Quota { .. }
                    | Reason::RunningJobs { .. }
                    | Reason::GpusPerUser { .. }
                    | Reason::BorrowedTime { .. }
                    | Reason::Budget { .. }
            ))
        });
        let legal = world.engine.plan(world.now);
        assert_eq!(legal.decisions.len(), 1, "{name}");
        assert_eq!(world.engine.check(world.now, &legal), Ok(()), "{name}");
    }
}

#[test]
fn an_endless_start_beyond_a_window_to_come_is_refused() {
    let tree = |hours| {
        let mut tree = QueueTree::single();
        let (every, start) = (span("6h"), Time(0));
        tree.queues[0].budget =
            Some(Budget { gpu_hours: Some(hours), gpu_hours_per_user: None, every, start });
        tree
    };
    let mut world = World::with_queues(&[node("a", 8)], tree(100));
    // A second before the window ends, two GPUs take next to nothing of it, but twelve GPU-hours of
    // the next one.
    world.now = Time(6 * 3_600_000 - 1000);
    let spec = Arc::new(job("endless").gpus(2).spec);
    world.engine.apply(world.now, &Event::Submitted { job: JobId(1), spec });
    let plan = world.engine.plan(world.now);
    assert_eq!(plan.decisions.len(), 1);
    world.engine.apply(world.now, &Event::QueuesSet(Box::new(tree(11))));
    refused(
        &world.engine,
        world.now,
        &plan,
        |violation| matches!(violation, Violation::Limit(reason) if matches!(**reason, Reason::Budget { .. })),
    );
    world.engine.apply(world.now, &Event::QueuesSet(Box::new(tree(12))));
    assert_eq!(world.engine.check(world.now, &plan), Ok(()));
}

/// Bursts, floors and tasks in one queue: who may be made to go for whom, and who may borrow.
#[test]
fn a_floor_stays_a_burst_yields_and_neither_is_told_otherwise() {
    let mut tree = QueueTree::single();
    let (mut serve, mut batch) = (QueueSpec::named("serve"), QueueSpec::named("batch"));
    serve.quota.insert("h100".into(), 2);
    batch.quota.insert("h100".into(), 2);
    tree.queues.extend([serve, batch]);
    let mut world = World::with_queues(&[node("a", 4)], tree);
    let mut api = job("api").gpus(1).queue("serve");
    let replicas = Replicas { floor: 2, ceiling: 4 };
    api.spec.kind = Kind::Service(Service { replicas, port: None });
    world.submit(api);
    // 1. A job that waits in its turn makes the burst go, and nobody else.
    let spec = Arc::new(job("train").gpus(2).limit("1h").queue("batch").spec);
    world.engine.apply(world.now, &Event::Submitted { job: JobId(2), spec });
    let plan = world.engine.plan(world.now);
    assert_eq!(world.engine.check(world.now, &plan), Ok(()));
    let [Decision::Claim { element, placement, evict }] = &plan.decisions[..] else {
        panic!("{plan:?}");
    };
    let gone: Vec<u32> = evict.iter().map(|one| one.id.element.index).collect();
    assert_eq!(gone, [3, 2]);
    assert!(evict.iter().all(|one| one.cause == EvictionCause::Yielded));
    let with = |indices: [u32; 2], cause| {
        let id =
            |index| AttemptId { element: ElementId { job: JobId(1), index }, attempt: Attempt(1) };
        let evict = indices.map(|index| Eviction { id: id(index), cause }).to_vec();
        let (element, placement) = (*element, Arc::clone(placement));
        Plan { decisions: vec![Decision::Claim { element, placement, evict }], ..plan.clone() }
    };
    for wrong in [
        // The floor, by any right; a burst by the right of priority in a queue, which it is not in.
        with([1, 2], EvictionCause::Yielded),
        with([1, 2], EvictionCause::Reclaimed),
        with([3, 2], EvictionCause::Outranked),
    ] {
        refused(&world.engine, world.now, &wrong, |found| {
            matches!(found, Violation::NotEvictable(..))
        });
    }
    // 2. Once it is a floor it stays; and with that it would have borrowed.
    let scaled = Event::Scaled {
        job: JobId(1),
        replicas: Replicas { floor: 4, ceiling: 4 },
        by: "ann".into(),
    };
    world.engine.apply(world.now, &scaled);
    refused(&world.engine, world.now, &plan, |found| matches!(found, Violation::NotEvictable(..)));
}

#[test]
fn a_floor_that_would_borrow_is_refused() {
    let mut tree = QueueTree::single();
    tree.queues.push(QueueSpec::named("serve"));
    let mut world = World::with_queues(&[node("a", 4)], tree.clone());
    let mut api = job("api").gpus(1).queue("serve");
    api.spec.kind =
        Kind::Service(Service { replicas: Replicas { floor: 2, ceiling: 2 }, port: None });
    world.engine.apply(world.now, &Event::Submitted { job: JobId(1), spec: Arc::new(api.spec) });
    let plan = world.engine.plan(world.now);
    assert_eq!(plan.decisions.len(), 2);
    // Planned without a quota, judged with one of a single GPU beside a lender.
    tree.queues[1].quota.insert("h100".into(), 1);
    tree.queues[0].quota.insert("h100".into(), 3);
    world.engine.apply(world.now, &Event::QueuesSet(Box::new(tree)));
    refused(
        &world.engine,
        world.now,
        &plan,
        |found| matches!(found, Violation::Limit(reason) if matches!(**reason, Reason::MayNotBorrow { .. })),
    );
    assert_eq!(world.engine.plan(world.now).decisions.len(), 1);
}
