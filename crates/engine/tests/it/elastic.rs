//! Elastic gangs: they grow into idle capacity, and shrink before other jobs are preempted.

use muster_engine::{AccountingFact, Violation};
use muster_model::view::JobState;
use muster_model::{
    Checkpoint, CheckpointBy, Decision, Event, EvictionCause, Preemption, QueueSpec, QueueTree,
};

use crate::cluster::{JobBuilder, TestCluster, job, node, span};

/// Returns a gang of tasks with one GPU each and a range of sizes; it supports checkpoints.
fn gang(name: &str, min: u32, max: u32) -> JobBuilder {
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

fn size(cluster: &TestCluster, name: &str) -> usize {
    cluster.places(name).len()
}

/// Advances time until every job that was asked for a checkpoint has been stopped.
fn end_evictions(cluster: &mut TestCluster) {
    cluster.now = cluster.now + span("1m");
    let due = cluster.engine.due_events(cluster.now);
    cluster.step(due);
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

#[test]
fn a_start_within_the_quota_stays_so_beside_a_gang_that_grows_beyond_it() {
    let queue = |name: &str, gpus| QueueSpec {
        quota: [("h100".into(), gpus)].into(),
        ..QueueSpec::named(name)
    };
    let mut lends_briefly = queue("default", 3);
    lends_briefly.limits.borrowed_time = Some(span("1m"));
    let queues = vec![lends_briefly, queue("other", 5)];
    let tree = QueueTree { queues, ..QueueTree::single() };
    let mut cluster = TestCluster::with_queues(&[node("n1", 8)], tree);
    let begin = cluster.now + span("10s");
    cluster.submit(gang("elastic", 1, 4).limit("30s").begin(begin));
    cluster.submit(job("long").gpus(2).limit("1h").begin(begin));
    cluster.advance("10s");
    cluster.expect("long", JobState::Running);
    assert_eq!(size(&cluster, "elastic"), 4, "it borrows for a short time");
}

#[test]
fn it_starts_with_what_fits_and_never_below_its_minimum() {
    for (used, expected) in [(0, 6), (1, 6), (3, 5), (6, 2)] {
        let mut cluster = TestCluster::new(&[node("n1", 8)]);
        cluster.submit(job("other").gpus(used));
        cluster.submit(gang("elastic", 2, 6));
        assert_eq!(size(&cluster, "elastic"), expected, "beside {used}");
    }
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("other").gpus(7));
    cluster.submit(gang("elastic", 2, 6));
    cluster.expect("elastic", JobState::Pending);
}

#[test]
fn all_other_jobs_start_before_a_gang_exceeds_its_minimum() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("wall").gpus(8));
    for ask in
        [gang("elastic", 2, 8), job("single").gpus(1), job("pair").gpus(2), job("much").gpus(5)]
    {
        cluster.submit(ask);
    }
    cluster.exit("wall", 0);
    ["single", "pair"].iter().for_each(|name| cluster.expect(name, JobState::Running));
    cluster.expect("much", JobState::Pending);
    assert_eq!(size(&cluster, "elastic"), 5);
}

#[test]
fn it_grows_into_freed_capacity_after_a_minimum_run_time() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("other").gpus(4));
    cluster.submit(gang("elastic", 2, 8));
    assert_eq!(size(&cluster, "elastic"), 4);
    cluster.advance("5m");
    cluster.exit("other", 0);
    assert_eq!(evicted_jobs(&cluster), [], "a restart costs: not after so short a time");
    let ripe = cluster.engine.next_wake().unwrap();
    assert_eq!(ripe, cluster.now + span("5m"));
    cluster.now = ripe;
    cluster.step(Vec::new());
    assert_eq!(evicted_jobs(&cluster), [("elastic".to_owned(), EvictionCause::Grown)]);
    end_evictions(&mut cluster);
    cluster.expect("elastic", JobState::Running);
    assert_eq!(size(&cluster, "elastic"), 8);
    // It has its maximum size: nothing more happens.
    cluster.advance("1h");
    assert_eq!(evicted_jobs(&cluster).len(), 1);
}

#[test]
fn it_does_not_grow_without_checkpoints_or_if_disabled() {
    for edit in [(|spec| spec.checkpoint = None) as fn(&mut muster_model::JobSpec), |spec| {
        spec.grow_after = None
    }] {
        let mut cluster = TestCluster::new(&[node("n1", 8)]);
        cluster.submit(job("other").gpus(4));
        cluster.submit(gang("elastic", 2, 8).with(edit));
        cluster.advance("20m");
        cluster.exit("other", 0);
        cluster.advance("20m");
        assert_eq!((evicted_jobs(&cluster), size(&cluster, "elastic")), (Vec::new(), 4));
    }
}

#[test]
fn it_shrinks_as_far_as_needed_and_keeps_its_first_places() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(gang("elastic", 2, 8));
    let before = cluster.places("elastic");
    cluster.submit(job("late").gpus(3));
    assert_eq!(evicted_jobs(&cluster), [("elastic".to_owned(), EvictionCause::Shrunk)]);
    end_evictions(&mut cluster);
    ["elastic", "late"].iter().for_each(|name| cluster.expect(name, JobState::Running));
    assert_eq!(cluster.places("elastic"), before[..5]);
    // What it keeps is protected: the next job waits.
    cluster.submit(job("more").gpus(4));
    cluster.expect("more", JobState::Pending);
    assert_eq!(evicted_jobs(&cluster).len(), 1, "no unnecessary eviction");
}

#[test]
fn it_shrinks_before_jobs_are_evicted_and_is_evicted_if_that_is_not_enough() {
    let queue = |name: &str| {
        let mut queue = QueueSpec::named(name);
        queue.quota.insert("h100".into(), 4);
        queue
    };
    let mut tree = QueueTree::single();
    tree.queues = vec![queue("owner"), queue("guest")];
    tree.default_queue = "owner".into();
    let mut cluster = TestCluster::with_queues(&[node("n1", 8)], tree);
    cluster.submit(job("rigid").gpus(2).queue("guest"));
    cluster.submit(gang("elastic", 3, 6).queue("guest"));
    assert_eq!(size(&cluster, "elastic"), 6);
    cluster.submit(job("mine").gpus(3).queue("owner"));
    end_evictions(&mut cluster);
    ["rigid", "elastic", "mine"].iter().for_each(|name| cluster.expect(name, JobState::Running));
    assert_eq!(size(&cluster, "elastic"), 3);
    // The guest still borrows one GPU, which is reclaimed by evicting a whole job: the one that
    // started last loses least.
    cluster.submit(job("also").gpus(1).queue("owner"));
    end_evictions(&mut cluster);
    let last = evicted_jobs(&cluster).pop().unwrap();
    assert_eq!(last.1, EvictionCause::Reclaimed);
    cluster.expect("also", JobState::Running);
}

#[test]
fn opportunistic_jobs_shrink_no_gang_and_no_job_does_when_preemption_is_off() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(gang("elastic", 2, 8));
    cluster.submit(job("idle").gpus(1).with(|spec| spec.tier = muster_model::Tier::Opportunistic));
    cluster.expect("idle", JobState::Pending);
    let mut tree = QueueTree::single();
    tree.preemption = Preemption::OFF;
    let mut cluster = TestCluster::with_queues(&[node("n1", 8)], tree);
    cluster.submit(gang("elastic", 2, 8));
    cluster.submit(job("late").gpus(1));
    cluster.expect("late", JobState::Pending);
}

#[test]
fn it_grows_and_shrinks_by_whole_nodes_with_tasks_per_node() {
    let mut cluster = TestCluster::new(&[node("n1", 2), node("n2", 2), node("n3", 2)]);
    cluster.submit(job("one").gpus(1));
    cluster.submit(gang("elastic", 2, 6).per_node(2));
    assert_eq!(size(&cluster, "elastic"), 4);
    cluster.submit(job("two").gpus(2));
    end_evictions(&mut cluster);
    assert_eq!(size(&cluster, "elastic"), 2);
    cluster.expect("two", JobState::Running);
}

#[test]
fn a_gang_that_ends_by_itself_before_it_could_grow_has_ended() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("other").gpus(4));
    cluster.submit(gang("elastic", 2, 8));
    cluster.advance("10m");
    cluster.exit("other", 0);
    assert_eq!(evicted_jobs(&cluster).len(), 1);
    for rank in 0..4 {
        let exit = muster_model::TaskExit::Code { code: 0 };
        cluster.task(cluster.attempt("elastic", 0), rank, muster_model::Observation::Exited(exit));
    }
    cluster.submit(job("next").gpus(8));
    cluster.expect("next", JobState::Running);
}

#[test]
fn a_gang_that_shrinks_and_loses_its_node_waits_with_its_fewest() {
    let mut cluster = TestCluster::new(&[node("n1", 4), node("n2", 4)]);
    cluster.submit(gang("elastic", 2, 8).restarts(3, "0s"));
    cluster.submit(job("late").gpus(4));
    let lost = Event::NodeLost { node: "n1".into(), reason: "gone".into() };
    cluster.step(vec![lost]);
    end_evictions(&mut cluster);
    let running = ["elastic", "late"]
        .into_iter()
        .filter(|name| cluster.state_of(name, 0) == JobState::Running);
    assert_eq!(running.collect::<Vec<_>>(), ["late"], "four GPUs are left, and they were promised");
    assert_eq!(cluster.engine.sanity_check(), []);
}

#[test]
fn the_checker_refuses_invalid_resizes() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(gang("elastic", 2, 8));
    let id = cluster.next_id();
    cluster.skip_ids(1);
    let spec = std::sync::Arc::new(job("late").gpus(3).spec);
    cluster.engine.apply(cluster.now, &Event::Submitted { job: id, spec });
    let plan = cluster.engine.plan(cluster.now);
    let [Decision::Nominate { .. }, Decision::Nominate { placement, evict, .. }] =
        &plan.decisions[..]
    else {
        panic!("{plan:?}");
    };
    assert!(evict.is_empty() && placement.len() == 5);
    assert_eq!(cluster.engine.check(cluster.now, &plan), Ok(()));
    let violations = |edit: &dyn Fn(&mut Vec<Decision>)| {
        let mut plan = plan.clone();
        edit(&mut plan.decisions);
        cluster.engine.check(cluster.now, &plan).expect_err("it is wrong")
    };
    // It restarts with nothing.
    let nothing = violations(&|decisions| drop(decisions.pop()));
    assert!(nothing.iter().any(|one| matches!(one, Violation::NotEvictable(..))), "{nothing:?}");
    // It restarts with less than its minimum.
    let less = violations(&|decisions| {
        if let Decision::Nominate { placement, .. } = &mut decisions[1] {
            *placement = placement[..1].into();
        }
    });
    assert!(less.iter().any(|one| matches!(one, Violation::PartialGang { .. })), "{less:?}");
    // It shrinks although the candidate needs no more capacity.
    let in_vain = violations(&|decisions| {
        if let Decision::Nominate { placement, .. } = &mut decisions[0] {
            *placement = placement[..0].into();
        }
    });
    assert!(!in_vain.is_empty());
    // It grows before it has run long enough.
    let grows = violations(&|decisions| {
        drop(decisions.remove(0));
        if let Decision::Nominate { evict, element, .. } = &mut decisions[0] {
            let attempt = muster_model::Attempt(1);
            let id = muster_model::AttemptId { element: *element, attempt };
            evict.push(muster_model::Eviction { id, cause: EvictionCause::Grown });
        }
    });
    assert!(grows.iter().any(|one| matches!(one, Violation::NotEvictable(..))), "{grows:?}");
}
