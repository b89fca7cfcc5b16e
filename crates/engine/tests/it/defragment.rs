//! What runs is moved together for a gang that only scattered GPUs keep waiting: who, at what cost,
//! and that everybody runs again.

use muster_engine::{Engine, Fact, Violation};
use muster_model::queue::Defragment;
use muster_model::view::State;
use muster_model::{
    Checkpoint, CheckpointBy, Decision, DeviceSet, Event, Eviction, EvictionCause, GpuMilli,
    NodeId, NodeSpec, Plan, Protection, QueueTree, TaskPlacement, Time,
};

use crate::world::{Ask, World, job, node, span, text};

fn tree(gpu_hours: u64, every: &str) -> QueueTree {
    let terms = Defragment { gpu_hours, every: span(every) };
    QueueTree { defragment: Some(terms), ..QueueTree::single() }
}

/// A job that takes checkpoints, of ten hours.
fn saving(name: &str, gpus: u32) -> Ask {
    let terms = Checkpoint {
        signal: 10,
        lead: span("1m"),
        by: CheckpointBy::First,
        then: Default::default(),
        to: Default::default(),
    };
    job(name).gpus(gpus).limit("10h").with(|spec| spec.checkpoint = Some(terms))
}

/// Nodes of four GPUs, half of each held by a job of the list, the first on the first node; a
/// minute lies between them.
fn halves(tree: QueueTree, jobs: Vec<Ask>) -> World {
    let nodes: Vec<NodeSpec> = (1..=jobs.len()).map(|at| node(&format!("n{at}"), 4)).collect();
    let mut world = World::with_queues(&nodes, tree);
    for (at, ask) in jobs.into_iter().enumerate() {
        let filler = format!("filler-{at}");
        let name = ask.spec.name.to_string();
        world.submit(ask);
        world.submit(job(&filler).gpus(2));
        assert_eq!(world.places(&name)[0].0, world.places(&filler)[0].0);
        world.now = world.now + span("1m");
    }
    for at in 0..nodes.len() {
        world.exit(&format!("filler-{at}"), 0);
    }
    world
}

/// Who was made to go so far, by job name.
fn went(world: &World) -> Vec<(String, EvictionCause)> {
    let told = world.facts.iter().filter_map(|fact| match fact {
        Fact::Evicted { id, cause, .. } => Some((id.element.job, *cause)),
        _ => None,
    });
    told.map(|(job, cause)| (world.engine.job_spec(job).unwrap().name.to_string(), cause)).collect()
}

fn moved(name: &str) -> Vec<(String, EvictionCause)> {
    vec![(name.to_owned(), EvictionCause::Moved)]
}

/// Time passes as far as it takes for everybody who was asked for a checkpoint to be stopped.
fn settle(world: &mut World) {
    world.now = world.now + span("1m");
    let due = world.engine.overdue(world.now);
    world.step(due);
}

#[test]
fn one_moves_beside_the_other_and_both_and_the_gang_run() {
    let mut world = halves(tree(10, "24h"), vec![saving("x", 2), saving("y", 2)]);
    world.advance("10m");
    world.submit(saving("whole", 4));
    // It would lose a minute less.
    assert_eq!(went(&world), moved("y"));
    world.expect("whole", State::Pending);
    settle(&mut world);
    ["x", "y", "whole"].iter().for_each(|name| world.expect(name, State::Running));
    assert_eq!(world.places("y")[0].0, world.places("x")[0].0);
    assert_eq!(went(&world).len(), 1, "and that is all");
}

#[test]
fn nobody_is_moved_unless_the_queue_file_says_so() {
    let mut world = halves(QueueTree::single(), vec![saving("x", 2), saving("y", 2)]);
    world.submit(saving("whole", 4));
    world.expect("whole", State::Pending);
    assert_eq!(went(&world), []);
}

#[test]
fn who_saves_nothing_is_protected_or_on_hold_stays() {
    let stays: [fn(Ask) -> Ask; 3] = [
        |ask| ask.with(|spec| spec.checkpoint = None),
        |ask| ask.with(|spec| spec.protect = Protection::Always),
        |ask| ask.with(|spec| spec.protect = Protection::For(span("1h"))),
    ];
    for edit in stays {
        let mut world = halves(tree(10, "24h"), vec![edit(saving("x", 2)), edit(saving("y", 2))]);
        world.submit(saving("whole", 4));
        assert_eq!(went(&world), []);
        let mut world = halves(tree(10, "24h"), vec![saving("x", 2), edit(saving("y", 2))]);
        world.submit(saving("whole", 4));
        assert_eq!(went(&world), moved("x"));
    }
}

#[test]
fn nobody_is_moved_who_would_find_no_place_again() {
    let stuck = |name: &str, at: &str| {
        let exclude = if at == "n1" { "n2" } else { "n1" };
        saving(name, 2).with(|spec| spec.constraint.exclude = vec![exclude.into()])
    };
    let mut world = halves(tree(10, "24h"), vec![stuck("x", "n1"), stuck("y", "n2")]);
    world.submit(saving("whole", 4));
    assert_eq!(went(&world), []);
    // Nor when as many are free, but not for both.
    let mut world = halves(tree(10, "24h"), vec![saving("x", 2), saving("y", 2)]);
    world.submit(saving("single", 1));
    world.submit(saving("whole", 4));
    assert_eq!(went(&world), []);
    world.expect("whole", State::Pending);
}

#[test]
fn it_has_to_cost_less_than_the_wait() {
    for (limit, expected) in [("20m", Vec::new()), ("40m", moved("y"))] {
        let short = |name: &str| saving(name, 2).limit(limit);
        let mut world = halves(tree(10, "24h"), vec![short("x"), short("y")]);
        // A move of the younger costs its 2 × 15 minutes, and 2 × 1 in which it goes. Without it
        // the gang waits until the limit of the older, 4 × 3 or 4 × 23 minutes longer.
        world.advance("14m");
        world.submit(saving("whole", 4));
        assert_eq!(went(&world), expected, "{limit}");
    }
}

#[test]
fn it_may_cost_no_more_than_the_budget_and_waits_for_the_next() {
    let four = ["x", "y", "z", "w"].map(|name| saving(name, 2)).to_vec();
    let mut world = halves(tree(1, "24h"), four);
    world.advance("20m");
    // 2 × 22 minutes of 60 for the youngest, and 2 × 24 for the next.
    world.submit(saving("first", 4));
    assert_eq!(went(&world), moved("w"));
    settle(&mut world);
    world.expect("first", State::Running);
    world.submit(saving("second", 4));
    world.expect("second", State::Pending);
    assert_eq!(went(&world).len(), 1);
    assert_eq!(world.engine.next_wake(), Some(Time(span("24h").0)), "the next window");
    let mut restored =
        Engine::restore(serde_json::from_str(&text(&world.engine.snapshot())).unwrap()).unwrap();
    assert_eq!(restored.plan(world.now).decisions, [], "nor after a restart");
}

#[test]
fn a_domain_is_cleared_for_a_gang_that_needs_one() {
    let in_rack = |name: &str, rack: &str| {
        let mut node = node(name, 2);
        node.domains = vec![rack.into()];
        node
    };
    let nodes = [in_rack("a1", "a"), in_rack("a2", "a"), in_rack("b1", "b"), in_rack("b2", "b")];
    let mut world = World::with_queues(&nodes, tree(10, "24h"));
    world.step(vec![Event::LevelsSet(vec!["rack".into()])]);
    let only = |name: &str, on: &[&str]| {
        let others =
            ["a1", "a2", "b1", "b2"].into_iter().filter(|node| !on.contains(node)).map(Into::into);
        saving(name, 2).with(|spec| spec.constraint.exclude = others.collect())
    };
    world.submit(only("pinned", &["a1"]));
    world.submit(only("filler", &["a2"]));
    world.submit(only("free", &["a2", "b1"]));
    world.exit("filler", 0);
    world.submit(saving("gang", 2).tasks(2).required("rack"));
    assert_eq!(went(&world), moved("free"));
    settle(&mut world);
    assert_eq!(world.places("free")[0].0, "a2".into());
    assert_eq!(world.places("gang").len(), 2);
}

#[test]
fn the_judge_refuses_a_move_that_is_none_and_one_that_costs_too_much() {
    let mut world = halves(tree(1, "24h"), vec![saving("x", 2), saving("y", 2)]);
    world.advance("40m");
    world.submit(saving("whole", 4));
    assert_eq!(went(&world), [], "it would cost more than an hour");
    let (x, y, whole) = (world.element("x", 0), world.attempt("y", 0), world.element("whole", 0));
    let place = |element, devices, node: &NodeId| Decision::Claim {
        element,
        placement: [TaskPlacement { group: 0, node: *node, devices, share: GpuMilli(1000) }].into(),
        evict: Vec::new(),
    };
    let view = |element| world.engine.element(world.now, element).unwrap();
    assert_eq!(view(x).tasks[0].devices, [0, 1]);
    let (first, second) = (NodeId(0), NodeId(1));
    let mut claim = place(whole, DeviceSet::first(4), &second);
    if let Decision::Claim { evict, .. } = &mut claim {
        evict.push(Eviction { id: y, cause: EvictionCause::Moved });
    }
    let again = place(y.element, DeviceSet(0b1100), &first);
    let judged = |decisions: Vec<Decision>| {
        let plan = Plan { decisions, ..Plan::default() };
        world.engine.check(world.now, &plan).unwrap_err()
    };
    let wrong = |why| Violation::NotEvictable(y, why);
    let found = judged(vec![claim.clone(), again]);
    assert_eq!(found, [wrong("nothing is left to be spent on moves")]);
    assert!(judged(vec![claim]).contains(&wrong("it is promised nothing")));
}
