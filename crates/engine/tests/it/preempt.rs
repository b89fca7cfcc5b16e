//! Preemption: eligibility, choice of victims, evictions, and no unnecessary evictions.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_engine::{AccountingFact, Violation};
use muster_model::view::JobState;
use muster_model::{
    AttemptId, Checkpoint, CheckpointBy, Decision, Effect, ElementId, Event, Eviction,
    EvictionCause, JobId, Observation, Preemption, Protection, QueueSpec, QueueTree, Span,
    StopCause, TaskExit,
};

use crate::cluster::{TestCluster, job, node, span, task_event};
use crate::random::TestRng;

/// Returns a queue tree with an h100 quota for each queue, and lending and borrowing without
/// limits.
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

/// Returns eight GPUs of two queues; `guest` has borrowed all GPUs of `owner`.
fn borrowed_gpus() -> TestCluster {
    let mut cluster =
        TestCluster::with_queues(&[node("n1", 8)], queues(&[("owner", 4), ("guest", 4)]));
    for name in ["g1", "g2", "g3", "g4"] {
        cluster.submit(job(name).gpus(2).queue("guest"));
        cluster.now = cluster.now + span("1m");
    }
    cluster
}

#[test]
fn a_lender_reclaims_what_it_needs_from_the_youngest_job() {
    let mut cluster = borrowed_gpus();
    cluster.submit(job("mine").gpus(2).queue("owner"));
    // `g4` ran for the shortest time, so it loses least.
    cluster.expect("g4", JobState::Pending);
    cluster.expect("mine", JobState::Running);
    ["g1", "g2", "g3"].iter().for_each(|name| cluster.expect(name, JobState::Running));
}

#[test]
fn reclaim_stays_within_the_own_quota() {
    let mut cluster = borrowed_gpus();
    cluster.submit(job("much").gpus(6).queue("owner"));
    cluster.expect("much", JobState::Pending);
    cluster.submit(job("own").gpus(4).queue("owner"));
    cluster.expect("own", JobState::Running);
    cluster.submit(job("more").gpus(1).queue("owner"));
    cluster.expect("more", JobState::Pending);
    assert_eq!(evicted(&cluster).len(), 2);
}

#[test]
fn reclaim_does_not_evict_jobs_that_free_no_whole_node() {
    let nodes = [node("n1", 2), node("n2", 2), node("n3", 2)];
    let mut cluster = TestCluster::with_queues(&nodes, queues(&[("owner", 4), ("guest", 2)]));
    let always =
        |name: &str| job(name).queue("owner").with(|spec| spec.protect = Protection::Always);
    // On two nodes one GPU belongs to `owner` for good and one to a guest; a third node belongs to
    // a guest.
    for (own, guest) in [("o1", "g1"), ("o2", "g2")] {
        cluster.submit(always(own).gpus(1));
        cluster.submit(job(guest).queue("guest").gpus(1));
    }
    cluster.submit(job("whole").queue("guest").gpus(2));
    cluster.now = cluster.now + span("1h");
    // The guest has borrowed two GPUs. The small jobs are first in order, but do not free a whole
    // node.
    cluster.submit(job("mine").queue("owner").gpus(2));
    ["mine", "o1", "o2", "g1", "g2"]
        .iter()
        .for_each(|name| cluster.expect(name, JobState::Running));
    cluster.expect("whole", JobState::Pending);
    assert_eq!(evicted(&cluster).len(), 1);
}

#[test]
fn jobs_within_their_quota_are_not_reclaimed() {
    let mut cluster =
        TestCluster::with_queues(&[node("n1", 8)], queues(&[("owner", 4), ("guest", 4)]));
    cluster.submit(job("g1").gpus(4).queue("guest"));
    cluster.submit(job("o1").gpus(3).queue("owner"));
    // `o2` would be within its quota, but too few devices are free: the node has lost one.
    cluster.submit(job("o2").gpus(2).queue("owner"));
    cluster.expect("g1", JobState::Running);
    cluster.expect("o2", JobState::Pending);
    assert!(evicted(&cluster).is_empty());
}

#[test]
fn within_a_queue_higher_priority_preempts_lower_and_equal_waits() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    for (name, priority) in [("low", -5), ("mid", 0), ("high", 5)] {
        cluster.submit(job(name).gpus(2).priority(priority));
    }
    cluster.submit(job("equal").gpus(4).priority(-5));
    cluster.expect("equal", JobState::Pending);
    cluster.submit(job("urgent").gpus(4).priority(4));
    ["low"].iter().for_each(|name| cluster.expect(name, JobState::Pending));
    ["mid", "high", "urgent"].iter().for_each(|name| cluster.expect(name, JobState::Running));
    assert_eq!(evicted(&cluster).len(), 1, "two devices were free");
}

/// A job that preempts no other waits in its place; the jobs of its class that do preempt are as
/// ever.
#[test]
fn a_job_that_preempts_no_other_waits_in_its_place() {
    let never = |name: &'static str| job(name).gpus(4).with(|spec| spec.preempts = false);
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.submit(job("low").gpus(4));
    cluster.submit(never("never").priority(5));
    cluster.expect("never", JobState::Pending);
    cluster.submit(job("middle").gpus(4).priority(-1));
    cluster.exit("low", 0);
    cluster.expect("never", JobState::Running);
    cluster.expect("middle", JobState::Pending);
    assert!(evicted(&cluster).is_empty());

    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.submit(job("low").gpus(4));
    cluster.submit(never("never").priority(5));
    cluster.submit(job("urgent").gpus(4).priority(5));
    cluster.expect("never", JobState::Pending);
    cluster.expect("urgent", JobState::Running);

    // Nor does it reclaim what others borrow.
    let mut cluster = borrowed_gpus();
    cluster.submit(never("mine").queue("owner"));
    cluster.expect("mine", JobState::Pending);
    cluster.submit(job("also").gpus(4).queue("owner"));
    cluster.expect("also", JobState::Running);
    cluster.expect("mine", JobState::Pending);
}

#[test]
fn no_job_is_evicted_for_a_job_that_would_not_start() {
    let mut cluster = TestCluster::new(&[node("n1", 4), node("n2", 4)]);
    cluster.submit(job("high").gpus(2).priority(5));
    cluster.submit(job("low").gpus(2));
    cluster.submit(job("low2").gpus(4));
    // Four GPUs on one node are free only without `low`, which shares its node with `high`; two
    // GPUs are not enough there.
    cluster.submit(job("first").gpus(4).priority(3));
    cluster.expect("low2", JobState::Pending);
    ["high", "low", "first"].iter().for_each(|name| cluster.expect(name, JobState::Running));
    cluster.submit(job("second").gpus(4).priority(3));
    cluster.expect("second", JobState::Pending);
    cluster.expect("low", JobState::Running);
}

#[test]
fn whole_gangs_are_evicted_and_as_few_as_possible() {
    let mut cluster = TestCluster::new(&[node("n1", 4), node("n2", 4)]);
    cluster.submit(job("gang").tasks(2).per_node(1).gpus(3));
    cluster.submit(job("single").gpus(1));
    cluster.submit(job("other").gpus(1));
    cluster.now = cluster.now + span("1h");
    // One GPU of the single is enough; three GPUs on a node need half the gang, so all of it.
    cluster.submit(job("one").gpus(1).priority(1));
    cluster.expect("gang", JobState::Running);
    assert_eq!(evicted(&cluster).len(), 1);
    cluster.submit(job("three").gpus(3).priority(1));
    cluster.expect("gang", JobState::Pending);
    cluster.expect("three", JobState::Running);
}

#[test]
fn protection_holds_for_its_time_and_then_no_longer() {
    let mut tree = queues(&[("owner", 4), ("guest", 4)]);
    tree.queues[1].protect = Some(Protection::For(span("10m")));
    let mut cluster = TestCluster::with_queues(&[node("n1", 8)], tree);
    cluster.submit(job("g1").gpus(8).queue("guest"));
    cluster.submit(job("o1").gpus(4).queue("owner"));
    cluster.expect("o1", JobState::Pending);
    let safe_until = cluster.now + span("10m");
    assert_eq!(cluster.engine.next_wake(), Some(safe_until));
    cluster.now = safe_until;
    cluster.step(Vec::new());
    cluster.expect("o1", JobState::Running);
    cluster.expect("g1", JobState::Pending);
}

/// After a restart of a scheduler, all attempts start at one instant.
#[test]
fn an_attempt_that_was_found_running_counts_from_its_own_start() {
    let protected =
        |name: &str| job(name).gpus(2).with(|spec| spec.protect = Protection::For(span("1h")));
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.now = cluster.now + span("3h");
    for name in ["old", "young"] {
        cluster.submit(protected(name));
        cluster.expect(name, JobState::Running);
    }
    let found = [("young", "70m"), ("old", "2h")];
    for (name, ago) in found {
        let id = cluster.attempt(name, 0);
        let since = cluster.now - span(ago);
        cluster.step(vec![Event::RunningSince { id, since }]);
    }
    // Neither is protected any more, and `young` loses less, though it started after `old`.
    cluster.submit(job("urgent").gpus(2).priority(1));
    cluster.expect("urgent", JobState::Running);
    cluster.expect("old", JobState::Running);
    cluster.expect("young", JobState::Pending);
}

#[test]
fn protected_jobs_do_not_borrow() {
    let mut cluster =
        TestCluster::with_queues(&[node("n1", 8)], queues(&[("owner", 4), ("guest", 4)]));
    let always = |name: &str, gpus| {
        job(name).queue("guest").gpus(gpus).with(|spec| spec.protect = Protection::Always)
    };
    cluster.submit(always("fits", 3));
    cluster.submit(always("borrows", 2));
    cluster.submit(job("plain").queue("guest").gpus(2));
    cluster.expect("fits", JobState::Running);
    cluster.expect("borrows", JobState::Pending);
    cluster.expect("plain", JobState::Running);
    cluster.submit(job("mine").queue("owner").gpus(4));
    ["mine", "fits"].iter().for_each(|name| cluster.expect(name, JobState::Running));
    cluster.expect("plain", JobState::Pending);
    // Nor can they be preempted by priority.
    cluster.submit(job("urgent").queue("guest").gpus(4).priority(9));
    cluster.expect("urgent", JobState::Pending);
}

#[test]
fn no_preemption_when_it_is_off() {
    let mut tree = queues(&[("owner", 4), ("guest", 4)]);
    tree.preemption = Preemption::OFF;
    let mut cluster = TestCluster::with_queues(&[node("n1", 8)], tree);
    cluster.submit(job("g1").gpus(8).queue("guest"));
    cluster.submit(job("o1").gpus(4).queue("owner"));
    cluster.submit(job("g2").gpus(4).queue("guest").priority(9));
    cluster.expect("g1", JobState::Running);
    assert!(evicted(&cluster).is_empty());
}

/// Returns a cluster in which tasks take time to end: `low` runs, and `urgent` preempts it.
pub fn evicting(checkpoint: Option<Checkpoint>) -> (TestCluster, AttemptId) {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.submit(job("low").gpus(4).with(|spec| spec.checkpoint = checkpoint));
    let id = cluster.attempt("low", 0);
    cluster.auto_respond = false;
    cluster.submit(job("urgent").gpus(4).priority(1));
    (cluster, id)
}

#[test]
fn places_are_reserved_until_evictions_have_ended() {
    let (mut cluster, low) = evicting(None);
    assert!(cluster.effects.contains(&Effect::Stop { id: low, cause: StopCause::Preempted }));
    cluster.expect("low", JobState::Stopping);
    cluster.expect("urgent", JobState::Pending);
    // No other job takes the places, and nothing else happens as time passes.
    cluster.submit(job("other").gpus(1).priority(0));
    cluster.now = cluster.now + span("20s");
    cluster.step(Vec::new());
    cluster.expect("other", JobState::Pending);
    cluster.auto_respond = true;
    cluster.step(vec![task_event(low, 0, Observation::Exited(TaskExit::Stopped))]);
    cluster.expect("urgent", JobState::Running);
    cluster.expect("low", JobState::Pending);
}

#[test]
fn an_evicted_job_with_checkpoints_is_stopped_once_it_has_saved() {
    let terms = Checkpoint {
        signal: 10,
        lead: span("1m"),
        by: CheckpointBy::First,
        then: Default::default(),
        to: Default::default(),
    };
    let (mut cluster, low) = evicting(Some(terms));
    assert!(cluster.effects.contains(&Effect::Checkpoint { id: low, request: 1 }));
    assert!(!cluster.effects.iter().any(|effect| matches!(effect, Effect::Stop { .. })));
    cluster.now = cluster.now + span("5s");
    let saved = muster_model::TaskCheckpoint {
        count: 1,
        answers: 1,
        warned: false,
        at: cluster.now,
        label: "step 7".into(),
    };
    cluster.step(vec![task_event(low, 0, Observation::Checkpointed(saved))]);
    assert!(cluster.effects.contains(&Effect::Stop { id: low, cause: StopCause::Preempted }));
    assert_eq!(cluster.engine.last_checkpoint(low.element).as_deref(), Some("step 7"));
}

#[test]
fn an_eviction_without_acknowledgement_stops_at_its_deadline() {
    let terms = Checkpoint {
        signal: 10,
        lead: span("1m"),
        by: CheckpointBy::First,
        then: Default::default(),
        to: Default::default(),
    };
    let (mut cluster, low) = evicting(Some(terms));
    let due = cluster.now + span("1m");
    assert_eq!(cluster.engine.next_wake(), Some(due));
    assert_eq!(cluster.engine.due_events(due + Span(0)).len(), 1);
    cluster.now = due;
    let events = cluster.engine.due_events(due);
    assert_eq!(events, [Event::EvictionDue { id: low }]);
    cluster.step(events);
    assert!(cluster.effects.contains(&Effect::Stop { id: low, cause: StopCause::Preempted }));
    assert_eq!(cluster.engine.due_events(due), []);
}

#[test]
fn a_cancelled_preemptor_frees_its_pending_allocation() {
    let (mut cluster, low) = evicting(None);
    cluster.cancel("urgent");
    cluster.auto_respond = true;
    cluster.step(vec![task_event(low, 0, Observation::Exited(TaskExit::Stopped))]);
    cluster.expect("low", JobState::Running);
}

#[test]
fn a_pending_allocation_on_a_lost_node_is_revoked() {
    let (mut cluster, low) = evicting(None);
    cluster.step(vec![Event::NodeLost { node: "n1".into(), reason: "power".into() }]);
    cluster.expect("urgent", JobState::Pending);
    assert!(cluster.engine.reservations().is_empty());
    cluster.auto_respond = true;
    cluster.step(vec![Event::NodeJoined(Box::new(node("n1", 4)))]);
    cluster.expect("urgent", JobState::Running);
    cluster.expect("low", JobState::Pending);
    assert_eq!(low.attempt.0, 1);
}

#[test]
fn jobs_are_preempted_to_clear_a_domain_for_a_gang() {
    let mut cluster = TestCluster::tree(4, &["b1/l1: a b", "b1/l2: c d"]);
    for (name, gpus) in [("j1", 2), ("j2", 2), ("j3", 2), ("j4", 2)] {
        cluster.submit(job(name).gpus(gpus));
    }
    for name in ["x1", "x2", "x3", "x4"] {
        cluster.submit(job(name).gpus(2));
    }
    cluster.submit(job("gang").tasks(8).gpus(1).required("leaf").priority(1));
    cluster.expect("gang", JobState::Running);
    let nodes: BTreeSet<_> = cluster.places("gang").into_iter().map(|(node, _)| node).collect();
    assert_eq!(nodes.len(), 2);
    assert_eq!(evicted(&cluster).len(), 4, "both nodes of one leaf, and none of the other");
}

fn evicted(cluster: &TestCluster) -> Vec<AttemptId> {
    let evictions = cluster.facts.iter().filter_map(|fact| match fact {
        AccountingFact::Evicted { id, .. } => Some(*id),
        _ => None,
    });
    evictions.collect()
}

/// Returns the violations found in the only plan after an edit.
fn broken(cluster: &mut TestCluster, edit: impl FnOnce(&mut Vec<Eviction>)) -> Vec<Violation> {
    let mut plan = cluster.engine.plan(cluster.now);
    assert_eq!(cluster.engine.check(cluster.now, &plan), Ok(()));
    let [Decision::Nominate { evict, .. }] = &mut plan.decisions[..] else { panic!("{plan:?}") };
    edit(evict);
    cluster.engine.check(cluster.now, &plan).unwrap_err()
}

/// The guest's four jobs compete with one of the owner's that is submitted but not planned yet.
fn contested(gpus: u32) -> (TestCluster, [AttemptId; 4]) {
    let mut cluster = borrowed_gpus();
    let ids = ["g1", "g2", "g3", "g4"].map(|name| cluster.attempt(name, 0));
    let ask = job("mine").gpus(gpus).queue("owner");
    cluster
        .engine
        .apply(cluster.now, &Event::Submitted { job: JobId(99), spec: Arc::new(ask.spec) });
    (cluster, ids)
}

#[test]
fn plans_that_evict_the_wrong_jobs_are_refused() {
    let reclaim = |id| Eviction { id, cause: EvictionCause::Reclaimed };
    let assert_found = |found: Vec<Violation>, why: &str| {
        let is_it =
            |one: &Violation| matches!(one, Violation::NotEvictable(_, known) if *known == why);
        assert!(found.iter().any(is_it), "{why}: {found:?}");
    };
    // 1. A job that could stay.
    let (mut cluster, ids) = contested(2);
    assert_found(
        broken(&mut cluster, |evict| evict.push(reclaim(ids[0]))),
        "its eviction is not needed",
    );
    // 2. A wrong cause.
    let (mut cluster, _) = contested(2);
    let outranked = broken(&mut cluster, |evict| evict[0].cause = EvictionCause::Outranked);
    assert_found(outranked, "it is not of lower priority in the same queue");
    // 3. Twice, or an attempt that has ended.
    let (mut cluster, _) = contested(2);
    assert_found(broken(&mut cluster, |evict| evict.push(evict[0])), "it is not running");
    let (mut cluster, _) = contested(2);
    assert_found(broken(&mut cluster, |evict| evict[0].id.attempt.0 += 1), "it is not running");
    // 4. No eviction, although one is needed.
    let (mut cluster, _) = contested(2);
    let found = broken(&mut cluster, Vec::clear);
    assert!(found.iter().any(|one| matches!(one, Violation::Device { .. })), "{found:?}");
    // 5. For a job that preempts none: the plan of another, for it.
    let (mut cluster, _) = contested(2);
    let mut plan = cluster.engine.plan(cluster.now);
    let spec = job("never").gpus(2).queue("owner").with(|spec| spec.preempts = false).spec;
    let submitted = Event::Submitted { job: JobId(98), spec: Arc::new(spec) };
    cluster.engine.apply(cluster.now, &submitted);
    let [Decision::Nominate { element, .. }] = &mut plan.decisions[..] else { panic!("{plan:?}") };
    *element = ElementId::single(JobId(98));
    let found = cluster.engine.check(cluster.now, &plan).unwrap_err();
    assert_found(found, "the candidate preempts no job");
    // 6. More than can be reclaimed.
    let (mut cluster, ids) = contested(4);
    assert_found(
        broken(&mut cluster, |evict| evict.push(reclaim(ids[1]))),
        "its queue has nothing that the candidate's queue may reclaim",
    );
}

/// The victims are those found by enumerating all sets: the feasible one whose most precious member
/// is the least precious.
#[test]
fn victims_agree_with_an_enumeration_of_all_sets() {
    let mut rng = TestRng::new(7);
    let mut with_evictions = 0;
    for _ in 0..300 {
        with_evictions += u32::from(compare_with_every_set(&mut rng));
    }
    assert!(with_evictions > 60, "only {with_evictions} of 300 had evictions");
}

/// Compares a random set of jobs in one queue with one of higher priority; true if a job was
/// evicted.
fn compare_with_every_set(rng: &mut TestRng) -> bool {
    let sizes: Vec<usize> = (0..1 + rng.below(3)).map(|_| 1 + rng.below(4) as usize).collect();
    let nodes: Vec<_> =
        sizes.iter().enumerate().map(|(at, gpus)| node(&format!("n{at}"), *gpus)).collect();
    let mut cluster = TestCluster::new(&nodes);
    // 1. Running jobs in order of eviction, least precious first.
    let mut running = Vec::new();
    for at in 0..7 {
        let name = format!("j{at}");
        let ask = job(&name).tasks(1 + rng.below(2) as u32).gpus(1 + rng.below(2) as u32);
        if cluster.try_submit(ask.priority(rng.below(3) as i32)).is_err() {
            continue;
        }
        cluster.now = cluster.now + Span(1000);
        cluster.step(Vec::new());
        match cluster.state_of(&name, 0) {
            JobState::Running => running.push(name),
            _ => cluster.cancel(&name),
        }
    }
    // Some were evicted already.
    running.retain(|name| cluster.state_of(name, 0) == JobState::Running);
    cluster.facts.clear();
    let precious = |name: &String| {
        let spec = cluster.engine.job_spec(cluster.id(name)).unwrap();
        let lost = cluster.engine.unsaved_gpu_millis(cluster.now, cluster.element(name, 0));
        (spec.priority, lost, std::cmp::Reverse(cluster.id(name)))
    };
    running.sort_by_key(precious);
    let holds: Vec<Vec<(usize, usize)>> = running
        .iter()
        .map(|name| {
            let places = cluster.places(name).into_iter();
            let at = |node: &str| node[1..].parse::<usize>().unwrap();
            places.map(|(node, devices)| (at(node.as_str()), devices.len())).collect()
        })
        .collect();
    // 2. The preemptor, and every set of victims that would let it start.
    let tasks = 1 + rng.below(4) as u32;
    let gpus = 1 + rng.below(3) as u32;
    let starts = |evicted: u32| {
        let mut free = sizes.clone();
        for (_, held) in holds.iter().enumerate().filter(|(at, _)| evicted & (1 << at) == 0) {
            held.iter().for_each(|(node, gpus)| free[*node] -= gpus);
        }
        free.iter().map(|free| *free as u32 / gpus).sum::<u32>() >= tasks
    };
    let best = (0..1u32 << running.len()).find(|evicted| starts(*evicted));
    // 3. The engine's choice.
    let mut before: BTreeSet<String> = running.iter().cloned().collect();
    if cluster.try_submit(job("preemptor").tasks(tasks).gpus(gpus).priority(9)).is_err() {
        return false;
    }
    // An evicted job may have preempted others in turn.
    let preemptor = cluster.element("preemptor", 0);
    let for_preemptor = cluster.facts.iter().filter_map(|fact| match fact {
        AccountingFact::Evicted { id, by, .. } if *by == preemptor => {
            Some(name_of(&cluster, &before, *id))
        }
        _ => None,
    });
    let victims: BTreeSet<String> = for_preemptor.collect();
    let at = |name: &String| running.iter().position(|other| other == name).unwrap();
    let evicted = victims.iter().map(|name| 1u32 << at(name)).sum::<u32>();
    before.retain(|name| !victims.contains(name));
    assert_eq!(
        best,
        Some(evicted).filter(|evicted| starts(*evicted)),
        "{running:?} on {sizes:?}, for {tasks} of {gpus}"
    );
    evicted > 0
}

fn name_of(cluster: &TestCluster, names: &BTreeSet<String>, id: AttemptId) -> String {
    names.iter().find(|name| cluster.id(name) == id.element.job).unwrap().clone()
}
