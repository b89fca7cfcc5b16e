//! Drains of nodes and of single devices, now and from an instant on.

use muster_engine::{Engine, EventRefusal, Snapshot};
use muster_model::view::JobState;
use muster_model::{DeviceSet, Drain, Event, NodeSpec, Time};

use crate::cluster::{TestCluster, job, node, span};

fn drained(node: &str, devices: &[usize], from: Time) -> Event {
    let devices = (!devices.is_empty()).then(|| devices.iter().copied().collect());
    let drain = Some(Drain { from, by: Some("root".into()), reason: "fan".into(), stop: false });
    Event::DrainSet { node: node.into(), devices, drain }
}

fn stopped(node: &str, devices: &[usize], from: Time) -> Event {
    match drained(node, devices, from) {
        Event::DrainSet { node, devices, drain } => Event::DrainSet {
            node,
            devices,
            drain: drain.map(|drain| Drain { stop: true, ..drain }),
        },
        other => other,
    }
}

fn taken_back(node: &str, devices: &[usize]) -> Event {
    let devices = (!devices.is_empty()).then(|| devices.iter().copied().collect());
    Event::DrainSet { node: node.into(), devices, drain: None }
}

/// Returns the indices of devices that take no work.
fn out(cluster: &TestCluster) -> Vec<u16> {
    let nodes = cluster.engine.nodes();
    nodes[0].devices.iter().filter(|device| device.drained).map(|device| device.index).collect()
}

fn named(name: &str, uuids: &[&str]) -> NodeSpec {
    let mut spec = node(name, uuids.len());
    for (device, uuid) in spec.devices.iter_mut().zip(uuids) {
        device.uuid = (*uuid).into();
    }
    spec
}

#[test]
fn a_drained_device_gets_no_new_task_and_keeps_its_present_one() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("runs").gpus(1));
    cluster.step(vec![drained("n1", &[0, 1], Time(0))]);
    cluster.submit(job("waits").gpus(1));
    cluster.expect("runs", JobState::Running);
    cluster.expect("waits", JobState::Pending);
    cluster.exit("runs", 0);
    cluster.expect("waits", JobState::Pending);
    cluster.step(vec![taken_back("n1", &[1])]);
    cluster.expect("waits", JobState::Running);
    assert_eq!(out(&cluster), [0]);
}

#[test]
fn drains_of_unknown_devices_are_refused() {
    let cluster = TestCluster::new(&[node("n1", 2)]);
    let check = |event| cluster.engine.validate(&event);
    let beyond = EventRefusal::UnknownDevice { node: "n1".into(), device: 2, known: 2 };
    assert_eq!(check(drained("n1", &[1, 2, 5], Time(0))), Err(beyond));
    assert_eq!(check(drained("n9", &[], Time(0))), Err(EventRefusal::UnknownNode("n9".into())));
    assert_eq!(check(taken_back("n1", &[1])), Ok(()), "taking back what is there changes nothing");
}

#[test]
fn jobs_that_end_before_a_drain_begins_start() {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    let at = cluster.now + span("2h");
    cluster.step(vec![drained("n1", &[], at)]);
    assert_eq!(cluster.engine.next_wake(), Some(at));
    cluster.submit(job("fits").gpus(1).limit("1h").grace("1h"));
    cluster.submit(job("over").gpus(1).limit("1h").grace("3601s"));
    cluster.submit(job("endless").gpus(1));
    cluster.submit(job("plain").limit("3h"));
    cluster.submit(job("share").share(500).limit("3h"));
    cluster.expect("fits", JobState::Running);
    for name in ["over", "endless", "plain", "share"] {
        cluster.expect(name, JobState::Pending);
    }
    cluster.submit(job("brief").gpus(3).limit("1h"));
    cluster.expect("brief", JobState::Running);
    cluster.now = at;
    cluster.step(vec![]);
    assert_eq!(cluster.engine.nodes()[0].drained.as_deref(), Some("fan"));
    cluster.expect("fits", JobState::Running);
    cluster.step(vec![taken_back("n1", &[])]);
    cluster.expect("over", JobState::Pending);
    cluster.exit("fits", 0);
    cluster.expect("over", JobState::Running);
}

#[test]
fn a_short_job_starts_although_a_longer_one_of_its_class_does_not_fit() {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    let at = cluster.now + span("1h");
    cluster.step(vec![drained("n1", &[0, 1, 2], at), drained("n1", &[3], at + span("1h"))]);
    cluster.submit(job("long").gpus(2).limit("90m"));
    cluster.submit(job("short").gpus(2).limit("30m"));
    cluster.expect("long", JobState::Pending);
    cluster.expect("short", JobState::Running);
}

#[test]
fn a_stopping_drain_requeues_only_jobs_on_the_drained_devices() {
    let mut cluster = TestCluster::new(&[node("n1", 4)]);
    cluster.submit(job("first").gpus(1).limit("5h").grace("1m"));
    cluster.submit(job("second").gpus(1).limit("5h").grace("1m"));
    cluster.step(vec![stopped("n1", &[1], cluster.now + span("1h"))]);
    assert_eq!(cluster.engine.due_events(cluster.now), []);
    cluster.now = cluster.now + span("1h");
    let due = cluster.engine.due_events(cluster.now);
    assert_eq!(
        due,
        [Event::Requeue(muster_model::CommandTarget { job: cluster.id("second"), index: Some(0) })]
    );
    cluster.step(due);
    assert_eq!(cluster.engine.due_events(cluster.now), [], "asking once is enough");
    cluster.expect("first", JobState::Running);
}

#[test]
fn a_drain_follows_its_device_when_indices_move() {
    let mut cluster = TestCluster::new(&[named("n1", &["GPU-a", "GPU-b", "GPU-c"])]);
    cluster.step(vec![drained("n1", &[1], Time(0))]);
    cluster.step(vec![Event::NodeJoined(Box::new(named("n1", &["GPU-b", "GPU-c"])))]);
    assert_eq!(out(&cluster), [0]);
    cluster.step(vec![Event::NodeJoined(Box::new(named("n1", &["GPU-a", "GPU-c"])))]);
    assert_eq!(out(&cluster), [0u16; 0]);
    cluster.step(vec![Event::NodeJoined(Box::new(named("n1", &["GPU-c", "GPU-a", "GPU-b"])))]);
    assert_eq!(out(&cluster), [2], "it came back as it left");
}

#[test]
fn slices_follow_the_device_that_they_are_cut_from() {
    let mut cluster = TestCluster::new(&[named("n1", &["GPU-a", "GPU-b"])]);
    cluster.step(vec![drained("n1", &[0], Time(0))]);
    let mut cut = named("n1", &["MIG-1", "MIG-2", "GPU-b"]);
    cut.devices[0].slice_of = Some("GPU-a".into());
    cut.devices[1].slice_of = Some("GPU-a".into());
    cluster.step(vec![Event::NodeJoined(Box::new(cut))]);
    assert_eq!(out(&cluster), [0, 1]);
}

#[test]
fn drains_survive_a_restore_and_old_snapshots_are_read() {
    let mut cluster = TestCluster::new(&[node("n1", 2), node("n2", 2)]);
    let at = cluster.now + span("1h");
    cluster.step(vec![drained("n1", &[1], Time(0)), drained("n2", &[], at)]);
    let stored = serde_json::to_value(cluster.engine.snapshot()).unwrap();
    let mut engine = Engine::restore(serde_json::from_value(stored.clone()).unwrap()).unwrap();
    drop(engine.plan(cluster.now));
    assert_eq!(engine.nodes(), cluster.engine.nodes());
    assert_eq!(engine.next_wake(), Some(at));

    // Snapshot format from when only whole nodes could be drained.
    let mut old = stored;
    for node in old["nodes"].as_array_mut().unwrap() {
        node.as_object_mut().unwrap().remove("drains");
    }
    old["nodes"][0]["drained"] = "a fan".into();
    let engine = Engine::restore(serde_json::from_value::<Snapshot>(old).unwrap()).unwrap();
    assert_eq!(engine.nodes()[0].drained.as_deref(), Some("a fan"));
    assert_eq!(engine.nodes()[1].drained, None);
}

#[test]
fn a_repeated_drain_keeps_its_begin() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    let since = cluster.now;
    cluster.step(vec![drained("n1", &[], since), drained("n1", &[0], since)]);
    cluster.now = cluster.now + span("1h");
    cluster.step(vec![drained("n1", &[], cluster.now), drained("n1", &[0], cluster.now)]);
    let view = cluster.engine.nodes().remove(0);
    assert_eq!(view.drain.map(|drain| drain.from), Some(since));
    assert_eq!(view.devices[0].drain.as_ref().map(|drain| drain.from), Some(since));
    let none = DeviceSet::EMPTY;
    cluster.step(vec![Event::DrainSet { node: "n1".into(), devices: Some(none), drain: None }]);
    assert!(cluster.engine.nodes()[0].drain.is_some(), "no device is not the node");
}
