//! A job file as objects of Kubernetes: its gang runs on two real nodes, and every task knows its
//! place.

use crate::cluster::{KubernetesCluster, success, until};
use crate::export::export;
use crate::scheduler_process::SchedulerProcess;

const JOB: &str = "\
name: hello
nodes: 2
tasks-per-node: 2
gpus: 2
time: 10m
env: {PRICE: $(5)}
run: |
  echo \"rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, node $NODE_RANK, pid $$, $PRICE, $(echo shell) $(( $(echo 4) / 2 ))\"
kubernetes: {image: 'localhost/busybox:1'}
";

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn every_task_of_an_exported_gang_knows_its_place() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("exported-job");
    let objects = success(&["export"], &export(JOB, "muster"));
    let words = ["create", "--filename=-", "--namespace", namespace.name()];
    success(&words, &cluster.kubectl_with(&words, &objects));
    until("the job is complete", || {
        let job = &namespace.objects("jobs", "muster.run/job=hello")[0];
        job["status"]["succeeded"] == 2
    });
    let mut nodes = Vec::new();
    let mut lines = Vec::new();
    for pod in namespace.list("muster.run/job=hello") {
        nodes.push(pod["spec"]["nodeName"].as_str().unwrap().to_owned());
        let name = pod["metadata"]["name"].as_str().unwrap();
        for container in ["task0", "task1"] {
            let words = ["logs", name, "--container", container, "--namespace", namespace.name()];
            let line = cluster.kubectl(&words);
            let (before, after) = line.trim().split_once(", pid ").unwrap();
            let (pid, after) = after.split_once(", ").unwrap();
            assert!(pid.parse::<u32>().is_ok(), "{line}");
            lines.push(format!("{before}, {after}"));
        }
    }
    nodes.sort();
    assert_eq!(nodes, ["node1", "node2"]);
    lines.sort();
    let expected: Vec<String> = (0..4)
        .map(|rank| {
            format!("rank {rank} of 4, local {}, node {}, $(5), shell 2", rank % 2, rank / 2)
        })
        .collect();
    assert_eq!(lines, expected);
}
