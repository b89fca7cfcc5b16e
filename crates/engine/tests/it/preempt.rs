//! Others are made to go: by what right, who, how, and that nobody goes for nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_engine::{Fact, Violation};
use muster_model::view::State;
use muster_model::{
    AttemptId, Checkpoint, CheckpointBy, Decision, Effect, Event, Eviction, EvictionCause, JobId,
    Observation, Preemption, Protection, QueueSpec, QueueTree, Span, StopCause, TaskExit,
};

use crate::random::Dice;
use crate::world::{World, job, node, says, span};

/// Queues with so many h100 each, that lend and borrow as they like.
fn queues(quotas: &[(&str, u64)]) -> QueueTree {
    let queue = |(name, gpus): &(&str, u64)| {
        let mut queue = QueueSpec::named(name);
        queue.quota.insert("h100".into(), *gpus);
        queue
    };
    let mut tree = QueueTree::single();
    tree.queues = quotas.iter().map(queue).collect();
    tree.default_queue = quotas[0].0.into();
    tree
}

/// Eight GPUs of two queues; the guest has borrowed all that is the owner's.
fn lent() -> World {
    let mut world = World::with_queues(&[node("n1", 8)], queues(&[("owner", 4), ("guest", 4)]));
    for name in ["g1", "g2", "g3", "g4"] {
        world.submit(job(name).gpus(2).queue("guest"));
        world.now = world.now + span("1m");
    }
    world
}

#[test]
fn a_lender_takes_back_what_it_needs_and_the_youngest_goes() {
    let mut world = lent();
    world.submit(job("mine").gpus(2).queue("owner"));
    // It lost the least: it ran for the shortest time.
    world.expect("g4", State::Pending);
    world.expect("mine", State::Running);
    ["g1", "g2", "g3"].iter().for_each(|name| world.expect(name, State::Running));
}

#[test]
fn nothing_beyond_its_own_quota_is_taken_back() {
    let mut world = lent();
    world.submit(job("much").gpus(6).queue("owner"));
    world.expect("much", State::Pending);
    world.submit(job("own").gpus(4).queue("owner"));
    world.expect("own", State::Running);
    world.submit(job("more").gpus(1).queue("owner"));
    world.expect("more", State::Pending);
    assert_eq!(evicted(&world).len(), 2);
}

#[test]
fn what_is_owed_is_not_used_up_by_those_who_leave_no_room() {
    let nodes = [node("n1", 2), node("n2", 2), node("n3", 2)];
    let mut world = World::with_queues(&nodes, queues(&[("owner", 4), ("guest", 2)]));
    let always =
        |name: &str| job(name).queue("owner").with(|spec| spec.protect = Protection::Always);
    // Two nodes with half of them the owner's for good; a guest on each other half, and one on a
    // whole node.
    for (own, guest) in [("o1", "g1"), ("o2", "g2")] {
        world.submit(always(own).gpus(1));
        world.submit(job(guest).queue("guest").gpus(1));
    }
    world.submit(job("whole").queue("guest").gpus(2));
    world.now = world.now + span("1h");
    // The guest owes two. The small ones are first in order, and of no use.
    world.submit(job("mine").queue("owner").gpus(2));
    ["mine", "o1", "o2", "g1", "g2"].iter().for_each(|name| world.expect(name, State::Running));
    world.expect("whole", State::Pending);
    assert_eq!(evicted(&world).len(), 1);
}

#[test]
fn who_uses_no_more_than_its_own_keeps_it() {
    let mut world = World::with_queues(&[node("n1", 8)], queues(&[("owner", 4), ("guest", 4)]));
    world.submit(job("g1").gpus(4).queue("guest"));
    world.submit(job("o1").gpus(3).queue("owner"));
    // Neither its own quota, with which it would be within, nor the devices are there: the node has
    // lost one.
    world.submit(job("o2").gpus(2).queue("owner"));
    world.expect("g1", State::Running);
    world.expect("o2", State::Pending);
    assert!(evicted(&world).is_empty());
}

#[test]
fn within_a_queue_higher_takes_from_lower_and_equals_wait() {
    let mut world = World::new(&[node("n1", 8)]);
    for (name, priority) in [("low", -5), ("mid", 0), ("high", 5)] {
        world.submit(job(name).gpus(2).priority(priority));
    }
    world.submit(job("equal").gpus(4).priority(-5));
    world.expect("equal", State::Pending);
    world.submit(job("urgent").gpus(4).priority(4));
    ["low"].iter().for_each(|name| world.expect(name, State::Pending));
    ["mid", "high", "urgent"].iter().for_each(|name| world.expect(name, State::Running));
    assert_eq!(evicted(&world).len(), 1, "two devices were free");
}

#[test]
fn nobody_goes_for_one_who_would_not_start_then() {
    let mut world = World::new(&[node("n1", 4), node("n2", 4)]);
    world.submit(job("high").gpus(2).priority(5));
    world.submit(job("low").gpus(2));
    world.submit(job("low2").gpus(4));
    // Four on one node: only with `low`, which shares a node with `high`, and two are not enough
    // there.
    world.submit(job("first").gpus(4).priority(3));
    world.expect("low2", State::Pending);
    ["high", "low", "first"].iter().for_each(|name| world.expect(name, State::Running));
    world.submit(job("second").gpus(4).priority(3));
    world.expect("second", State::Pending);
    world.expect("low", State::Running);
}

#[test]
fn whole_gangs_go_and_no_more_of_them_than_must() {
    let mut world = World::new(&[node("n1", 4), node("n2", 4)]);
    world.submit(job("gang").tasks(2).per_node(1).gpus(3));
    world.submit(job("single").gpus(1));
    world.submit(job("other").gpus(1));
    world.now = world.now + span("1h");
    // One GPU is enough of the single; three on a node need half the gang, so all of it.
    world.submit(job("one").gpus(1).priority(1));
    world.expect("gang", State::Running);
    assert_eq!(evicted(&world).len(), 1);
    world.submit(job("three").gpus(3).priority(1));
    world.expect("gang", State::Pending);
    world.expect("three", State::Running);
}

#[test]
fn protection_holds_for_its_time_and_then_no_longer() {
    let mut tree = queues(&[("owner", 4), ("guest", 4)]);
    tree.queues[1].protect = Some(Protection::For(span("10m")));
    let mut world = World::with_queues(&[node("n1", 8)], tree);
    world.submit(job("g1").gpus(8).queue("guest"));
    world.submit(job("o1").gpus(4).queue("owner"));
    world.expect("o1", State::Pending);
    let safe_until = world.now + span("10m");
    assert_eq!(world.engine.next_wake(), Some(safe_until));
    world.now = safe_until;
    world.step(Vec::new());
    world.expect("o1", State::Running);
    world.expect("g1", State::Pending);
}

#[test]
fn what_cannot_be_taken_back_is_not_lent() {
    let mut world = World::with_queues(&[node("n1", 8)], queues(&[("owner", 4), ("guest", 4)]));
    let always = |name: &str, gpus| {
        job(name).queue("guest").gpus(gpus).with(|spec| spec.protect = Protection::Always)
    };
    world.submit(always("fits", 3));
    world.submit(always("borrows", 2));
    world.submit(job("plain").queue("guest").gpus(2));
    world.expect("fits", State::Running);
    world.expect("borrows", State::Pending);
    world.expect("plain", State::Running);
    world.submit(job("mine").queue("owner").gpus(4));
    ["mine", "fits"].iter().for_each(|name| world.expect(name, State::Running));
    world.expect("plain", State::Pending);
    // Nor by priority.
    world.submit(job("urgent").queue("guest").gpus(4).priority(9));
    world.expect("urgent", State::Pending);
}

#[test]
fn nothing_is_taken_where_the_tree_says_so() {
    let mut tree = queues(&[("owner", 4), ("guest", 4)]);
    tree.preemption = Preemption::OFF;
    let mut world = World::with_queues(&[node("n1", 8)], tree);
    world.submit(job("g1").gpus(8).queue("guest"));
    world.submit(job("o1").gpus(4).queue("owner"));
    world.submit(job("g2").gpus(4).queue("guest").priority(9));
    world.expect("g1", State::Running);
    assert!(evicted(&world).is_empty());
}

/// A world in which tasks take their time to end: one GPU queue, `low` runs, and `urgent` has made
/// it go.
pub fn leaving(checkpoint: Option<Checkpoint>) -> (World, AttemptId) {
    let mut world = World::new(&[node("n1", 4)]);
    world.submit(job("low").gpus(4).with(|spec| spec.checkpoint = checkpoint));
    let id = world.attempt("low", 0);
    world.obliging = false;
    world.submit(job("urgent").gpus(4).priority(1));
    (world, id)
}

#[test]
fn places_are_kept_until_those_who_go_have_gone() {
    let (mut world, low) = leaving(None);
    assert!(world.effects.contains(&Effect::Stop { id: low, cause: StopCause::Preempted }));
    world.expect("low", State::Stopping);
    world.expect("urgent", State::Pending);
    // Nobody slips in, whoever he is, and nothing else happens when time passes.
    world.submit(job("other").gpus(1).priority(0));
    world.now = world.now + span("20s");
    world.step(Vec::new());
    world.expect("other", State::Pending);
    world.obliging = true;
    world.step(vec![says(low, 0, Observation::Exited(TaskExit::Stopped))]);
    world.expect("urgent", State::Running);
    world.expect("low", State::Pending);
}

#[test]
fn who_takes_checkpoints_saves_first_and_goes_as_soon_as_he_has() {
    let terms = Checkpoint {
        signal: 10,
        lead: span("1m"),
        by: CheckpointBy::First,
        then: Default::default(),
        to: Default::default(),
    };
    let (mut world, low) = leaving(Some(terms));
    assert!(world.effects.contains(&Effect::Checkpoint { id: low, request: 1 }));
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Stop { .. })));
    world.now = world.now + span("5s");
    let saved = muster_model::TaskCheckpoint {
        count: 1,
        answers: 1,
        warned: false,
        at: world.now,
        label: "step 7".into(),
    };
    world.step(vec![says(low, 0, Observation::Checkpointed(saved))]);
    assert!(world.effects.contains(&Effect::Stop { id: low, cause: StopCause::Preempted }));
    assert_eq!(world.engine.last_checkpoint(low.element).as_deref(), Some("step 7"));
}

#[test]
fn who_does_not_answer_goes_when_the_time_is_over() {
    let terms = Checkpoint {
        signal: 10,
        lead: span("1m"),
        by: CheckpointBy::First,
        then: Default::default(),
        to: Default::default(),
    };
    let (mut world, low) = leaving(Some(terms));
    let due = world.now + span("1m");
    assert_eq!(world.engine.next_wake(), Some(due));
    assert_eq!(world.engine.overdue(due + Span(0)).len(), 1);
    world.now = due;
    let events = world.engine.overdue(due);
    assert_eq!(events, [Event::EvictionDue { id: low }]);
    world.step(events);
    assert!(world.effects.contains(&Effect::Stop { id: low, cause: StopCause::Preempted }));
    assert_eq!(world.engine.overdue(due), []);
}

#[test]
fn a_claimant_that_is_cancelled_leaves_its_places_to_others() {
    let (mut world, low) = leaving(None);
    world.cancel("urgent");
    world.obliging = true;
    world.step(vec![says(low, 0, Observation::Exited(TaskExit::Stopped))]);
    world.expect("low", State::Running);
}

#[test]
fn a_claim_whose_node_is_lost_is_given_up_and_its_owner_waits_on() {
    let (mut world, low) = leaving(None);
    world.step(vec![Event::NodeLost { node: "n1".into(), reason: "power".into() }]);
    world.expect("urgent", State::Pending);
    assert!(world.engine.reservations().is_empty());
    world.obliging = true;
    world.step(vec![Event::NodeJoined(Box::new(node("n1", 4)))]);
    world.expect("urgent", State::Running);
    world.expect("low", State::Pending);
    assert_eq!(low.attempt.0, 1);
}

#[test]
fn a_domain_is_freed_where_a_domain_is_what_is_needed() {
    let mut world = World::tree(4, &["b1/l1: a b", "b1/l2: c d"]);
    for (name, gpus) in [("j1", 2), ("j2", 2), ("j3", 2), ("j4", 2)] {
        world.submit(job(name).gpus(gpus));
    }
    for name in ["x1", "x2", "x3", "x4"] {
        world.submit(job(name).gpus(2));
    }
    world.submit(job("gang").tasks(8).gpus(1).required("leaf").priority(1));
    world.expect("gang", State::Running);
    let nodes: BTreeSet<_> = world.places("gang").into_iter().map(|(node, _)| node).collect();
    assert_eq!(nodes.len(), 2);
    assert_eq!(evicted(&world).len(), 4, "both nodes of one leaf, and nobody of the other");
}

fn evicted(world: &World) -> Vec<AttemptId> {
    let told = world.facts.iter().filter_map(|fact| match fact {
        Fact::Evicted { id, .. } => Some(*id),
        _ => None,
    });
    told.collect()
}

/// What the judge says of the only plan, changed.
fn broken(world: &mut World, edit: impl FnOnce(&mut Vec<Eviction>)) -> Vec<Violation> {
    let mut plan = world.engine.plan(world.now);
    assert_eq!(world.engine.check(world.now, &plan), Ok(()));
    let [Decision::Claim { evict, .. }] = &mut plan.decisions[..] else { panic!("{plan:?}") };
    edit(evict);
    world.engine.check(world.now, &plan).unwrap_err()
}

/// The guest's four jobs stand against one of the owner's, that is submitted and not planned for
/// yet.
fn contested(gpus: u32) -> (World, [AttemptId; 4]) {
    let mut world = lent();
    let ids = ["g1", "g2", "g3", "g4"].map(|name| world.attempt(name, 0));
    let ask = job("mine").gpus(gpus).queue("owner");
    world.engine.apply(world.now, &Event::Submitted { job: JobId(99), spec: Arc::new(ask.spec) });
    (world, ids)
}

#[test]
fn plans_that_make_the_wrong_ones_go_are_refused() {
    let reclaim = |id| Eviction { id, cause: EvictionCause::Reclaimed };
    let said = |found: Vec<Violation>, why: &str| {
        let is_it =
            |one: &Violation| matches!(one, Violation::NotEvictable(_, known) if *known == why);
        assert!(found.iter().any(is_it), "{why}: {found:?}");
    };
    // 1. One who could stay.
    let (mut world, ids) = contested(2);
    said(broken(&mut world, |evict| evict.push(reclaim(ids[0]))), "it could as well stay");
    // 2. By a right that is none.
    let (mut world, _) = contested(2);
    let outranked = broken(&mut world, |evict| evict[0].cause = EvictionCause::Outranked);
    said(outranked, "it is not of lower priority in the same queue");
    // 3. Twice, or an attempt that is over.
    let (mut world, _) = contested(2);
    said(broken(&mut world, |evict| evict.push(evict[0])), "it does not run");
    let (mut world, _) = contested(2);
    said(broken(&mut world, |evict| evict[0].id.attempt.0 += 1), "it does not run");
    // 4. Nobody, although somebody must.
    let (mut world, _) = contested(2);
    let found = broken(&mut world, Vec::clear);
    assert!(found.iter().any(|one| matches!(one, Violation::Device { .. })), "{found:?}");
    // 5. More than is owed.
    let (mut world, ids) = contested(4);
    said(
        broken(&mut world, |evict| evict.push(reclaim(ids[1]))),
        "its queue owes nothing to the claimant's",
    );
}

/// Who goes is what trying every set says: the feasible one whose most precious member is the least
/// precious.
#[test]
fn who_goes_is_what_trying_every_set_says() {
    let mut dice = Dice::new(7);
    let mut claims = 0;
    for _ in 0..300 {
        claims += u32::from(compare_with_every_set(&mut dice));
    }
    assert!(claims > 60, "only {claims} of 300 made anybody go");
}

/// A random crowd in one queue, and one of higher priority; true when somebody had to go.
fn compare_with_every_set(dice: &mut Dice) -> bool {
    let sizes: Vec<usize> = (0..1 + dice.roll(3)).map(|_| 1 + dice.roll(4) as usize).collect();
    let nodes: Vec<_> =
        sizes.iter().enumerate().map(|(at, gpus)| node(&format!("n{at}"), *gpus)).collect();
    let mut world = World::new(&nodes);
    // 1. Who runs: in the order in which they may be made to go, least precious first.
    let mut running = Vec::new();
    for at in 0..7 {
        let name = format!("j{at}");
        let ask = job(&name).tasks(1 + dice.roll(2) as u32).gpus(1 + dice.roll(2) as u32);
        if world.try_submit(ask.priority(dice.roll(3) as i32)).is_err() {
            continue;
        }
        world.now = world.now + Span(1000);
        world.step(Vec::new());
        match world.state_of(&name, 0) {
            State::Running => running.push(name),
            _ => world.cancel(&name),
        }
    }
    // Some have made way for others already.
    running.retain(|name| world.state_of(name, 0) == State::Running);
    world.facts.clear();
    let precious = |name: &String| {
        let spec = world.engine.job_spec(world.id(name)).unwrap();
        let lost = world.engine.unsaved_gpu_millis(world.now, world.element(name, 0));
        (spec.priority, lost, std::cmp::Reverse(world.id(name)))
    };
    running.sort_by_key(precious);
    let holds: Vec<Vec<(usize, usize)>> = running
        .iter()
        .map(|name| {
            let places = world.places(name).into_iter();
            let at = |node: &str| node[1..].parse::<usize>().unwrap();
            places.map(|(node, devices)| (at(node.as_str()), devices.len())).collect()
        })
        .collect();
    // 2. Who comes, and every set that would let it start.
    let (tasks, gpus) = (1 + dice.roll(4) as u32, 1 + dice.roll(3) as u32);
    let starts = |gone: u32| {
        let mut free = sizes.clone();
        for (_, held) in holds.iter().enumerate().filter(|(at, _)| gone & (1 << at) == 0) {
            held.iter().for_each(|(node, gpus)| free[*node] -= gpus);
        }
        free.iter().map(|free| *free as u32 / gpus).sum::<u32>() >= tasks
    };
    let best = (0..1u32 << running.len()).find(|gone| starts(*gone));
    // 3. What the engine does.
    let mut before: BTreeSet<String> = running.iter().cloned().collect();
    if world.try_submit(job("claimant").tasks(tasks).gpus(gpus).priority(9)).is_err() {
        return false;
    }
    // Who went may have made others go in turn.
    let claimant = world.element("claimant", 0);
    let for_it = world.facts.iter().filter_map(|fact| match fact {
        Fact::Evicted { id, by, .. } if *by == claimant => Some(name_of(&world, &before, *id)),
        _ => None,
    });
    let went: BTreeSet<String> = for_it.collect();
    let at = |name: &String| running.iter().position(|other| other == name).unwrap();
    let gone = went.iter().map(|name| 1u32 << at(name)).sum::<u32>();
    before.retain(|name| !went.contains(name));
    assert_eq!(
        best,
        Some(gone).filter(|gone| starts(*gone)),
        "{running:?} on {sizes:?}, for {tasks} of {gpus}"
    );
    gone > 0
}

fn name_of(world: &World, names: &BTreeSet<String>, id: AttemptId) -> String {
    names.iter().find(|name| world.id(name) == id.element.job).unwrap().clone()
}
