//! Drains of nodes and of single devices, now and from an instant on.

use muster_engine::{Engine, Refusal, Snapshot};
use muster_model::view::State;
use muster_model::{DeviceSet, Drain, Event, NodeSpec, Time};

use crate::world::{World, job, node, span};

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

/// Devices that take no work, by index.
fn out(world: &World) -> Vec<u16> {
    let nodes = world.engine.nodes();
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
fn a_drained_device_takes_nothing_new_and_keeps_its_task() {
    let mut world = World::new(&[node("n1", 2)]);
    world.submit(job("runs").gpus(1));
    world.step(vec![drained("n1", &[0, 1], Time(0))]);
    world.submit(job("waits").gpus(1));
    world.expect("runs", State::Running);
    world.expect("waits", State::Pending);
    world.exit("runs", 0);
    world.expect("waits", State::Pending);
    world.step(vec![taken_back("n1", &[1])]);
    world.expect("waits", State::Running);
    assert_eq!(out(&world), [0]);
}

#[test]
fn what_is_drained_has_to_be_there() {
    let world = World::new(&[node("n1", 2)]);
    let judge = |event| world.engine.judge(&event);
    let beyond = Refusal::UnknownDevice { node: "n1".into(), device: 2, known: 2 };
    assert_eq!(judge(drained("n1", &[1, 2, 5], Time(0))), Err(beyond));
    assert_eq!(judge(drained("n9", &[], Time(0))), Err(Refusal::UnknownNode("n9".into())));
    assert_eq!(judge(taken_back("n1", &[1])), Ok(()), "taking back what is there changes nothing");
}

#[test]
fn until_a_drain_begins_what_ends_in_time_starts() {
    let mut world = World::new(&[node("n1", 4)]);
    let at = world.now + span("2h");
    world.step(vec![drained("n1", &[], at)]);
    assert_eq!(world.engine.next_wake(), Some(at));
    world.submit(job("fits").gpus(1).limit("1h").grace("1h"));
    world.submit(job("over").gpus(1).limit("1h").grace("3601s"));
    world.submit(job("endless").gpus(1));
    world.submit(job("plain").limit("3h"));
    world.submit(job("share").share(500).limit("3h"));
    world.expect("fits", State::Running);
    for name in ["over", "endless", "plain", "share"] {
        world.expect(name, State::Pending);
    }
    world.submit(job("brief").gpus(3).limit("1h"));
    world.expect("brief", State::Running);
    world.now = at;
    world.step(vec![]);
    assert_eq!(world.engine.nodes()[0].drained.as_deref(), Some("fan"));
    world.expect("fits", State::Running);
    world.step(vec![taken_back("n1", &[])]);
    world.expect("over", State::Pending);
    world.exit("fits", 0);
    world.expect("over", State::Running);
}

#[test]
fn the_longer_of_a_class_does_not_hide_that_the_shorter_fits() {
    let mut world = World::new(&[node("n1", 4)]);
    let at = world.now + span("1h");
    world.step(vec![drained("n1", &[0, 1, 2], at), drained("n1", &[3], at + span("1h"))]);
    world.submit(job("long").gpus(2).limit("90m"));
    world.submit(job("short").gpus(2).limit("30m"));
    world.expect("long", State::Pending);
    world.expect("short", State::Running);
}

#[test]
fn a_drain_that_stops_asks_for_what_is_left_and_only_for_that() {
    let mut world = World::new(&[node("n1", 4)]);
    world.submit(job("first").gpus(1).limit("5h").grace("1m"));
    world.submit(job("second").gpus(1).limit("5h").grace("1m"));
    world.step(vec![stopped("n1", &[1], world.now + span("1h"))]);
    assert_eq!(world.engine.overdue(world.now), []);
    world.now = world.now + span("1h");
    let due = world.engine.overdue(world.now);
    assert_eq!(
        due,
        [Event::Requeue(muster_model::Target { job: world.id("second"), index: Some(0) })]
    );
    world.step(due);
    assert_eq!(world.engine.overdue(world.now), [], "asking once is enough");
    world.expect("first", State::Running);
}

#[test]
fn a_drain_follows_its_device_when_indices_move() {
    let mut world = World::new(&[named("n1", &["GPU-a", "GPU-b", "GPU-c"])]);
    world.step(vec![drained("n1", &[1], Time(0))]);
    world.step(vec![Event::NodeJoined(Box::new(named("n1", &["GPU-b", "GPU-c"])))]);
    assert_eq!(out(&world), [0]);
    world.step(vec![Event::NodeJoined(Box::new(named("n1", &["GPU-a", "GPU-c"])))]);
    assert_eq!(out(&world), [0u16; 0]);
    world.step(vec![Event::NodeJoined(Box::new(named("n1", &["GPU-c", "GPU-a", "GPU-b"])))]);
    assert_eq!(out(&world), [2], "it came back as it left");
}

#[test]
fn slices_follow_the_device_that_they_are_cut_from() {
    let mut world = World::new(&[named("n1", &["GPU-a", "GPU-b"])]);
    world.step(vec![drained("n1", &[0], Time(0))]);
    let mut cut = named("n1", &["MIG-1", "MIG-2", "GPU-b"]);
    cut.devices[0].slice_of = Some("GPU-a".into());
    cut.devices[1].slice_of = Some("GPU-a".into());
    world.step(vec![Event::NodeJoined(Box::new(cut))]);
    assert_eq!(out(&world), [0, 1]);
}

#[test]
fn drains_survive_a_restore_and_old_snapshots_are_read() {
    let mut world = World::new(&[node("n1", 2), node("n2", 2)]);
    let at = world.now + span("1h");
    world.step(vec![drained("n1", &[1], Time(0)), drained("n2", &[], at)]);
    let stored = serde_json::to_value(world.engine.snapshot()).unwrap();
    let mut engine = Engine::restore(serde_json::from_value(stored.clone()).unwrap()).unwrap();
    drop(engine.plan(world.now));
    assert_eq!(engine.nodes(), world.engine.nodes());
    assert_eq!(engine.next_wake(), Some(at));

    // As it was written when only nodes could be drained.
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
fn said_again_it_keeps_since_when() {
    let mut world = World::new(&[node("n1", 2)]);
    let since = world.now;
    world.step(vec![drained("n1", &[], since), drained("n1", &[0], since)]);
    world.now = world.now + span("1h");
    world.step(vec![drained("n1", &[], world.now), drained("n1", &[0], world.now)]);
    let view = world.engine.nodes().remove(0);
    assert_eq!(view.drain.map(|drain| drain.from), Some(since));
    assert_eq!(view.devices[0].drain.as_ref().map(|drain| drain.from), Some(since));
    let none = DeviceSet::EMPTY;
    world.step(vec![Event::DrainSet { node: "n1".into(), devices: Some(none), drain: None }]);
    assert!(world.engine.nodes()[0].drain.is_some(), "no device is not the node");
}
