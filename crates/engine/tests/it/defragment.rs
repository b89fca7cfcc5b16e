//! Defragmentation: jobs are moved for a gang that waits only because free GPUs are scattered;
//! choice, cost, and that all jobs run again.

use muster_engine::{AccountingFact, Engine, Violation};
use muster_model::queue::Defragment;
use muster_model::view::JobState;
use muster_model::{
    Checkpoint, CheckpointBy, Decision, DeviceSet, Event, Eviction, EvictionCause, GpuMilli,
    NodeId, NodeSpec, Plan, Protection, QueueTree, TaskPlacement, Time,
};

use crate::cluster::{JobBuilder, TestCluster, job, node, span, text};

fn tree(gpu_hours: u64, every: &str) -> QueueTree {
    let terms = Defragment { gpu_hours, every: span(every) };
    QueueTree { defragment: Some(terms), ..QueueTree::single() }
}

/// Returns a job of ten hours that supports checkpoints.
fn saving(name: &str, gpus: u32) -> JobBuilder {
    let terms = Checkpoint {
        signal: 10,
        lead: span("1m"),
        by: CheckpointBy::First,
        then: Default::default(),
        to: Default::default(),
    };
    job(name).gpus(gpus).limit("10h").with(|spec| spec.checkpoint = Some(terms))
}

/// Returns nodes of four GPUs, half of each held by a job of the list in order, started a minute
/// apart.
fn halves(tree: QueueTree, jobs: Vec<JobBuilder>) -> TestCluster {
    let nodes: Vec<NodeSpec> = (1..=jobs.len()).map(|at| node(&format!("n{at}"), 4)).collect();
    let mut cluster = TestCluster::with_queues(&nodes, tree);
    for (at, ask) in jobs.into_iter().enumerate() {
        let filler = format!("filler-{at}");
        let name = ask.spec.name.to_string();
        cluster.submit(ask);
        cluster.submit(job(&filler).gpus(2));
        assert_eq!(cluster.places(&name)[0].0, cluster.places(&filler)[0].0);
        cluster.now = cluster.now + span("1m");
    }
    for at in 0..nodes.len() {
        cluster.exit(&format!("filler-{at}"), 0);
    }
    cluster
}

/// Returns the evictions so far, by job name.
fn evicted_jobs(cluster: &TestCluster) -> Vec<(String, EvictionCause)> {
    let evictions = cluster.facts.iter().filter_map(|fact| match fact {
        AccountingFact::Evicted { id, cause, .. } => Some((id.element.job, *cause)),
        _ => None,
    });
    evictions
        .map(|(job, cause)| (cluster.engine.job_spec(job).unwrap().name.to_string(), cause))
        .collect()
}

fn moved(name: &str) -> Vec<(String, EvictionCause)> {
    vec![(name.to_owned(), EvictionCause::Moved)]
}

/// Advances time until every job that was asked for a checkpoint has been stopped.
fn end_evictions(cluster: &mut TestCluster) {
    cluster.now = cluster.now + span("1m");
    let due = cluster.engine.due_events(cluster.now);
    cluster.step(due);
}

#[test]
fn one_job_is_moved_and_all_jobs_run() {
    let mut cluster = halves(tree(10, "24h"), vec![saving("x", 2), saving("y", 2)]);
    cluster.advance("10m");
    cluster.submit(saving("whole", 4));
    // It would lose a minute less.
    assert_eq!(evicted_jobs(&cluster), moved("y"));
    cluster.expect("whole", JobState::Pending);
    end_evictions(&mut cluster);
    ["x", "y", "whole"].iter().for_each(|name| cluster.expect(name, JobState::Running));
    assert_eq!(cluster.places("y")[0].0, cluster.places("x")[0].0);
    assert_eq!(evicted_jobs(&cluster).len(), 1, "and that is all");
}

#[test]
fn no_job_is_moved_unless_defragmentation_is_enabled() {
    let mut cluster = halves(QueueTree::single(), vec![saving("x", 2), saving("y", 2)]);
    cluster.submit(saving("whole", 4));
    cluster.expect("whole", JobState::Pending);
    assert_eq!(evicted_jobs(&cluster), []);
}

#[test]
fn jobs_without_checkpoints_or_with_protection_are_not_moved() {
    let stays: [fn(JobBuilder) -> JobBuilder; 3] = [
        |ask| ask.with(|spec| spec.checkpoint = None),
        |ask| ask.with(|spec| spec.protect = Protection::Always),
        |ask| ask.with(|spec| spec.protect = Protection::For(span("1h"))),
    ];
    for edit in stays {
        let mut cluster = halves(tree(10, "24h"), vec![edit(saving("x", 2)), edit(saving("y", 2))]);
        cluster.submit(saving("whole", 4));
        assert_eq!(evicted_jobs(&cluster), []);
        let mut cluster = halves(tree(10, "24h"), vec![saving("x", 2), edit(saving("y", 2))]);
        cluster.submit(saving("whole", 4));
        assert_eq!(evicted_jobs(&cluster), moved("x"));
    }
}

#[test]
fn no_job_is_moved_that_could_not_be_placed_again() {
    let stuck = |name: &str, at: &str| {
        let exclude = if at == "n1" { "n2" } else { "n1" };
        saving(name, 2).with(|spec| spec.constraint.exclude = vec![exclude.into()])
    };
    let mut cluster = halves(tree(10, "24h"), vec![stuck("x", "n1"), stuck("y", "n2")]);
    cluster.submit(saving("whole", 4));
    assert_eq!(evicted_jobs(&cluster), []);
    // Nor if as many GPUs are free, but not for both.
    let mut cluster = halves(tree(10, "24h"), vec![saving("x", 2), saving("y", 2)]);
    cluster.submit(saving("single", 1));
    cluster.submit(saving("whole", 4));
    assert_eq!(evicted_jobs(&cluster), []);
    cluster.expect("whole", JobState::Pending);
}

#[test]
fn a_move_must_cost_less_than_the_wait() {
    for (limit, expected) in [("20m", Vec::new()), ("40m", moved("y"))] {
        let short = |name: &str| saving(name, 2).limit(limit);
        let mut cluster = halves(tree(10, "24h"), vec![short("x"), short("y")]);
        // Moving the younger one costs 2 × 15 minutes, and 2 × 1 while it is evicted. Without a
        // move the gang waits until the time limit of the older one, 4 × 3 or 4 × 23 minutes longer.
        cluster.advance("14m");
        cluster.submit(saving("whole", 4));
        assert_eq!(evicted_jobs(&cluster), expected, "{limit}");
    }
}

#[test]
fn moves_stay_within_the_budget_and_wait_for_its_refill() {
    let four = ["x", "y", "z", "w"].map(|name| saving(name, 2)).to_vec();
    let mut cluster = halves(tree(1, "24h"), four);
    cluster.advance("20m");
    // 2 × 22 minutes of 60 for the youngest, and 2 × 24 for the next.
    cluster.submit(saving("first", 4));
    assert_eq!(evicted_jobs(&cluster), moved("w"));
    end_evictions(&mut cluster);
    cluster.expect("first", JobState::Running);
    cluster.submit(saving("second", 4));
    cluster.expect("second", JobState::Pending);
    assert_eq!(evicted_jobs(&cluster).len(), 1);
    assert_eq!(cluster.engine.next_wake(), Some(Time(span("24h").0)), "the next window");
    let mut restored =
        Engine::restore(serde_json::from_str(&text(&cluster.engine.snapshot())).unwrap()).unwrap();
    assert_eq!(restored.plan(cluster.now).decisions, [], "nor after a restart");
}

#[test]
fn jobs_are_moved_to_clear_a_domain_for_a_gang() {
    let in_rack = |name: &str, rack: &str| {
        let mut node = node(name, 2);
        node.domains = vec![rack.into()];
        node
    };
    let nodes = [in_rack("a1", "a"), in_rack("a2", "a"), in_rack("b1", "b"), in_rack("b2", "b")];
    let mut cluster = TestCluster::with_queues(&nodes, tree(10, "24h"));
    cluster.step(vec![Event::LevelsSet(vec!["rack".into()])]);
    let only = |name: &str, on: &[&str]| {
        let others =
            ["a1", "a2", "b1", "b2"].into_iter().filter(|node| !on.contains(node)).map(Into::into);
        saving(name, 2).with(|spec| spec.constraint.exclude = others.collect())
    };
    cluster.submit(only("pinned", &["a1"]));
    cluster.submit(only("filler", &["a2"]));
    cluster.submit(only("free", &["a2", "b1"]));
    cluster.exit("filler", 0);
    cluster.submit(saving("gang", 2).tasks(2).required("rack"));
    assert_eq!(evicted_jobs(&cluster), moved("free"));
    end_evictions(&mut cluster);
    assert_eq!(cluster.places("free")[0].0, "a2".into());
    assert_eq!(cluster.places("gang").len(), 2);
}

#[test]
fn the_checker_refuses_invalid_and_expensive_moves() {
    let mut cluster = halves(tree(1, "24h"), vec![saving("x", 2), saving("y", 2)]);
    cluster.advance("40m");
    cluster.submit(saving("whole", 4));
    assert_eq!(evicted_jobs(&cluster), [], "it would cost more than an hour");
    let x = cluster.element("x", 0);
    let y = cluster.attempt("y", 0);
    let whole = cluster.element("whole", 0);
    let place = |element, devices, node: &NodeId| Decision::Nominate {
        element,
        placement: [TaskPlacement { group: 0, node: *node, devices, share: GpuMilli(1000) }].into(),
        evict: Vec::new(),
    };
    let view = |element| cluster.engine.element(cluster.now, element).unwrap();
    assert_eq!(view(x).tasks[0].devices, [0, 1]);
    let first = NodeId(0);
    let second = NodeId(1);
    let mut nomination = place(whole, DeviceSet::first(4), &second);
    if let Decision::Nominate { evict, .. } = &mut nomination {
        evict.push(Eviction { id: y, cause: EvictionCause::Moved });
    }
    let again = place(y.element, DeviceSet(0b1100), &first);
    let violations = |decisions: Vec<Decision>| {
        let plan = Plan { decisions, ..Plan::default() };
        cluster.engine.check(cluster.now, &plan).unwrap_err()
    };
    let wrong = |why| Violation::NotEvictable(y, why);
    let found = violations(vec![nomination.clone(), again]);
    assert_eq!(found, [wrong("the budget for moves is used up")]);
    assert!(violations(vec![nomination]).contains(&wrong("it has no new places")));
}
