//! Two gangs of five compete for eight GPUs, beside short jobs: the example for Kubernetes, and the same in small. A
//! scheduler that starts pods one by one gives each gang a part of its GPUs, and both wait for ever.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use super::target::{KubernetesTarget, submit};
use crate::cluster::success;
use crate::conform::JobPlace;

/// Submits the jobs, and waits until all have ended. A rank of a gang ends when all five have started.
pub fn competing_gangs_run_whole(place: &KubernetesTarget, queue: &str) {
    let folder = place.folder();
    let folder = folder.display();
    let gang = |name: &str| {
        format!(
            "name: {name}\nqueue: {queue}\ntasks: 5\ngpus-per-task: 1\ntime: 5m\ngrace: 1s\nrun: |\n  \
             : > {folder}/{name}-of-five-$RANK\n  \
             until [ $(ls {folder} | grep -c {name}-of-five) = 5 ]; do usleep 50000; done\n"
        )
    };
    let quick =
        format!("name: quick\nqueue: {queue}\ngpus: 1\ntime: 1m\ngrace: 1s\nrun: sleep 1\n");
    submit(place, &[gang("left"), gang("right"), quick].join("---\n"));
    for name in ["left", "right", "quick"] {
        assert_eq!(place.call(&["wait", name]).0, 0, "{name}: {}", place.ok(&["ps", "-a"]));
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn gangs_that_compete_under_muster_run_whole() {
    competing_gangs_run_whole(&KubernetesTarget::new(), "default");
}

/// Every sum of a gang needs all its ranks: a gang that started in part would fail.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_example_runs_whole() {
    let place = KubernetesTarget::new();
    let image = "localhost/python:1";
    let python = "/usr/bin/python3";
    let library = ["-c", "import sysconfig; print(sysconfig.get_path('stdlib'), end='')"];
    let library = success(&library, &Command::new(python).args(library).output().unwrap());
    let words = ["image", image, python, "--with", &library];
    success(&words, &place.namespace.cluster().xtask(&words));
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    symlink(examples, place.folder().join("examples")).unwrap();
    let file = format!("{examples}/contention-kubernetes.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(text.matches("image: python:3.13-slim\n").count(), 4);
    submit(&place, &text.replace("python:3.13-slim", image));
    for name in ["left", "right", "sweep", "quick"] {
        let (code, _, stderr) = place.call(&["wait", name]);
        assert_eq!(code, 0, "{name}: {stderr}{}", place.ok(&["ps", "-a"]));
    }
    for name in ["left", "right"] {
        let output = place.ok(&["logs", name]);
        assert_eq!(output.matches("all right").count(), 5, "{output}");
    }
    // Eight GPUs hold one of the gangs, and the others around it.
    let job = |name: &str| -> Value {
        serde_json::from_str(&place.ok(&["show", name, "--json"])).unwrap()
    };
    let left = job("left");
    let right = job("right");
    let time = |job: &Value, field: &str| job["job"][field].as_u64().unwrap();
    assert!(time(&right, "started") >= time(&left, "ended"), "{left} {right}");
    assert!(time(&job("quick"), "ended") < time(&right, "ended"));
}
