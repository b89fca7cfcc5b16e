//! Gangs that grow and shrink: into what nobody else wants, and out of the way before anybody is
//! made to go.

use muster_engine::{Fact, Violation};
use muster_model::view::State;
use muster_model::{
    Checkpoint, CheckpointBy, Decision, Event, EvictionCause, Preemption, QueueSpec, QueueTree,
};

use crate::world::{Ask, World, job, node, span};

/// Tasks of one GPU each, so many at least and at most; it takes checkpoints.
fn gang(name: &str, min: u32, max: u32) -> Ask {
    let terms = Checkpoint {
        signal: 10,
        lead: span("1m"),
        by: CheckpointBy::First,
        then: Default::default(),
        to: Default::default(),
    };
    job(name).gpus(1).tasks(min).with(|spec| {
        spec.groups[0].max_tasks = max;
        spec.checkpoint = Some(terms);
    })
}

fn size(world: &World, name: &str) -> usize {
    world.places(name).len()
}

/// Time passes as far as it takes for everybody who was asked for a checkpoint to be stopped.
fn settle(world: &mut World) {
    world.now = world.now + span("1m");
    let due = world.engine.overdue(world.now);
    world.step(due);
}

/// Who was made to go so far, by job name.
fn went(world: &World) -> Vec<(String, EvictionCause)> {
    let told = world.facts.iter().filter_map(|fact| match fact {
        Fact::Evicted { id, cause, .. } => Some((id.element.job, *cause)),
        _ => None,
    });
    told.map(|(job, cause)| (world.engine.job_spec(job).unwrap().name.to_string(), cause)).collect()
}

#[test]
fn it_starts_with_what_fits_and_never_with_less_than_its_fewest() {
    for (used, expected) in [(0, 6), (1, 6), (3, 5), (6, 2)] {
        let mut world = World::new(&[node("n1", 8)]);
        world.submit(job("other").gpus(used));
        world.submit(gang("elastic", 2, 6));
        assert_eq!(size(&world, "elastic"), expected, "beside {used}");
    }
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("other").gpus(7));
    world.submit(gang("elastic", 2, 6));
    world.expect("elastic", State::Pending);
}

#[test]
fn everybody_who_can_start_does_before_a_gang_is_larger_than_its_fewest() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("wall").gpus(8));
    for ask in
        [gang("elastic", 2, 8), job("single").gpus(1), job("pair").gpus(2), job("much").gpus(5)]
    {
        world.submit(ask);
    }
    world.exit("wall", 0);
    ["single", "pair"].iter().for_each(|name| world.expect(name, State::Running));
    world.expect("much", State::Pending);
    assert_eq!(size(&world, "elastic"), 5);
}

#[test]
fn it_grows_into_what_came_free_once_it_has_run_for_a_while() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("other").gpus(4));
    world.submit(gang("elastic", 2, 8));
    assert_eq!(size(&world, "elastic"), 4);
    world.advance("5m");
    world.exit("other", 0);
    assert_eq!(went(&world), [], "a restart costs: not after so short a time");
    let ripe = world.engine.next_wake().unwrap();
    assert_eq!(ripe, world.now + span("5m"));
    world.now = ripe;
    world.step(Vec::new());
    assert_eq!(went(&world), [("elastic".to_owned(), EvictionCause::Grown)]);
    settle(&mut world);
    world.expect("elastic", State::Running);
    assert_eq!(size(&world, "elastic"), 8);
    // It has all that it may have: nothing more is to be decided, however long it takes.
    world.advance("1h");
    assert_eq!(went(&world).len(), 1);
}

#[test]
fn it_does_not_grow_while_that_would_lose_what_it_has_done_or_it_said_so() {
    for edit in [(|spec| spec.checkpoint = None) as fn(&mut muster_model::JobSpec), |spec| {
        spec.grow_after = None
    }] {
        let mut world = World::new(&[node("n1", 8)]);
        world.submit(job("other").gpus(4));
        world.submit(gang("elastic", 2, 8).with(edit));
        world.advance("20m");
        world.exit("other", 0);
        world.advance("20m");
        assert_eq!((went(&world), size(&world, "elastic")), (Vec::new(), 4));
    }
}

#[test]
fn it_gives_way_as_far_as_needed_and_goes_on_where_it_was() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(gang("elastic", 2, 8));
    let before = world.places("elastic");
    world.submit(job("late").gpus(3));
    assert_eq!(went(&world), [("elastic".to_owned(), EvictionCause::Shrunk)]);
    settle(&mut world);
    ["elastic", "late"].iter().for_each(|name| world.expect(name, State::Running));
    assert_eq!(world.places("elastic"), before[..5]);
    // What is left to it is its own: the next one waits.
    world.submit(job("more").gpus(4));
    world.expect("more", State::Pending);
    assert_eq!(went(&world).len(), 1, "nobody goes for nothing");
}

#[test]
fn it_shrinks_before_anybody_goes_and_goes_whole_when_that_is_not_enough() {
    let queue = |name: &str| {
        let mut queue = QueueSpec::named(name);
        queue.quota.insert("h100".into(), 4);
        queue
    };
    let mut tree = QueueTree::single();
    tree.queues = vec![queue("owner"), queue("guest")];
    tree.default_queue = "owner".into();
    let mut world = World::with_queues(&[node("n1", 8)], tree);
    world.submit(job("rigid").gpus(2).queue("guest"));
    world.submit(gang("elastic", 3, 6).queue("guest"));
    assert_eq!(size(&world, "elastic"), 6);
    world.submit(job("mine").gpus(3).queue("owner"));
    settle(&mut world);
    ["rigid", "elastic", "mine"].iter().for_each(|name| world.expect(name, State::Running));
    assert_eq!(size(&world, "elastic"), 3);
    // The guest still borrows one GPU: it gives that back whole, and the least is lost by whoever
    // began last.
    world.submit(job("also").gpus(1).queue("owner"));
    settle(&mut world);
    let last = went(&world).pop().unwrap();
    assert_eq!(last.1, EvictionCause::Reclaimed);
    world.expect("also", State::Running);
}

#[test]
fn what_waits_in_idle_takes_nothing_of_it_and_nor_does_anybody_where_nothing_is_taken() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(gang("elastic", 2, 8));
    world.submit(job("idle").gpus(1).with(|spec| spec.tier = muster_model::Tier::Last));
    world.expect("idle", State::Pending);
    let mut tree = QueueTree::single();
    tree.preemption = Preemption::OFF;
    let mut world = World::with_queues(&[node("n1", 8)], tree);
    world.submit(gang("elastic", 2, 8));
    world.submit(job("late").gpus(1));
    world.expect("late", State::Pending);
}

#[test]
fn it_grows_and_shrinks_by_whole_nodes_where_tasks_come_by_the_node() {
    let mut world = World::new(&[node("n1", 2), node("n2", 2), node("n3", 2)]);
    world.submit(job("one").gpus(1));
    world.submit(gang("elastic", 2, 6).per_node(2));
    assert_eq!(size(&world, "elastic"), 4);
    world.submit(job("two").gpus(2));
    settle(&mut world);
    assert_eq!(size(&world, "elastic"), 2);
    world.expect("two", State::Running);
}

#[test]
fn a_gang_that_ends_by_itself_before_it_could_grow_has_ended() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("other").gpus(4));
    world.submit(gang("elastic", 2, 8));
    world.advance("10m");
    world.exit("other", 0);
    assert_eq!(went(&world).len(), 1);
    for rank in 0..4 {
        let exit = muster_model::TaskExit::Code { code: 0 };
        world.task(world.attempt("elastic", 0), rank, muster_model::Observation::Exited(exit));
    }
    world.submit(job("next").gpus(8));
    world.expect("next", State::Running);
}

#[test]
fn a_gang_that_shrinks_and_loses_its_node_waits_with_its_fewest() {
    let mut world = World::new(&[node("n1", 4), node("n2", 4)]);
    world.submit(gang("elastic", 2, 8).restarts(3, "0s"));
    world.submit(job("late").gpus(4));
    let lost = Event::NodeLost { node: "n1".into(), reason: "gone".into() };
    world.step(vec![lost]);
    settle(&mut world);
    let running =
        ["elastic", "late"].into_iter().filter(|name| world.state_of(name, 0) == State::Running);
    assert_eq!(running.collect::<Vec<_>>(), ["late"], "four GPUs are left, and they were promised");
    assert_eq!(world.engine.sanity_check(), []);
}

#[test]
fn the_judge_refuses_what_is_no_change_of_size() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(gang("elastic", 2, 8));
    let id = world.next_id();
    world.skip_ids(1);
    let spec = std::sync::Arc::new(job("late").gpus(3).spec);
    world.engine.apply(world.now, &Event::Submitted { job: id, spec });
    let plan = world.engine.plan(world.now);
    let [Decision::Claim { .. }, Decision::Claim { placement, evict, .. }] = &plan.decisions[..]
    else {
        panic!("{plan:?}");
    };
    assert!(evict.is_empty() && placement.len() == 5);
    assert_eq!(world.engine.check(world.now, &plan), Ok(()));
    let judged = |edit: &dyn Fn(&mut Vec<Decision>)| {
        let mut plan = plan.clone();
        edit(&mut plan.decisions);
        world.engine.check(world.now, &plan).expect_err("it is wrong")
    };
    // It goes on with nothing.
    let nothing = judged(&|decisions| drop(decisions.pop()));
    assert!(nothing.iter().any(|one| matches!(one, Violation::NotEvictable(..))), "{nothing:?}");
    // It goes on with less than its fewest.
    let less = judged(&|decisions| {
        if let Decision::Claim { placement, .. } = &mut decisions[1] {
            *placement = placement[..1].into();
        }
    });
    assert!(less.iter().any(|one| matches!(one, Violation::PartialGang { .. })), "{less:?}");
    // It does so though the claimant needs no more room.
    let in_vain = judged(&|decisions| {
        if let Decision::Claim { placement, .. } = &mut decisions[0] {
            *placement = placement[..0].into();
        }
    });
    assert!(!in_vain.is_empty());
    // It is told to grow, and has not run for long enough.
    let grows = judged(&|decisions| {
        drop(decisions.remove(0));
        if let Decision::Claim { evict, element, .. } = &mut decisions[0] {
            let attempt = muster_model::Attempt(1);
            let id = muster_model::AttemptId { element: *element, attempt };
            evict.push(muster_model::Eviction { id, cause: EvictionCause::Grown });
        }
    });
    assert!(grows.iter().any(|one| matches!(one, Violation::NotEvictable(..))), "{grows:?}");
}
