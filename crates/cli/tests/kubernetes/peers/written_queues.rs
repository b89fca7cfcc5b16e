//! The queues that `muster init kueue`, `volcano` and `kai` write for the nodes of the cluster, applied as their
//! hint says.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cluster::{KubernetesCluster, success};
use crate::conform::JobPlace;
use crate::real_nodes::target::KubernetesTarget;

/// Queue with all GPUs of the cluster; the namespace of the jobs may use it.
pub const QUEUE: &str = "research/vision";
/// The same in the names of objects.
pub const OBJECT: &str = "research.vision";

/// Writes and applies the queues, and checks that `muster check` finds nothing wrong with them.
pub fn apply(place: &KubernetesTarget, scheduler: &str) {
    let cluster = place.namespace.cluster();
    let folder = place.folder();
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    let ok = |words: &[&str]| {
        let mut command = command(cluster, &folder, env!("CARGO_BIN_EXE_muster"));
        success(words, &command.args(words).output().unwrap())
    };
    // 1. The nodes as they are, and one team.
    write("nodes.json", cluster.kubectl(&["get", "nodes", "--output=json"]));
    write("cluster.yaml", ok(&["inventory", "--from", "nodes.json"]));
    let own = place.namespace.name();
    let vision = format!("{{name: vision, quota: {{h100: 8}}, users: [{own}]}}");
    write("queues.yaml", format!("queues:\n  - name: research\n    queues: [{vision}]\n"));
    ok(&["init", scheduler, "--cluster", "cluster.yaml", "--queues", "queues.yaml"]);
    // 2. The scheduler has a configuration already, with which it was started.
    let written = folder.join(scheduler);
    if written.join("node-labels.sh").exists() {
        let mut labels = command(cluster, &written, "sh");
        success(&["node-labels.sh"], &labels.arg("node-labels.sh").output().unwrap());
    }
    let file = format!("--filename={}", written.join("queues.yaml").display());
    cluster.kubectl(&["apply", "--server-side", "--force-conflicts", &file]);
    // 3. No rule finds anything in a queue that was written.
    let mut check = command(cluster, &folder, env!("CARGO_BIN_EXE_muster"));
    let report = check.args(["check", "kubernetes", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let about: Vec<&Value> = findings.filter(|one| one.to_string().contains(OBJECT)).collect();
    assert!(about.is_empty(), "{about:#?}");
}

/// Returns a command that finds the cluster, and its programs.
fn command(cluster: &KubernetesCluster, folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("KUBECONFIG", cluster.kubeconfig());
    command.env("PATH", cluster.path_with_programs());
    command
}
