//! Jobs with the schedulers and operators of other projects: the program finds the one that the cluster has, and each runs in
//! a cluster of its own with real nodes (`cargo xtask kubernetes test --peers`).

mod kai;
mod kuberay;
mod kueue;
mod volcano;
mod written_queues;

use serde_json::Value;

use crate::check::proved;
use crate::cluster::until;
use crate::conform::JobPlace;
use crate::real_nodes::target::{KubernetesTarget, submit};

/// Words of a scheduler about a gang that waits for GPUs.
struct Waiting {
    /// Name of the scheduler in explanations.
    scheduler: &'static str,
    /// Part of its reason.
    reason: &'static str,
    /// Number of its pods meanwhile.
    pods: usize,
}

/// A gang waits without a pod that holds a GPU, is explained in the words of its scheduler, and runs whole when the one
/// before it has been cancelled.
fn a_gang_waits_whole(place: &KubernetesTarget, words: &Waiting) {
    let gate = place.folder().join("may-end");
    let all = place.all_of_it();
    let wait = format!("until [ -e {} ]; do usleep 50000; done", gate.display());
    submit(place, &format!("name: first\n{all}\ntime: 10m\ngrace: 1s\nrun: {wait}\n"));
    until("the first runs", || place.ok(&["ps"]).contains("2 of 2 ranks"));
    submit(place, &format!("name: second\n{all}\ntime: 10m\nrun: echo started\n"));
    let listed = |words: &[&str], part: &str| {
        let text = place.ok(words);
        text.lines().any(|line| line.contains("second") && line.contains(part))
    };
    until("the list says why it waits", || listed(&["ps"], words.reason));
    // 1. Both are explained as gangs.
    let explained = place.ok(&["explain", "second"]);
    let scheduler = format!("scheduler  {}, not muster", words.scheduler);
    for part in ["is pending", &scheduler, words.reason] {
        assert!(explained.contains(part), "{explained}");
    }
    let explained = place.ok(&["explain", "first"]);
    for part in ["is running", "2 pods run", "2 pods on node1, node2"] {
        assert!(explained.contains(part), "{explained}");
    }
    let mut pods = place.namespace.list("muster.run/job");
    pods.retain(|pod| pod["metadata"]["name"].as_str().unwrap().starts_with("second-"));
    assert_eq!(pods.len(), words.pods, "{pods:?}");
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"].is_null()), "{pods:?}");
    // 2. It is verified, and makes room.
    let (code, stdout, stderr) = place.call(&["verify", "first", "--json"]);
    let report: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    let checks = report["checks"].as_array().unwrap();
    let whole = checks.iter().find(|check| check["check"] == "whole").unwrap();
    assert_eq!((code, &whole["outcome"]), (0, &Value::from("passed")), "{report}");
    place.ok(&["cancel", "first"]);
    assert_eq!(place.call(&["wait", "second"]).0, 0);
    assert_eq!(place.ok(&["logs", "second"]), "0: started\n1: started\n");
}

/// `check --prove` finds that a scheduler starts gangs as a whole.
fn gangs_are_proved_whole(place: &KubernetesTarget, words: &[&str]) {
    assert_eq!(
        proved(place.namespace.cluster(), place.namespace.name(), words),
        [
            ("passed", "none of 3 pods with 4 GPUs got a node, 2 fit"),
            ("passed", "2 pods with 4 GPUs got their nodes together"),
        ]
        .map(|(outcome, says)| (outcome.to_owned(), says.to_owned()))
    );
}

/// A gang that is larger than the cluster waits for ever, with this reason.
fn a_gang_too_large_says_so(place: &KubernetesTarget, reason: &str) {
    submit(place, "name: large\nnodes: 3\ngpus: 4\nrun: 'true'\n");
    until("the list says why it waits", || place.ok(&["ps"]).contains(reason));
    place.ok(&["cancel", "large"]);
    until("it is gone", || !place.ok(&["ps"]).contains("large"));
}
