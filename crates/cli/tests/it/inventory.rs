//! `muster inventory`: the cluster file of this machine, of Slurm's nodes and of Kubernetes' nodes.

use std::path::Path;

use muster_spec::{Cluster, parse_cluster};

use crate::home::{Home, HomeRun};

/// Returns a synthetic sample in the documented format; parsing is tested in `muster-backends`.
fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kubernetes/tests/data").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Parses the cluster file that a run printed.
fn cluster(run: HomeRun) -> Cluster {
    let run = run.ok();
    parse_cluster(&run.stdout, None).unwrap_or_else(|error| panic!("{error}\n{}", run.stdout))
}

#[test]
fn this_machine_is_written_down_without_a_daemon() {
    let home = Home::new();
    let run = home.words("inventory").ok();
    assert!(run.stdout.starts_with("# 1 node with"), "{}", run.stdout);
    assert!(run.stderr.contains("from this machine"), "{}", run.stderr);
    let found = cluster(home.words("inventory"));
    assert_eq!(found.nodes.len(), 1);
    let node = &found.nodes[0];
    assert!(node.cpus.0 >= 1000 && node.memory.0 > 0);
    let says_none = run.stdout.contains("no GPU was found");
    assert_eq!(says_none, node.devices.is_empty());
    assert!(!home.path("m").exists());
}

#[test]
fn the_daemon_and_the_inventory_see_the_same_machine() {
    let home = Home::with_gpus(3);
    let listed: muster_api::types::NodeList = home.words("nodes --json").json();
    let declared = cluster(home.words("inventory --virtual-gpus 3"));
    let seen = &listed.nodes[0];
    let written = &declared.nodes[0];
    assert_eq!(seen.name, written.name);
    assert_eq!(seen.cpus, written.cpus);
    assert_eq!(seen.memory, written.memory);
    assert_eq!(seen.devices.len(), written.devices.len());
}

#[test]
fn virtual_gpus_are_marked_as_such() {
    let home = Home::new();
    let run = home.words("inventory --virtual-gpus 4:h100").ok();
    assert!(
        run.stdout.contains("  # virtual GPUs: simulated, without hardware\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("gpus: 4, gpu: h100, "), "{}", run.stdout);
    home.words("inventory --virtual-gpus 4 --from x.json").code(2);
}

#[test]
fn slurm_is_read_from_a_pipe() {
    let home = Home::new();
    let run = home
        .with_stdin(&["inventory", "--from", "-"], &sample("synthetic-sinfo-v0.0.42.json"))
        .ok();
    insta::assert_snapshot!(run.stdout, @r#"
    # 6 nodes with 35 GPUs (32 h100, 2 v100, 1 t4), from sinfo --json; written by muster inventory
    nodes:
      - {name: cpu1, gpus: 0, cpus: 64, memory: 250GiB, labels: {partition: debug}}
      # also in partition debug
      - {name: "node[01-02]", gpus: 8, gpu: h100, cpus: 128, memory: 1000000MiB, labels: {features: "ib,h100", partition: train}}
      - {name: node03, gpus: 8, gpu: h100, cpus: 128, memory: 1000000MiB, labels: {features: "ib,h100", partition: train}}
      # out of service in Slurm: drain (fan: replace)
      - {name: node04, gpus: 8, gpu: h100, cpus: 128, memory: 1000000MiB, labels: {features: "ib,h100", partition: train}}
      - {name: old1, gpus: {v100: 2, t4: 1}, cpus: 32, memory: 125GiB, labels: {partition: old}, extras: {fpga: 2}}
    "#);
    insta::assert_snapshot!(run.stderr, @"
    6 nodes with 35 GPUs (32 h100, 2 v100, 1 t4), from sinfo --json
    warning: 1 out of service; comments in the file say which and why
    ");
    parse_cluster(&run.stdout, None).unwrap();
    assert!(!home.path("m").exists());
}

#[test]
fn kubernetes_is_read_from_a_file_with_levels() {
    let home = Home::new();
    home.write("nodes.json", &sample("synthetic-kubectl-nodes.json"));
    let run = home.words("inventory --from nodes.json").ok();
    assert!(
        run.stderr.contains("hint: the nodes have topology labels; to read them: --level spine="),
        "{}",
        run.stderr
    );
    let words = "inventory --from nodes.json --level spine=network.topology.nvidia.com/spine --level leaf=network.topology.nvidia.com/leaf --keep-label kubernetes.io/os";
    let found = cluster(home.words(words));
    let levels: Vec<&str> = found.levels.iter().map(AsRef::as_ref).collect();
    assert_eq!(levels, ["spine", "leaf"]);
    let node = found.nodes.iter().find(|node| node.name.as_str() == "gpu-10").unwrap();
    assert_eq!(node.domains.join("/"), "s2/l3");
    assert_eq!(node.labels.get("kubernetes.io/os").map(AsRef::as_ref), Some("linux"));
    let swapped = "inventory --from nodes.json --level leaf=network.topology.nvidia.com/leaf --level spine=network.topology.nvidia.com/spine";
    let run = home.words(swapped).code(2);
    insta::assert_snapshot!(run.stderr, @"
    error: nodes.json: the labels form no tree: spine `s1` lies in leaf `l1` according to node `gpu-1` and in leaf `l2` according to node `gpu-3`
    hint: name levels from the widest: --level block=LABEL --level leaf=LABEL
    ");
}

#[test]
fn untyped_gpus_get_the_model_that_is_said() {
    let home = Home::new();
    home.write("nodes.json", &sample("synthetic-nodes-v0.0.38.json"));
    let run = home.words("inventory --from nodes.json").ok();
    assert!(
        run.stdout.contains("gpu: gpu") && run.stdout.contains("set it with `--gpu MODEL`"),
        "{}",
        run.stdout
    );
    let run = home.words("inventory --from nodes.json --gpu a100").ok();
    assert!(run.stdout.contains("gpus: 8, gpu: a100"), "{}", run.stdout);
    home.words("inventory --from nodes.json --gpu A100").code(2);
}

#[test]
fn a_file_is_written_once_unless_forced() {
    let home = Home::new();
    home.write("nodes.json", &sample("synthetic-sinfo-v0.0.42.json"));
    let run = home.words("inventory --from nodes.json -o cluster.yaml").ok();
    assert_eq!(run.stdout, "");
    let first = home.read("cluster.yaml");
    assert_eq!(parse_cluster(&first, None).unwrap().nodes.len(), 6);
    home.write("cluster.yaml", "mine\n");
    let run = home.words("inventory --from nodes.json -o cluster.yaml").code(2);
    assert_eq!(
        run.stderr,
        "error: cluster.yaml already exists\nhint: --force overwrites it, -o names another file\n"
    );
    let places = [
        (".", ". is a directory\nhint: -o names a file"),
        ("none/c", "cannot write none/c: no such file or directory"),
    ];
    for (place, said) in places {
        let run = home.muster(&["inventory", "--virtual-gpus", "8", "-o", place]);
        assert!(
            run.code != 0 && run.stderr.starts_with(&format!("error: {said}\n")),
            "{}",
            run.stderr
        );
    }
    assert!(home.words("inventory --virtual-gpus 8 -o -").ok().stdout.contains("gpus: 8"));
    assert!(!home.path("-").exists());
    assert_eq!(home.read("cluster.yaml"), "mine\n");
    home.words("inventory --from nodes.json -o cluster.yaml --force").ok();
    assert_eq!(home.read("cluster.yaml"), first);
    home.words("inventory --force").code(2);
    home.words("inventory --from nodes.json -o none/cluster.yaml").code(1);
}

#[test]
fn mistakes_are_told_with_the_row_and_write_nothing() {
    let home = Home::new();
    let complaint = |text: &str| {
        home.write("in.json", text);
        let run = home.words("inventory --from in.json -o out.yaml").code(2);
        assert!(!home.path("out.yaml").exists());
        assert_eq!(run.stdout, "");
        run.stderr
    };
    insta::assert_snapshot!(complaint("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"), @"
    error: in.json: this is not JSON: expected value at line 1 column 1
    hint: use the output of `sinfo -N --json`, `scontrol show nodes --json` or `kubectl get nodes -o json`
    ");
    insta::assert_snapshot!(complaint(""), @"
    error: in.json: the text is empty
    hint: use the output of `sinfo -N --json`, `scontrol show nodes --json` or `kubectl get nodes -o json`
    ");
    insta::assert_snapshot!(complaint(r#"{"apiVersion": "v1", "kind": "PodList", "items": []}"#), @r#"
    error: in.json: this is neither Slurm's nor Kubernetes' list of nodes: an object of kind "PodList" with "apiVersion", "items", "kind"
    hint: use the output of `sinfo -N --json`, `scontrol show nodes --json` or `kubectl get nodes -o json`
    "#);
    insta::assert_snapshot!(complaint(r#"{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Node", "metadata": {"name": "a"}}]}"#), @"error: in.json: item 1 (`a`): neither `status.allocatable` nor `status.capacity`");
    insta::assert_snapshot!(complaint(r#"{"sinfo": [], "errors": [{"description": "Unable to contact slurm controller (connect failure)"}]}"#), @"error: in.json: sinfo --json lists no nodes: Unable to contact slurm controller (connect failure)");
    insta::assert_snapshot!(complaint(&sample("synthetic-sinfo-v0.0.42.json").replace("\"gpu:tesla_v100:2", "\"gpu:tesla:v100:2")), @"error: in.json: row 8 (`old1`): `gpu:tesla:v100:2` is not a generic resource such as `gpu:h100:8`");
    let run = home.words("inventory --from none.json").code(2);
    assert_eq!(run.stderr, "error: cannot read none.json: no such file or directory\n");
    home.words("inventory --from in.json --level leaf").code(2);
    home.words("inventory --level leaf=x").code(2);
    home.words("inventory --from in.json --level no/level=x").code(2);
    std::fs::write(home.path("in.json"), [0xff, 0xfe]).unwrap();
    assert_eq!(
        home.words("inventory --from in.json").code(2).stderr,
        "error: in.json is not UTF-8 text\n"
    );
}

#[test]
fn a_level_that_no_file_could_name_is_refused() {
    let home = Home::new();
    home.write("nodes.json", &sample("synthetic-kubectl-nodes.json"));
    let run =
        home.words("inventory --from nodes.json --level node=topology.kubernetes.io/zone").code(2);
    insta::assert_snapshot!(run.stderr, @"
    error: nodes.json: `node` is always the last level; leave it out
    hint: name levels from the widest: --level block=LABEL --level leaf=LABEL
    ");
    let run = home.words("inventory --from nodes.json --level a=x --level a=y").code(2);
    insta::assert_snapshot!(run.stderr, @"
    error: nodes.json: two levels are named `a`
    hint: name levels from the widest: --level block=LABEL --level leaf=LABEL
    ");
}
