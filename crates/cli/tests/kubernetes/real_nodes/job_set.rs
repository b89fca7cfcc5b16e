//! JobSets with the real controller of the Kubernetes project: gangs of several roles, and gangs that start
//! again as a whole, run under Muster's scheduler.

use std::fs;

use super::target::{KubernetesTarget, submit};
use crate::cluster::{KubernetesCluster, success, until};
use crate::conform::{self, JobPlace};

/// Running controller; it ends, and JobSets are unknown again, when this is dropped.
pub struct JobSetController(KubernetesCluster);

impl JobSetController {
    pub fn start() -> Self {
        let cluster = KubernetesCluster::here();
        let words = ["start", "jobset"];
        success(&words, &cluster.xtask(&words));
        Self(cluster)
    }
}

impl Drop for JobSetController {
    fn drop(&mut self) {
        let words = ["stop", "jobset"];
        let output = self.0.xtask(&words);
        // A second panic would end all tests and hide the first.
        if !std::thread::panicking() {
            success(&words, &output);
        }
    }
}

/// The first role listens, the second connects to it by its name, and ends with a code.
const MEET: &str = "\
groups:
- name: learner
  tasks: 2
  gpus-per-task: 2
  run: |
    echo weights > /tmp/line
    [ $RANK = 1 ] || nc -l -p $MASTER_PORT < /tmp/line
- name: actor
  tasks: 1
  gpus-per-task: 4
  run: |
    until said=$(nc $MASTER_ADDR $MASTER_PORT < /dev/null); do usleep 50000; done
    echo $MUSTER_GROUP $RANK of $WORLD_SIZE got $said
    exit $CODE
";

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn roles_run_whole_as_a_job_set() {
    let _controller = JobSetController::start();
    let place = KubernetesTarget::new();
    conform::roles_are_one_gang(&place);
    // 1. Both roles meet, and their exit code is the job's.
    for (name, code) in [("meet", 0), ("leave", 5)] {
        submit(&place, &format!("name: {name}\ntime: 5m\nenv: {{CODE: '{code}'}}\n{MEET}"));
        let (ended, stdout, stderr) = place.call(&["wait", name]);
        let logs = place.call(&["logs", name]);
        assert_eq!(ended, code, "{stdout}{stderr}{logs:?}");
        assert!(logs.1.contains("actor 2 of 3 got weights"), "{logs:?}");
    }
    // 2. The controller deletes what runs when a role fails, and `logs` says whose output is gone.
    let groups = "groups: [{name: a, tasks: 1, run: exit 4}, {name: b, tasks: 1, run: sleep 1000}]";
    submit(&place, &format!("name: ends\ntime: 5m\ngrace: 1s\n{groups}\n"));
    assert_eq!(place.call(&["wait", "ends"]).0, 4);
    until("the pod is deleted", || {
        let (code, _, stderr) = place.call(&["logs", "ends"]);
        code == 0 && stderr.contains("the output of 1 task is not shown: rank 1 of ends-")
    });
    // 3. A suspended JobSet is started by the scheduler.
    submit(&place, &format!("name: held\nhold: true\ntime: 5m\nenv: {{CODE: '0'}}\n{MEET}"));
    place.ok(&["release", "held"]);
    assert_eq!(place.call(&["wait", "held"]).0, 0);
    // 4. It waits whole, and without pods, while others have one of its GPUs.
    let gate = place.folder().join("may-end");
    let wait = format!("until [ -e {} ]; do usleep 50000; done", gate.display());
    submit(&place, &format!("name: holds\ngpus: 1\ntime: 5m\nrun: {wait}\n"));
    until("the first runs", || place.ok(&["ps"]).contains("running"));
    submit(&place, &format!("name: waits\ntime: 5m\nenv: {{CODE: '0'}}\n{MEET}"));
    until("it is explained", || place.call(&["explain", "waits"]).1.contains("holds-"));
    let mut pods = place.namespace.list("muster.run/job");
    pods.retain(|pod| pod["metadata"]["name"].as_str().unwrap().starts_with("waits-"));
    assert!(pods.is_empty(), "{pods:?}");
    fs::write(&gate, "").unwrap();
    assert_eq!(place.call(&["wait", "waits"]).0, 0);
}

/// The first rank fails once both have started, as often as it is told. The second ends only if the first
/// does not fail.
const FAIL: &str = "  echo $RANK >> {starts}
  round=$(grep -c $RANK {starts})
  until [ $(grep -c 0 {starts}) -ge $round ] && [ $(grep -c 1 {starts}) -ge $round ]; do usleep 50000; done
  [ $round -le $FAILURES ] || exit 0
  [ $RANK = 0 ] && exit 6
  sleep 1000
";

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gang_that_failed_starts_again_as_a_whole() {
    let _controller = JobSetController::start();
    a_failed_gang_starts_again(&KubernetesTarget::new());
}

/// A gang that failed starts again as a whole, and only as often as it may.
pub fn a_failed_gang_starts_again(place: &KubernetesTarget) {
    for (name, failures, code) in [("recovers", 1, 0), ("gives-up", 2, 6)] {
        let starts = place.folder().join(name);
        let run = FAIL.replace("{starts}", &starts.display().to_string());
        let all = place.all_of_it();
        let env = format!("{{FAILURES: '{failures}'}}");
        let job = format!("{all}\ntime: 5m\ngrace: 1s\nrestart: 1\nenv: {env}\nrun: |\n{run}");
        submit(place, &format!("name: {name}\n{job}"));
        let (ended, stdout, stderr) = place.call(&["wait", name]);
        let logs = place.call(&["logs", name]);
        assert_eq!(ended, code, "{stdout}{stderr}{logs:?}");
        let starts = fs::read_to_string(&starts).unwrap();
        assert_eq!(starts.matches('0').count(), 2, "{starts}");
        assert_eq!(starts.matches('1').count(), 2, "{starts}");
    }
}
