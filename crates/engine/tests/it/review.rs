//! Edge cases of planning: long queues that a pass does not walk to the end, and blocks that no
//! model of a node can host.

use muster_model::queue::{Backfill, QueueBudget};
use muster_model::view::JobState;
use muster_model::{Event, QueueSpec, QueueTree, Reason, Time};

use crate::cluster::{TestCluster, job, node, node_of, span};

/// A pass leaves a queue whose entries cannot start; entries far behind still get their own reason.
#[test]
fn an_entry_far_behind_in_a_blocked_queue_gets_its_own_reason() {
    let mut cluster = TestCluster::new(&[node("a", 1)]);
    cluster.submit(job("running").gpus(1).limit("1h"));
    for at in 0..60 {
        cluster.submit(job(&format!("waits-{at}")).gpus(1).limit("1h"));
    }
    for name in ["waits-0", "waits-20", "waits-59"] {
        let id = cluster.element(name, 0);
        let explanation = cluster.engine.explain(cluster.now, id).unwrap();
        let reasons: Vec<_> = explanation.reasons.iter().collect();
        assert!(matches!(reasons[..], [Reason::Capacity(_)]), "{name}: {reasons:?}");
    }
}

/// In strict order a blocked entry stops its queue, but not once its quota is used up: a start in
/// another queue may use what it would have borrowed.
#[test]
fn an_entry_behind_one_that_a_start_has_limited_starts_in_the_same_pass() {
    let queue = |name: &str, gpus| QueueSpec {
        quota: [("h100".into(), gpus)].into(),
        ..QueueSpec::named(name)
    };
    let queues = vec![queue("default", 1), queue("lends", 1), queue("full", 2)];
    let tree = QueueTree { queues, backfill: Backfill::None, ..QueueTree::single() };
    let mut cluster = TestCluster::with_queues(&[node("a", 2), node("b", 2)], tree);
    cluster.submit(job("on-a").queue("full").gpus(1));
    cluster.submit(job("beside").gpus(1));
    cluster.submit(job("on-b").queue("full").gpus(1));
    cluster.exits("beside", 0, 0);
    cluster.submit(job("wide").gpus(2));
    cluster.submit(job("small").gpus(1));
    cluster.expect("small", JobState::Pending);
    cluster.auto_respond = false;
    cluster.submit(job("owner").queue("lends").gpus(1));
    cluster.expect("wide", JobState::Pending);
    cluster.expect("owner", JobState::Starting);
    cluster.expect("small", JobState::Starting);
}

/// All shares of a block are of one model, so a block that would need two is refused at once.
#[test]
fn a_block_of_shares_that_no_single_model_of_a_node_hosts_is_refused() {
    let mut mixed = node_of("a", 1, "h100", 64);
    mixed.devices.extend(node_of("b", 1, "a100", 64).devices);
    let mut cluster = TestCluster::new(&[mixed]);
    assert!(cluster.try_submit(job("block").tasks(2).per_node(2).share(600)).is_err());
    assert!(cluster.try_submit(job("small").tasks(2).per_node(2).share(500)).is_ok());
    cluster.expect("small", JobState::Running);
    assert!(cluster.try_submit(job("loose").tasks(2).share(600)).is_ok());
}

/// A job that waits for a drained node has no planned start; it does not use up the reservation of
/// the next in its queue.
#[test]
fn a_job_without_a_planned_start_leaves_the_reservation_to_the_next() {
    let mut cluster = TestCluster::new(&[node("a", 2), node("b", 2)]);
    cluster.step(vec![Event::NodeDrained {
        node: "b".into(),
        drained: true,
        reason: "fan".into(),
    }]);
    cluster.submit(job("first").gpus(1).limit("10m"));
    cluster.submit(job("both").tasks(2).per_node(1).gpus(2).limit("1h"));
    cluster.submit(job("one").gpus(2).limit("1h"));
    cluster.submit(job("passes").gpus(1).limit("20m"));
    cluster.expect("both", JobState::Pending);
    cluster.expect("passes", JobState::Pending);
    cluster.exit("first", 0);
    cluster.expect("one", JobState::Running);
}

/// Otherwise the engine would wake up for every later period.
#[test]
fn no_wakeup_for_a_refill_below_the_request() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    for name in ["first", "large"] {
        cluster.submit(job(name).gpus(8).limit("1h"));
    }
    let mut tree = QueueTree::single();
    let budget = QueueBudget {
        gpu_hours: Some(3),
        gpu_hours_per_user: None,
        every: span("2h"),
        start: Time(0),
    };
    tree.queues[0].budget = Some(budget);
    cluster.step(vec![Event::QueuesSet(Box::new(tree))]);
    cluster.advance("30m");
    cluster.exit("first", 0);
    cluster.expect("large", JobState::Pending);
    assert_eq!(cluster.engine.next_wake(), None);
}
