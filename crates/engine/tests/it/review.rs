//! Scenarios at the edges of planning: long queues that a pass does not walk to their end, and
//! blocks that no model of a node can host.

use muster_model::queue::Budget;
use muster_model::view::State;
use muster_model::{Event, QueueTree, Reason, Time};

use crate::world::{World, job, node, node_of, span};

/// A pass leaves a queue whose entries have no hope; those far behind still get their own reason.
#[test]
fn an_entry_far_behind_in_a_queue_without_hope_is_told_what_it_lacks() {
    let mut world = World::new(&[node("a", 1)]);
    world.submit(job("running").gpus(1).limit("1h"));
    for at in 0..60 {
        world.submit(job(&format!("waits-{at}")).gpus(1).limit("1h"));
    }
    for name in ["waits-0", "waits-20", "waits-59"] {
        let id = world.element(name, 0);
        let explanation = world.engine.explain(world.now, id).unwrap();
        let reasons: Vec<_> = explanation.reasons.iter().collect();
        assert!(matches!(reasons[..], [Reason::Capacity(_)]), "{name}: {reasons:?}");
    }
}

/// All shares of a block are of one model, so a block that would need two is refused at once.
#[test]
fn a_block_of_shares_that_no_single_model_of_a_node_hosts_is_refused() {
    let mut mixed = node_of("a", 1, "h100", 64);
    mixed.devices.extend(node_of("b", 1, "a100", 64).devices);
    let mut world = World::new(&[mixed]);
    assert!(world.try_submit(job("block").tasks(2).per_node(2).share(600)).is_err());
    assert!(world.try_submit(job("small").tasks(2).per_node(2).share(500)).is_ok());
    world.expect("small", State::Running);
    assert!(world.try_submit(job("loose").tasks(2).share(600)).is_ok());
}

/// What waits for a drained node cannot be dated; it does not use up the protection of the next in
/// its queue.
#[test]
fn a_job_that_cannot_be_dated_leaves_the_reservation_to_the_next() {
    let mut world = World::new(&[node("a", 2), node("b", 2)]);
    world.step(vec![Event::NodeDrained { node: "b".into(), drained: true, reason: "fan".into() }]);
    world.submit(job("first").gpus(1).limit("10m"));
    world.submit(job("both").tasks(2).per_node(1).gpus(2).limit("1h"));
    world.submit(job("one").gpus(2).limit("1h"));
    world.submit(job("passes").gpus(1).limit("20m"));
    world.expect("both", State::Pending);
    world.expect("passes", State::Pending);
    world.exit("first", 0);
    world.expect("one", State::Running);
}

/// It would wake up for every window to come.
#[test]
fn nobody_wakes_for_a_refill_that_is_less_than_what_is_asked_for() {
    let mut world = World::new(&[node("n1", 8)]);
    for name in ["first", "large"] {
        world.submit(job(name).gpus(8).limit("1h"));
    }
    let mut tree = QueueTree::single();
    let budget =
        Budget { gpu_hours: Some(3), gpu_hours_per_user: None, every: span("2h"), start: Time(0) };
    tree.queues[0].budget = Some(budget);
    world.step(vec![Event::QueuesSet(Box::new(tree))]);
    world.advance("30m");
    world.exit("first", 0);
    world.expect("large", State::Pending);
    assert_eq!(world.engine.next_wake(), None);
}
