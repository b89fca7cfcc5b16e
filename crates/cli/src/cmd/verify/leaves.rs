//! The nodes of each leaf switch of a cluster: what Slurm knows of them, or labels of Kubernetes.

use std::path::PathBuf;
use std::process::Stdio;

use muster_delegate::kubernetes::{CheckedCluster, ListAnswer};
use muster_doctor::job::leaves;
use muster_kubernetes::leaf;
use muster_kubernetes::node::{NodeFacts, NodeText};
use serde_json::Value;

use crate::app::App;
use crate::on::On;

/// Returns the nodes of each switch, from `scontrol show topology`; `None` where it does not answer.
pub(super) async fn of_slurm() -> Option<Vec<Vec<String>>> {
    let folder = std::env::var_os("MUSTER_SLURM_BIN").map(PathBuf::from).unwrap_or_default();
    let mut command = tokio::process::Command::new(folder.join("scontrol"));
    command
        .args(["show", "topology"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.ok()?;
    Some(leaves(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the nodes of each switch that could have had a job with these nodes, from the labels of all nodes; `None` without
/// the right to list them, which is told.
pub(super) async fn of_kubernetes(app: &App, of_job: &[String]) -> Option<Vec<Vec<String>>> {
    let context = app.global.on.as_ref().and_then(On::kubernetes).flatten();
    let cluster = CheckedCluster::connect(None, context).await.ok()?;
    let answer = cluster.list(&[("", "nodes")]).await.pop()?;
    let ListAnswer::Listed { objects, .. } = answer else {
        app.ui.warning("the leaf switches are not known: you may not list nodes");
        return None;
    };
    let facts = |node: Value| serde_json::from_value::<NodeText>(node).ok()?.facts().ok();
    let nodes: Vec<NodeFacts> = objects.into_iter().filter_map(facts).collect();
    Some(leaf::leaves(&nodes, of_job))
}
