//! Faults on a real control plane: the scheduler killed, the API server killed, etcd paused, nodes
//! lost, bindings refused, and kube-scheduler as a rival on the same nodes. No gang stays half
//! started, and everything runs in the end.
//!
//! `MUSTER_TEST_KILLS` sets the number of kills of the scheduler, `MUSTER_TEST_SEED` the seed.

use std::time::{Duration, Instant};

use muster_testkit::rng::SeededRng;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, pod_spec, success};
use crate::pod_watch::PodWatch;
use crate::scheduler_process::SchedulerProcess;

/// Kills of the scheduler that a test run has time for: after each, the next process waits for the
/// lease. docs/kubernetes.md has the result of 100.
const KILLS: u64 = 3;
/// Gangs that wait or run at the same time.
const MAX_JOBS: usize = 5;
/// Time after which a half-started gang is rolled back (`roll_back.rs` of the scheduler).
const ROLLED_BACK: Duration = Duration::from_secs(30);
/// Longest time without a scheduler after a kill, and until the next kill.
const TAKE_OVER: Duration = Duration::from_secs(25);
/// Time for everything to run after the last fault.
const PATIENCE: Duration = Duration::from_secs(300);
/// Policy that refuses bindings of the first pods of all gangs while its binding exists.
const REFUSAL: &str = "refuse-some-bindings";

struct Chaos<'a> {
    cluster: &'a KubernetesCluster,
    namespace: &'a TestNamespace<'a>,
    rng: SeededRng,
    jobs: Vec<String>,
    rivals: usize,
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn no_gang_stays_half_started_and_everything_runs_in_the_end() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap())
    };
    let seed = number("MUSTER_TEST_SEED", 1);
    let kills = number("MUSTER_TEST_KILLS", KILLS);
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("chaos");
    let watch = PodWatch::start(&cluster, namespace.name());
    let mut chaos = Chaos {
        cluster: &cluster,
        namespace: &namespace,
        rng: SeededRng::new(seed),
        jobs: Vec::new(),
        rivals: 0,
    };
    chaos.make_refusal();
    let start = Instant::now();
    for _ in 0..kills {
        chaos.round();
    }
    let faults = start.elapsed();

    // After the faults: everything runs, and nothing is half started any more.
    let _scheduler = SchedulerProcess::active(&cluster);
    chaos.wait_for_all();
    let seen = watch.end();
    println!(
        "{kills} kills in {} s, {} gangs, {} bindings seen, longest half start {:.1} s, \
         {} of our pods on a full node, {} of them without a rival's binding just before",
        faults.as_secs(),
        chaos.jobs.len(),
        seen.bindings,
        seen.longest_half.as_secs_f32(),
        seen.rejected,
        seen.overcommitted.len(),
    );
    assert!(seen.bindings > 0);
    assert!(seen.overcommitted.is_empty(), "seed {seed}: {:#?}", seen.overcommitted);
    // A process that takes over counts anew, and may be killed, too, before it rolls back.
    let most = ROLLED_BACK + TAKE_OVER * 3;
    assert!(seen.longest_half < most, "seed {seed}: {:?}", seen.longest_half);
}

impl Chaos<'_> {
    /// Starts a scheduler, adds work and faults, and kills the scheduler at a random moment. The lease
    /// of a killed process is what keeps its last requests apart from those of the next.
    fn round(&mut self) {
        self.submit();
        let scheduler = SchedulerProcess::active(self.cluster);
        self.submit();
        let refused = self.rng.chance(30).then(|| Refusal::start(self.cluster));
        match self.rng.roll(6) {
            0 => drop(self.cluster.killed("kube-apiserver")),
            1 => self.pause_etcd(),
            2 => {
                let node = format!("node{}", self.rng.between(1, 8));
                let lost = self.cluster.stopped(&node);
                self.let_pass(3_000);
                drop(lost);
            }
            _ => self.let_pass(3_000),
        }
        drop(refused);
        self.let_pass(1_500);
        scheduler.kill();
    }

    /// Lets a random time pass, below a limit: the moment of a fault is the input of this test.
    fn let_pass(&mut self, most_millis: u64) {
        std::thread::sleep(Duration::from_millis(self.rng.roll(most_millis)));
    }

    fn pause_etcd(&mut self) {
        let pid = Pid::from_raw(self.cluster.pid_of("etcd")).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        self.let_pass(4_000);
        kill_process(pid, Signal::CONT).unwrap();
    }

    /// Adds gangs up to the limit, and pods of the rival.
    fn submit(&mut self) {
        let open = self.namespace.objects("jobs", "");
        let open = open.iter().filter(|job| job["status"]["completionTime"].is_null()).count();
        for _ in open..MAX_JOBS {
            let name = format!("gang-{}", self.jobs.len());
            let pods = self.rng.between(2, 6);
            let gpus = *self.rng.pick(&[1, 4, 8]);
            let secs = self.rng.between(1, 5);
            self.namespace.create_object(&gang(&name, pods, gpus, secs));
            self.jobs.push(name);
        }
        for _ in 0..2 {
            let mut rival = pod("default-scheduler", *self.rng.pick(&[1, 2]), 2);
            rival["apiVersion"] = json!("v1");
            rival["kind"] = json!("Pod");
            rival["metadata"]["name"] = json!(format!("rival-{}", self.rivals));
            self.namespace.create_object(&rival);
            self.rivals += 1;
        }
    }

    /// Makes the policy by which the API server refuses bindings where it is bound.
    fn make_refusal(&self) {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": REFUSAL},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["pods/binding"],
                }]},
                "validations": [{
                    "expression": "!request.name.contains('-0-')",
                    "message": "refused for a test",
                }],
            },
        });
        let words = ["apply", "--filename=-"];
        success(&words, &self.cluster.kubectl_with(&words, &policy.to_string()));
    }

    fn wait_for_all(&self) {
        let start = Instant::now();
        loop {
            let jobs = self.namespace.objects("jobs", "");
            let left: Vec<String> = jobs
                .iter()
                .filter(|job| job["status"]["completionTime"].is_null())
                .map(|job| format!("{}: {}", job["metadata"]["name"], job["status"]))
                .collect();
            if left.is_empty() && jobs.len() == self.jobs.len() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "these have not run: {left:#?}");
        }
    }
}

/// The binding of the policy: while it exists, some bindings are refused.
struct Refusal<'a>(&'a KubernetesCluster);

impl<'a> Refusal<'a> {
    fn start(cluster: &'a KubernetesCluster) -> Self {
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": REFUSAL},
            "spec": {"policyName": REFUSAL, "validationActions": ["Deny"]},
        });
        let words = ["apply", "--filename=-"];
        success(&words, &cluster.kubectl_with(&words, &binding.to_string()));
        Self(cluster)
    }
}

impl Drop for Refusal<'_> {
    fn drop(&mut self) {
        let kind = "validatingadmissionpolicybinding";
        let words = ["delete", kind, REFUSAL, "--ignore-not-found"];
        let output = self.0.kubectl_with(&words, "");
        if !std::thread::panicking() {
            success(&words, &output);
        }
    }
}

/// Returns an Indexed Job, whose pods are a gang and are made again when they fail.
fn gang(name: &str, pods: u64, gpus: u64, secs: u64) -> Value {
    let mut template = pod("muster", gpus, secs);
    template["metadata"]["annotations"]["gang-size"] = json!(pods.to_string());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 1000,
            "template": template,
        },
    })
}

fn pod(scheduler: &str, gpus: u64, secs: u64) -> Value {
    // Pods of a lost node are made again at once.
    let tolerations = ["not-ready", "unreachable"].map(|reason| {
        json!({
            "key": format!("node.kubernetes.io/{reason}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 1,
        })
    });
    let mut spec = pod_spec(scheduler, gpus);
    spec["tolerations"] = json!(tolerations);
    json!({
        "metadata": {"annotations": {"fake-kubelet/run-seconds": secs.to_string()}},
        "spec": spec,
    })
}
