//! The wait of a RayJob's program for its nodes, with a made-up Ray.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the test asks Python")]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: &str = include_str!("../src/wait.py");

/// Module of Ray with two nodes that are 22 s old, of which the second joins at the second look.
const RAY: &str = "\
import time
from types import SimpleNamespace
looks = []
born = time.time() - 22
class GcsClient:
    def __init__(self, address):
        assert address == 'head:6379'
    def get_all_node_info(self):
        looks.append(0)
        node = lambda name, state: SimpleNamespace(node_manager_hostname=name, state=state, start_time_ms=born * 1000)
        nodes = [node('a', 0), node('gone', 1), node('b', 0)]
        return dict(enumerate(nodes[:1 + 2 * (len(looks) > 1)]))
";

/// Runs a program on two nodes; returns its exit code, its output, and the time that it took.
fn run(words: &[&str]) -> (Option<i32>, String, Duration) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("ray")).unwrap();
    fs::write(folder.path().join("ray/__init__.py"), "").unwrap();
    fs::write(folder.path().join("ray/_raylet.py"), RAY).unwrap();
    let begun = Instant::now();
    let mut command = Command::new("python3");
    command.args(["-c", WAIT, "2"]).args(words);
    command.env("PYTHONPATH", folder.path()).env("RAY_ADDRESS", "head:6379");
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), text.concat(), begun.elapsed())
}

#[test]
fn the_program_runs_when_the_nodes_are_there_and_its_end_is_told() {
    let (code, said, took) = run(&["sh", "-c", "echo ran; exit 3"]);
    assert_eq!((code, said.as_str()), (Some(3), "ran\n"));
    // The second node came after a second, and its pod is ready for KubeRay at an age of 25 s.
    assert!(took > Duration::from_millis(2500), "{took:?}");
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).0, Some(137));
    let (code, said, _) = run(&["no-such-program"]);
    assert_eq!((code, said.as_str()), (Some(127), "ray: there is no program `no-such-program`\n"));
}
