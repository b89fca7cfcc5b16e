//! Patience: a gang that is first in its queue becomes whole although small jobs without a time
//! limit keep coming.

use muster_engine::Violation;
use muster_model::queue::Backfill;
use muster_model::view::State;
use muster_model::{
    DeviceSet, Event, Kind, Plan, Preemption, QueueSpec, QueueTree, Replicas, Service, Span, Time,
};

use crate::world::{Ask, World, job, node, node_of, span};

fn tree(patience: Option<&str>) -> QueueTree {
    QueueTree { patience: patience.map(span), ..QueueTree::single() }
}

/// One node with 8 GPUs, all held by jobs `s0` to `s7` of one GPU each without a time limit, and
/// `wide` of 8 waits.
fn crowded(tree: QueueTree) -> World {
    let mut world = World::with_queues(&[node("a", 8)], tree);
    for nth in 0..8 {
        world.submit(small(nth));
    }
    world.submit(job("wide").tasks(8).gpus(1));
    world.expect("wide", State::Pending);
    world
}

fn small(nth: u32) -> Ask {
    job(&format!("s{nth}")).gpus(1)
}

/// Every 10 s a small job is submitted and the oldest that runs ends. Returns after how many of
/// these the gang started.
fn starts_after(world: &mut World, rounds: u32) -> Option<u32> {
    (0..rounds).find(|nth| {
        world.submit(small(8 + nth));
        world.advance("10s");
        let oldest = (0..).map(|nth| format!("s{nth}"));
        let mut oldest = oldest.take_while(|name| name != &format!("s{}", 9 + nth));
        let runs = |name: &String| {
            let id = world.element(name, 0);
            world.engine.element(world.now, id).is_some_and(|view| view.state == State::Running)
        };
        if let Some(name) = oldest.find(runs) {
            world.exits(&name, 0, 0);
        }
        world.state_of("wide", 0) == State::Running
    })
}

#[test]
fn a_gang_that_was_first_for_long_enough_keeps_what_becomes_free() {
    for backfill in [Backfill::None, Backfill::Easy, Backfill::Conservative { depth: 16 }] {
        let mut world = crowded(QueueTree { backfill, ..tree(Some("1m")) });
        let after = starts_after(&mut world, 60);
        // Strict order lets no job of its queue pass in the first place.
        let expected = if backfill == Backfill::None { 7 } else { 12 };
        assert_eq!(after, Some(expected), "{backfill:?}");
    }
}

#[test]
fn without_patience_it_starves() {
    assert_eq!(starts_after(&mut crowded(tree(None)), 200), None);
}

#[test]
fn patience_ends_without_an_event() {
    let mut world = crowded(tree(Some("10m")));
    assert_eq!(world.engine.next_wake(), Some(world.now + span("10m")));
    world.advance("10m");
    assert_eq!(world.engine.next_wake(), None);
}

#[test]
fn where_all_jobs_have_limits_nothing_is_recorded_or_kept() {
    let mut world = World::with_queues(&[node("a", 8)], tree(Some("0s")));
    for nth in 0..8 {
        world.submit(small(nth).limit("1h"));
    }
    world.submit(job("wide").tasks(8).gpus(1).limit("1h"));
    world.advance("2h");
    for (_, _, plan) in &world.journal {
        assert!(plan.heads.is_empty() && plan.keeps.is_empty(), "{plan:?}");
    }
}

#[test]
fn a_gang_that_needs_what_a_service_holds_keeps_nothing() {
    let replicas = Replicas { floor: 1, ceiling: 1 };
    let service = job("served").gpus(1).with(|spec| {
        spec.kind = Kind::Service(Service { replicas, port: None });
    });
    let mut world = World::with_queues(&[node("a", 8)], tree(Some("1m")));
    world.submit(service);
    for nth in 0..7 {
        world.submit(small(nth));
    }
    world.submit(job("wide").tasks(8).gpus(1));
    world.submit(job("next").tasks(7).gpus(1));
    world.advance("5m");
    // The gang behind it could become whole, and waits as a head from now on.
    world.advance("5m");
    world.submit(small(100));
    for nth in 0..7 {
        world.exits(&format!("s{nth}"), 0, 0);
    }
    world.expect("wide", State::Pending);
    world.expect("next", State::Running);
    world.expect("s100", State::Pending);
}

#[test]
fn only_what_its_queue_owns_is_kept() {
    let queue = |name: &str, gpus| QueueSpec {
        quota: [("h100".into(), gpus)].into(),
        ..QueueSpec::named(name)
    };
    let queues = vec![queue("default", 4), queue("other", 4)];
    let tree = QueueTree { queues, preemption: Preemption::OFF, ..tree(Some("1m")) };
    let mut world = World::with_queues(&[node("a", 8)], tree);
    for nth in 0..8 {
        world.submit(small(nth));
    }
    // It borrows, so what it waits for is not kept for it.
    world.submit(job("wide").tasks(6).gpus(1));
    world.advance("5m");
    for nth in 0..5 {
        world.exits(&format!("s{nth}"), 0, 0);
    }
    world.submit(job("owner").tasks(4).gpus(1).queue("other"));
    world.expect("wide", State::Pending);
    world.expect("owner", State::Running);
}

#[test]
fn patience_outlasts_a_restart() {
    let tree = tree(Some("10m"));
    let mut world = crowded(tree.clone());
    world.advance("6m");
    let mut again = world.replayed(tree);
    assert_eq!(crate::world::text(&again.snapshot()), crate::world::text(&world.engine.snapshot()));
    let mut restored = {
        let stored = crate::world::text(&world.engine.snapshot());
        muster_engine::Engine::restore(serde_json::from_str(&stored).unwrap()).unwrap()
    };
    for engine in [&mut again, &mut restored] {
        drop(engine.plan(world.now));
        assert_eq!(engine.next_wake(), Some(Time(world.now.0) + span("4m")));
    }
}

#[test]
fn a_hold_ends_it() {
    let mut world = crowded(tree(Some("10m")));
    world.advance("6m");
    let wide = world.target("wide");
    world.step(vec![Event::Hold(wide)]);
    world.advance("1m");
    world.step(vec![Event::Release(wide)]);
    assert_eq!(world.engine.next_wake(), Some(world.now + span("10m")));
}

/// A plan at a moment at which seven GPUs are kept for a gang and a small job waits.
fn kept() -> (World, Plan) {
    let mut world = crowded(tree(Some("1m")));
    world.advance("2m");
    for nth in 0..7 {
        world.exits(&format!("s{nth}"), 0, 0);
    }
    world.submit(small(20));
    world.expect("s20", State::Pending);
    let plan = world.engine.plan(world.now);
    assert_eq!((plan.keeps.len(), plan.decisions.len()), (1, 0));
    (world, plan)
}

#[test]
fn the_judge_refuses_to_give_away_what_is_kept() {
    let (world, plan) = kept();
    let id = world.attempt("s7", 0);
    let (_, mut places) = world.engine.placement(id.element).unwrap();
    let small = world.element("s20", 0);
    std::sync::Arc::make_mut(&mut places)[0].devices = DeviceSet(1);
    let start = |keeps| Plan {
        decisions: vec![muster_model::Decision::Start {
            id: muster_model::AttemptId { element: small, attempt: muster_model::Attempt(1) },
            placement: places.clone(),
            backfilled: false,
        }],
        keeps,
        ..Plan::default()
    };
    let found = world.engine.check(world.now, &start(plan.keeps.clone())).unwrap_err();
    assert!(matches!(found[..], [Violation::Kept { .. }]), "{found:?}");
    // Nor may what is to be kept be forgotten.
    let found = world.engine.check(world.now, &start(Vec::new())).unwrap_err();
    assert!(matches!(found[..], [Violation::Overtaken { .. }]), "{found:?}");
}

#[test]
fn the_judge_refuses_what_is_kept_too_early() {
    let (_, plan) = kept();
    let mut world = crowded(tree(Some("1m")));
    let found = world.engine.check(world.now, &plan).unwrap_err();
    assert!(matches!(found[..], [Violation::NotPatient(..)]), "{found:?}");
    world.advance("2m");
    assert_eq!(world.engine.check(world.now, &plan), Ok(()));
    let twice = Plan { heads: vec![world.element("wide", 0)], ..plan };
    let found = world.engine.check(world.now, &twice).unwrap_err();
    assert!(matches!(found[..], [Violation::NotPatient(..)]), "{found:?}");
}

#[test]
fn a_gang_on_whole_nodes_gets_the_nodes_whose_jobs_have_run_longest() {
    let nodes =
        [node_of("a", 4, "h100", 64), node_of("b", 4, "h100", 64), node_of("c", 4, "h100", 64)];
    let mut world = World::with_queues(&nodes, tree(Some("1m")));
    for nth in 0..12 {
        world.submit(small(nth));
        world.now = world.now + Span::from_secs(1);
    }
    world.submit(job("wide").tasks(2).per_node(1).gpus(4));
    world.advance("2m");
    // One of each node ends: on the nodes of the oldest jobs it is kept, on the third node it is
    // not.
    for (ends, comes) in [(0, 20), (4, 21), (8, 22)] {
        world.exits(&format!("s{ends}"), 0, 0);
        world.submit(small(comes));
    }
    world.expect("s20", State::Running);
    assert_eq!(world.places("s20")[0].0.0.as_ref(), "c");
    world.expect("s21", State::Pending);
    for nth in [1, 2, 3, 5, 6, 7] {
        world.exits(&format!("s{nth}"), 0, 0);
    }
    world.expect("wide", State::Running);
}
