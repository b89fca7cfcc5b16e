//! Lists of nodes as printed by Slurm and Kubernetes: the nodes read, the errors, and that no JSON
//! makes a reader panic. The files in `data` are synthetic, in the formats that the programs
//! document.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use muster_kubernetes as kubernetes;
use muster_model::NodeSpec;
use muster_model::hostlist::expand;
use muster_model::inventory::{self, Inventory, InventoryError, InventoryOptions, ListedNode};
use muster_slurm::pool;
use proptest::prelude::*;
use serde_json::{Value, json};

const SINFO: &str = include_str!("data/synthetic-sinfo-v0.0.42.json");
const NODES: &str = include_str!("data/synthetic-nodes-v0.0.38.json");
const SCONTROL: &str = include_str!("data/synthetic-scontrol-v0.0.42.json");
const KUBECTL: &str = include_str!("data/synthetic-kubectl-nodes.json");

fn read(text: &str, options: &InventoryOptions) -> Result<Inventory, InventoryError> {
    inventory::read(text, options, &[kubernetes::inventory::read, muster_slurm::inventory::read])
}

/// Formats a node on one line and its notes on the following ones.
fn line(listed: &ListedNode) -> String {
    let node = &listed.node;
    let alike = node.devices.chunk_by(|one, other| one.model == other.model);
    let gpus: Vec<String> = alike
        .map(|some| format!("{} {} of {}", some.len(), some[0].model, some[0].memory))
        .collect();
    let gpus = if gpus.is_empty() { "none".to_owned() } else { gpus.join(" + ") };
    let labels: Vec<String> =
        node.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let extras: Vec<String> =
        node.extras.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    let domains = node.domains.join("/");
    let mut text = format!("{}: {gpus}, {} CPUs, {}", node.name, node.cpus, node.memory);
    for more in [labels.join(" "), extras.join(" "), domains].iter().filter(|more| !more.is_empty())
    {
        text += &format!(", {more}");
    }
    for note in &listed.notes {
        text += &format!("\n  # {note}");
    }
    text
}

fn shown(inventory: &Inventory) -> String {
    inventory.nodes.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn complaint(value: &Value) -> String {
    read(&value.to_string(), &InventoryOptions::default()).unwrap_err().to_string()
}

/// Returns a sample with another value at a path.
fn with(sample: &str, path: &str, other: Value) -> Value {
    let mut value: Value = serde_json::from_str(sample).unwrap();
    *value.pointer_mut(path).unwrap() = other;
    value
}

#[test]
fn sinfo_has_a_row_per_partition_and_gives_a_node_each() {
    let inventory = read(SINFO, &InventoryOptions::default()).unwrap();
    assert_eq!(inventory.source, "sinfo --json");
    insta::assert_snapshot!(shown(&inventory), @"
    cpu1: none, 64 CPUs, 250GiB, partition=debug
    node01: 8 h100 of 0B, 128 CPUs, 976.5GiB, features=ib,h100 partition=train
      # also in partition debug
    node02: 8 h100 of 0B, 128 CPUs, 976.5GiB, features=ib,h100 partition=train
      # also in partition debug
    node03: 8 h100 of 0B, 128 CPUs, 976.5GiB, features=ib,h100 partition=train
    node04: 8 h100 of 0B, 128 CPUs, 976.5GiB, features=ib,h100 partition=train
      # out of service in Slurm: drain (fan: replace)
    old1: 2 v100 of 0B + 1 t4 of 0B, 32 CPUs, 125GiB, partition=old, fpga:2
    ");
}

#[test]
fn records_of_nodes_are_read_in_old_and_new_shapes() {
    let old =
        read(NODES, &InventoryOptions { gpu: Some("a100".into()), ..InventoryOptions::default() })
            .unwrap();
    let new = read(SCONTROL, &InventoryOptions::default()).unwrap();
    insta::assert_snapshot!(format!("{}\n\n{}", shown(&old), shown(&new)), @"
    cpu1: none, 32 CPUs, 250GiB, partition=all
      # out of service in Slurm: down, drain (bad fan)
    node01: 8 a100 of 0B, 64 CPUs, 976.5GiB, features=ib partition=train
      # also in partition all
    node02: 8 a100 of 0B, 64 CPUs, 976.5GiB, features=ib partition=train
      # also in partition all

    node01: 8 h100 of 0B, 96 CPUs, 500GiB, features=ib,h100 partition=train
      # out of service in Slurm: down, not responding
    ");
    let untyped = read(NODES, &InventoryOptions::default()).unwrap();
    assert_eq!(untyped.nodes[1].node.devices[0].model.as_str(), "gpu");
    assert!(untyped.nodes[1].notes[0].contains("--gpu MODEL"));
}

#[test]
fn kubernetes_nodes_are_read_with_levels_by_label() {
    let levels = [
        ("spine", "network.topology.nvidia.com/spine"),
        ("leaf", "network.topology.nvidia.com/leaf"),
    ];
    let options = InventoryOptions {
        levels: levels.map(|(level, label)| (level.into(), label.to_owned())).to_vec(),
        keep_labels: vec!["kubernetes.io/os".to_owned()],
        gpu: None,
    };
    let inventory = read(KUBECTL, &options).unwrap();
    assert_eq!(inventory.hints, [""; 0]);
    insta::assert_snapshot!(shown(&inventory), @"
    amd-1: 7 mi300x of 192GiB, 192 CPUs, 2TiB, kubernetes.io/os=linux
      # has none of the topology labels
      # has 8 of `amd.com/gpu`, of which 7 are allocatable and counted
    cp-0: none, 8 CPUs, 32GiB, kubernetes.io/os=linux
      # tainted node-role.kubernetes.io/control-plane: only pods that tolerate it are scheduled here
      # has none of the topology labels
    gpu-1: 8 h100 of 79.6GiB, 127.5 CPUs, 1007.8GiB, kubernetes.io/os=linux pool=train zone=eu-1a, s1/l1
    gpu-2: 8 h100 of 79.6GiB, 127.5 CPUs, 1007.8GiB, kubernetes.io/os=linux pool=train zone=eu-1a, s1/l1
    gpu-3: 8 h100 of 79.6GiB, 127.5 CPUs, 1007.8GiB, kubernetes.io/os=linux pool=train zone=eu-1a, s1/l2
      # out of service in Kubernetes: cordoned (unschedulable)
    gpu-4: 8 h100 of 79.6GiB, 127.5 CPUs, 1007.8GiB, kubernetes.io/os=linux pool=train zone=eu-1a, s1/l2
      # out of service in Kubernetes: not ready (KubeletNotReady)
    gpu-10: 8 h100 of 79.6GiB, 127.5 CPUs, 1007.8GiB, kubernetes.io/os=linux pool=train zone=eu-1a, s2/l3
    mig-1: 2 a100 of 40GiB + 14 a100-1g.5gb of 0B, 64 CPUs, 512GiB, kubernetes.io/os=linux
      # has none of the topology labels
      # 14 a100-1g.5gb are MIG slices, counted as devices
    shared-1: 2 t4 of 15GiB, 16 CPUs, 59.6GiB, kubernetes.io/os=linux
      # has none of the topology labels
      # 2 GPUs are time-sliced: advertised as 8, without isolation of memory
    ");
}

#[test]
fn topology_labels_are_offered_and_not_taken() {
    let inventory = read(KUBECTL, &InventoryOptions::default()).unwrap();
    assert!(
        inventory.levels.is_empty()
            && inventory.nodes.iter().all(|listed| listed.node.domains.is_empty())
    );
    assert_eq!(
        inventory.hints,
        [
            "the nodes have topology labels; to read them: --level spine=network.topology.nvidia.com/spine --level leaf=network.topology.nvidia.com/leaf"
        ]
    );
}

#[test]
fn one_node_is_a_list_too() {
    let items: Value = serde_json::from_str(KUBECTL).unwrap();
    let one = read(&items["items"][0].to_string(), &InventoryOptions::default()).unwrap();
    assert_eq!(one.nodes[0].node.name.as_str(), "gpu-1");
    let mut list = items;
    list["kind"] = json!("NodeList");
    for item in list["items"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("kind");
    }
    assert_eq!(read(&list.to_string(), &InventoryOptions::default()).unwrap().nodes.len(), 9);
}

#[test]
fn levels_that_are_no_tree_are_refused_with_both_nodes() {
    let options = |levels: &[(&str, &str)]| InventoryOptions {
        levels: levels
            .iter()
            .map(|(level, label)| ((*level).into(), (*label).to_owned()))
            .collect(),
        ..InventoryOptions::default()
    };
    let spine = ("spine", "network.topology.nvidia.com/spine");
    let leaf = ("leaf", "network.topology.nvidia.com/leaf");
    let refused =
        |text: &str, levels: &[(&str, &str)]| read(text, &options(levels)).unwrap_err().to_string();
    assert_eq!(
        refused(KUBECTL, &[leaf, spine]),
        "the labels form no tree: spine `s1` lies in leaf `l1` according to node `gpu-1` and in leaf `l2` according to node `gpu-3`"
    );
    let mut value: Value = serde_json::from_str(KUBECTL).unwrap();
    value["items"][0]["metadata"]["labels"].as_object_mut().unwrap().remove(leaf.1);
    assert_eq!(
        refused(&value.to_string(), &[spine, leaf]),
        "item 1 (`gpu-1`): no label `network.topology.nvidia.com/leaf`, although other levels have one"
    );
    assert_eq!(
        refused(KUBECTL, &[("node", leaf.1)]),
        "`node` is always the last level; leave it out"
    );
    assert_eq!(refused(KUBECTL, &[spine, spine]), "two levels are named `spine`");
    assert_eq!(refused(KUBECTL, &[spine; 9]), "9 levels; at most 8");
    let bad = "\"a/b\" is not the name of a level: letters, digits, `.`, `_` and `-`";
    assert_eq!(refused(KUBECTL, &[("a/b", leaf.1)]), bad);
    assert!(refused(SINFO, &[leaf]).starts_with("Slurm's list of nodes has no topology"));
}

#[test]
fn what_is_no_list_of_nodes_is_told_what_it_is() {
    let text = |text: &str| read(text, &InventoryOptions::default()).unwrap_err();
    assert_eq!(text(" \n"), InventoryError::Empty);
    assert_eq!(
        text("PARTITION AVAIL"),
        InventoryError::NotJson("expected value at line 1 column 1".to_owned())
    );
    assert!(matches!(text(&"[".repeat(100_000)), InventoryError::NotJson(_)));
    for (value, expected) in [
        (
            json!({}),
            "this is neither Slurm's nor Kubernetes' list of nodes: an object with no fields",
        ),
        (json!([1, 2]), "this is neither Slurm's nor Kubernetes' list of nodes: a list of 2"),
        (
            json!({ "nodes": [], "now": 1 }),
            "this is neither Slurm's nor Kubernetes' list of nodes: an object with \"nodes\", \"now\"",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod" }),
            "this is neither Slurm's nor Kubernetes' list of nodes: an object of kind \"Pod\" with \"apiVersion\", \"kind\"",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "List", "items": [] }),
            "kubectl get nodes -o json lists no nodes",
        ),
        (json!({ "sinfo": [] }), "sinfo --json lists no nodes"),
        (
            json!({ "sinfo": [], "errors": [{ "description": "Unable to contact slurm controller" }] }),
            "sinfo --json lists no nodes: Unable to contact slurm controller",
        ),
        (json!({ "meta": {}, "nodes": [] }), "Slurm's JSON lists no nodes"),
    ] {
        assert_eq!(complaint(&value), expected);
    }
}

#[test]
fn a_bad_row_is_named() {
    for (value, expected) in [
        (
            with(SINFO, "/sinfo/1/cpus/maximum", json!(256)),
            "row 2 (`node02`): `cpus` ranges from 128 to 256: the row is for unequal nodes; use `sinfo -N --json`",
        ),
        (
            with(SINFO, "/sinfo/1/cpus/maximum", json!(-1)),
            "row 2 (`node02`): `cpus.maximum` is -1, not a whole number from 0 on",
        ),
        (
            with(SINFO, "/sinfo/1/memory/minimum", json!("1")),
            "row 2 (`node02`): `memory.minimum` is text, not a number",
        ),
        (with(SINFO, "/sinfo/1/nodes", json!(1)), "row 2: no list of node names at `nodes.nodes`"),
        (
            with(SINFO, "/sinfo/5/gres/total", json!("gpu:h100:4")),
            "row 6 (`node02`): the node differs from row 2",
        ),
        (
            with(SINFO, "/sinfo/6/gres/total", json!("gpu:h100:129")),
            "row 7 (`cpu1`): 129 GPUs; a node has at most 128",
        ),
        (
            with(SINFO, "/sinfo/6/gres/total", json!("gpu:a:b:c")),
            "row 7 (`cpu1`): `gpu:a:b:c` is not a generic resource such as `gpu:h100:8`",
        ),
        (
            with(SINFO, "/sinfo/6/nodes/nodes/0", json!("a b")),
            "row 7 (`a b`): \"a b\" is not the name of a node: letters, digits, `.`, `_` and `-`",
        ),
        (
            with(SINFO, "/sinfo/6/nodes/nodes/0", json!("n[1-2]")),
            "row 7 (`n[1-2]`): \"n[1-2]\" is not the name of a node: letters, digits, `.`, `_` and `-`",
        ),
        (
            with(NODES, "/nodes/1/name", json!(7)),
            "row 2: no `name` in an object with \"active_features\", \"address\", \"architecture\", \"boards\", \"comment\", \"cores\", ..",
        ),
        (
            with(NODES, "/nodes/1/features", json!("a\0")),
            "row 2 (`node01`): \"a\\0\" holds a NUL character",
        ),
        (
            with(NODES, "/nodes/1/cpus", json!(2_000_000)),
            "row 2 (`node01`): 2000000 CPUs exceed the maximum of 1000000",
        ),
        (with(NODES, "/nodes/1/name", json!("node02")), "node `node02`: it is listed twice"),
        (
            with(KUBECTL, "/items/2/kind", json!("Pod")),
            "item 3 (`gpu-2`): this is a Pod, not a Node",
        ),
        (with(KUBECTL, "/items/2/metadata/name", json!("")), "item 3: no `metadata.name`"),
        (
            with(KUBECTL, "/items/2/status", json!({})),
            "item 3 (`gpu-2`): neither `status.allocatable` nor `status.capacity`",
        ),
        (
            with(KUBECTL, "/items/2/status/allocatable/cpu", json!("many")),
            "item 3 (`gpu-2`): `cpu` is \"many\", not a quantity",
        ),
        (
            with(KUBECTL, "/items/2/status/allocatable/memory", json!([])),
            "item 3 (`gpu-2`): `memory` is [], not a quantity",
        ),
        (
            with(KUBECTL, "/items/2/status/allocatable/nvidia.com~1gpu", json!("200")),
            "item 3 (`gpu-2`): 200 GPUs; a node has at most 128",
        ),
        (
            with(KUBECTL, "/items/2/metadata/name", json!("gpu-1")),
            "node `gpu-1`: it is listed twice",
        ),
    ] {
        assert_eq!(complaint(&value), expected);
    }
}

/// Returns the nodes of an inventory without their notes.
fn nodes_of(text: &str) -> Vec<NodeSpec> {
    read(text, &InventoryOptions::default())
        .unwrap()
        .nodes
        .into_iter()
        .map(|listed| listed.node)
        .collect()
}

#[test]
fn a_pool_becomes_slurm_configuration_and_its_nodes_are_found_in_it() {
    let mut nodes = nodes_of(KUBECTL);
    nodes.extend(nodes_of(SINFO));
    nodes[0].labels.insert("partition".into(), "x\nNodeName=evil".into());
    let conf = pool::nodes(&nodes);
    let names: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
    assert_eq!(expand(&pool::node_lists(&conf).join(",")).unwrap(), names);
    assert!(!conf.contains("evil"));
    let lines: Vec<&str> = conf.lines().filter(|line| !line.starts_with('#')).collect();
    insta::assert_snapshot!(format!("{}\n\n{}", lines.join("\n"), pool::gres(&nodes)), @r#"
    NodeName=amd-1 CPUs=192 RealMemory=2097152 Gres=gpu:mi300x:7 State=UNKNOWN
    NodeName=cp-0 CPUs=8 RealMemory=32768 State=UNKNOWN
    NodeName=gpu-[1-4,10] CPUs=127 RealMemory=1031995 Gres=gpu:h100:8 State=UNKNOWN
    NodeName=mig-1 CPUs=64 RealMemory=524288 Gres=gpu:a100:2,gpu:1g.5gb:14 State=UNKNOWN
    NodeName=shared-1 CPUs=16 RealMemory=61035 Gres=gpu:t4:2 State=UNKNOWN
    NodeName=cpu1 CPUs=64 RealMemory=256000 State=UNKNOWN
    NodeName=node[01-04] CPUs=128 RealMemory=1000000 Gres=gpu:h100:8 Features=ib,h100 State=UNKNOWN
    NodeName=old1 CPUs=32 RealMemory=128000 Gres=gpu:v100:2,gpu:t4:1 State=UNKNOWN

    PartitionName=batch Nodes=amd-1,cp-0,gpu-[1-4,10],mig-1,shared-1 Default=YES DefaultTime=01:00:00 MaxTime=7-00:00:00 TRESBillingWeights="CPU=0.071038,Mem=0.008451G,GRES/gpu=1.0" DefMemPerCPU=3814 DefCpuPerGPU=4 State=UP
    PartitionName=debug Nodes=cpu1 DefaultTime=01:00:00 MaxTime=7-00:00:00 TRESBillingWeights="CPU=1.0" DefMemPerCPU=4000 State=UP
    PartitionName=train Nodes=node[01-04] DefaultTime=01:00:00 MaxTime=7-00:00:00 TRESBillingWeights="CPU=0.0625,Mem=0.008192G,GRES/gpu=1.0" DefMemPerCPU=7812 DefCpuPerGPU=16 State=UP
    PartitionName=old Nodes=old1 DefaultTime=01:00:00 MaxTime=7-00:00:00 TRESBillingWeights="CPU=0.09375,Mem=0.024G,GRES/gpu=1.0" DefMemPerCPU=4000 DefCpuPerGPU=10 State=UP

    # The GPUs of the batch pool, for gres.conf on every Slurm node:
    #   include /etc/slurm/slurm-gres.conf
    # The device files are derived from the number of GPUs: compare with `ls /dev/nvidia*` on a node. cgroup.conf needs
    # ConstrainDevices=yes, else a job sees GPUs that are not allocated to it.
    NodeName=amd-1 Name=gpu Type=mi300x AutoDetect=rsmi
    NodeName=gpu-[1-4,10] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-7]
    NodeName=mig-1 Name=gpu AutoDetect=nvml
    NodeName=shared-1 AutoDetect=off Name=gpu Type=t4 File=/dev/nvidia[0-1]
    NodeName=node[01-04] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-7]
    NodeName=old1 Name=gpu AutoDetect=nvml
    "#);
}

#[test]
fn node_lists_are_found_as_people_write_them() {
    let conf = "# NodeName=no\nnodename = a[1-2] CPUs=4\nNodeName=DEFAULT CPUs=8\n NodeName=b \\\n  CPUs=1 # NodeName=c\nPartitionName=p Nodes=d\n";
    assert_eq!(pool::node_lists(conf), ["a[1-2]", "b"]);
}

#[test]
fn a_pool_becomes_a_script_and_its_nodes_are_found_in_it() {
    let batch = nodes_of(SINFO);
    let services = nodes_of(KUBECTL);
    let script = kubernetes::pool::script(&services, &batch);
    let names: Vec<String> = services.iter().map(|node| node.name.to_string()).collect();
    assert_eq!(kubernetes::pool::labelled(&script), names);
    assert!(
        script.contains("kubectl taint node amd-1 amd.com/gpu=present:NoSchedule --overwrite\n")
    );
    assert!(
        script.contains("kubectl taint node gpu-1 nvidia.com/gpu=present:NoSchedule --overwrite\n")
    );
    assert!(!script.contains("kubectl taint node cp-0"));
}

/// Generates any JSON, in which the field names that readers use occur often.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(
        [
            "sinfo",
            "nodes",
            "meta",
            "items",
            "kind",
            "apiVersion",
            "Node",
            "List",
            "NodeList",
            "metadata",
            "name",
            "labels",
            "status",
            "allocatable",
            "capacity",
            "cpu",
            "memory",
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.5gb",
            "amd.com/gpu",
            "nvidia.com/gpu.replicas",
            "spec",
            "taints",
            "conditions",
            "gres",
            "total",
            "gpu:h100:8(S:0-1)",
            "gpu:",
            "cpus",
            "minimum",
            "maximum",
            "number",
            "set",
            "infinite",
            "features",
            "partition",
            "state",
            "reason",
            "1Gi",
            "-1",
            "",
        ]
        .as_slice(),
    );
    let text = prop_oneof![word.clone().prop_map(str::to_owned), any::<String>()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Collects the paths of all values inside a value.
fn places(value: &Value, path: String, found: &mut Vec<String>) {
    found.push(path.clone());
    let step = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| places(item, step(&index.to_string()), found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(key, field)| places(field, step(key), found))
        }
        _ => {}
    }
}

/// Checks that a text is either rejected or read into nodes that a cluster file can hold.
fn sound(text: &str) -> Result<(), TestCaseError> {
    let levels = vec![("zone".into(), "topology.kubernetes.io/zone".to_owned())];
    for options in
        [InventoryOptions::default(), InventoryOptions { levels, ..InventoryOptions::default() }]
    {
        let Ok(inventory) = read(text, &options) else { continue };
        prop_assert!(!inventory.nodes.is_empty());
        for listed in &inventory.nodes {
            let node = &listed.node;
            prop_assert!(node.devices.len() <= 128 && !node.name.as_str().is_empty());
            let mut pairs = node
                .devices
                .iter()
                .flat_map(|one| node.devices.iter().map(move |other| (one, other)));
            prop_assert!(pairs.all(|(one, other)| one.model != other.model || one == other));
            prop_assert!(node.domains.is_empty() || node.domains.len() == inventory.levels.len());
        }
        let nodes: Vec<NodeSpec> =
            inventory.nodes.iter().map(|listed| listed.node.clone()).collect();
        prop_assert!(!pool::nodes(&nodes).is_empty());
        prop_assert!(!kubernetes::pool::script(&nodes, &nodes).is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_makes_a_reader_panic(value in any_json()) {
        sound(&value.to_string())?;
    }

    #[test]
    fn no_change_of_a_sample_makes_a_reader_panic(
        sample in prop::sample::select([SINFO, NODES, SCONTROL, KUBECTL].as_slice()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4),
    ) {
        let mut value: Value = serde_json::from_str(sample).unwrap();
        for (index, other) in changes {
            let mut paths = Vec::new();
            places(&value, String::new(), &mut paths);
            *value.pointer_mut(&paths[index.index(paths.len())]).unwrap() = other;
        }
        sound(&value.to_string())?;
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in any::<String>()) {
        sound(&text)?;
        let _ = pool::node_lists(&text);
        let _ = kubernetes::pool::labelled(&text);
    }
}
