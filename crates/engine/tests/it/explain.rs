//! Explanations: typed reasons with numbers, ETA, holders, and changes that really start it.

use std::sync::Arc;

use muster_engine::Engine;
use muster_model::queue::Backfill;
use muster_model::view::{Change, Eta, State};
use muster_model::{
    ElementId, Event, GpuMilli, GpuModel, JobId, JobSpec, QueueSpec, QueueTree, Reason, Span,
    Target, Time, TopologyRule,
};
use proptest::prelude::*;

use crate::random::{Dice, random_job, random_tree};
use crate::world::{Ask, World, job, node, node_of, span, text};

fn two_gangs() -> World {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("left").tasks(5).gpus(1).limit("20s"));
    world.submit(job("right").tasks(5).gpus(1).limit("20s"));
    world.submit(job("sweep").gpus(1).limit("5s").array(0, 23, Some(2)));
    world
}

#[test]
fn a_gang_that_waits_for_capacity_is_told_what_is_missing_who_holds_it_and_what_would_help() {
    let mut world = two_gangs();
    let id = world.element("right", 0);
    let found = world.engine.explain(world.now, id).unwrap();
    assert_eq!(found.state, State::Pending);
    let [Reason::Capacity(gap)] = &found.reasons[..] else { panic!("{:?}", found.reasons) };
    assert_eq!((gap.tasks_needed, gap.tasks_placeable), (5, 1));
    assert_eq!((gap.gpus_free, gap.gpus_total), (GpuMilli(1000), GpuMilli(8000)));
    assert_eq!(found.eta, Some(Eta { start: world.now + span("20s"), reserved: true }));
    let holders: Vec<_> =
        found.holders.iter().map(|one| (one.name.as_str(), one.gpus.0 / 1000)).collect();
    assert_eq!(holders, [("sweep", 1), ("sweep", 1), ("left", 5)]);
    assert_eq!(found.sooner, [Change::Tasks { tasks: 1 }]);
    assert_eq!(found.position.unwrap().0, 1);
}

#[test]
fn a_job_kept_back_by_a_reservation_is_told_how_short_it_would_have_to_be() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("left").tasks(5).gpus(1).limit("20s"));
    world.submit(job("right").tasks(8).gpus(1).limit("20s"));
    world.submit(job("long").gpus(1).limit("60s").grace("2s"));
    let found = world.engine.explain(world.now, world.element("long", 0)).unwrap();
    let right = world.element("right", 0);
    let start = world.now + span("20s");
    let fits_if_shorter_than = Some(span("18s"));
    assert_eq!(found.reasons, [Reason::Reserved { element: right, start, fits_if_shorter_than }]);
    assert_eq!(found.sooner, [Change::TimeLimit { limit: span("18s") }]);
    assert_eq!(found.eta, Some(Eta { start: start + span("20s"), reserved: false }));
}

#[test]
fn other_models_and_fewer_gpus_are_offered() {
    let mut world = World::new(&[node("h", 4), node_of("a", 8, "a100", 64)]);
    world.submit(job("holds").gpus(2).models(&["h100"]));
    world.submit(job("wants").gpus(4).models(&["h100"]));
    let found = world.engine.explain(world.now, world.element("wants", 0)).unwrap();
    let model = GpuModel::from("a100");
    assert_eq!(
        found.sooner,
        [Change::GpusPerTask { gpus: 2, per_node: Some(2) }, Change::Model { model }]
    );
    assert_eq!(found.eta, None, "what it waits for never ends");
}

#[test]
fn a_queue_at_its_quota_is_named_with_its_numbers_and_another_queue_offered() {
    let mut tree = QueueTree::single();
    let mut small = QueueSpec::named("small");
    small.quota.insert("h100".into(), 2);
    tree.queues.push(small);
    let mut world = World::with_queues(&[node("h", 8)], tree);
    world.submit(job("first").gpus(2).queue("small"));
    world.submit(job("second").gpus(1).queue("small"));
    let before = text(&world.engine.snapshot());
    let found = world.engine.explain(world.now, world.element("second", 0)).unwrap();
    assert!(matches!(
        &found.reasons[..],
        [Reason::Quota { used: GpuMilli(2000), nominal: GpuMilli(2000), .. }]
    ));
    assert_eq!(found.sooner, [Change::Queue { queue: "default".into() }]);
    assert_eq!(found.eta, None);
    assert_eq!(text(&world.engine.snapshot()), before, "explaining changes nothing");
}

#[test]
fn every_own_term_is_named_in_order() {
    let mut world = World::new(&[node("n1", 1)]);
    let first = world.submit(job("first").gpus(1));
    let begin = world.now + span("1h");
    let kind = muster_model::DependencyKind::AfterOk;
    world.submit(job("much").gpus(1).held().begin(begin).after(kind, first));
    let found = world.engine.explain(world.now, world.element("much", 0)).unwrap();
    let [held, time, dependency, capacity] = &found.reasons[..] else {
        panic!("{:?}", found.reasons)
    };
    assert_eq!(*held, Reason::Held);
    assert_eq!(*time, Reason::NotBefore { until: begin, restarts: 0 });
    assert_eq!(*dependency, Reason::Dependency { on: first, kind });
    assert!(matches!(capacity, Reason::Capacity(_)));
    world.submit(job("again").gpus(1).restarts(3, "10s"));
    world.exit("first", 0);
    world.exit("again", 1);
    let found = world.engine.explain(world.now, world.element("again", 0)).unwrap();
    let until = world.now + span("10s");
    assert_eq!(found.reasons, [Reason::NotBefore { until, restarts: 1 }]);
}

#[test]
fn strict_order_names_who_is_ahead() {
    let mut tree = QueueTree::single();
    tree.backfill = Backfill::None;
    let mut world = World::with_queues(&[node("n1", 4)], tree);
    world.submit(job("holds").gpus(2).limit("10s"));
    world.submit(job("blocked").gpus(4).limit("10s"));
    world.submit(job("behind").gpus(1).limit("1s"));
    let found = world.engine.explain(world.now, world.element("behind", 0)).unwrap();
    assert_eq!(found.reasons, [Reason::Behind { element: world.element("blocked", 0) }]);
    let view = world.engine.job(world.now, world.id("behind")).unwrap();
    assert_eq!(view.waiting_for, Some(Reason::Behind { element: world.element("blocked", 0) }));
}

#[test]
fn what_runs_needs_no_reasons() {
    let mut world = two_gangs();
    let found = world.engine.explain(world.now, world.element("left", 0)).unwrap();
    assert_eq!((found.state, found.reasons.len(), found.sooner.len()), (State::Running, 0, 0));
    assert!(world.engine.explain(world.now, ElementId::single(JobId(99))).is_none());
}

#[test]
fn a_dry_run_says_what_would_become_of_a_job_and_leaves_no_trace() {
    let mut world = two_gangs();
    let before = text(&world.engine.snapshot());
    let mut dry = |ask: Ask| world.engine.explain_submission(world.now, &ask.spec);
    let starts = dry(job("small").gpus(1).limit("1s").user("stranger"));
    assert_eq!((starts.reasons.len(), starts.eta.map(|eta| eta.start)), (0, Some(Time(1_000_000))));
    let waits = dry(job("large").gpus(8).limit("1s"));
    assert!(matches!(&waits.reasons[..], [Reason::Capacity(_)]));
    assert_eq!(waits.eta, Some(Eta { start: Time(1_000_000) + span("40s"), reserved: false }));
    // Somebody who has used nothing yet goes first.
    let fair = dry(job("large").gpus(8).limit("1s").user("stranger"));
    assert_eq!(fair.eta, Some(Eta { start: Time(1_000_000) + span("20s"), reserved: true }));
    let never = dry(job("huge").gpus(9));
    assert!(matches!(&never.reasons[..], [Reason::NeverFits(_)]));
    assert_eq!(text(&world.engine.snapshot()), before);
}

/// Applies a change to a spec.
fn changed(spec: &JobSpec, change: &Change) -> JobSpec {
    let mut spec = spec.clone();
    match change {
        Change::Tasks { tasks } => {
            spec.groups[0].min_tasks = *tasks;
            spec.groups[0].max_tasks = *tasks;
        }
        Change::Nodes { nodes } => {
            let tasks = nodes * spec.groups[0].tasks_per_node.unwrap();
            (spec.groups[0].min_tasks, spec.groups[0].max_tasks) = (tasks, tasks);
        }
        Change::Share { share, .. } => {
            assert!(share.0 > 0 && *share < spec.groups[0].task.gpu.share);
            spec.groups[0].task.gpu.share = *share;
        }
        Change::AnyNode => spec.constraint.labels = std::collections::BTreeMap::new(),
        Change::GpusPerTask { gpus, .. } => spec.groups[0].task.gpu.devices = *gpus,
        Change::TimeLimit { limit } => spec.time_limit = Some(*limit),
        Change::Model { model } => {
            for group in spec.groups.iter_mut().filter(|group| !group.task.gpu.is_none()) {
                group.task.gpu.models = vec![model.clone()];
            }
        }
        Change::Queue { queue } => spec.queue = queue.clone(),
        Change::PreferTopology { level } => {
            let topology = spec.constraint.topology.as_mut().unwrap();
            topology.rule = TopologyRule::Preferred(level.as_str().into());
        }
    }
    spec
}

/// Does a job start at once when it is cancelled and submitted anew with a change?
fn starts_anew(engine: &Engine, now: Time, job: JobId, spec: &JobSpec, change: &Change) -> bool {
    let (mut engine, anew) = (engine.clone(), JobId(1000));
    let target = Target { job, index: None };
    engine.apply(now, &Event::Cancel { target, by: spec.user.clone() });
    let submitted = Event::Submitted { job: anew, spec: Arc::new(changed(spec, change)) };
    assert!(engine.judge(&submitted).is_ok(), "{change:?} of {spec:?} is refused");
    engine.apply(now, &submitted);
    let plan = engine.plan(now);
    assert_eq!(engine.check(now, &plan), Ok(()));
    plan.starts().any(|(started, ..)| started.element.job == anew)
}

/// Tells a story twice: the second time the explained job was changed as offered, and must start.
/// So must the same job when it is submitted anew, behind all others.
fn changes_keep_their_promise(seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let tree = random_tree(&mut dice);
    if Engine::new(tree.clone()).is_err() {
        return 0;
    }
    let now = Time(1_000_000);
    let nodes: Vec<_> = (0..=dice.roll(3))
        .map(|at| {
            let model: &&str = dice.pick(&["h100", "a100"]);
            node_of(&format!("n{at}"), *dice.pick(&[2, 4, 8]), model, 32)
        })
        .collect();
    let mut story: Vec<Event> =
        nodes.iter().map(|node| Event::NodeJoined(Box::new(node.clone()))).collect();
    let tell = |story: &[Event]| {
        let mut engine = Engine::new(tree.clone()).unwrap();
        story.iter().for_each(|event| engine.apply(now, event));
        let plan = engine.plan(now);
        (engine, plan)
    };
    for number in 1..=12 {
        let mut spec = random_job(&mut dice, &tree, now, JobId(1));
        (spec.array, spec.held, spec.begin) = (None, false, None);
        let event = Event::Submitted { job: JobId(number), spec: Arc::new(spec) };
        if tell(&story).0.judge(&event).is_ok() {
            story.push(event);
        }
    }
    let (mut engine, plan) = tell(&story);
    engine.commit(now, &plan);
    let mut kept = 0;
    for at in 0..story.len() {
        let Event::Submitted { job, spec } = story[at].clone() else { continue };
        let id = ElementId::single(job);
        let found = engine.explain(now, id).unwrap();
        assert_eq!(found.reasons.is_empty(), found.state != State::Pending, "{found:?}");
        // On hold from the start, released after the others have started, it is where it was when
        // it was explained.
        for change in &found.sooner {
            assert!(
                starts_anew(&engine, now, job, &spec, change),
                "{change:?} of {spec:?} waits as well"
            );
            kept += 1;
            if matches!(change, Change::Queue { .. }) {
                // Elsewhere it has no place yet.
                continue;
            }
            let mut held = changed(&spec, change);
            held.held = true;
            let mut other = story.clone();
            other[at] = Event::Submitted { job, spec: Arc::new(held) };
            let mut engine = Engine::new(tree.clone()).unwrap();
            other.iter().for_each(|event| engine.apply(now, event));
            // The explained job is on hold here, so it cannot be a head and nothing is kept for it.
            let mut of_others = plan.clone();
            of_others.heads.retain(|head| *head != id);
            of_others.keeps.retain(|keep| keep.element != id);
            engine.commit(now, &of_others);
            engine.apply(now, &Event::Release(Target { job, index: None }));
            let plan = engine.plan(now);
            let starts = plan.starts().any(|(started, ..)| started.element == id);
            assert!(starts, "{change:?} was promised to start {spec:?}");
        }
        if let Some(eta) = found.eta {
            assert!(eta.start >= now && eta.start < Time::NEVER);
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_explain_offers_the_engine_does(seed in any::<u64>()) {
        changes_keep_their_promise(seed);
    }
}

#[test]
fn offers_are_made_often_enough_to_test_them() {
    let kept: usize = (0..100).map(changes_keep_their_promise).sum();
    assert!(kept > 40, "{kept}");
}

#[test]
fn an_eta_is_kept_when_everybody_uses_all_of_their_limit() {
    let mut world = World::new(&[node("n1", 4), node("n2", 4)]);
    for (name, gpus, limit) in [("a", 4, "10s"), ("b", 2, "30s"), ("c", 2, "50s")] {
        world.submit(job(name).gpus(gpus).limit(limit));
    }
    world.submit(job("big").tasks(2).gpus(4).limit("10s"));
    let eta = world.engine.explain(world.now, world.element("big", 0)).unwrap().eta.unwrap();
    assert_eq!(eta, Eta { start: world.now + span("50s"), reserved: true });
    for (name, wait) in [("a", 10_000), ("b", 20_000), ("c", 20_000)] {
        world.now = world.now + Span(wait);
        world.exit(name, 0);
    }
    assert_eq!(world.now, eta.start);
    world.expect("big", State::Running);
}
