//! Gangs in topology domains: single cases, packings with a known best result, and comparison with
//! brute force on tiny clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_engine::{Engine, EventRefusal, Violation};
use muster_model::reason::TopologyGap;
use muster_model::view::{JobChange, JobState};
use muster_model::{
    CommandTarget, Decision, Event, JobId, NodeSpec, Plan, QueueTree, Reason, TaskPlacement, Time,
    TopologyRule,
};
use proptest::prelude::*;

use crate::cluster::{JobBuilder, TestCluster, job, node, node_of, span};
use crate::random::TestRng;

/// Returns the nodes of an element's tasks, by rank.
fn nodes(cluster: &TestCluster, name: &str) -> String {
    cluster.places(name).iter().map(|(node, _)| node.to_string()).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(cluster: &mut TestCluster, ask: JobBuilder, expected: &str) {
    let name = ask.spec.name.to_string();
    cluster.submit(ask);
    assert_eq!(nodes(cluster, &name), expected, "{name}");
}

fn preferred(level: &str) -> TopologyRule {
    TopologyRule::Preferred(level.into())
}

fn spread(level: &str) -> TopologyRule {
    TopologyRule::Spread(level.into())
}

#[test]
fn a_gang_goes_to_the_tightest_domain_that_takes_it() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b c", "b1/l2: d e", "b2/l3: f g h i"]);
    check(&mut cluster, job("two").tasks(2).gpus(4).required("leaf"), "d e");
    check(&mut cluster, job("three").tasks(12).gpus(1).required("leaf"), "a a a a b b b b c c c c");
    check(&mut cluster, job("block").tasks(4).per_node(1).gpus(4).required("block"), "f g h i");
    cluster.submit(job("late").tasks(2).gpus(4).required("leaf"));
    cluster.expect("late", JobState::Pending);
    cluster.exit("two", 0);
    assert_eq!(nodes(&cluster, "late"), "d e");
}

#[test]
fn of_equal_domains_the_one_in_the_fuller_wider_domain_is_taken() {
    let mut cluster =
        TestCluster::tree(2, &["b1/l1: a b", "b1/l2: c d", "b2/l3: e f", "b2/l4: g h"]);
    check(&mut cluster, job("first").tasks(2).gpus(2).required("leaf"), "a b");
    // `l2`, though `l3` has as many free: a gang that needs a block keeps `b2`.
    check(&mut cluster, job("second").tasks(2).gpus(2).required("leaf"), "c d");
    check(&mut cluster, job("wide").tasks(4).gpus(2).required("block"), "e f g h");
}

#[test]
fn within_a_required_domain_narrower_ones_are_used_sparingly() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c d", "b2/l3: e"]);
    check(&mut cluster, job("one").gpus(4).required("block"), "e");
    // Both nodes of one leaf, though the emptiest nodes of the block are all equal.
    check(
        &mut cluster,
        job("blocker").gpus(1).with(|spec| spec.constraint.exclude = vec!["c".into(), "d".into()]),
        "a",
    );
    check(&mut cluster, job("pair").tasks(2).gpus(4).required("block"), "c d");
}

#[test]
fn required_node_puts_a_gang_on_one_node_and_needs_no_levels() {
    let mut cluster = TestCluster::new(&[node("a", 2), node("b", 8), node("c", 4)]);
    check(&mut cluster, job("four").tasks(4).gpus(1).required("node"), "c c c c");
    check(&mut cluster, job("three").tasks(3).gpus(2).required("node"), "b b b");
    cluster.submit(job("wait").tasks(3).gpus(1).required("node"));
    cluster.expect("wait", JobState::Pending);
    let refused = cluster.try_submit(job("never").tasks(9).gpus(1).required("node"));
    let Err(EventRefusal::NeverStarts(Reason::NeverInTopology(gap))) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((gap.domain.as_deref(), gap.tasks_placeable), (Some("b"), 8));
}

#[test]
fn a_gang_that_no_domain_holds_is_refused_with_the_largest() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c d e"]);
    let refused = cluster.try_submit(job("never").tasks(16).gpus(1).required("leaf"));
    let Err(EventRefusal::NeverStarts(Reason::NeverInTopology(gap))) = refused else {
        panic!("{refused:?}")
    };
    let expected = TopologyGap {
        level: "leaf".into(),
        segment_tasks: None,
        domain: Some("l2".into()),
        tasks_needed: 16,
        tasks_placeable: 12,
        gpus_needed: muster_model::GpuMilli(16_000),
        gpus_free: muster_model::GpuMilli(12_000),
        gpus_total: muster_model::GpuMilli(12_000),
    };
    assert_eq!(gap, expected);
    cluster.submit(job("fits").tasks(16).gpus(1).required("block"));
    // A level that does not exist has no domains.
    let refused = cluster.try_submit(job("unknown").gpus(1).required("rack"));
    assert!(matches!(
        refused,
        Err(EventRefusal::NeverStarts(Reason::NeverInTopology(TopologyGap { domain: None, .. })))
    ));
}

#[test]
fn explain_shows_the_closest_domain_and_helpful_changes() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c d"]);
    cluster.submit(job("one").gpus(2).limit("60s"));
    cluster.submit(job("two").tasks(1).gpus(3).limit("90s").with(|spec| {
        spec.constraint.exclude = ["a", "b"].map(Into::into).to_vec();
    }));
    let id = cluster.submit(job("waits").tasks(8).gpus(1).required("leaf").limit("10s"));
    let element = muster_model::ElementId::single(id);
    let found = cluster.engine.explain(cluster.now, element).unwrap();
    let [Reason::Topology(gap)] = &found.reasons[..] else { panic!("{:?}", found.reasons) };
    assert_eq!((gap.level.as_str(), gap.domain.as_deref()), ("leaf", Some("l1")));
    assert_eq!((gap.tasks_placeable, gap.gpus_free.0, gap.gpus_total.0), (6, 6000, 8000));
    assert_eq!(found.eta.map(|eta| eta.start), Some(cluster.now + span("60s")));
    assert_eq!(found.holders.len(), 2);
    assert!(
        found.sooner.contains(&JobChange::PreferTopology { level: "leaf".into() }),
        "{:?}",
        found.sooner
    );
    assert!(found.sooner.contains(&JobChange::Tasks { tasks: 6 }), "{:?}", found.sooner);
    let view = cluster.engine.job(cluster.now, id).unwrap();
    assert!(matches!(view.waiting_for, Some(Reason::Topology(_))), "{:?}", view.waiting_for);
}

#[test]
fn a_domain_is_reserved_and_backfill_does_not_delay_the_reservation() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c d"]);
    cluster.submit(job("left").gpus(4).limit("60s").required("leaf"));
    cluster.submit(job("right").tasks(2).gpus(4).limit("300s").required("leaf"));
    cluster.submit(job("waits").tasks(2).gpus(4).limit("60s").required("leaf"));
    let planned = cluster.engine.reservations();
    assert_eq!(
        planned.iter().map(|one| one.start).collect::<Vec<_>>(),
        [cluster.now + span("60s")]
    );
    // Jobs that would outlast the reservation wait, also on the free half of the leaf of `left`.
    cluster.submit(job("long").gpus(1).limit("61s"));
    cluster.expect("long", JobState::Pending);
    cluster.submit(job("short").gpus(1).limit("60s"));
    cluster.expect("short", JobState::Running);
}

#[test]
fn preferred_takes_the_fewest_domains_and_never_waits_for_one() {
    let lines = ["b1/l1: a b", "b1/l2: c d", "b2/l3: e f", "b2/l4: g"];
    let mut cluster = TestCluster::tree(4, &lines);
    check(&mut cluster, job("one").gpus(4).topology(preferred("leaf")), "g");
    check(&mut cluster, job("two").tasks(2).gpus(4).topology(preferred("leaf")), "e f");
    // Two leaves, of one block.
    check(&mut cluster, job("three").tasks(3).gpus(4).topology(preferred("leaf")), "a b c");
    check(&mut cluster, job("rest").gpus(4).topology(preferred("block")), "d");
    cluster.exit("three", 0);
    cluster.exit("one", 0);
    // `l2` has one node left, `l1` two and `l4` one: 4 nodes need all of them, in both blocks.
    check(&mut cluster, job("spills").tasks(4).gpus(4).topology(preferred("leaf")), "a b c g");
}

#[test]
fn nodes_in_no_domain_host_what_prefers_and_never_what_requires() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a"]);
    cluster.step(vec![Event::NodeJoined(Box::new(node("z", 4)))]);
    assert!(cluster.try_submit(job("never").tasks(2).gpus(4).required("leaf")).is_err());
    check(&mut cluster, job("both").tasks(2).gpus(4).topology(preferred("leaf")), "z a");
    cluster.exit("both", 0);
    check(&mut cluster, job("evenly").tasks(4).gpus(1).topology(spread("leaf")), "z z a a");
}

#[test]
fn spread_goes_to_all_domains_evenly_as_far_as_there_is_room() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c", "b2/l3: d e"]);
    check(&mut cluster, job("six").tasks(6).gpus(1).topology(spread("leaf")), "a a c c d d");
    // `l2` has two left: 2, and 3 in each of the others, on the tightest node that takes them.
    check(&mut cluster, job("eight").tasks(8).gpus(1).topology(spread("leaf")), "b b b c c e e e");
    cluster.exit("six", 0);
    cluster.exit("eight", 0);
    check(&mut cluster, job("nodes").tasks(5).gpus(1).topology(spread("node")), "a b c d e");
    check(
        &mut cluster,
        job("blocks").tasks(4).per_node(1).gpus(2).topology(spread("block")),
        "a b d e",
    );
}

#[test]
fn segments_keep_slices_of_ranks_together() {
    let mut cluster =
        TestCluster::tree(4, &["b1/l1: a b c", "b1/l2: d e f", "b2/l3: g h i", "b2/l4: j k l"]);
    // Slices of two nodes: one per leaf, though a leaf has three nodes.
    let ask = job("slices").tasks(8).gpus(4).segment(2, "leaf");
    check(&mut cluster, ask.clone(), "a b d e g h j k");
    cluster.exit("slices", 0);
    assert!(cluster.try_submit(job("never").tasks(10).gpus(4).segment(2, "leaf")).is_err());
    let ask = job("block").tasks(4).gpus(4).required("block").segment(2, "leaf");
    check(&mut cluster, ask, "a b d e");
    // A third of `b2` is used, by halves of both leaves: no whole slice fits although four nodes
    // are free.
    cluster.submit(job("in-l3").gpus(4).tasks(2).required("leaf").with(|spec| {
        spec.constraint.exclude = ["c", "f", "j", "k", "l"].map(Into::into).to_vec();
    }));
    let id = cluster.submit(job("waits").tasks(4).gpus(4).required("block").segment(2, "leaf"));
    let found = cluster.engine.explain(cluster.now, muster_model::ElementId::single(id)).unwrap();
    let [Reason::Topology(gap)] = &found.reasons[..] else { panic!("{:?}", found.reasons) };
    assert_eq!((gap.segment_tasks, gap.tasks_placeable), (Some(2), 2));
}

/// Returns a gang of groups with so many tasks and GPUs.
fn roles(name: &str, roles: &[(u32, u32)]) -> JobBuilder {
    job(name).with(|spec| {
        let group = spec.groups.remove(0);
        for (at, (tasks, gpus)) in roles.iter().enumerate() {
            let mut group = group.clone();
            group.name = format!("role{at}").into();
            (group.min_tasks, group.max_tasks, group.task.gpu.devices) = (*tasks, *tasks, *gpus);
            spec.groups.push(group);
        }
    })
}

#[test]
fn several_groups_share_a_domain() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b c", "b1/l2: d e", "b2/l3: f g h i"]);
    check(&mut cluster, roles("pair", &[(1, 4), (4, 1)]).required("leaf"), "d e e e e");
    check(
        &mut cluster,
        roles("wide", &[(2, 4), (4, 1)]).topology(preferred("leaf")),
        "a b c c c c",
    );
    check(&mut cluster, roles("slices", &[(2, 4), (4, 2)]).segment(2, "leaf"), "f g h h i i");
    let refused = cluster.try_submit(roles("never", &[(4, 4), (1, 1)]).required("leaf"));
    assert!(
        matches!(refused, Err(EventRefusal::NeverStarts(Reason::NeverInTopology(_)))),
        "{refused:?}"
    );
}

#[test]
fn changed_domains_and_levels_are_applied() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c d"]);
    let moved = NodeSpec { domains: vec!["b1".into(), "l1".into()], ..node("c", 4) };
    cluster.step(vec![Event::NodeJoined(Box::new(moved))]);
    check(&mut cluster, job("three").tasks(3).gpus(4).required("leaf"), "a b c");
    cluster.step(vec![Event::LevelsSet(vec!["block".into()])]);
    assert!(cluster.try_submit(job("gone").gpus(4).required("leaf")).is_err());
    check(&mut cluster, job("one").gpus(4).required("block"), "d");
    let stored = crate::cluster::text(&cluster.engine.snapshot());
    let restored = Engine::restore(serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(restored.sanity_check(), []);
}

/// Twelve nodes in three levels, five of them busy, and a gang of three. Only one switch has three
/// idle nodes (the situation of NVIDIA Knavigator's network-topology workflow).
#[test]
fn the_one_switch_with_three_idle_nodes_is_found() {
    let lines = ["b1/l1: n1 n2 n3", "b1/l2: n4 n5 n6", "b2/l3: n7 n8 n9", "b2/l4: n10 n11 n12"];
    for rule in [TopologyRule::Required("leaf".into()), preferred("leaf")] {
        let mut cluster = TestCluster::tree(8, &lines);
        for busy in ["n1", "n4", "n6", "n10", "n11"] {
            let others = lines.iter().flat_map(|line| line.split(": ").nth(1).unwrap().split(' '));
            let others: Vec<_> = others.filter(|name| *name != busy).map(Into::into).collect();
            cluster.submit(job(busy).gpus(8).with(|spec| spec.constraint.exclude = others));
        }
        check(&mut cluster, job("gang").tasks(3).per_node(1).gpus(8).topology(rule), "n7 n8 n9");
    }
}

/// Gangs of 32, 16, 10, 2, 8, 6, 1 and 5 replicas on 32 nodes, one after another: those that fit
/// together fill all 32 nodes, each in the fewest domains (the gang sizes of Knavigator's
/// gang-scheduling benchmark).
#[test]
fn gangs_that_fill_the_cluster_exactly_all_run() {
    let nodes = |from: usize, to: usize| {
        (from..to).map(|at| format!("n{at:02}")).collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<String> = (0..8)
        .map(|leaf| format!("b{}/l{leaf}: {}", leaf / 4, nodes(4 * leaf, 4 * leaf + 4)))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for level in ["leaf", "block"] {
        let mut cluster = TestCluster::tree(8, &lines);
        for (name, tasks) in [
            ("g32", 32),
            ("g16", 16),
            ("g10", 10),
            ("g2", 2),
            ("g8", 8),
            ("g6", 6),
            ("g1", 1),
            ("g5", 5),
        ] {
            let ask = job(name).tasks(tasks).per_node(1).gpus(8).limit("60s");
            cluster.submit(ask.topology(preferred(level)));
        }
        cluster.expect("g32", JobState::Running);
        cluster.exit("g32", 0);
        // 16 + 10 + 2 leave 4, too few for 8 and 6; 1 runs.
        for name in ["g16", "g10", "g2", "g1"] {
            cluster.expect(name, JobState::Running);
        }
        cluster.expect("g8", JobState::Pending);
        cluster.exit("g16", 0);
        for name in ["g8", "g6", "g5"] {
            cluster.expect(name, JobState::Running);
        }
        // 10 + 2 + 8 + 6 + 1 + 5 are 32: a perfect packing.
        let free: usize = cluster
            .engine
            .nodes()
            .iter()
            .filter(|node| node.devices[0].elements.is_empty())
            .count();
        assert_eq!(free, 0, "{level}");
    }
}

// ---- the checker ----

/// Returns the violations of a plan that starts a gang with a topology, after an edit.
fn broken(ask: JobBuilder, edit: impl FnOnce(&mut Vec<TaskPlacement>)) -> Vec<Violation> {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c d", "b2/l3: e f"]);
    cluster
        .engine
        .apply(cluster.now, &Event::Submitted { job: JobId(1), spec: Arc::new(ask.spec) });
    let plan = cluster.engine.plan(cluster.now);
    assert_eq!(cluster.engine.check(cluster.now, &plan), Ok(()));
    let (id, placement, backfilled) = plan.starts().next().unwrap();
    let mut tasks = placement.to_vec();
    edit(&mut tasks);
    let start = Decision::Start { id, placement: tasks.into(), backfilled };
    cluster
        .engine
        .check(cluster.now, &Plan { decisions: vec![start], ..Plan::default() })
        .unwrap_err()
}

#[test]
fn broken_topologies_are_refused() {
    let pair = || job("pair").tasks(2).gpus(4);
    let to = |node: u32| {
        move |tasks: &mut Vec<TaskPlacement>| tasks[1].node = muster_model::NodeId(node)
    };
    let found = broken(pair().required("leaf"), to(2));
    assert!(
        matches!(&found[..], [Violation::Apart { level, .. }] if &**level == "leaf"),
        "{found:?}"
    );
    let found = broken(pair().required("block"), to(0));
    assert!(matches!(&found[..], [Violation::Apart { .. }]), "{found:?}");
    let found = broken(job("pair").tasks(2).gpus(1).required("node"), to(1));
    assert!(matches!(&found[..], [Violation::Apart { .. }]), "{found:?}");
    let slices = job("slices").tasks(4).gpus(4).segment(2, "leaf");
    let found = broken(slices, |tasks| tasks.swap(1, 2));
    assert!(matches!(&found[..], [Violation::SplitSegment { slice: 0, .. }]), "{found:?}");
    let even = job("even").tasks(6).gpus(1).topology(spread("leaf"));
    let found = broken(even, |tasks| {
        tasks[5] = TaskPlacement { devices: muster_model::DeviceSet::one(3), ..tasks[0].clone() }
    });
    assert!(matches!(&found[..], [Violation::Uneven { .. }]), "{found:?}");
}

// ---- brute force ----

/// Free GPUs and CPUs of the nodes of a tiny cluster, with their leaf; leaf `l` is in block `l /
/// 2`.
type FreeNodes = Vec<(u32, u32, usize)>;

/// Returns the number of tasks that some nodes take, by enumeration of all placements.
fn most(free: &mut [(u32, u32, usize)], gpus: u32, cpus: u32, distinct: bool, from: usize) -> u32 {
    let mut best = 0;
    for at in from..free.len() {
        if free[at].0 < gpus || free[at].1 < cpus {
            continue;
        }
        free[at].0 -= gpus;
        free[at].1 -= cpus;
        best = best.max(1 + most(free, gpus, cpus, distinct, if distinct { at + 1 } else { at }));
        free[at].0 += gpus;
        free[at].1 += cpus;
    }
    best
}

struct Gang {
    tasks: u32,
    gpus: u32,
    cpus: u32,
    distinct: bool,
}

/// Returns the number of tasks that a choice of domains takes together.
fn takes(free: &FreeNodes, gang: &Gang, domain: impl Fn(usize) -> usize, among: u32) -> u32 {
    let mut inside: FreeNodes =
        free.iter().copied().filter(|(_, _, leaf)| among >> domain(*leaf) & 1 == 1).collect();
    most(&mut inside, gang.gpus, gang.cpus, gang.distinct, 0)
}

/// Returns the fewest domains that take the gang.
fn fewest(
    free: &FreeNodes,
    gang: &Gang,
    domain: impl Fn(usize) -> usize + Copy,
    domains: u32,
) -> Option<u32> {
    let choices =
        (1..1u32 << domains).filter(|among| takes(free, gang, domain, *among) >= gang.tasks);
    choices.map(u32::count_ones).min()
}

fn tiny(rng: &mut TestRng) -> Vec<NodeSpec> {
    let count = 2 + rng.below(5);
    let nodes = (0..count).map(|at| {
        let leaf = rng.below(4);
        let domains = vec![Arc::from(format!("b{}", leaf / 2)), Arc::from(format!("l{leaf}"))];
        let gpus = rng.below(4) as usize;
        let cpus = 1 + rng.below(5) as u32;
        NodeSpec { domains, ..node_of(&format!("n{at}"), gpus, "h100", cpus) }
    });
    nodes.collect()
}

fn leaf_of(node: &NodeSpec) -> usize {
    node.domains[1][1..].parse().unwrap()
}

/// Places one gang after another on a tiny cluster, each with a random rule, and compares with
/// enumeration.
fn against_brute_force(seed: u64) {
    let mut rng = TestRng::new(seed);
    let specs = tiny(&mut rng);
    let mut engine = Engine::new(QueueTree::single()).unwrap();
    engine.apply(Time(0), &Event::LevelsSet(vec!["block".into(), "leaf".into()]));
    for node in &specs {
        engine.apply(Time(0), &Event::NodeJoined(Box::new(node.clone())));
    }
    let all: FreeNodes = specs
        .iter()
        .map(|node| (node.devices.len() as u32, node.cpus.0 / 1000, leaf_of(node)))
        .collect();
    let mut free = all.clone();
    for next in 1..=10 {
        let gang = Gang {
            tasks: 1 + rng.below(5) as u32,
            gpus: rng.below(3) as u32,
            cpus: 1 + rng.below(2) as u32,
            distinct: rng.chance(30),
        };
        let is_leaf = rng.chance(60);
        let (level, domains) = if is_leaf { ("leaf", 4) } else { ("block", 2) };
        let domain = move |leaf: usize| if is_leaf { leaf } else { leaf / 2 };
        let rule = rng.below(3);
        let ask = job("any").tasks(gang.tasks).gpus(gang.gpus).cpus(gang.cpus);
        let ask = if gang.distinct { ask.per_node(1) } else { ask };
        let ask = ask.topology(match rule {
            0 => TopologyRule::Required(level.into()),
            1 => preferred(level),
            _ => spread(level),
        });
        let event = Event::Submitted { job: JobId(next), spec: Arc::new(ask.spec) };
        // 1. Accepted if and only if a placement exists on the idle cluster, started if and only if
        //    one exists now.
        let least = |free: &FreeNodes| {
            fewest(free, &gang, domain, domains).filter(|least| rule != 0 || *least == 1)
        };
        assert_eq!(
            engine.validate(&event).is_ok(),
            least(&all).is_some(),
            "{event:?} on {specs:?}"
        );
        engine.apply(Time(1), &event);
        let plan = engine.plan(Time(1));
        engine.check(Time(1), &plan).unwrap();
        let expected = least(&free);
        assert_eq!(!plan.decisions.is_empty(), expected.is_some(), "{event:?} on {free:?}");
        if plan.decisions.is_empty() || rng.chance(25) {
            let target = CommandTarget { job: JobId(next), index: None };
            engine.apply(Time(1), &Event::Cancel { target, by: "ann".into() });
            continue;
        }
        // 2. In the fewest domains, the tightest of them, or evenly.
        let (_, placement, _) = plan.starts().next().unwrap();
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for task in placement.iter() {
            *counts.entry(domain(free[task.node.0 as usize].2)).or_default() += 1;
        }
        let capacity = |one: usize| takes(&free, &gang, domain, 1 << one);
        let free_gpus = |one: usize| -> u32 {
            free.iter().filter(|(_, _, leaf)| domain(*leaf) == one).map(|(gpus, ..)| gpus).sum()
        };
        if rule < 2 {
            assert_eq!(Some(counts.len() as u32), expected, "{event:?} on {free:?}: {placement:?}");
            if counts.len() == 1 && gang.gpus > 0 {
                let taken = *counts.keys().next().unwrap();
                let tighter = (0..domains as usize)
                    .find(|one| capacity(*one) >= gang.tasks && free_gpus(*one) < free_gpus(taken));
                assert_eq!(tighter, None, "{event:?} on {free:?}: {placement:?}");
            }
        } else {
            let count = |one: usize| counts.get(&one).copied().unwrap_or(0);
            for (one, other) in (0..domains as usize)
                .flat_map(|one| (0..domains as usize).map(move |other| (one, other)))
            {
                let is_even = count(one) <= count(other) + 1 || count(other) >= capacity(other);
                assert!(is_even, "{event:?} on {free:?}: {counts:?}");
            }
        }
        engine.commit(Time(1), &plan);
        for task in placement.iter() {
            let node = &mut free[task.node.0 as usize];
            (node.0, node.1) = (node.0 - gang.gpus, node.1 - gang.cpus);
        }
    }
}

/// Places gangs in slices, with and without a required block.
fn slices_against_brute_force(seed: u64) {
    let mut rng = TestRng::new(seed);
    let specs = tiny(&mut rng);
    let all: FreeNodes = specs
        .iter()
        .map(|node| (node.devices.len() as u32, node.cpus.0 / 1000, leaf_of(node)))
        .collect();
    for _ in 0..6 {
        let slice = 1 + rng.below(3) as u32;
        let gang = Gang {
            tasks: slice * (1 + rng.below(3) as u32),
            gpus: 1 + rng.below(2) as u32,
            cpus: 0,
            distinct: rng.chance(30),
        };
        let in_block = rng.chance(50);
        let slices = |leaf: usize| takes(&all, &gang, |leaf| leaf, 1 << leaf) / slice * slice;
        let there: u32 = if in_block {
            (slices(0) + slices(1)).max(slices(2) + slices(3))
        } else {
            (0..4).map(slices).sum()
        };
        let mut engine = Engine::new(QueueTree::single()).unwrap();
        engine.apply(Time(0), &Event::LevelsSet(vec!["block".into(), "leaf".into()]));
        for node in &specs {
            engine.apply(Time(0), &Event::NodeJoined(Box::new(node.clone())));
        }
        let ask = job("any").tasks(gang.tasks).gpus(gang.gpus).segment(slice, "leaf");
        let ask = if in_block { ask.required("block") } else { ask };
        let ask = if gang.distinct { ask.per_node(1) } else { ask };
        let event = Event::Submitted { job: JobId(1), spec: Arc::new(ask.spec) };
        assert_eq!(engine.validate(&event).is_ok(), there >= gang.tasks, "{event:?} on {all:?}");
        engine.apply(Time(1), &event);
        let plan = engine.plan(Time(1));
        engine.check(Time(1), &plan).unwrap();
        assert_eq!(!plan.decisions.is_empty(), there >= gang.tasks, "{event:?} on {all:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn domains_are_used_as_brute_force_would(seed in any::<u64>()) {
        against_brute_force(seed);
    }

    #[test]
    fn slices_are_placed_whenever_there_is_a_way(seed in any::<u64>()) {
        slices_against_brute_force(seed);
    }
}
