//! `muster explain`, `queues` and `nodes` with `--on kubernetes`, and the same as `kubectl muster`: the
//! texts agree with what the scheduler says on the objects, for administrators and for users with few
//! rights, and errors say what to do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, success, until};
use crate::scheduler_process::SchedulerProcess;

/// Runs muster with the kubeconfig of the administrator.
fn muster(cluster: &KubernetesCluster, words: &[&str]) -> Output {
    muster_as(&cluster.kubeconfig(), words)
}

pub fn muster_as(kubeconfig: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(["--on", "kubernetes"]).args(words);
    command.env("KUBECONFIG", kubeconfig).env("TZ", "UTC").output().unwrap()
}

/// Returns the explanation of an object of a namespace.
pub fn explained(cluster: &KubernetesCluster, namespace: &TestNamespace, object: &str) -> String {
    let words = ["explain", object, "--namespace", namespace.name()];
    success(&words, &muster(cluster, &words))
}

/// Checks a command that must fail: its exit code, and a part of its messages.
pub fn check_failure(output: &Output, code: i32, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(text), "no {text:?} in: {stderr}");
    assert_eq!(output.status.code(), Some(code), "{stderr}");
}

/// Returns the text of a kubeconfig with another value of a key.
pub fn with_value(text: &str, key: &str, value: &str) -> String {
    let (before, rest) = text.split_once(key).unwrap();
    let end = rest.find([',', '}', '\n']).unwrap();
    format!("{before}{key}{value}{}", &rest[end..])
}

/// Returns a pod that takes a whole node.
fn pod(name: &str, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "none",
                "resources": {"limits": {"nvidia.com/gpu": 8}},
            }],
        },
    })
}

/// Creates a gang of pods, each of which takes a whole node.
fn create_gang(namespace: &TestNamespace, gang: &str, size: usize) {
    for at in 0..size {
        let mut one = pod(&format!("{gang}-{at}"), "muster");
        one["metadata"]["labels"] = json!({"gang": gang, "muster.run/gang": gang});
        one["metadata"]["annotations"] = json!({"muster.run/gang-size": size.to_string()});
        namespace.create_object(&one);
    }
}

/// Starts a gang of five nodes, and one that waits for three more.
fn create_two_gangs(namespace: &TestNamespace) {
    create_gang(namespace, "a", 5);
    until("gang a has its nodes", || namespace.bound("gang=a") == 5);
    create_gang(namespace, "b", 5);
    until("gang b says why it waits", || namespace.reason("b-0").contains("are free"));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gang_is_explained_as_its_condition_says() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("explain-gangs");
    create_two_gangs(&namespace);

    // 1. The one that waits, by any name.
    let condition = namespace.reason("b-0");
    assert_eq!(condition, "needs 40 GPUs together, 24 are free; with 3 pods it would start now");
    let expected = "\
b is pending: capacity
  gang       gang/b of namespace explain-gangs, with pod/b-0: 5 pods wait
  needs      5 pods of 8 GPUs each, 40 together (one gang), h100
  free now   24 of 64; explain-gangs/a holds 40 without a time limit
  preempt    no job can be preempted: explain-gangs/a has no lower priority
  queue      1st of 1 in default; quota is not the limit
  starts     unknown: what it needs is held without a time limit, or out of service
  sooner     with 3 pods it would start now
             with 4 GPUs per pod it would start now
";
    assert_eq!(explained(&cluster, &namespace, "b-0"), expected);
    assert_eq!(explained(&cluster, &namespace, "pod/b-0"), expected);
    let by_gang = expected.replace(", with pod/b-0", "");
    assert_eq!(explained(&cluster, &namespace, "gang/b"), by_gang);
    assert_eq!(explained(&cluster, &namespace, "b"), by_gang);

    // 2. As JSON.
    let words = ["explain", "b", "-n", "explain-gangs", "--json"];
    let told: Value = serde_json::from_str(&success(&words, &muster(&cluster, &words))).unwrap();
    assert_eq!(told["gang"]["source"], "plan");
    assert_eq!(told["gang"]["pods"]["waiting"], 5);
    assert_eq!(told["explanation"]["state"], "pending");
    let holder = &told["explanation"]["holders"][0]["element"]["job"];
    assert_eq!(told["gang"]["jobs"][holder.to_string()], "explain-gangs/a", "{told}");

    // 3. The one that runs, and the tables.
    let running = explained(&cluster, &namespace, "a");
    for part in [
        "a is running\n  gang       gang/a of namespace explain-gangs: 5 pods run\n  since      ",
        "\n  placed     5 pods on node",
        ": 8 GPUs each\n",
    ] {
        assert!(running.contains(part), "no {part:?} in:\n{running}");
    }
    let nodes = success(&["nodes"], &muster(&cluster, &["nodes"]));
    assert!(nodes.contains("node1") && nodes.contains("node8"), "{nodes}");
    let words = ["queues", "--json"];
    let queues: Value = serde_json::from_str(&success(&words, &muster(&cluster, &words))).unwrap();
    assert_eq!(queues["queues"][0]["running"], 1, "{queues}");
    assert_eq!(queues["queues"][0]["waiting"], 1, "{queues}");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn kubectl_runs_it_as_a_subcommand() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("explain-kubectl");
    create_two_gangs(&namespace);
    let dir = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_muster"), dir.path().join("kubectl-muster")).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let kubectl =
        |words: &[&str]| cluster.kubectl_command(words).env("PATH", &path).output().unwrap();
    let words = ["muster", "explain", "b", "-n", namespace.name()];
    let shown = success(&words, &kubectl(&words));
    assert_eq!(shown, explained(&cluster, &namespace, "b"));
    assert!(shown.starts_with("b is pending: capacity\n"), "{shown}");
    let help = success(&["--help"], &kubectl(&["muster", "explain", "--help"]));
    assert!(help.contains("Usage: kubectl muster explain"), "{help}");
    check_failure(&kubectl(&["muster", "check", "slurm"]), 2, "does not work on Kubernetes yet");
    let elsewhere = kubectl(&["muster", "ps", "--on", "slurm"]);
    check_failure(&elsewhere, 2, "`kubectl muster` works on Kubernetes only");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_suspended_job_is_explained_with_the_settings_of_its_scheduler() {
    let cluster = KubernetesCluster::here();
    let level = "--level=leaf=network.topology.nvidia.com/leaf";
    let _scheduler = SchedulerProcess::active_with(&cluster, &[level]);
    let namespace = cluster.namespace("explain-suspended");
    // A leaf has four nodes.
    let job = |name: &str, queue: Option<&str>| {
        let mut template = json!({"spec": pod("", "muster")["spec"]});
        template["spec"]["restartPolicy"] = json!("Never");
        let annotation = json!({"muster.run/required-topology": "leaf"});
        let labels = queue.map(|queue| json!({"muster.run/queue": queue}));
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels, "annotations": annotation},
            "spec": {"suspend": true, "completionMode": "Indexed",
                "parallelism": 5, "completions": 5, "template": template},
        })
    };
    namespace.create_object(&job("wide", Some("default")));
    let condition = || {
        let job = cluster.get(&["job", "wide", "--namespace", namespace.name()]);
        let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let admitted = conditions.iter().find(|one| one["type"] == "muster.run/Admitted");
        admitted.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned()
    };
    until("the job says why it waits", || !condition().is_empty());
    let told = condition();
    assert!(told.starts_with("never fits: leaf leaf"), "{told}");
    let shown = explained(&cluster, &namespace, "job/wide");
    assert!(shown.starts_with("wide is pending"), "{shown}");
    let pods = "  gang       job/wide of namespace explain-suspended: its 5 pods are created when it starts\n";
    assert!(shown.contains(pods), "{shown}");
    assert!(shown.contains(&told), "no {told:?} in:\n{shown}");
    // Muster has no part in this one.
    namespace.create_object(&job("own", None));
    let shown = explained(&cluster, &namespace, "own");
    assert!(
        shown.contains("Muster does not start it: it has no label muster.run/queue"),
        "{shown}"
    );
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_pod_of_another_scheduler_and_a_scheduler_that_is_down_are_told() {
    let cluster = KubernetesCluster::here();
    let scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("explain-others");
    let mut foreign = pod("foreign", "default-scheduler");
    foreign["spec"]["nodeSelector"] = json!({"none": "such"});
    namespace.create_object(&foreign);
    until("it says why it waits", || namespace.reason("foreign").contains("nodes are available"));
    let shown = explained(&cluster, &namespace, "foreign");
    let said = namespace.reason("foreign");
    assert!(shown.contains("  scheduler  default-scheduler, not muster\n"), "{shown}");
    assert!(shown.contains(&said) && shown.contains("(Unschedulable)"), "{shown}\n{said}");

    drop(scheduler);
    namespace.create_object(&pod("left", "muster"));
    let shown = explained(&cluster, &namespace, "left");
    assert!(shown.contains("left is pending: nothing holds it back in a plan made now"), "{shown}");
    assert!(shown.contains("  note       no scheduler is active: "), "{shown}");
    assert!(!namespace.has_node("left") && namespace.reason("left").is_empty());
    // No list selects the annotation, but the plan knows its gang.
    let mut noted = pod("noted-0", "muster");
    noted["metadata"]["annotations"] = json!({"muster.run/gang": "noted"});
    namespace.create_object(&noted);
    for name in ["gang/noted", "noted"] {
        let shown = explained(&cluster, &namespace, name);
        assert!(shown.contains("gang/noted of namespace explain-others"), "{shown}");
    }
    let words = ["explain", "gang/none", "--namespace", namespace.name()];
    check_failure(&muster(&cluster, &words), 4, "there is no pod or gang object gang/none");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn users_with_few_rights_are_told_the_condition_and_the_missing_rules() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("explain-rights");
    create_two_gangs(&namespace);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let words = ["kubeconfig", "explain-rights/default"];
    fs::write(&file, success(&words, &cluster.xtask(&words))).unwrap();
    let explain = || muster_as(&file, &["explain", "pod/b-0", "-n", "explain-rights"]);
    let with_right = |words: &[&str], can: &[&str]| {
        cluster.kubectl(words);
        let subject = "--as=system:serviceaccount:explain-rights:default";
        let can = [&["auth", "can-i"], can, &[subject]].concat();
        until("the right has effect", || cluster.kubectl_with(&can, "").status.success());
    };

    // 1. Without any right.
    check_failure(&explain(), 1, "you may not get pods in namespace explain-rights");

    // 2. With those of a user of the namespace.
    let account = "--serviceaccount=explain-rights:default";
    let of_it = "--namespace=explain-rights";
    cluster.kubectl(&["create", "role", "r", "--verb=get,list", "--resource=pods", of_it]);
    let bind = ["create", "rolebinding", "r", "--role=r", account, of_it];
    with_right(&bind, &["get", "pods", of_it]);
    let shown = success(&["explain"], &explain());
    assert!(shown.starts_with("b-0 is pending: Unschedulable\n"), "{shown}");
    assert!(shown.contains(&namespace.reason("b-0")), "{shown}");
    for rule in ["list nodes", "list pods", "list priorityclasses.scheduling.k8s.io"] {
        assert!(shown.contains(rule), "no {rule:?} in:\n{shown}");
    }
    assert!(shown.contains("get configmaps/muster-usage in muster-system"), "{shown}");

    // 3. With the role of the manifests.
    let bind =
        ["create", "clusterrolebinding", "explain-rights", "--clusterrole=muster-viewer", account];
    with_right(&bind, &["list", "nodes"]);
    let shown = success(&["explain"], &explain());
    cluster.kubectl(&["delete", "clusterrolebinding", "explain-rights"]);
    assert_eq!(shown, explained(&cluster, &namespace, "pod/b-0"));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn errors_say_what_to_do() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("explain-errors");
    let in_it = |object: &str| muster(&cluster, &["explain", object, "-n", "explain-errors"]);
    check_failure(&in_it("train"), 4, "no pod or gang object train in namespace explain-errors");
    check_failure(&in_it("job/train"), 4, "no pod or gang object job/train");
    check_failure(&in_it("deployment/web"), 2, "`deployment` is not a kind of pods");
    let no_context = muster(&cluster, &["explain", "train", "--context", "missing"]);
    check_failure(&no_context, 1, "missing");

    // 2. A gang object and a label of one name.
    let mut labelled = pod("other", "muster");
    labelled["metadata"]["labels"] = json!({"muster.run/gang": "twice"});
    namespace.create_object(&labelled);
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "twice"}});
    job["spec"] = json!({"completionMode": "Indexed", "parallelism": 1, "completions": 1,
        "template": {"spec": pod("", "muster")["spec"]}});
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    namespace.create_object(&job);
    until("the job has its pod", || namespace.list("job-name=twice").len() == 1);
    check_failure(&in_it("twice"), 4, "`twice` names several objects: job/twice, gang/twice");
    let shown = explained(&cluster, &namespace, "job/twice");
    assert!(shown.contains("job/twice of namespace explain-errors: 1 pod waits"), "{shown}");

    // 3. Servers that do not answer, and credentials that are not accepted.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let text = fs::read_to_string(cluster.kubeconfig()).unwrap();
    fs::write(&file, with_value(&text, "server: ", "https://127.0.0.1:1")).unwrap();
    let nowhere = muster_as(&file, &["explain", "train"]);
    check_failure(&nowhere, 5, "the Kubernetes API server does not answer: ");
    let words = ["kubeconfig", "explain-errors/default"];
    let text = success(&words, &cluster.xtask(&words));
    fs::write(&file, with_value(&text, "token: ", "expired")).unwrap();
    let expired = muster_as(&file, &["explain", "train"]);
    check_failure(&expired, 1, "does not accept your credentials");
    let missing = muster(&cluster, &["explain", "train", "--kubeconfig", "/none/such"]);
    check_failure(&missing, 1, "/none/such");

    // 4. Commands and options that are not for Kubernetes, or for Kubernetes only.
    check_failure(&muster(&cluster, &["check", "slurm"]), 2, "does not work on Kubernetes yet");
    check_failure(&muster(&cluster, &["nodes", "drain", "node1"]), 2, "kubectl cordon");
    let elsewhere = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["explain", "train", "--on", "local", "-n", "vision"])
        .output()
        .unwrap();
    check_failure(&elsewhere, 2, "and --lease need --on kubernetes");
}
