//! Jobs whose pods the cluster ends: they save before, and start again, a gang as a whole.

use std::fs;

use serde_json::{Value, json};

use super::target::{KubernetesTarget, submit};
use crate::cluster::until;
use crate::conform::JobPlace;

/// Notes a checkpoint, and acknowledges it.
const SAVES: &str = "trap 'echo saved >> $log; echo 1 >> $MUSTER_CHECKPOINT_FILE' USR1";

/// Returns a job with all GPUs of a node, which notes its starts and its SIGTERM, and ends once the test lets it. `more` are
/// lines of the job file, and `before` commands of its program.
fn job(place: &KubernetesTarget, name: &str, priority: &str, [more, before]: [&str; 2]) -> String {
    let folder = place.folder();
    let folder = folder.display();
    format!(
        "name: {name}\ngpus: 4\ngrace: 1s\nlabels: {{kubernetes.io/hostname: node1}}\n{more}run: |\n  \
         log={folder}/{name}\n  trap 'echo ended >> $log; exit 1' TERM\n  {before}\n  echo started >> $log\n  \
         until [ -e $log-may-end ]; do usleep 50000; done\n\
         kubernetes: {{scheduler: none, priority-class: {priority}, volumes: ['shared:{folder}']}}\n"
    )
}

/// Returns a namespace whose jobs kube-scheduler starts, and the priority classes `disrupted` and `urgent`.
fn target() -> KubernetesTarget {
    let place = KubernetesTarget::without_scheduler();
    create_classes(&place);
    place
}

fn create_classes(place: &KubernetesTarget) {
    for (name, value) in [("disrupted", 1), ("urgent", 1000)] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        });
        place.namespace.cluster().kubectl_with(&["apply", "--filename=-"], &class.to_string());
    }
}

/// Returns a gang with all GPUs of both nodes, whose ranks note their starts, and end once the test lets them.
fn gang(place: &KubernetesTarget, name: &str, priority: &str) -> String {
    let folder = place.folder();
    let folder = folder.display();
    let all = place.all_of_it();
    format!(
        "name: {name}\n{all}\ntime: 10m\ngrace: 1s\nrun: |\n  echo started >> {folder}/{name}\n  \
         until [ -e {folder}/{name}-may-end ]; do usleep 50000; done\n\
         kubernetes: {{priority-class: {priority}, volumes: ['shared:{folder}']}}\n"
    )
}

/// Returns what a job has noted.
fn noted(place: &KubernetesTarget, name: &str) -> Vec<String> {
    let text = fs::read_to_string(place.folder().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn let_end(place: &KubernetesTarget, name: &str) {
    fs::write(place.folder().join(format!("{name}-may-end")), "").unwrap();
    assert_eq!(place.call(&["wait", name]).0, 0);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_preempted_job_of_one_pod_starts_again() {
    let place = target();
    // 1. It has no restarts, and gives way to an urgent one.
    submit(&place, &job(&place, "low", "disrupted", ["", ""]));
    until("it runs", || noted(&place, "low") == ["started"]);
    submit(&place, &job(&place, "high", "urgent", ["", ""]));
    until("the urgent one runs in its place", || noted(&place, "high") == ["started"]);
    let shown =
        || -> Value { serde_json::from_str(&place.ok(&["show", "low", "--json"])).unwrap() };
    until("it waits again", || shown()["job"]["state"] == "pending");
    // 2. It runs from its start once there is room, and ends well.
    let_end(&place, "high");
    until("it runs again", || noted(&place, "low") == ["started", "ended", "started"]);
    let_end(&place, "low");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_preempted_gang_waits_and_starts_again_whole() {
    let place = KubernetesTarget::new();
    create_classes(&place);
    submit(&place, &gang(&place, "low", "disrupted"));
    until("it runs", || noted(&place, "low").len() == 2);
    submit(&place, &gang(&place, "high", "urgent"));
    until("the urgent one runs in its place", || noted(&place, "high").len() == 2);
    // It is not over: it waits for the GPUs that it had, and nothing of it runs.
    until("it says so", || {
        let listed = place.ok(&["ps"]);
        let mut lines = listed.lines();
        lines.any(|line| line.contains("low") && line.contains("pending") && line.contains("GPUs"))
    });
    assert_eq!(noted(&place, "low").len(), 2);
    let_end(&place, "high");
    until("it runs again", || noted(&place, "low").len() == 4);
    let_end(&place, "low");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_preempted_job_is_asked_to_save_before_it_is_stopped() {
    let place = target();
    let more = "checkpoint: {signal: USR1, grace: 60s}\n";
    submit(&place, &job(&place, "low", "disrupted", [more, SAVES]));
    until("it runs", || noted(&place, "low") == ["started"]);
    submit(&place, &job(&place, "high", "urgent", ["", ""]));
    // Long before the 60 seconds are over, as it acknowledges.
    until("the urgent one runs in its place", || noted(&place, "high") == ["started"]);
    assert_eq!(noted(&place, "low"), ["started", "saved", "ended"]);
    let_end(&place, "high");
    until("it runs again", || noted(&place, "low").len() == 4);
    let_end(&place, "low");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_job_is_asked_to_save_at_its_time_limit() {
    let place = target();
    let more = "time: 20s\ncheckpoint: {signal: USR1, grace: 10s}\n";
    submit(&place, &job(&place, "long", "disrupted", [more, SAVES]));
    assert_eq!(place.call(&["wait", "long"]).0, 124);
    until("it has ended", || noted(&place, "long") == ["started", "saved", "ended"]);
}
