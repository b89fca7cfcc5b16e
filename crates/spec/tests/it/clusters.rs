//! Cluster files as they are written: what reads back, how it looks, and what is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::node::Device;
use muster_model::unit::{Bytes, CpuMilli};
use muster_model::{GpuModel, NodeSpec, hostlist};
use muster_spec::{Cluster, ClusterNotes, Unwritable, expand_names, parse_cluster, write_cluster};
use proptest::prelude::*;

/// Words that YAML could read as something other than text.
const WORDS: [&str; 14] = [
    "null", "~", "yes", "1e3", "0x10", "a: b", "- a", "\"", "\\", "#", "{}", "\u{7}", "\u{85}",
    "\u{feff}",
];

/// Any text, with what YAML gives a meaning to more often than chance would.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z][a-z0-9.-]{0,10}",
        1 => "\\PC{0,8}",
        // A cluster file holds no NUL: no environment and no argument could carry it on.
        1 => any::<String>().prop_map(|text| text.replace('\0', "")),
        1 => prop::sample::select(WORDS.as_slice()).prop_map(str::to_owned),
    ]
}

/// Generates the properties that all nodes of a run share.
fn spec() -> impl Strategy<Value = NodeSpec> {
    let devices =
        (0..10usize, "[a-z0-9][a-z0-9.-]{0,9}", 0..200u64, any::<u64>(), 0..4usize, 0..20u64);
    let labels = prop::collection::btree_map(text(), text(), 0..3);
    let extras = prop::collection::btree_map(text(), 0..1_000_000_000u64, 0..2);
    (
        devices,
        0..1_000_000_000u32,
        prop_oneof![Just(0), any::<u64>(), (0..9999u64).prop_map(|gb| gb * 1_000_000_000)],
        labels,
        extras,
    )
        .prop_map(
            |((gpus, model, gib, odd, slices, slice_gib), cpus, memory, labels, extras)| {
                let memory_of_gpu = if odd % 5 == 0 { odd } else { gib << 30 };
                let device = Device::declared(model.as_str(), Bytes(memory_of_gpu));
                let slice = Device {
                    model: GpuModel::from(format!("{model}-1g.5gb").as_str()),
                    memory: Bytes(slice_gib << 30),
                    ..device.clone()
                };
                let arc = |text: String| Arc::from(text.as_str());
                NodeSpec {
                    devices: [vec![device; gpus], vec![slice; slices]].concat(),
                    extras: extras.into_iter().map(|(name, count)| (arc(name), count)).collect(),
                    labels: labels
                        .into_iter()
                        .map(|(name, value)| (arc(name), arc(value)))
                        .collect(),
                    ..NodeSpec::plain("", CpuMilli(cpus), Bytes(memory))
                }
            },
        )
}

/// Clusters with up to two levels whose domains form a tree, with runs of equal nodes.
fn cluster() -> impl Strategy<Value = Cluster> {
    let runs = prop::collection::vec((spec(), 1..12usize, 0..3u8, 0..3u8, 0..3usize), 1..6);
    (runs, 0..3usize).prop_map(|(runs, depth)| {
        let mut nodes = Vec::new();
        for (spec, count, block, leaf, padding) in runs {
            for _ in 0..count {
                let number = nodes.len() + 7;
                let domains = [format!("b{block}"), format!("b{block}-l{leaf}")];
                let known = if block == 2 && leaf == 2 { 0 } else { depth };
                nodes.push(NodeSpec {
                    name: format!("r{padding}-n{number:0width$}.site", width = padding + 1).into(),
                    domains: domains[..known].iter().map(|name| Arc::from(name.as_str())).collect(),
                    ..spec.clone()
                });
            }
        }
        Cluster { levels: [Arc::from("block"), Arc::from("leaf")][..depth].to_vec(), nodes }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back_as_the_same(cluster in cluster(), notes in prop::collection::vec(any::<String>(), 0..3)) {
        let last = cluster.nodes[cluster.nodes.len() - 1].name.clone();
        let notes = ClusterNotes { heading: notes.clone(), nodes: BTreeMap::from([(last, notes)]) };
        let written = write_cluster(&cluster, &notes);
        let text = match written {
            Ok(text) => text,
            Err(error) => return Err(TestCaseError::fail(format!("{error}"))),
        };
        prop_assert_eq!(parse_cluster(&text, None).unwrap(), cluster);
    }

    #[test]
    fn folded_names_unfold(names in prop::collection::vec("[a-c]{1,2}[0-9]{0,3}(-[0-9]{1,2})?", 1..30)) {
        let folded = hostlist::folded(names.iter().map(String::as_str));
        prop_assert_eq!(expand_names(&folded).unwrap(), names);
    }
}

fn node(name: &str, gpus: usize) -> NodeSpec {
    crate::support::node(name, &[("h100", gpus)])
}

#[test]
fn a_label_named_as_a_merge_key_is_a_label() {
    let mut one = node("n1", 0);
    one.labels = BTreeMap::from([("<<".into(), "a".into())]);
    let cluster = Cluster { levels: Vec::new(), nodes: vec![one] };
    let text = write_cluster(&cluster, &ClusterNotes::default()).unwrap();
    assert_eq!(parse_cluster(&text, None).unwrap(), cluster, "{text}");
    assert!(parse_cluster(&text.replace("\"<<\"", "<<"), None).is_err());
}

#[test]
fn equal_neighbours_share_an_entry_under_their_note() {
    let mut nodes: Vec<NodeSpec> =
        (1..=4).map(|number| node(&format!("node{number:02}"), 8)).collect();
    nodes.push(node("node07", 8));
    nodes.push(node("login", 0));
    let mut notes = ClusterNotes { heading: vec!["a site".to_owned()], ..ClusterNotes::default() };
    notes.nodes.insert("node07".into(), vec!["drained: a fan\nnodes: []".to_owned()]);
    let text = write_cluster(&Cluster { levels: Vec::new(), nodes }, &notes).unwrap();
    assert_eq!(
        text,
        "\
# a site
nodes:
  - {name: \"node[01-04]\", gpus: 8, gpu: h100, gpu-memory: 80GiB, cpus: 64, memory: 512GiB, labels: {pool: train}, extras: {licence: 4}}
  # drained: a fan nodes: []
  - {name: node07, gpus: 8, gpu: h100, gpu-memory: 80GiB, cpus: 64, memory: 512GiB, labels: {pool: train}, extras: {licence: 4}}
  - {name: login, gpus: 0, cpus: 64, memory: 512GiB, labels: {pool: train}, extras: {licence: 4}}
"
    );
}

#[test]
fn what_a_file_cannot_say_is_refused() {
    let write =
        |nodes| write_cluster(&Cluster { levels: Vec::new(), nodes }, &ClusterNotes::default());
    let apart = crate::support::node("n1", &[("h100", 4), ("a100", 4), ("h100", 1)]);
    let mut uneven = node("n1", 2);
    uneven.devices[1].memory = Bytes(40 << 30);
    assert!(matches!(write(vec![uneven]), Err(Unwritable::Differs(_))));
    assert!(
        matches!(write(vec![node("n0", 1), apart]), Err(Unwritable::Differs(name)) if name.as_str() == "n1")
    );
    let mut found = node("n1", 1);
    found.devices[0].uuid = "GPU-1".into();
    assert!(matches!(write(vec![found]), Err(Unwritable::Differs(_))));
    assert!(matches!(write(vec![node("a b", 1)]), Err(Unwritable::Refused(_))));
    assert!(matches!(write(vec![node("a", 1), node("a", 2)]), Err(Unwritable::Refused(_))));
    assert!(matches!(write(Vec::new()), Err(Unwritable::Refused(_))));
}

#[test]
fn whole_gpus_and_slices_stand_beside_each_other() {
    let mut mixed = crate::support::node("n1", &[("a100", 2), ("a100-1g.10gb", 3)]);
    mixed.devices[2..].iter_mut().for_each(|slice| slice.memory = Bytes(10_000_000_000));
    let cluster = Cluster { levels: Vec::new(), nodes: vec![mixed] };
    let text = write_cluster(&cluster, &ClusterNotes::default()).unwrap();
    assert!(
        text.contains(
            "gpus: {a100: 2, a100-1g.10gb: 3}, gpu-memory: {a100: 80GiB, a100-1g.10gb: 10GB}"
        ),
        "{text}"
    );
    assert_eq!(parse_cluster(&text, None).unwrap(), cluster);
    let models = |text: &str| {
        let nodes = parse_cluster(text, None).unwrap().nodes;
        nodes[0]
            .devices
            .iter()
            .map(|device| (device.model.to_string(), device.memory.0))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        models("nodes: [{name: a, gpus: {H100: 1, h100-1g.10gb: 1}, gpu-memory: {h100: 80GB}}]"),
        [("h100".to_owned(), 80_000_000_000), ("h100-1g.10gb".to_owned(), 0)]
    );
}
