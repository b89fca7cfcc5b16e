//! Access to the test cluster: kubectl with a deadline, a namespace for each test, pods, and stopping a
//! program or a node. Waiting is left to `kubectl wait` where it knows the condition.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for a condition; far above the usual time, for busy machines.
const PATIENCE: &str = "--timeout=120s";
/// Time limit of a command in seconds, above [`PATIENCE`].
const COMMAND_SECS: &str = "150";

/// Image of the program on real nodes.
const PROGRAM_IMAGE: &str = "localhost/muster:1";

/// Longest wait for a condition that kubectl does not know.
const UNTIL: Duration = Duration::from_secs(60);

/// Waits until a condition holds, which asks the cluster each time.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < UNTIL, "never: {what}");
    }
}

/// The running test cluster.
pub struct KubernetesCluster {
    dir: PathBuf,
}

impl KubernetesCluster {
    /// Returns the cluster that the test command started.
    pub fn here() -> Self {
        let dir = std::env::var_os("MUSTER_TEST_KUBERNETES");
        Self { dir: dir.expect("run by cargo xtask kubernetes test").into() }
    }

    /// Creates a namespace, which is deleted with all its pods when the test is over.
    pub fn namespace(&self, name: &'static str) -> TestNamespace<'_> {
        self.kubectl(&["create", "namespace", name]);
        // Pods are refused until the controller manager has made their account.
        self.kubectl(&["wait", "--for=create", "serviceaccount/default", PATIENCE, "-n", name]);
        TestNamespace { cluster: self, name }
    }

    /// Runs kubectl as the administrator and returns its output.
    pub fn kubectl(&self, words: &[&str]) -> String {
        success(words, &self.kubectl_with(words, ""))
    }

    /// Runs kubectl, which may fail, with a text on its standard input.
    pub fn kubectl_with(&self, words: &[&str], input: &str) -> Output {
        let kubectl = self.kubectl_command(words);
        let mut command = Command::new("timeout");
        command.arg(COMMAND_SECS).arg(kubectl.get_program()).args(kubectl.get_args());
        command.env("KUBECONFIG", self.kubeconfig());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails at once ends before it reads.
        let _is_read = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Returns a command of kubectl as the administrator, without a time limit.
    pub fn kubectl_command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.dir.join("bin/kubectl"));
        command.args(words).env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Returns the search path with the cluster's programs, such as kubectl, before others.
    pub fn path_with_programs(&self) -> String {
        format!("{}:{}", self.dir.join("bin").display(), std::env::var("PATH").unwrap())
    }

    /// Returns the kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Returns the pid of a program of the cluster.
    pub fn pid_of(&self, program: &str) -> i32 {
        let file = self.dir.join("run").join(format!("{program}.pid"));
        std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
    }

    /// Returns an object, or a list of objects.
    pub fn get(&self, words: &[&str]) -> Value {
        let text = self.kubectl(&[&["get", "--output=json"], words].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// Waits for a condition of an object, as `kubectl wait --for` names it.
    pub fn wait(&self, object: &str, condition: &str) {
        self.kubectl(&["wait", object, &format!("--for={condition}"), PATIENCE]);
    }

    /// Stops a program or node of the cluster, which is started again when the result is dropped.
    pub fn stopped<'a>(&'a self, name: &'a str) -> Stopped<'a> {
        self.ended("stop", name)
    }

    /// Kills a program or node at once, which is started again when the result is dropped.
    pub fn killed<'a>(&'a self, name: &'a str) -> Stopped<'a> {
        self.ended("kill", name)
    }

    fn ended<'a>(&'a self, verb: &str, name: &'a str) -> Stopped<'a> {
        success(&[verb, name], &self.xtask(&[verb, name]));
        Stopped { cluster: self, name }
    }

    /// Gives all real nodes an image of the program; returns its name.
    pub fn program_image(&self) -> &'static str {
        let words = ["image", PROGRAM_IMAGE, env!("CARGO_BIN_EXE_muster")];
        success(&words, &self.xtask(&words));
        PROGRAM_IMAGE
    }

    /// Runs `cargo xtask kubernetes` on this cluster.
    pub fn xtask(&self, words: &[&str]) -> Output {
        self.xtask_with(words, &[])
    }

    /// Runs `cargo xtask kubernetes` on this cluster, with words that follow its folder.
    pub fn xtask_with(&self, words: &[&str], rest: &[&str]) -> Output {
        let xtask = std::env::var_os("MUSTER_XTASK").expect("run by cargo xtask kubernetes test");
        Command::new(xtask)
            .arg("kubernetes")
            .args(words)
            .arg(&self.dir)
            .args(rest)
            .output()
            .unwrap()
    }
}

/// Returns the output of a command that must have succeeded.
pub fn success(words: &[&str], output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}\n{stdout}{stderr}", output.status);
    stdout.into_owned()
}

/// Program or fake node that is started again on drop, even after a panic, so that later tests find the
/// cluster complete.
pub struct Stopped<'a> {
    cluster: &'a KubernetesCluster,
    name: &'a str,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let words = ["start", self.name];
        let output = self.cluster.xtask(&words);
        // A second panic would end all tests and hide the first.
        if !std::thread::panicking() {
            success(&words, &output);
        }
    }
}

/// Namespace of one test.
pub struct TestNamespace<'a> {
    cluster: &'a KubernetesCluster,
    name: &'static str,
}

impl<'a> TestNamespace<'a> {
    pub fn cluster(&self) -> &'a KubernetesCluster {
        self.cluster
    }

    pub fn create(&self, pod: &TestPod) {
        let manifest = pod.manifest(self.name).to_string();
        let words = ["create", "--filename=-"];
        success(&words, &self.cluster.kubectl_with(&words, &manifest));
    }

    /// Waits until a pod has a phase; returns the pod.
    pub fn reaches(&self, pod: &str, phase: &str) -> Value {
        self.wait(pod, &format!("jsonpath={{.status.phase}}={phase}"));
        self.pod(pod)
    }

    /// Waits for a condition of a pod.
    pub fn wait(&self, pod: &str, condition: &str) {
        let pod = format!("pod/{pod}");
        let condition = format!("--for={condition}");
        self.cluster.kubectl(&["wait", &pod, &condition, PATIENCE, "--namespace", self.name]);
    }

    pub fn pod(&self, pod: &str) -> Value {
        self.cluster.get(&["pod", pod, "--namespace", self.name])
    }

    /// Returns true if a pod has a node.
    pub fn has_node(&self, pod: &str) -> bool {
        self.pod(pod)["spec"]["nodeName"].is_string()
    }

    /// Returns the number of pods with a node that a label selector matches.
    pub fn bound(&self, selector: &str) -> usize {
        self.list(selector).iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    /// Returns what a pod says about why it has no node; empty if it says nothing.
    pub fn reason(&self, pod: &str) -> String {
        let pod = self.pod(pod);
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|one| one["type"] == "PodScheduled");
        scheduled.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned()
    }

    /// Deletes a pod without waiting for its end.
    pub fn delete(&self, pod: &str) {
        let words = ["delete", "pod", pod, "--wait=false", "--namespace", self.name];
        self.cluster.kubectl(&words);
    }

    /// Deletes the pods that a label selector matches, and waits for their end.
    pub fn delete_all(&self, selector: &str) {
        self.cluster.kubectl(&["delete", "pods", "--selector", selector, "--namespace", self.name]);
    }

    /// Runs a command in a pod's container.
    pub fn exec(&self, pod: &str, words: &[&str]) {
        let exec = ["exec", pod, "--namespace", self.name, "--"];
        self.cluster.kubectl(&[&exec[..], words].concat());
    }

    pub fn log(&self, pod: &str) -> String {
        self.cluster.kubectl(&["logs", pod, "--namespace", self.name])
    }

    /// Creates an object in the namespace. The API server refuses a kind for a while after its definition is
    /// established, until its admission policies know it, too.
    pub fn create_object(&self, object: &Value) {
        let words = ["create", "--filename=-", "--namespace", self.name];
        let mut output = self.cluster.kubectl_with(&words, &object.to_string());
        until("the kind is known", || {
            let is_unknown =
                String::from_utf8_lossy(&output.stderr).contains("There can be a delay between");
            if is_unknown {
                output = self.cluster.kubectl_with(&words, &object.to_string());
            }
            !is_unknown
        });
        success(&words, &output);
    }

    /// Returns the objects of a kind that a label selector matches; an empty one matches all.
    pub fn objects(&self, kind: &str, selector: &str) -> Vec<Value> {
        let selector = format!("--selector={selector}");
        let list = self.cluster.get(&[kind, &selector, "--namespace", self.name]);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the pods that a label selector matches.
    pub fn list(&self, selector: &str) -> Vec<Value> {
        self.objects("pods", selector)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Deletes the namespace and waits for its end, so that its name is free again.
    pub fn end(self) {
        let (cluster, name) = (self.cluster, self.name);
        drop(self);
        cluster.kubectl(&["wait", "--for=delete", &format!("namespace/{name}"), PATIENCE]);
    }
}

impl Drop for TestNamespace<'_> {
    fn drop(&mut self) {
        // By force: a test may have failed while a node was stopped. Its pods are gone before the next
        // test starts.
        let of_it = ["--namespace", self.name];
        let pods = ["delete", "pods", "--all", "--force", "--grace-period=0"];
        self.cluster.kubectl_with(&[&pods[..], &of_it].concat(), "");
        self.cluster.kubectl_with(&["delete", "namespace", self.name, "--wait=false"], "");
    }
}

/// Returns the specification of a pod for fake nodes, with one container that is never restarted.
pub fn pod_spec(scheduler: &str, gpus: u64) -> Value {
    json!({
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "main",
            "image": "none",
            "resources": {"limits": {"nvidia.com/gpu": gpus}},
        }],
    })
}

/// A pod of one container that is never restarted.
#[derive(Default)]
pub struct TestPod {
    pub name: &'static str,
    pub gpus: u32,
    /// Node to which it is bound without a scheduler; `None` for the default scheduler.
    pub node: Option<&'static str>,
    /// Instructions for the fake kubelet, without their prefix.
    pub annotations: &'static [(&'static str, &'static str)],
    /// Shell commands that it runs on a real node.
    pub script: String,
}

impl TestPod {
    fn manifest(&self, namespace: &str) -> Value {
        let annotations: serde_json::Map<String, Value> = self
            .annotations
            .iter()
            .map(|(name, value)| (format!("fake-kubelet/{name}"), json!(value)))
            .collect();
        let limits = json!({"nvidia.com/gpu": self.gpus});
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": namespace, "annotations": annotations},
            "spec": {
                "nodeName": self.node,
                "restartPolicy": "Never",
                "containers": [{
                    "name": "main",
                    "image": "localhost/busybox:1",
                    "command": ["sh", "-c", self.script],
                    "resources": {"limits": limits},
                }],
            },
        })
    }
}
