//! What `muster init kueue`, `volcano` and `kai` write of a cluster as it is: accepted by a strict API server
//! with the definitions of those projects, and without a finding of `muster check kubernetes`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cluster::{KubernetesCluster, success};
use crate::definitions::Definition;
use crate::kueue;

const QUEUES: &str = "\
queues:
  - name: research
    queues:
      - {name: vision, quota: {h100: 8}, borrow: 4, users: [init-vision]}
      - {name: language, lend: 1, quota: {h100: 4}, users: [init-language]}
  - {name: serving, weight: 2, users: [init-serving]}
";

/// Deletes the objects of a file when the test is over.
struct Applied<'a> {
    cluster: &'a KubernetesCluster,
    file: String,
}

impl<'a> Applied<'a> {
    fn new(cluster: &'a KubernetesCluster, path: &Path) -> Self {
        let file = format!("--filename={}", path.display());
        cluster.kubectl(&["apply", "--server-side", "--validate=strict", &file]);
        Self { cluster, file }
    }
}

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        self.cluster.kubectl_with(&["delete", "--wait=false", &self.file], "");
    }
}

fn muster(cluster: &KubernetesCluster, folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(words).current_dir(folder).env("KUBECONFIG", cluster.kubeconfig());
    command.output().unwrap()
}

fn install_others(cluster: &KubernetesCluster) {
    let definition = |group, version, kind, plural, published| {
        let published = Some(published);
        Definition { group, version, kind, plural, scope: "Cluster", published }.install(cluster);
    };
    let volcano = "volcano/scheduling.volcano.sh_queues.yaml";
    definition("scheduling.volcano.sh", "v1beta1", "Queue", "queues", volcano);
    let hyper_nodes = "volcano/topology.volcano.sh_hypernodes.yaml";
    definition("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", hyper_nodes);
    definition("scheduling.run.ai", "v2", "Queue", "queues", "kai/scheduling.run.ai_queues.yaml");
    let topologies = "kai/kai.scheduler_topologies.yaml";
    definition("kai.scheduler", "v1alpha1", "Topology", "topologies", topologies);
    let topologies = "kueue/kueue.x-k8s.io_topologies.yaml";
    definition("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", topologies);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn files_for_other_schedulers_are_accepted_and_pass_the_check() {
    // 1. The nodes as the cluster has them, with their model of GPU.
    let cluster = KubernetesCluster::here();
    kueue::install(&cluster);
    install_others(&cluster);
    let folder = tempfile::tempdir().unwrap();
    let nodes = cluster.kubectl(&["get", "nodes", "--output=json"]);
    fs::write(folder.path().join("nodes.json"), nodes).unwrap();
    let words = [
        "inventory",
        "--from",
        "nodes.json",
        "--keep-label",
        "nvidia.com/gpu.product",
        "--level",
        "spine=network.topology.nvidia.com/spine",
        "--level",
        "leaf=network.topology.nvidia.com/leaf",
    ];
    let listed = muster(&cluster, folder.path(), &words);
    fs::write(folder.path().join("cluster.yaml"), success(&words, &listed)).unwrap();
    fs::write(folder.path().join("queues.yaml"), QUEUES).unwrap();

    // 2. The files of each scheduler.
    for (plane, files, objects) in [
        (
            "kueue",
            3,
            ["clusterqueues.kueue.x-k8s.io/research.vision", "cohorts.kueue.x-k8s.io/research"],
        ),
        (
            "volcano",
            4,
            [
                "queues.scheduling.volcano.sh/research.vision",
                "queues.scheduling.volcano.sh/research",
            ],
        ),
        (
            "kai",
            3,
            ["queues.scheduling.run.ai/research.vision", "queues.scheduling.run.ai/research"],
        ),
    ] {
        let words = ["init", plane, "--cluster", "cluster.yaml", "--queues", "queues.yaml"];
        success(&words, &muster(&cluster, folder.path(), &words));
        let written = folder.path().join(plane);
        let names: Vec<String> = fs::read_dir(&written)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), files, "{plane}: {names:?}");
        let _labels = NodeLabels::of_script(&cluster, &written.join("node-labels.sh"));
        let config = written.join("config.yaml");
        let namespace = format!("{plane}-system");
        let config = config.exists().then(|| {
            cluster.kubectl(&["create", "namespace", &namespace]);
            Applied::new(&cluster, &config)
        });
        let topology = written.join("topology.yaml");
        let topology = topology.exists().then(|| Applied::new(&cluster, &topology));
        let queues = Applied::new(&cluster, &written.join("queues.yaml"));
        for object in objects {
            cluster.get(&[object]);
        }

        // 3. Nothing of it is a finding.
        let report = muster(&cluster, folder.path(), &["check", "kubernetes", "--json"]);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let rules = |list: &str| -> Vec<String> {
            let all = report[list].as_array().unwrap().iter();
            all.map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
        };
        let found: Vec<String> =
            rules("findings").into_iter().filter(|rule| rule.contains("kueue")).collect();
        assert_eq!(found, Vec::<String>::new(), "{report:#}");
        if plane == "kueue" {
            let passed = rules("passed");
            for rule in
                ["kueue-admits-nothing", "kueue-lends-for-ever", "kueue-flavor-without-nodes"]
            {
                assert!(passed.iter().any(|one| one == rule), "{rule}: {report:#}");
            }
        }
        drop((queues, topology));
        if config.is_some() {
            cluster.kubectl(&["delete", "namespace", &namespace, "--wait=false"]);
        }
    }
}

/// Labels that a script has given to nodes; they are taken away again when the test is over, since others need
/// the nodes as they were.
struct NodeLabels<'a> {
    cluster: &'a KubernetesCluster,
    /// Words after `kubectl` that remove them.
    removals: Vec<Vec<String>>,
}

impl<'a> NodeLabels<'a> {
    /// Runs the commands of the script, if there is one.
    fn of_script(cluster: &'a KubernetesCluster, script: &Path) -> Self {
        let mut labels = Self { cluster, removals: Vec::new() };
        let Ok(text) = fs::read_to_string(script) else { return labels };
        for line in text.lines().filter_map(|line| line.strip_prefix("kubectl ")) {
            let words: Vec<&str> = line.split(' ').collect();
            cluster.kubectl(&words);
            let away = |word: &&str| {
                word.split_once('=').map_or((*word).to_owned(), |(key, _)| format!("{key}-"))
            };
            let kept = words.iter().filter(|word| **word != "--overwrite");
            labels.removals.push(kept.map(away).collect());
        }
        assert!(!labels.removals.is_empty(), "{text}");
        labels
    }
}

impl Drop for NodeLabels<'_> {
    fn drop(&mut self) {
        for words in &self.removals {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.cluster.kubectl_with(&words, "");
        }
    }
}
