//! Explanations: typed reasons with numbers, latest start, holders, and suggested changes that
//! really start the job.

use std::sync::Arc;

use muster_engine::Engine;
use muster_model::queue::Backfill;
use muster_model::view::{Eta, JobChange, JobState};
use muster_model::{
    CommandTarget, ElementId, Event, Foreign, ForeignProcess, GpuMilli, GpuModel, JobId, JobSpec,
    QueueSpec, QueueTree, Reason, Span, Time, TopologyRule,
};
use proptest::prelude::*;

use crate::cluster::{JobBuilder, TestCluster, job, node, node_of, span, text};
use crate::random::{TestRng, random_job, random_tree};

fn two_gangs() -> TestCluster {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("left").tasks(5).gpus(1).limit("20s"));
    cluster.submit(job("right").tasks(5).gpus(1).limit("20s"));
    cluster.submit(job("sweep").gpus(1).limit("5s").array(0, 23, Some(2)));
    cluster
}

#[test]
fn explain_shows_missing_capacity_its_holders_and_helpful_changes() {
    let mut cluster = two_gangs();
    let id = cluster.element("right", 0);
    let found = cluster.engine.explain(cluster.now, id).unwrap();
    assert_eq!(found.state, JobState::Pending);
    let [Reason::Capacity(gap)] = &found.reasons[..] else { panic!("{:?}", found.reasons) };
    assert_eq!((gap.tasks_needed, gap.tasks_placeable), (5, 1));
    assert_eq!((gap.gpus_free, gap.gpus_total), (GpuMilli(1000), GpuMilli(8000)));
    assert_eq!(
        found.eta,
        Some(Eta { start: cluster.now + span("20s"), reserved: true, predicted: false })
    );
    let holders: Vec<_> =
        found.holders.iter().map(|one| (one.name.as_str(), one.gpus.0 / 1000)).collect();
    assert_eq!(holders, [("sweep", 1), ("sweep", 1), ("left", 5)]);
    assert_eq!(found.sooner, [JobChange::Tasks { tasks: 1 }]);
    assert_eq!(found.position.unwrap().0, 1);
}

#[test]
fn explain_names_gpus_that_processes_outside_muster_use() {
    let mut cluster = TestCluster::new(&[node("n1", 4), node_of("n2", 2, "a100", 64)]);
    let user = |device, program: &str| ForeignProcess {
        device,
        pid: 812,
        program: program.into(),
        user: "anna".into(),
    };
    let processes = vec![user(1, "python3"), user(3, "jupyter")];
    let devices = [1, 3].into_iter().collect();
    let foreign = Foreign { devices, processes: processes.clone(), ..Foreign::default() };
    cluster.step(vec![Event::ForeignUse { node: "n1".into(), foreign: foreign.clone() }]);
    cluster.step(vec![Event::ForeignUse { node: "n2".into(), foreign }]);
    cluster.submit(job("waits").gpus(4).models(&["h100"]));
    let found = cluster.engine.explain(cluster.now, cluster.element("waits", 0)).unwrap();
    // The other model would not help it.
    let [used] = &found.used_outside[..] else { panic!("{:?}", found.used_outside) };
    assert_eq!((used.node.as_str(), &used.devices[..]), ("n1", &[1, 3][..]));
    assert_eq!(used.processes, processes);
    let node = &cluster.engine.nodes()[0];
    let of_device: Vec<usize> =
        node.devices.iter().map(|device| device.foreign_processes.len()).collect();
    assert_eq!(of_device, [0, 1, 0, 1]);
    cluster.step(vec![Event::ForeignUse { node: "n1".into(), foreign: Foreign::default() }]);
    cluster.expect("waits", JobState::Running);
}

#[test]
fn explain_shows_the_time_limit_that_fits_before_a_reservation() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("left").tasks(5).gpus(1).limit("20s"));
    cluster.submit(job("right").tasks(8).gpus(1).limit("20s"));
    cluster.submit(job("long").gpus(1).limit("60s").grace("2s"));
    let found = cluster.engine.explain(cluster.now, cluster.element("long", 0)).unwrap();
    let right = cluster.element("right", 0);
    let start = cluster.now + span("20s");
    let fits_if_shorter_than = Some(span("18s"));
    let reserved =
        Reason::Reserved { element: right, start, predicted: false, fits_if_shorter_than };
    assert_eq!(found.reasons, [reserved]);
    assert_eq!(found.sooner, [JobChange::TimeLimit { limit: span("18s") }]);
    assert_eq!(
        found.eta,
        Some(Eta { start: start + span("20s"), reserved: false, predicted: false })
    );
}

#[test]
fn other_models_and_fewer_gpus_are_offered() {
    let mut cluster = TestCluster::new(&[node("h", 4), node_of("a", 8, "a100", 64)]);
    cluster.submit(job("holds").gpus(2).models(&["h100"]));
    cluster.submit(job("wants").gpus(4).models(&["h100"]));
    let found = cluster.engine.explain(cluster.now, cluster.element("wants", 0)).unwrap();
    let model = GpuModel::from("a100");
    assert_eq!(
        found.sooner,
        [JobChange::GpusPerTask { gpus: 2, per_node: Some(2) }, JobChange::Model { model }]
    );
    assert_eq!(found.eta, None, "what it waits for never ends");
}

#[test]
fn explain_shows_an_exhausted_quota_and_suggests_another_queue() {
    let mut tree = QueueTree::single();
    let mut small = QueueSpec::named("small");
    small.quota.insert("h100".into(), 2);
    tree.queues.push(small);
    let mut cluster = TestCluster::with_queues(&[node("h", 8)], tree);
    cluster.submit(job("first").gpus(2).queue("small"));
    cluster.submit(job("second").gpus(1).queue("small"));
    let before = text(&cluster.engine.snapshot());
    let found = cluster.engine.explain(cluster.now, cluster.element("second", 0)).unwrap();
    assert!(matches!(
        &found.reasons[..],
        [Reason::Quota { used: GpuMilli(2000), nominal: GpuMilli(2000), .. }]
    ));
    assert_eq!(found.sooner, [JobChange::Queue { queue: "default".into() }]);
    assert_eq!(found.eta, None);
    assert_eq!(text(&cluster.engine.snapshot()), before, "explaining changes nothing");
}

#[test]
fn every_own_reason_is_listed_in_order() {
    let mut cluster = TestCluster::new(&[node("n1", 1)]);
    let first = cluster.submit(job("first").gpus(1));
    let begin = cluster.now + span("1h");
    let kind = muster_model::DependencyKind::AfterOk;
    cluster.submit(job("much").gpus(1).held().begin(begin).after(kind, first));
    let found = cluster.engine.explain(cluster.now, cluster.element("much", 0)).unwrap();
    let [held, time, dependency, capacity] = &found.reasons[..] else {
        panic!("{:?}", found.reasons)
    };
    assert_eq!(*held, Reason::Held);
    assert_eq!(*time, Reason::NotBefore { until: begin, restarts: 0 });
    assert_eq!(*dependency, Reason::Dependency { on: first, kind });
    assert!(matches!(capacity, Reason::Capacity(_)));
    cluster.submit(job("again").gpus(1).restarts(3, "10s"));
    cluster.exit("first", 0);
    cluster.exit("again", 1);
    let found = cluster.engine.explain(cluster.now, cluster.element("again", 0)).unwrap();
    let until = cluster.now + span("10s");
    assert_eq!(found.reasons, [Reason::NotBefore { until, restarts: 1 }]);
}

#[test]
fn strict_order_names_the_blocking_job() {
    let mut tree = QueueTree::single();
    tree.backfill = Backfill::None;
    let mut cluster = TestCluster::with_queues(&[node("n1", 4)], tree);
    cluster.submit(job("holds").gpus(2).limit("10s"));
    cluster.submit(job("blocked").gpus(4).limit("10s"));
    cluster.submit(job("behind").gpus(1).limit("1s"));
    let found = cluster.engine.explain(cluster.now, cluster.element("behind", 0)).unwrap();
    assert_eq!(found.reasons, [Reason::Behind { element: cluster.element("blocked", 0) }]);
    let view = cluster.engine.job(cluster.now, cluster.id("behind")).unwrap();
    assert_eq!(view.waiting_for, Some(Reason::Behind { element: cluster.element("blocked", 0) }));
}

#[test]
fn running_jobs_have_no_reasons() {
    let mut cluster = two_gangs();
    let found = cluster.engine.explain(cluster.now, cluster.element("left", 0)).unwrap();
    assert_eq!((found.state, found.reasons.len(), found.sooner.len()), (JobState::Running, 0, 0));
    assert!(cluster.engine.explain(cluster.now, ElementId::single(JobId(99))).is_none());
}

#[test]
fn a_dry_run_explains_a_job_and_changes_nothing() {
    let mut cluster = two_gangs();
    let before = text(&cluster.engine.snapshot());
    let mut dry = |ask: JobBuilder| cluster.engine.explain_submission(cluster.now, &ask.spec);
    let starts = dry(job("small").gpus(1).limit("1s").user("stranger"));
    assert_eq!((starts.reasons.len(), starts.eta.map(|eta| eta.start)), (0, Some(Time(1_000_000))));
    let waits = dry(job("large").gpus(8).limit("1s"));
    assert!(matches!(&waits.reasons[..], [Reason::Capacity(_)]));
    assert_eq!(
        waits.eta,
        Some(Eta { start: Time(1_000_000) + span("40s"), reserved: false, predicted: false })
    );
    // A user without usage goes first.
    let fair = dry(job("large").gpus(8).limit("1s").user("stranger"));
    assert_eq!(
        fair.eta,
        Some(Eta { start: Time(1_000_000) + span("20s"), reserved: true, predicted: false })
    );
    let never = dry(job("huge").gpus(9));
    assert!(matches!(&never.reasons[..], [Reason::NeverFits(_)]));
    assert_eq!(text(&cluster.engine.snapshot()), before);
}

/// Returns a spec with a change applied.
fn changed(spec: &JobSpec, change: &JobChange) -> JobSpec {
    let mut spec = spec.clone();
    match change {
        JobChange::Tasks { tasks } => {
            spec.groups[0].min_tasks = *tasks;
            spec.groups[0].max_tasks = *tasks;
        }
        JobChange::Nodes { nodes } => {
            let tasks = nodes * spec.groups[0].tasks_per_node.unwrap();
            (spec.groups[0].min_tasks, spec.groups[0].max_tasks) = (tasks, tasks);
        }
        JobChange::Share { share, .. } => {
            assert!(share.0 > 0 && *share < spec.groups[0].task.gpu.share);
            spec.groups[0].task.gpu.share = *share;
        }
        JobChange::AnyNode => spec.constraint.labels = std::collections::BTreeMap::new(),
        JobChange::GpusPerTask { gpus, .. } => spec.groups[0].task.gpu.devices = *gpus,
        JobChange::TimeLimit { limit } => spec.time_limit = Some(*limit),
        JobChange::Model { model } => {
            for group in spec.groups.iter_mut().filter(|group| !group.task.gpu.is_none()) {
                group.task.gpu.models = vec![model.clone()];
            }
        }
        JobChange::Queue { queue } => spec.queue = queue.clone(),
        JobChange::PreferTopology { level } => {
            let topology = spec.constraint.topology.as_mut().unwrap();
            topology.rule = TopologyRule::Preferred(level.as_str().into());
        }
    }
    spec
}

/// True when a job starts at once after it is cancelled and submitted again with a change.
fn starts_anew(engine: &Engine, now: Time, job: JobId, spec: &JobSpec, change: &JobChange) -> bool {
    let mut engine = engine.clone();
    let anew = JobId(1000);
    let target = CommandTarget { job, index: None };
    engine.apply(now, &Event::Cancel { target, by: spec.user.clone() });
    let submitted = Event::Submitted { job: anew, spec: Arc::new(changed(spec, change)) };
    assert!(engine.validate(&submitted).is_ok(), "{change:?} of {spec:?} is refused");
    engine.apply(now, &submitted);
    let plan = engine.plan(now);
    assert_eq!(engine.check(now, &plan), Ok(()));
    plan.starts().any(|(started, ..)| started.element.job == anew)
}

/// Runs the same random submissions twice: the second time with the suggested change in the
/// explained job, which must then start. It must also start when it is submitted again with the
/// change, behind all other jobs.
fn check_suggested_changes(seed: u64) -> usize {
    let mut rng = TestRng::new(seed);
    let tree = random_tree(&mut rng);
    if Engine::new(tree.clone()).is_err() {
        return 0;
    }
    let now = Time(1_000_000);
    let nodes: Vec<_> = (0..=rng.below(3))
        .map(|at| {
            let model: &&str = rng.pick(&["h100", "a100"]);
            node_of(&format!("n{at}"), *rng.pick(&[2, 4, 8]), model, 32)
        })
        .collect();
    let mut events: Vec<Event> =
        nodes.iter().map(|node| Event::NodeJoined(Box::new(node.clone()))).collect();
    let replay = |events: &[Event]| {
        let mut engine = Engine::new(tree.clone()).unwrap();
        events.iter().for_each(|event| engine.apply(now, event));
        let plan = engine.plan(now);
        (engine, plan)
    };
    for number in 1..=12 {
        let mut spec = random_job(&mut rng, &tree, now, JobId(1));
        (spec.array, spec.held, spec.begin) = (None, false, None);
        let event = Event::Submitted { job: JobId(number), spec: Arc::new(spec) };
        if replay(&events).0.validate(&event).is_ok() {
            events.push(event);
        }
    }
    let (mut engine, plan) = replay(&events);
    engine.commit(now, &plan);
    let mut suggested = 0;
    for at in 0..events.len() {
        let Event::Submitted { job, spec } = events[at].clone() else { continue };
        let id = ElementId::single(job);
        let found = engine.explain(now, id).unwrap();
        assert_eq!(found.reasons.is_empty(), found.state != JobState::Pending, "{found:?}");
        // Held from the start and released after the others have started, the job is in the same
        // position as when it was explained.
        for change in &found.sooner {
            assert!(
                starts_anew(&engine, now, job, &spec, change),
                "{change:?} of {spec:?} waits as well"
            );
            suggested += 1;
            if matches!(change, JobChange::Queue { .. }) {
                // In another queue it has no position yet.
                continue;
            }
            let mut held = changed(&spec, change);
            held.held = true;
            let mut other = events.clone();
            other[at] = Event::Submitted { job, spec: Arc::new(held) };
            let mut engine = Engine::new(tree.clone()).unwrap();
            other.iter().for_each(|event| engine.apply(now, event));
            // The explained job is on hold here, so it cannot be a queue head and nothing is
            // reserved for it.
            let mut of_others = plan.clone();
            of_others.heads.retain(|head| *head != id);
            of_others.head_reservations.retain(|reserved| reserved.element != id);
            engine.commit(now, &of_others);
            engine.apply(now, &Event::Release(CommandTarget { job, index: None }));
            let plan = engine.plan(now);
            let starts = plan.starts().any(|(started, ..)| started.element == id);
            assert!(starts, "{change:?} was promised to start {spec:?}");
        }
        if let Some(eta) = found.eta {
            assert!(eta.start >= now && eta.start < Time::NEVER);
        }
    }
    suggested
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn suggested_changes_start_the_job(seed in any::<u64>()) {
        check_suggested_changes(seed);
    }
}

#[test]
fn changes_are_suggested_often_enough_to_test_them() {
    let suggested: usize = (0..100).map(check_suggested_changes).sum();
    assert!(suggested > 40, "{suggested}");
}

#[test]
fn an_eta_holds_when_all_jobs_use_their_whole_time_limit() {
    let mut cluster = TestCluster::new(&[node("n1", 4), node("n2", 4)]);
    for (name, gpus, limit) in [("a", 4, "10s"), ("b", 2, "30s"), ("c", 2, "50s")] {
        cluster.submit(job(name).gpus(gpus).limit(limit));
    }
    cluster.submit(job("big").tasks(2).gpus(4).limit("10s"));
    let eta = cluster.engine.explain(cluster.now, cluster.element("big", 0)).unwrap().eta.unwrap();
    assert_eq!(eta, Eta { start: cluster.now + span("50s"), reserved: true, predicted: false });
    for (name, wait) in [("a", 10_000), ("b", 20_000), ("c", 20_000)] {
        cluster.now = cluster.now + Span(wait);
        cluster.exit(name, 0);
    }
    assert_eq!(cluster.now, eta.start);
    cluster.expect("big", JobState::Running);
}
