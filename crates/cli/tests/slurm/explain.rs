//! What would start a job now, from Slurm's own state: what is said holds when it is done.

use serde_json::json;

use crate::cluster::{Cluster, User};
use crate::muster::Muster;

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_that_is_changed_as_explain_says_starts_at_once() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Nobody);
    let text = |name: &str, nodes: u32| {
        format!("name: {name}\nnodes: {nodes}\ngpus: 8\ntime: 10m\nrun: exec sleep 300\n")
    };
    let holds = muster.submit(&text("holds", 6))[0];
    muster.reaches(holds, "running");
    let waits = muster.submit(&text("waits", 4))[0];
    cluster.until("Slurm says why", || muster.job(waits)["native"]["reason"] == "Resources");

    let explained = muster.json(&["explain", &waits.to_string()]);
    assert_eq!(explained["explanation"]["sooner"], json!([{ "kind": "nodes", "nodes": 2 }]), "{explained}");
    // Of one that is bound to nodes nothing is claimed.
    let bound = muster.submit(&format!("{}slurm: {{nodelist: node1}}\n", text("bound", 4)))[0];
    let explained = muster.json(&["explain", &bound.to_string()]);
    assert_eq!(explained["explanation"]["sooner"], json!([]), "{explained}");
    muster.cancel(&[waits, bound]);
    let smaller = muster.submit(&text("smaller", 2))[0];
    muster.reaches(smaller, "running");
    muster.cancel(&[holds, smaller]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_that_a_limit_keeps_starts_at_once_as_small_as_explain_says() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Nobody);
    // 16 GPUs are a user's in this QOS.
    let text = |name: &str, nodes: u32, gpus: u32| {
        format!(
            "name: {name}\nnodes: {nodes}\ngpus: {gpus}\ntime: 10m\nrun: exec sleep 300\nslurm: {{qos: capped}}\n"
        )
    };
    let holds = muster.submit(&text("holds", 1, 6))[0];
    muster.reaches(holds, "running");
    let waits = muster.submit(&text("waits", 3, 4))[0];
    cluster.until("Slurm says why", || muster.job(waits)["native"]["reason"] == "QOSMaxGRESPerUser");

    let explained = muster.json(&["explain", &waits.to_string()]);
    let expected = json!([
        { "kind": "nodes", "nodes": 2 },
        { "kind": "gpus_per_task", "gpus": 3, "per_node": 3 }
    ]);
    assert_eq!(explained["explanation"]["sooner"], expected, "{explained}");
    muster.cancel(&[waits]);
    for (nodes, gpus) in [(2, 4), (3, 3)] {
        let smaller = muster.submit(&text("smaller", nodes, gpus))[0];
        muster.reaches(smaller, "running");
        muster.cancel(&[smaller]);
    }
    muster.cancel(&[holds]);
}
