//! Which further nodes a growing cluster asks for: `growth.py` on demands that are made up, without Ray.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the test asks Python")]

use std::process::Command;

use serde_json::{Value, json};

const GROWTH: &str = include_str!("../src/growth.py");

/// Asks for the gangs of each demand; up to four further nodes of 2 GPUs, 3 CPUs and 4 GB (of which 3 GB are not
/// for objects).
const ASK: &str = r#"
one = lambda bundle, count: SimpleNamespace(bundle=bundle, count=count)
group = lambda strategy, bundles: SimpleNamespace(strategy=strategy, bundles_by_count=[one(*each) for each in bundles])
growth = Growth.__new__(Growth)
growth.terms = {"nodes": 4, "gpus": 2, "cpus": 3, "memory_bytes": 4 * 10**9}
answers = []
for demand, free in json.loads(sys.argv[1]):
    demands = SimpleNamespace(
        placement_group_demand=[group(*each) for each in demand.get("groups", [])],
        ray_task_actor_demand=[SimpleNamespace(bundles_by_count=[one(*each) for each in demand.get("single", [])])],
    )
    answers.append(sorted(growth.gangs(demands, free).elements()))
print(json.dumps(answers))
"#;

fn gangs(cases: &[(&Value, &Value)]) -> Vec<Vec<u32>> {
    let begin = "import collections, json, math, os, subprocess, sys, threading, time\n\
        from types import SimpleNamespace\nSETTINGS = {\"object_store_percent\": 25}\nENV = {}\n";
    let program = format!("{begin}{GROWTH}{ASK}");
    let output =
        Command::new("python3").args(["-c", &program, &json!(cases).to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_waits_becomes_gangs_of_nodes() {
    let none = json!([]);
    let head = json!([{"GPU": 1, "CPU": 1, "memory": 1e9}]);
    let gpu = |count: u32| json!([{"GPU": 1}, count]);
    let cases = [
        (json!({}), &head, vec![]),
        // Two bundles share a node where they may.
        (json!({"groups": [["PACK", [gpu(5)]]]}), &none, vec![3]),
        (json!({"groups": [["PACK", [gpu(5)]]]}), &head, vec![2]),
        (json!({"groups": [["STRICT_SPREAD", [gpu(3)]]]}), &head, vec![2]),
        (json!({"groups": [["SPREAD", [gpu(3)]]]}), &head, vec![1]),
        (json!({"groups": [["STRICT_PACK", [gpu(2)]]]}), &head, vec![1]),
        // Each group is a gang of its own, and the second one uses what the first leaves free.
        (json!({"groups": [["PACK", [gpu(3)]], ["PACK", [gpu(3)]]]}), &none, vec![1, 2]),
        // No number of nodes would do.
        (json!({"groups": [["STRICT_PACK", [gpu(3)]]]}), &head, vec![]),
        (json!({"groups": [["STRICT_SPREAD", [gpu(5)]]]}), &none, vec![]),
        (json!({"groups": [["PACK", [[{"TPU": 1}, 1]]]]}), &none, vec![]),
        (json!({"single": [[{"memory": 3.1e9}, 1]]}), &none, vec![]),
        // Tasks and actors get nodes one by one, as many as may be.
        (json!({"single": [[{"GPU": 1, "CPU": 1}, 3]]}), &head, vec![1]),
        (json!({"single": [[{"GPU": 2}, 2], [{"CPU": 1}, 2]]}), &head, vec![1, 1]),
        (json!({"single": [[{"GPU": 1}, 1_000_000]]}), &none, vec![1, 1, 1, 1]),
        (json!({"single": [[{"memory": 3e9}, 1]]}), &none, vec![1]),
        // The model of a GPU is known when its node is there; zeros need nothing.
        (json!({"single": [[{"GPU": 1, "accelerator_type:H100": 0.001}, 1]]}), &none, vec![1]),
        (json!({"groups": [["PACK", [[{"GPU": 0, "CPU": 1}, 1]]]]}), &json!([{"CPU": 1}]), vec![]),
    ];
    let asked: Vec<(&Value, &Value)> = cases.iter().map(|case| (&case.0, case.1)).collect();
    for ((demand, free, expected), answer) in cases.iter().zip(gangs(&asked)) {
        assert_eq!(answer, *expected, "{demand} beside {free}");
    }
}
