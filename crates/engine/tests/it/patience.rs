//! Patience: a gang at the head of its queue starts although small jobs without a time limit keep
//! coming.

use muster_engine::Violation;
use muster_model::queue::Backfill;
use muster_model::view::JobState;
use muster_model::{
    CpuMilli, DeviceSet, Event, Foreign, Plan, Preemption, QueueSpec, QueueTree, Replicas, Service,
    Span, Time, WorkloadKind,
};

use crate::cluster::{JobBuilder, TestCluster, job, node, node_of, span};

fn tree(patience: Option<&str>) -> QueueTree {
    QueueTree { patience: patience.map(span), ..QueueTree::single() }
}

/// Returns one node with 8 GPUs, all held by jobs `s0` to `s7` of one GPU each without a time
/// limit; `wide` of 8 waits.
fn crowded(tree: QueueTree) -> TestCluster {
    let mut cluster = TestCluster::with_queues(&[node("a", 8)], tree);
    for nth in 0..8 {
        cluster.submit(small(nth));
    }
    cluster.submit(job("wide").tasks(8).gpus(1));
    cluster.expect("wide", JobState::Pending);
    cluster
}

fn small(nth: u32) -> JobBuilder {
    job(&format!("s{nth}")).gpus(1)
}

/// Every 10 s submits a small job and ends the oldest running one. Returns the round in which the
/// gang started.
fn starts_after(cluster: &mut TestCluster, rounds: u32) -> Option<u32> {
    (0..rounds).find(|nth| {
        cluster.submit(small(8 + nth));
        cluster.advance("10s");
        let oldest = (0..).map(|nth| format!("s{nth}"));
        let mut oldest = oldest.take_while(|name| name != &format!("s{}", 9 + nth));
        let runs = |name: &String| {
            let id = cluster.element(name, 0);
            cluster
                .engine
                .element(cluster.now, id)
                .is_some_and(|view| view.state == JobState::Running)
        };
        if let Some(name) = oldest.find(runs) {
            cluster.exits(&name, 0, 0);
        }
        cluster.state_of("wide", 0) == JobState::Running
    })
}

#[test]
fn a_gang_that_waited_longer_than_patience_gets_freed_capacity() {
    for backfill in [Backfill::None, Backfill::Easy, Backfill::Conservative { depth: 16 }] {
        let mut cluster = crowded(QueueTree { backfill, ..tree(Some("1m")) });
        let after = starts_after(&mut cluster, 60);
        // With strict order no job of its queue starts before it anyway.
        let expected = if backfill == Backfill::None { 7 } else { 12 };
        assert_eq!(after, Some(expected), "{backfill:?}");
    }
}

#[test]
fn without_patience_the_gang_starves() {
    assert_eq!(starts_after(&mut crowded(tree(None)), 200), None);
}

#[test]
fn patience_ends_without_an_event() {
    let mut cluster = crowded(tree(Some("10m")));
    assert_eq!(cluster.engine.next_wake(), Some(cluster.now + span("10m")));
    cluster.advance("10m");
    assert_eq!(cluster.engine.next_wake(), None);
}

#[test]
fn jobs_with_time_limits_need_no_head_reservations() {
    let mut cluster = TestCluster::with_queues(&[node("a", 8)], tree(Some("0s")));
    for nth in 0..8 {
        cluster.submit(small(nth).limit("1h"));
    }
    cluster.submit(job("wide").tasks(8).gpus(1).limit("1h"));
    cluster.advance("2h");
    for (_, _, plan) in &cluster.journal {
        assert!(plan.heads.is_empty() && plan.head_reservations.is_empty(), "{plan:?}");
    }
}

#[test]
fn a_gang_that_needs_gpus_of_a_service_gets_no_head_reservation() {
    let replicas = Replicas { guaranteed: 1, max: 1 };
    let service = job("served").gpus(1).with(|spec| {
        spec.kind = WorkloadKind::Service(Service { replicas, port: None });
    });
    let mut cluster = TestCluster::with_queues(&[node("a", 8)], tree(Some("1m")));
    cluster.submit(service);
    for nth in 0..7 {
        cluster.submit(small(nth));
    }
    cluster.submit(job("wide").tasks(8).gpus(1));
    cluster.submit(job("next").tasks(7).gpus(1));
    cluster.advance("5m");
    // The gang behind it could be placed, and becomes a queue head now.
    cluster.advance("5m");
    cluster.submit(small(100));
    for nth in 0..7 {
        cluster.exits(&format!("s{nth}"), 0, 0);
    }
    cluster.expect("wide", JobState::Pending);
    cluster.expect("next", JobState::Running);
    cluster.expect("s100", JobState::Pending);
}

#[test]
fn only_own_quota_is_reserved_for_a_head() {
    let queue = |name: &str, gpus| QueueSpec {
        quota: [("h100".into(), gpus)].into(),
        ..QueueSpec::named(name)
    };
    let queues = vec![queue("default", 4), queue("other", 4)];
    let tree = QueueTree { queues, preemption: Preemption::OFF, ..tree(Some("1m")) };
    let mut cluster = TestCluster::with_queues(&[node("a", 8)], tree);
    for nth in 0..8 {
        cluster.submit(small(nth));
    }
    // It would borrow, so nothing is reserved for it.
    cluster.submit(job("wide").tasks(6).gpus(1));
    cluster.advance("5m");
    for nth in 0..5 {
        cluster.exits(&format!("s{nth}"), 0, 0);
    }
    cluster.submit(job("owner").tasks(4).gpus(1).queue("other"));
    cluster.expect("wide", JobState::Pending);
    cluster.expect("owner", JobState::Running);
}

#[test]
fn patience_outlasts_a_restart() {
    let tree = tree(Some("10m"));
    let mut cluster = crowded(tree.clone());
    cluster.advance("6m");
    let mut again = cluster.replayed(tree);
    assert_eq!(
        crate::cluster::text(&again.snapshot()),
        crate::cluster::text(&cluster.engine.snapshot())
    );
    let mut restored = {
        let stored = crate::cluster::text(&cluster.engine.snapshot());
        muster_engine::Engine::restore(serde_json::from_str(&stored).unwrap()).unwrap()
    };
    for engine in [&mut again, &mut restored] {
        drop(engine.plan(cluster.now));
        assert_eq!(engine.next_wake(), Some(Time(cluster.now.0) + span("4m")));
    }
}

#[test]
fn a_hold_resets_the_waiting_time() {
    let mut cluster = crowded(tree(Some("10m")));
    cluster.advance("6m");
    let wide = cluster.target("wide");
    cluster.step(vec![Event::Hold(wide)]);
    cluster.advance("1m");
    cluster.step(vec![Event::Release(wide)]);
    assert_eq!(cluster.engine.next_wake(), Some(cluster.now + span("10m")));
}

/// Returns a plan at a time at which seven GPUs are reserved for a gang and a small job waits.
fn with_head_reservation() -> (TestCluster, Plan) {
    let mut cluster = crowded(tree(Some("1m")));
    cluster.advance("2m");
    for nth in 0..7 {
        cluster.exits(&format!("s{nth}"), 0, 0);
    }
    cluster.submit(small(20));
    cluster.expect("s20", JobState::Pending);
    let plan = cluster.engine.plan(cluster.now);
    assert_eq!((plan.head_reservations.len(), plan.decisions.len()), (1, 0));
    (cluster, plan)
}

/// A user who has used less passes a gang with a planned start once the new job has waited, not at once.
#[test]
fn a_new_job_passes_a_planned_start_by_its_share_only_later() {
    for (fair_share_after, at_once, later) in [
        (Some("0s"), JobState::Running, JobState::Running),
        (Some("15m"), JobState::Pending, JobState::Running),
        (None, JobState::Pending, JobState::Pending),
    ] {
        let tree =
            QueueTree { fair_share_after: fair_share_after.map(span), ..QueueTree::single() };
        let mut cluster = TestCluster::with_queues(&[node("a", 8)], tree);
        cluster.submit(job("long").user("ann").gpus(7).limit("1h"));
        cluster.submit(job("wide").user("ann").gpus(8).limit("1h"));
        cluster.advance("1s");
        cluster.submit(job("new").user("bob").gpus(1).limit("3h"));
        cluster.expect("new", at_once);
        cluster.advance("16m");
        cluster.expect("new", later);
        cluster.expect("wide", JobState::Pending);
    }
}

#[test]
fn a_start_that_changes_the_order_makes_another_gang_the_head_in_the_same_pass() {
    let mut cluster = TestCluster::with_queues(&[node("a", 8), node("b", 8)], tree(Some("0s")));
    cluster.submit(job("long").user("cy").gpus(7));
    let reason = "gone".into();
    cluster.step(vec![Event::NodeLost { node: "b".into(), reason }]);
    // No head can be found among the first 64 entries, and those behind them are not visited.
    cluster.submit(job("never").array(0, 99, None).tasks(2).per_node(1).gpus(8));
    cluster.submit(job("wide").user("bob").gpus(8));
    let heads = |cluster: &TestCluster| cluster.journal.last().unwrap().2.heads.clone();
    assert_eq!(heads(&cluster), []);
    cluster.auto_respond = false;
    cluster.submit(job("small").gpus(1).priority(-1));
    assert_eq!(heads(&cluster), [cluster.element("wide", 0)]);
}

#[test]
fn a_start_behind_a_newer_head_may_take_what_an_older_one_then_waits_for() {
    let by_share = QueueTree { fair_share_after: Some(Span(0)), ..tree(Some("1m")) };
    let mut cluster = TestCluster::with_queues(&[node("a", 8)], by_share);
    cluster.submit(job("past").user("bob").gpus(1));
    cluster.advance("1s");
    cluster.exits("past", 0, 0);
    cluster.submit(job("long").user("cy").gpus(7));
    cluster.submit(job("wide").user("bob").gpus(8));
    cluster.advance("2m");
    // bob has used more than ann, so her gang is before his. Her small job changes that.
    cluster.submit(job("newer").gpus(8));
    cluster.auto_respond = false;
    cluster.submit(job("small").gpus(1).priority(-1));
    let plan = &cluster.journal.last().unwrap().2;
    let reserved: Vec<_> = plan.head_reservations.iter().map(|one| one.element).collect();
    assert_eq!((plan.decisions.len(), reserved), (1, vec![cluster.element("wide", 0)]));
}

#[test]
fn a_head_that_lacks_cpus_used_outside_muster_is_passed() {
    let mut cluster = TestCluster::with_queues(&[node_of("a", 2, "h100", 4)], tree(Some("0s")));
    cluster.submit(job("long").gpus(1));
    cluster.submit(job("wide").tasks(2).gpus(1).cpus(2));
    let foreign = Foreign { cpus: CpuMilli(2000), ..Foreign::default() };
    cluster.step(vec![Event::ForeignUse { node: "a".into(), foreign }]);
    cluster.submit(job("small").gpus(1));
    cluster.expect("wide", JobState::Pending);
    cluster.expect("small", JobState::Running);
}

#[test]
fn the_checker_refuses_starts_on_head_reservations() {
    let (cluster, plan) = with_head_reservation();
    let id = cluster.attempt("s7", 0);
    let (_, mut places) = cluster.engine.placement(id.element).unwrap();
    let small = cluster.element("s20", 0);
    std::sync::Arc::make_mut(&mut places)[0].devices = DeviceSet(1);
    let start = |keeps| Plan {
        decisions: vec![muster_model::Decision::Start {
            id: muster_model::AttemptId { element: small, attempt: muster_model::Attempt(1) },
            placement: places.clone(),
            backfilled: false,
        }],
        head_reservations: keeps,
        ..Plan::default()
    };
    let found =
        cluster.engine.check(cluster.now, &start(plan.head_reservations.clone())).unwrap_err();
    assert!(matches!(found[..], [Violation::HeadReservationTaken { .. }]), "{found:?}");
    // Nor may a reservation be omitted.
    let found = cluster.engine.check(cluster.now, &start(Vec::new())).unwrap_err();
    assert!(matches!(found[..], [Violation::HeadPassed { .. }]), "{found:?}");
}

#[test]
fn the_checker_refuses_early_head_reservations() {
    let (_, plan) = with_head_reservation();
    let mut cluster = crowded(tree(Some("1m")));
    let found = cluster.engine.check(cluster.now, &plan).unwrap_err();
    assert!(matches!(found[..], [Violation::NoHeadReservation(..)]), "{found:?}");
    cluster.advance("2m");
    assert_eq!(cluster.engine.check(cluster.now, &plan), Ok(()));
    let twice = Plan { heads: vec![cluster.element("wide", 0)], ..plan };
    let found = cluster.engine.check(cluster.now, &twice).unwrap_err();
    assert!(matches!(found[..], [Violation::NoHeadReservation(..)]), "{found:?}");
}

#[test]
fn a_gang_on_whole_nodes_gets_the_nodes_whose_jobs_have_run_longest() {
    let nodes =
        [node_of("a", 4, "h100", 64), node_of("b", 4, "h100", 64), node_of("c", 4, "h100", 64)];
    let mut cluster = TestCluster::with_queues(&nodes, tree(Some("1m")));
    for nth in 0..12 {
        cluster.submit(small(nth));
        cluster.now = cluster.now + Span::from_secs(1);
    }
    cluster.submit(job("wide").tasks(2).per_node(1).gpus(4));
    cluster.advance("2m");
    // One job ends on each node: the nodes with the oldest jobs are reserved, the third is not.
    for (ends, comes) in [(0, 20), (4, 21), (8, 22)] {
        cluster.exits(&format!("s{ends}"), 0, 0);
        cluster.submit(small(comes));
    }
    cluster.expect("s20", JobState::Running);
    assert_eq!(cluster.places("s20")[0].0.0.as_ref(), "c");
    cluster.expect("s21", JobState::Pending);
    for nth in [1, 2, 3, 5, 6, 7] {
        cluster.exits(&format!("s{nth}"), 0, 0);
    }
    cluster.expect("wide", JobState::Running);
}
