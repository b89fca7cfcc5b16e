//! Placement: packing, and comparison with brute force on tiny clusters.

use std::sync::Arc;

use muster_engine::{Engine, EventRefusal};
use muster_model::reason::Limiting;
use muster_model::view::JobState;
use muster_model::{Event, JobId, NodeSpec, QueueSpec, QueueTree, Reason, Time};
use proptest::prelude::*;

use crate::cluster::{JobBuilder, TestCluster, job, node, node_of, span};
use crate::random::TestRng;

/// Returns nodes and devices as text: `a0,1 b0`.
fn places(cluster: &TestCluster, name: &str) -> String {
    let text = |(node, devices): &(muster_model::NodeName, Vec<u16>)| {
        let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
        format!("{node}{}", devices.join(","))
    };
    cluster.places(name).iter().map(text).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(cluster: &mut TestCluster, ask: JobBuilder, expected: &str) {
    let name = ask.spec.name.to_string();
    cluster.submit(ask);
    assert_eq!(places(cluster, &name), expected, "{name}");
}

#[test]
fn packing_keeps_whole_nodes_free() {
    let mut cluster = TestCluster::new(&[node("a", 4), node("b", 4), node("c", 2)]);
    check(&mut cluster, job("one").gpus(1), "c0");
    check(&mut cluster, job("two").gpus(2), "a0,1");
    check(&mut cluster, job("again").gpus(1), "c1");
    check(&mut cluster, job("pair").tasks(2).gpus(1), "a2 a3");
    check(&mut cluster, job("whole").gpus(4), "b0,1,2,3");
}

#[test]
fn a_gang_takes_as_few_nodes_as_it_can_and_blocks_go_to_different_nodes() {
    let mut cluster = TestCluster::new(&[node("a", 2), node("b", 8), node("c", 4)]);
    check(&mut cluster, job("packed").tasks(5).gpus(1), "b0 b1 b2 b3 b4");
    check(&mut cluster, job("blocks").tasks(4).per_node(2).gpus(1), "a0 a1 b5 b6");
    check(&mut cluster, job("wide").tasks(2).gpus(2), "c0,1 c2,3");
}

#[test]
fn shares_fill_devices_that_are_shared_already() {
    let mut cluster = TestCluster::new(&[node("a", 2), node("b", 2)]);
    check(&mut cluster, job("half").share(500), "a0");
    check(&mut cluster, job("third").share(300), "a0");
    check(&mut cluster, job("more").share(300), "a1");
    check(&mut cluster, job("fits").share(200), "a0");
    check(&mut cluster, job("whole").gpus(1), "b0");
    check(&mut cluster, job("large").tasks(2).share(700), "a1 b1");
}

#[test]
fn tasks_without_a_gpu_stay_away_from_free_gpus() {
    let mut cluster = TestCluster::new(&[node_of("a", 4, "h100", 8), node_of("z", 0, "none", 8)]);
    check(&mut cluster, job("plain").cpus(6), "z");
    check(&mut cluster, job("spill").tasks(2).cpus(2), "a a");
    check(&mut cluster, job("small").cpus(2), "z");
}

#[test]
fn all_devices_of_a_task_are_of_one_model_and_a_gang_prefers_one_model() {
    let nodes =
        [node_of("a", 2, "a100", 64), node_of("b", 4, "h100", 64), node_of("c", 4, "h100", 64)];
    let mut cluster = TestCluster::new(&nodes);
    check(&mut cluster, job("prefers").gpus(1).models(&["h100", "a100"]), "b0");
    check(&mut cluster, job("one-model").tasks(6).gpus(1), "b1 b2 c0 c1 c2 c3");
    check(&mut cluster, job("other").gpus(2).models(&["h100", "a100"]), "a0,1");
    // Only mixed does it fit.
    let nodes = [node_of("a", 2, "a100", 64), node_of("b", 2, "h100", 64)];
    let mut cluster = TestCluster::new(&nodes);
    check(&mut cluster, job("mixed").tasks(4).gpus(1), "a0 a1 b0 b1");
    let refused = cluster.try_submit(job("never").gpus(3));
    assert!(matches!(refused, Err(EventRefusal::NeverStarts(Reason::NeverFits(_)))));
}

#[test]
fn a_gang_that_mixes_models_keeps_each_models_quota_and_its_users_limit() {
    let nodes = [node_of("a", 4, "a100", 64), node_of("h", 4, "h100", 64)];
    let queues = |edit: &dyn Fn(&mut QueueSpec)| {
        let mut queue = QueueSpec::named("team");
        edit(&mut queue);
        let mut tree = QueueTree::single();
        tree.queues.push(queue);
        tree
    };
    let quota = queues(&|queue| {
        queue.quota.insert("h100".into(), 1);
        queue.borrow = Some(0);
    });
    let mut cluster = TestCluster::with_queues(&nodes, quota);
    check(&mut cluster, job("mixed").tasks(5).gpus(1).queue("team"), "a0 a1 a2 a3 h0");
    cluster.submit(job("more").gpus(1).queue("team"));
    cluster.expect("more", JobState::Pending);
    let limit = queues(&|queue| queue.limits.gpus_per_user = Some(5));
    let mut cluster = TestCluster::with_queues(&nodes, limit);
    check(&mut cluster, job("first").gpus(1).queue("team"), "a0");
    cluster.submit(job("mixed").tasks(5).gpus(1).queue("team"));
    cluster.expect("mixed", JobState::Pending);
}

#[test]
fn jobs_that_never_fit_are_refused_with_the_missing_resource() {
    let mut east = node_of("a", 4, "h100", 8);
    east.labels.insert("zone".into(), "east".into());
    east.extras.insert("disk".into(), 2);
    let mut cluster = TestCluster::new(&[east, node_of("b", 4, "h100", 8)]);
    let rows: [(JobBuilder, Limiting); 7] = [
        (job("gpus").tasks(9).gpus(1), Limiting::Gpus),
        (job("nodes").tasks(3).per_node(1).gpus(1), Limiting::Nodes),
        (job("model").gpus(1).models(&["b200"]), Limiting::Constraint),
        (
            job("zone")
                .with(|spec| drop(spec.constraint.labels.insert("zone".into(), "moon".into()))),
            Limiting::Constraint,
        ),
        (
            job("extra").with(|spec| {
                spec.groups[0].task.extras.insert("nic".into(), 1);
            }),
            Limiting::Extra { name: "nic".into(), asked: 1, free: 0 },
        ),
        (
            job("scarce").with(|spec| {
                spec.groups[0].task.extras.insert("disk".into(), 3);
            }),
            Limiting::Extra { name: "disk".into(), asked: 3, free: 2 },
        ),
        (
            job("cpus").gpus(1).cpus(9),
            Limiting::Cpus {
                asked: muster_model::CpuMilli(9000),
                free: muster_model::CpuMilli(8000),
            },
        ),
    ];
    for (ask, expected) in rows {
        let name = ask.spec.name.clone();
        match cluster.try_submit(ask) {
            Err(EventRefusal::NeverStarts(Reason::NeverFits(gap))) => {
                assert_eq!(gap.limiting, expected, "{name}")
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_gang_of_several_groups_starts_whole_or_waits() {
    let mut cluster = TestCluster::new(&[node("a", 8)]);
    let roles = |name: &str, trainers: u32, rollouts: u32| {
        job(name).with(|spec| {
            let mut second = spec.groups[0].clone();
            spec.groups[0].name = "trainer".into();
            second.name = "rollout".into();
            for (group, tasks, gpus) in
                [(&mut spec.groups[0], trainers, 2), (&mut second, rollouts, 1)]
            {
                (group.min_tasks, group.max_tasks) = (tasks, tasks);
                group.task.gpu.devices = gpus;
            }
            spec.groups.push(second);
        })
    };
    check(&mut cluster, roles("first", 2, 3), "a0,1 a2,3 a4 a5 a6");
    cluster.submit(roles("second", 1, 1));
    cluster.expect("second", JobState::Pending);
    assert!(cluster.try_submit(roles("never", 3, 3)).is_err());
    cluster.exit("first", 0);
    cluster.expect("second", JobState::Running);
}

/// True when `tasks` tasks can be placed, by enumeration.
fn can_place(
    free: &mut [(u32, u32)],
    tasks: u32,
    gpus: u32,
    cpus: u32,
    distinct: bool,
    from: usize,
) -> bool {
    if tasks == 0 {
        return true;
    }
    (from..free.len()).any(|at| {
        if free[at].0 < gpus || free[at].1 < cpus {
            return false;
        }
        free[at].0 -= gpus;
        free[at].1 -= cpus;
        let next = if distinct { at + 1 } else { at };
        let placed = can_place(free, tasks - 1, gpus, cpus, distinct, next);
        free[at].0 += gpus;
        free[at].1 += cpus;
        placed
    })
}

/// One gang on a tiny cluster, some of it held: the engine starts it if and only if a placement
/// exists.
fn against_brute_force(seed: u64) {
    let mut rng = TestRng::new(seed);
    let nodes: Vec<NodeSpec> = (0..=rng.below(4))
        .map(|at| {
            node_of(&format!("n{at}"), rng.below(6) as usize, "h100", 1 + rng.below(6) as u32)
        })
        .collect();
    let mut engine = Engine::new(QueueTree::single()).unwrap();
    for node in &nodes {
        engine.apply(Time(0), &Event::NodeJoined(Box::new(node.clone())));
    }
    let mut free: Vec<(u32, u32)> =
        nodes.iter().map(|node| (node.devices.len() as u32, node.cpus.0 / 1000)).collect();
    let mut next = 0;
    for _ in 0..12 {
        let tasks = 1 + rng.below(6) as u32;
        let gpus = rng.below(4) as u32;
        let cpus = rng.below(3) as u32;
        let distinct = rng.chance(40);
        let ask = job("any").tasks(tasks).gpus(gpus).cpus(cpus);
        let ask = if distinct { ask.per_node(1) } else { ask };
        next += 1;
        let event = Event::Submitted { job: JobId(next), spec: Arc::new(ask.spec) };
        let mut idle: Vec<(u32, u32)> =
            nodes.iter().map(|node| (node.devices.len() as u32, node.cpus.0 / 1000)).collect();
        let ever = can_place(&mut idle, tasks, gpus, cpus, distinct, 0);
        assert_eq!(engine.validate(&event).is_ok(), ever, "{event:?} on {nodes:?}");
        let now = can_place(&mut free, tasks, gpus, cpus, distinct, 0);
        engine.apply(Time(1), &event);
        let plan = engine.plan(Time(1));
        engine.check(Time(1), &plan).unwrap();
        assert_eq!(
            !plan.decisions.is_empty(),
            now,
            "{tasks} × {gpus} GPUs, {cpus} CPUs, distinct {distinct}: {free:?}"
        );
        if plan.decisions.is_empty() || rng.chance(30) {
            let target = muster_model::CommandTarget { job: JobId(next), index: None };
            engine.apply(Time(1), &Event::Cancel { target, by: "ann".into() });
            continue;
        }
        engine.commit(Time(1), &plan);
        let (_, placement, _) = plan.starts().next().unwrap();
        for task in placement.iter() {
            let node = &mut free[task.node.0 as usize];
            node.0 -= gpus;
            node.1 -= cpus;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_group_is_placed_whenever_there_is_a_way(seed in any::<u64>()) {
        against_brute_force(seed);
    }
}

/// Returns a gang of groups with so many GPUs and CPUs each.
fn roles(name: &str, roles: &[(u32, u32)]) -> JobBuilder {
    job(name).with(|spec| {
        let group = spec.groups[0].clone();
        spec.groups = Vec::new();
        for (at, (gpus, cpus)) in roles.iter().enumerate() {
            let mut group = group.clone();
            group.name = format!("role{at}").into();
            group.task.gpu.devices = *gpus;
            group.task.cpus = muster_model::CpuMilli(cpus * 1000);
            spec.groups.push(group);
        }
    })
}

#[test]
fn competing_groups_are_tried_in_another_order() {
    // If the hardest is placed first, the trainer takes the tighter node `a`, whose CPUs the loader
    // needs.
    let mut cluster = TestCluster::new(&[node_of("a", 1, "h100", 8), node_of("b", 2, "h100", 2)]);
    check(&mut cluster, roles("compete", &[(1, 1), (0, 8)]), "b0 a");
}

#[test]
fn three_competing_groups_are_placed_although_no_group_order_finds_a_placement() {
    let mut cluster = TestCluster::new(&[node_of("a", 2, "h100", 4), node_of("b", 3, "h100", 1)]);
    // The only placement: 2 GPUs and the only CPU on `b`, the GPU with 4 CPUs on `a`.
    check(&mut cluster, roles("compete", &[(2, 0), (1, 4), (0, 1)]), "b0,1 a0 b");
    // Now one GPU is left on each node, and no CPU.
    cluster.submit(roles("later", &[(2, 0), (0, 1)]));
    cluster.expect("later", JobState::Pending);
    cluster.exit("compete", 0);
    cluster.expect("later", JobState::Running);
}

#[test]
fn a_gang_that_search_alone_places_gets_a_reservation() {
    let mut cluster = TestCluster::new(&[node_of("a", 2, "h100", 4), node_of("b", 3, "h100", 1)]);
    cluster.submit(job("first").gpus(3).limit("60s"));
    cluster.submit(roles("compete", &[(2, 0), (1, 4), (0, 1)]).limit("10s"));
    let planned = cluster.engine.reservations();
    assert_eq!(
        planned.iter().map(|one| one.start).collect::<Vec<_>>(),
        [cluster.now + span("60s")]
    );
    // Jobs that would outlast that start wait; shorter ones start.
    cluster.submit(job("long").gpus(2).limit("90s"));
    cluster.expect("long", JobState::Pending);
    cluster.submit(job("short").gpus(2).limit("60s"));
    cluster.expect("short", JobState::Running);
}

/// Group of a random gang: tasks, GPUs, thousandths of a GPU, CPUs, and whether each task needs a
/// node of its own.
type GroupRole = (u32, u32, u32, u32, bool);

/// True when all groups can be placed, by enumeration; a device is its free thousandths.
fn can_place_all(
    nodes: &mut [(Vec<u32>, u32)],
    roles: &[GroupRole],
    placed: u32,
    from: usize,
) -> bool {
    let Some((tasks, gpus, share, cpus, distinct)) = roles.first().copied() else { return true };
    if placed == tasks {
        return can_place_all(nodes, &roles[1..], 0, 0);
    }
    (from..nodes.len()).any(|at| {
        let before = nodes[at].clone();
        if before.1 < cpus {
            return false;
        }
        let next = if distinct { at + 1 } else { at };
        let mut try_devices = |devices: &[usize], milli: u32| {
            for device in devices {
                nodes[at].0[*device] -= milli;
            }
            nodes[at].1 -= cpus;
            let found = can_place_all(nodes, roles, placed + 1, next);
            nodes[at].clone_from(&before);
            found
        };
        match share {
            0 => {
                let free: Vec<usize> =
                    (0..before.0.len()).filter(|at| before.0[*at] == 1000).collect();
                free.len() >= gpus as usize && try_devices(&free[..gpus as usize], 1000)
            }
            _ => {
                // One of each set of equal devices.
                let fits = |device: &usize| before.0[*device] >= share;
                let is_first = |device: &usize| !before.0[..*device].contains(&before.0[*device]);
                let devices: Vec<usize> =
                    (0..before.0.len()).filter(|at| fits(at) && is_first(at)).collect();
                devices.iter().any(|device| try_devices(&[*device], share))
            }
        }
    })
}

/// Gangs of two or three groups on a tiny cluster: accepted if and only if a placement exists on
/// the idle cluster, started if and only if one exists now. For gangs with two sizes of shares only
/// one direction is guaranteed.
fn groups_against_brute_force(seed: u64) {
    let mut rng = TestRng::new(seed);
    let nodes: Vec<NodeSpec> = (0..=rng.below(3))
        .map(|at| node_of(&format!("n{at}"), rng.below(5) as usize, "h100", rng.below(6) as u32))
        .collect();
    let mut engine = Engine::new(QueueTree::single()).unwrap();
    for node in &nodes {
        engine.apply(Time(0), &Event::NodeJoined(Box::new(node.clone())));
    }
    let idle: Vec<(Vec<u32>, u32)> =
        nodes.iter().map(|node| (vec![1000; node.devices.len()], node.cpus.0 / 1000)).collect();
    let mut free = idle.clone();
    for next in 1..=8 {
        let roles: Vec<GroupRole> = (0..2 + rng.below(2)).map(|_| random_role(&mut rng)).collect();
        let shares = roles.iter().filter(|role| role.2 > 0).count();
        let event = Event::Submitted { job: JobId(next), spec: Arc::new(gang_of(&roles).spec) };
        let ever = can_place_all(&mut idle.clone(), &roles, 0, 0);
        let accepted = engine.validate(&event).is_ok();
        assert!(accepted || !ever, "{roles:?} on {nodes:?} is refused and there is a way");
        assert!(
            shares > 1 || accepted == ever,
            "{roles:?} on {nodes:?} is accepted and there is no way"
        );
        let now = can_place_all(&mut free.clone(), &roles, 0, 0);
        engine.apply(Time(1), &event);
        let plan = engine.plan(Time(1));
        engine.check(Time(1), &plan).unwrap();
        assert!(plan.decisions.is_empty() || now, "{roles:?} on {free:?}: no way was known");
        assert!(
            shares > 1 || plan.decisions.is_empty() != now,
            "{roles:?} on {free:?}: it does not start"
        );
        if plan.decisions.is_empty() || rng.chance(30) {
            let target = muster_model::CommandTarget { job: JobId(next), index: None };
            engine.apply(Time(1), &Event::Cancel { target, by: "ann".into() });
            continue;
        }
        engine.commit(Time(1), &plan);
        let (_, placement, _) = plan.starts().next().unwrap();
        for task in placement.iter() {
            let (_, _, share, cpus, _) = roles[usize::from(task.group)];
            let node = &mut free[task.node.0 as usize];
            node.1 -= cpus;
            for device in task.devices.iter() {
                node.0[device] -= if share > 0 { share } else { 1000 };
            }
        }
    }
}

fn random_role(rng: &mut TestRng) -> GroupRole {
    let tasks = 1 + rng.below(3) as u32;
    let cpus = rng.below(3) as u32;
    let distinct = rng.chance(30);
    if rng.chance(25) {
        (tasks, 0, *rng.pick(&[300, 500, 600]), cpus, distinct)
    } else {
        (tasks, rng.below(4) as u32, 0, cpus, distinct)
    }
}

fn gang_of(roles: &[GroupRole]) -> JobBuilder {
    job("gang").with(|spec| {
        let group = spec.groups.remove(0);
        for (at, (tasks, gpus, share, cpus, distinct)) in roles.iter().enumerate() {
            let mut group = group.clone();
            group.name = format!("role{at}").into();
            (group.min_tasks, group.max_tasks) = (*tasks, *tasks);
            group.tasks_per_node = distinct.then_some(1);
            (group.task.gpu.devices, group.task.gpu.share) =
                (*gpus, muster_model::GpuMilli(*share));
            group.task.cpus = muster_model::CpuMilli(cpus * 1000);
            spec.groups.push(group);
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_groups_are_placed_whenever_there_is_a_way(seed in any::<u64>()) {
        groups_against_brute_force(seed);
    }
}

/// A gang is accepted and waits if the search gives up; it is refused if sums alone prove that it
/// cannot fit.
#[test]
fn a_gang_is_refused_only_when_it_certainly_never_fits() {
    let nodes: Vec<NodeSpec> =
        (0..300).map(|at| node_of(&format!("n{at:03}"), 4, "h100", 4)).collect();
    let mut cluster = TestCluster::new(&nodes);
    // 600 tasks of 3 GPUs and 600 of 2 need 3,000 of 1,200 GPUs.
    let roles: [GroupRole; 2] = [(600, 3, 0, 0, false), (600, 2, 0, 0, false)];
    assert!(matches!(
        cluster.try_submit(gang_of(&roles)),
        Err(EventRefusal::NeverStarts(Reason::NeverFits(_)))
    ));
    // One group alone has too few nodes.
    let roles: [GroupRole; 2] = [(301, 1, 0, 0, true), (1, 1, 0, 0, false)];
    assert!(matches!(
        cluster.try_submit(gang_of(&roles)),
        Err(EventRefusal::NeverStarts(Reason::NeverFits(_)))
    ));
    // Sums allow it, but pairs of 3 do not fit into 4; 300 nodes are too many to prove it by
    // search.
    let roles: [GroupRole; 2] = [(250, 3, 0, 1, false), (150, 2, 0, 1, false)];
    cluster.submit(gang_of(&roles));
    cluster.expect("gang", JobState::Pending);
    assert_eq!(cluster.engine.sanity_check(), []);
}
