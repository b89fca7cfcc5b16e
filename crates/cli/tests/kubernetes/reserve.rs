//! `muster reserve --on kubernetes`: what it creates and deletes, that a request that fails leaves nothing
//! behind, and what is said to users without the rights, the definition, or a scheduler.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, pod_spec, success, until};
use crate::explain::{check_failure, muster_as};
use crate::scheduler_process::SchedulerProcess;

const RESOURCE: &str = "advancereservations.muster.run";

/// Command line of one test, in words.
struct Reserve<'a> {
    cluster: &'a KubernetesCluster,
}

impl Reserve<'_> {
    fn words(&self, text: &str) -> Output {
        self.words_as(&self.cluster.kubeconfig(), text)
    }

    fn words_as(&self, kubeconfig: &Path, text: &str) -> Output {
        let words: Vec<&str> = ["reserve"].into_iter().chain(text.split_whitespace()).collect();
        muster_as(kubeconfig, &words)
    }

    /// Checks a command that must succeed, and a part of its message.
    fn succeeds(&self, text: &str, message: &str) {
        let output = self.words(text);
        success(&["reserve", text], &output);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(message), "no {message:?} in: {stderr}");
    }

    fn fails(&self, text: &str, code: i32, message: &str) {
        check_failure(&self.words(text), code, message);
    }

    fn names(&self) -> Vec<String> {
        let list = self.cluster.get(&[RESOURCE]);
        let items = list["items"].as_array().unwrap().iter();
        items.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    fn object(&self, name: &str) -> Value {
        self.cluster.get(&[RESOURCE, name])
    }
}

impl Drop for Reserve<'_> {
    fn drop(&mut self) {
        self.cluster.kubectl_with(&["delete", RESOURCE, "--all"], "");
    }
}

fn node(cluster: &KubernetesCluster, nth: usize) -> String {
    cluster.get(&["nodes"])["items"][nth]["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_reservation_is_created_judged_and_deleted_as_on_one_machine() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let reserve = Reserve { cluster: &cluster };
    let first = node(&cluster, 0);
    let second = node(&cluster, 1);
    let terms = "--for 1h --users reserve --queues default";
    reserve.succeeds(
        &format!("exam --nodes {first} {terms} --reason exam"),
        "exam: reserved now for 1h",
    );
    // It is in force when the command ends.
    let object = reserve.object("exam");
    assert_eq!(object["status"]["phase"], "Active");
    assert_eq!(object["status"]["places"], json!([{"node": first}]));
    let spec = json!({"nodes": [first], "duration": "1h", "namespaces": ["reserve"],
        "queues": ["default"], "reason": "exam"});
    assert_eq!(object["spec"], spec);
    let listed = success(&["reserve"], &reserve.words(""));
    assert!(listed.contains("exam") && listed.contains("active"), "{listed}");
    let again = "1d --times 3 --in 2h";
    let said =
        "night: reserved in 2h for 1h, and again every 1d; until then, jobs that end in time";
    reserve.succeeds(&format!("night --gpus 2 {terms} --every {again}"), said);
    assert_eq!(reserve.object("night")["spec"]["times"], 3);

    // What is wrong is said in the words of one machine, and nothing is left behind.
    let more = format!("more {terms}");
    let exists = "the reservation exam exists already";
    reserve.fails(&format!("exam --gpus 1 {terms}"), 1, exists);
    let overlaps = format!("{first} is in the reservation exam at an overlapping time");
    reserve.fails(&format!("{more} --nodes {first}"), 1, &overlaps);
    let unknown = format!("there is no node {second}x; did you mean {second}?");
    reserve.fails(&format!("{more} --nodes {second}x"), 4, &unknown);
    reserve.fails(&format!("{more} --gpus 1000"), 1, "of 1000 GPUs can be set aside then");
    reserve.fails(&format!("{more} --node-selector pool=none"), 1, "no node has the labels");
    reserve.fails(&format!("{more} --gpus 1 --start 2020-01-01T00:00Z"), 2, "lies in the past");
    reserve.fails("more --gpus 1 --users ann", 2, "no duration");
    reserve.fails(&format!("More --gpus 1 {terms}"), 2, "invalid reservation name");
    reserve.fails("exem --drop", 4, "there is no reservation exem; did you mean exam?");
    reserve.fails("more --gpus 1 --for 1h --queues no/such", 1, "there is no queue no/such");

    // Pods in its way are named; with --stop they end when it begins.
    let namespace = cluster.namespace("reserve");
    let mut spec = pod_spec("muster", 1);
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": second});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "endless"}, "spec": spec});
    namespace.create_object(&pod);
    until("the pod has its node", || namespace.has_node("endless"));
    let in_way = "not all of its nodes are free then: reserve/";
    reserve.fails(&format!("{more} --nodes {second}"), 1, in_way);
    reserve.fails(&format!("{more} --nodes {second}"), 1, "--stop");
    assert_eq!(reserve.names(), ["exam", "night"]);
    reserve.succeeds(&format!("{more} --nodes {second} --in 1h --stop"), "more: reserved in ");

    let dropped = reserve.words("exam --drop --json");
    let dropped: Value = serde_json::from_str(&success(&["reserve"], &dropped)).unwrap();
    let message = "exam: deleted; jobs that run in it continue";
    assert_eq!(dropped, json!({"name": "exam", "message": message}));
    assert_eq!(reserve.names(), ["more", "night"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn labels_choose_nodes_once_also_for_the_next_process() {
    let cluster = KubernetesCluster::here();
    let scheduler = SchedulerProcess::active(&cluster);
    let reserve = Reserve { cluster: &cluster };
    let first = node(&cluster, 0);
    let second = node(&cluster, 1);
    let label = |node: &str, label: &str| {
        cluster.kubectl(&["label", "node", node, label]);
    };
    label(&first, "reserve-test=yes");
    let words = "pool --node-selector reserve-test=yes --for 1h --users reserve";
    reserve.succeeds(words, "pool: reserved now for 1h");
    let places = || reserve.object("pool")["status"]["places"].clone();
    assert_eq!(places(), json!([{"node": first}]));
    label(&first, "reserve-test-");
    label(&second, "reserve-test=yes");
    scheduler.kill();
    let _next = SchedulerProcess::active(&cluster);
    // Another one is judged after all that was there.
    let some = "some --node-selector reserve-test=yes --gpus 1 --for 1h --users reserve";
    reserve.succeeds(some, "some: reserved now");
    assert_eq!(places(), json!([{"node": first}]), "the node was promised");
    let of_some = reserve.object("some")["status"]["places"].clone();
    label(&second, "reserve-test-");
    assert_eq!(of_some, json!([{"node": second, "gpus": 1}]));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_missing_rule_and_the_role_that_has_it_are_named() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let reserve = Reserve { cluster: &cluster };
    let _namespace = cluster.namespace("reserve-rights");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let words = ["kubeconfig", "reserve-rights/default"];
    fs::write(&file, success(&words, &cluster.xtask(&words))).unwrap();
    let terms = "exam --gpus 1 --for 1h --users reserve-rights";
    let refused = reserve.words_as(&file, terms);
    check_failure(&refused, 1, &format!("you may not create {RESOURCE}"));
    check_failure(&refused, 1, "the ClusterRole muster-reserver");
    let refused = reserve.words_as(&file, "exam --drop");
    check_failure(&refused, 1, &format!("you may not delete {RESOURCE}"));

    let account = "--serviceaccount=reserve-rights:default";
    let role = "--clusterrole=muster-reserver";
    cluster.kubectl(&["create", "clusterrolebinding", "reserve-rights", role, account]);
    let subject = "--as=system:serviceaccount:reserve-rights:default";
    let can = ["auth", "can-i", "create", RESOURCE, subject];
    until("the role has effect", || cluster.kubectl_with(&can, "").status.success());
    let created = reserve.words_as(&file, terms);
    let dropped = reserve.words_as(&file, "exam --drop");
    cluster.kubectl(&["delete", "clusterrolebinding", "reserve-rights"]);
    success(&["reserve"], &created);
    success(&["reserve", "--drop"], &dropped);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn without_a_scheduler_or_the_definition_nothing_is_created() {
    let cluster = KubernetesCluster::here();
    drop(SchedulerProcess::active(&cluster));
    let reserve = Reserve { cluster: &cluster };
    let terms = "exam --gpus 1 --for 1h --users reserve";
    let text = "Muster's scheduler has not answered within 30 s: nothing is reserved";
    let unanswered = reserve.words(terms);
    check_failure(&unanswered, 5, text);
    check_failure(&unanswered, 5, "no scheduler is active");
    assert!(reserve.names().is_empty());

    // Ctrl-C withdraws it.
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["--on", "kubernetes", "reserve"])
        .args(terms.split_whitespace())
        .env("KUBECONFIG", cluster.kubeconfig())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the object exists", || reserve.names() == ["exam"]);
    kill_process(Pid::from_child(&waiting), Signal::INT).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    assert!(reserve.names().is_empty());

    cluster.kubectl(&["delete", "customresourcedefinition", RESOURCE]);
    let text = format!("it does not serve {RESOURCE}");
    for words in [terms, "exam --drop"] {
        let refused = reserve.words(words);
        check_failure(&refused, 1, &text);
        check_failure(&refused, 1, "muster init kubernetes");
    }
}
